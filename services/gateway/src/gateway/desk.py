"""What the endpoints work with: read models, decisions with expectation, secrets, and waiting.

One instance serves the process. Every decision is taken on the aggregate as the stream has it, and
again where it turned out to be stale; an answer waits (a little) for the read models to catch up,
so that what was just done can be read.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

import structlog
from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.benchmark_events import BenchmarkEvent
from assay_contracts.envelope import Event, EventTooLargeError
from assay_contracts.lifecycle import (
    BenchmarkLifecycle,
    RunLifecycle,
    evolve_benchmark,
    evolve_run,
)
from assay_contracts.run_events import ResultIngested, RunEvent, RunSubmitted
from assay_kernel.blobs import BlobStore
from assay_kernel.database import is_outage
from assay_kernel.event_store import (
    Aggregate,
    EventStore,
    StaleStateError,
    benchmark_filter,
    lifecycle_filter,
)
from assay_kernel.projection import wait_for_sequence
from gateway import own_queries
from gateway.audit import Audit
from gateway.billing import Gate, OpenGate
from gateway.domain import DecisionRefusedError
from gateway.freshness import Freshness
from gateway.idempotency_keys import IdempotencyKeys
from gateway.identities import is_repeated, is_under_key, work_id
from gateway.people.directory import Directory
from gateway.problems import conflict, not_yet_there, too_large, unavailable
from gateway.run_queries import checkpoint
from gateway.vault import Vault

_CATCH_UP_SECONDS = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Decided[E: Event]:
    """A decision, and where it lies in the stream."""

    sequence: int
    event: E


class Desk:
    """The gateway's parts."""

    def __init__(
        self,
        store: EventStore,
        engine: AsyncEngine,
        reader: AsyncEngine,
        blobs: BlobStore,
        vault: Vault,
        audit: Audit,
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.vault = vault
        self.audit = audit
        self.directory = Directory(engine)
        self.gate: Gate = OpenGate()
        self.freshness = Freshness(reader)
        self.idempotency = IdempotencyKeys(engine, vault)
        self._engine = engine
        self._reader = reader.execution_options(isolation_level="REPEATABLE READ")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """One state of every read model, of which nothing can be written."""
        async with self._reader.connect() as connection:
            yield connection

    @asynccontextmanager
    async def acting(self) -> AsyncIterator[AsyncConnection]:
        """A transaction on the gateway's own tables, with what it tells the audit stream."""
        async with self._engine.begin() as connection:
            yield connection
        self.audit.wake()

    async def decide_on_benchmark(
        self,
        owner: str,
        benchmark: UUID,
        decide: Callable[[BenchmarkLifecycle], BenchmarkEvent],
    ) -> bool:
        """Take a decision on a benchmark and wait until the catalogue shows it.

        Returns:
            Whether the catalogue shows it by now.

        Raises:
            ProblemError: the benchmark's state does not allow it.
        """
        sequence = await self._decide(
            BenchmarkEvent.stream,
            benchmark_filter(owner, benchmark),
            (BenchmarkLifecycle(), evolve_benchmark),
            lambda loaded: decide(loaded.state),
        )
        return await self._caught_up("registry_sync", "catalogue", sequence)

    async def decide_on_run(
        self, workspace: str, run: UUID, decide: Callable[[RunLifecycle], RunEvent]
    ) -> bool:
        """Take a decision on a run and wait until the list of runs shows it.

        Returns:
            Whether the list shows it by now.

        Raises:
            ProblemError: the run's state does not allow it.
        """
        sequence = await self._decide(
            RunEvent.stream,
            lifecycle_filter(workspace, run),
            (RunLifecycle(), evolve_run),
            lambda loaded: decide(loaded.state),
        )
        return await self._caught_up("run_scheduler", "runs", sequence)

    async def decide_on_run_seen[E: RunEvent](
        self,
        workspace: str,
        run: UUID,
        decide: Callable[[Aggregate[RunLifecycle]], Awaitable[E]],
    ) -> E:
        """Like `decide_on_run`, for a decision that draws on read models as well; returns it."""
        decided = await self._decide_seen(
            RunEvent.stream, lifecycle_filter(workspace, run), (RunLifecycle(), evolve_run), decide
        )
        await self._caught_up("run_scheduler", "runs", decided.sequence)
        return decided.event

    async def run_state(self, workspace: str, run: UUID) -> RunLifecycle:
        """A run as the stream has it now, ahead of every read model."""
        aggregate = lifecycle_filter(workspace, run)
        return (await self.store.load(RunEvent.stream, aggregate, RunLifecycle(), evolve_run)).state

    async def shows_run(self, workspace: str, run: UUID) -> bool:
        """Wait until the list of runs shows what the stream has of a run; whether it does."""
        last = await self.store.last_sequence(RunEvent.stream, lifecycle_filter(workspace, run))
        return await self._caught_up("run_scheduler", "runs", last)

    async def first_event(self, workspace: str, run: UUID) -> RunSubmitted:
        """The event that a run began with.

        Raises:
            ProblemError: the stream has no such run.
        """
        async for stored in self.store.read(RunEvent.stream, [lifecycle_filter(workspace, run)]):
            if isinstance(stored.event, RunSubmitted):
                return stored.event
        raise conflict("the run was never submitted")

    async def tell_all(self, results: Iterable[ResultIngested]) -> None:
        """Tell results; those that were told before change nothing."""
        await asyncio.gather(
            *(
                self.store.tell(one, message_id=one.data.message_id(one.run, one.type))
                for one in results
            )
        )

    async def _decide[S](
        self,
        stream: str,
        aggregate: str,
        fold: tuple[S, Callable[[S, Event], S]],
        decide: Callable[[Aggregate[S]], Event],
    ) -> int:
        """Decide on the state as it is, and again where another decision came first."""

        async def at_once(loaded: Aggregate[S]) -> Event:
            return decide(loaded)

        return (await self._decide_seen(stream, aggregate, fold, at_once)).sequence

    async def _decide_seen[S, E: Event](
        self,
        stream: str,
        aggregate: str,
        fold: tuple[S, Callable[[S, Event], S]],
        decide: Callable[[Aggregate[S]], Awaitable[E]],
    ) -> _Decided[E]:
        known = work_id(aggregate) if is_under_key() else None
        while True:
            if is_repeated():
                async for stored in self.store.read(stream, [aggregate]):
                    if stored.event.id == known:
                        return _Decided(stored.sequence, cast("E", stored.event))
            loaded = await self.store.load(stream, aggregate, *fold)
            try:
                event = await decide(loaded)
                if known is not None:
                    event = event.model_copy(update={"id": known})
                sequence = await self.store.append(
                    event, aggregate=aggregate, expected=loaded.sequence
                )
            except DecisionRefusedError as refusal:
                raise conflict(str(refusal)) from refusal
            except EventTooLargeError as error:
                raise too_large(f"{error}: shorten the texts that were sent") from error
            except StaleStateError:
                log.info("decision-stale", aggregate=aggregate)
                continue
            log.info("decided", decision=event.type, correlation_id=str(event.correlation_id))
            return _Decided(sequence, event)

    async def seen_by(self, schema: str, projection: str, sequence: int) -> None:
        """Wait until another service's read model holds everything up to a sequence.

        Raises:
            ProblemError: it does not get there in time.
        """
        if not await self._caught_up(schema, projection, sequence):
            raise unavailable("the results are not all counted yet; try again in a moment")

    async def keep_for_run(
        self, workspace: str, run: UUID, given: Mapping[str, str], by: str
    ) -> None:
        """Keep secrets that are given for one run alone."""
        async with self._engine.begin() as connection:
            await self.vault.keep_for_run(connection, workspace, run, given, by)

    async def _caught_up(self, schema: str, projection: str, sequence: int) -> bool:
        """Wait for a read model. What was appended is done, so nothing here may fail the request:
        a client that was told otherwise would do it twice."""

        async def current() -> int:
            async with self.reading() as connection:
                return await checkpoint(connection, schema, projection)

        try:
            reached = await wait_for_sequence(current, sequence, within_seconds=_CATCH_UP_SECONDS)
        except Exception as error:
            if not (is_outage(error) or not_yet_there(error)):
                raise
            reached = False
        if not reached:
            log.warning("read-model-lags", schema=schema, projection=projection)
        return reached

    async def begin_run(self, workspace: str, run: UUID, given: Mapping[str, str], by: str) -> str:
        """Reserve a name for a run and keep the secrets given for it, both or neither."""
        async with self._engine.begin() as connection:
            name = await own_queries.reserve_run_name(connection, workspace, run)
            await self.vault.keep_for_run(connection, workspace, run, given, by)
        return name

    @asynccontextmanager
    async def alone_with_name(self, workspace: str, name: str) -> AsyncIterator[None]:
        """Meanwhile nobody else, in any replica, adds a benchmark of this name."""
        async with self._engine.begin() as connection:
            await own_queries.hold_benchmark_name(connection, workspace, name)
            yield


def desk_of(request: Request) -> Desk:
    """The desk of the application that serves the request."""
    desk: Desk = request.app.state.desk
    return desk


DeskNow = Annotated[Desk, Depends(desk_of)]
