"""What the endpoints work with: read models, decisions with expectation, secrets, and waiting.

One instance serves the process. Every decision is taken on the aggregate as the stream has it, and
again where it turned out to be stale; an answer waits (a little) for the read models to catch up,
so that what was just done can be read.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

import structlog
from fastapi import Request
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.benchmark_events import BenchmarkEvent
from assay_contracts.envelope import Event, Stamp
from assay_contracts.identifiers import new_id, new_run_name
from assay_contracts.lifecycle import (
    BenchmarkLifecycle,
    RunLifecycle,
    evolve_benchmark,
    evolve_run,
)
from assay_contracts.run_events import RunEvent
from assay_kernel.blobs import BlobStore
from assay_kernel.event_store import (
    Aggregate,
    EventStore,
    StaleStateError,
    benchmark_filter,
    lifecycle_filter,
)
from assay_kernel.projection import wait_for_sequence
from gateway.domain import DecisionRefusedError
from gateway.problems import conflict
from gateway.run_queries import checkpoint
from gateway.tables import run_names
from gateway.vault import Vault

_CATCH_UP_SECONDS = 5.0

log = structlog.get_logger(__name__)


class Desk:
    """The gateway's parts."""

    def __init__(
        self,
        store: EventStore,
        engine: AsyncEngine,
        reader: AsyncEngine,
        blobs: BlobStore,
        vault: Vault,
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.vault = vault
        self._engine = engine
        self._reader = reader

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection that can read every read model and write none."""
        async with self._reader.connect() as connection:
            yield connection

    async def decide_on_benchmark(
        self,
        owner: str,
        benchmark: UUID,
        decide: Callable[[BenchmarkLifecycle], BenchmarkEvent],
    ) -> None:
        """Take a decision on a benchmark and wait until the catalogue shows it.

        Raises:
            ProblemError: the benchmark's state does not allow it.
        """
        sequence = await self._decide(
            BenchmarkEvent.stream,
            benchmark_filter(owner, benchmark),
            (BenchmarkLifecycle(), evolve_benchmark),
            lambda loaded: decide(loaded.state),
        )
        await self._caught_up("registry_sync", "catalogue", sequence)

    async def decide_on_run(
        self,
        workspace: str,
        run: UUID,
        decide: Callable[[RunLifecycle, Event | None], RunEvent],
    ) -> None:
        """Take a decision on a run and wait until the list of runs shows it.

        Raises:
            ProblemError: the run's state does not allow it.
        """
        sequence = await self._decide(
            RunEvent.stream,
            lifecycle_filter(workspace, run),
            (RunLifecycle(), evolve_run),
            lambda loaded: decide(loaded.state, loaded.correlation),
        )
        await self._caught_up("run_scheduler", "runs", sequence)

    async def _decide[S](
        self,
        stream: str,
        aggregate: str,
        fold: tuple[S, Callable[[S, Event], S]],
        decide: Callable[[Aggregate[S]], Event],
    ) -> int:
        """Decide on the state as it is, and again where another decision came first."""
        while True:
            loaded = await self.store.load(stream, aggregate, *fold)
            try:
                event = decide(loaded)
            except DecisionRefusedError as refusal:
                raise conflict(str(refusal)) from refusal
            try:
                sequence = await self.store.append(
                    event, aggregate=aggregate, expected=loaded.sequence
                )
            except StaleStateError:
                log.info("decision-stale", aggregate=aggregate)
                continue
            log.info("decided", decision=event.type, correlation_id=str(event.correlation_id))
            return sequence

    async def _caught_up(self, schema: str, projection: str, sequence: int) -> None:
        async def current() -> int:
            async with self.reading() as connection:
                return await checkpoint(connection, schema, projection)

        if not await wait_for_sequence(current, sequence, within_seconds=_CATCH_UP_SECONDS):
            log.warning("read-model-lags", schema=schema, projection=projection)

    async def reserve_name(self, workspace: str, run: UUID) -> str:
        """A name that no other run of the workspace has had."""
        while True:
            name = new_run_name()
            async with self._engine.begin() as connection:
                kept = await connection.scalar(
                    insert(run_names)
                    .values(workspace=workspace, name=name, run=run)
                    .on_conflict_do_nothing()
                    .returning(run_names.c.name)
                )
            if kept is not None:
                return name


def stamp(user: str) -> Stamp:
    """A fresh id and the present time, in a user's name."""
    return Stamp(id=new_id(), at=datetime.now(UTC), actor=user)


def desk_of(request: Request) -> Desk:
    """The desk of the application that serves the request."""
    desk: Desk = request.app.state.desk
    return desk
