"""What a service is while it runs: connections, its endless tasks, and answers about itself.

A service is started with `run_service`. It connects (waiting for NATS and PostgreSQL as long as it
takes), runs its tasks until SIGTERM or SIGINT, and answers `status` and `replay` requests on NATS
through FastStream. A task that ends with an error ends the service; whoever supervises it starts it
again.
"""

import asyncio
import contextlib
import importlib.metadata
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import stamina
import structlog
from faststream.nats import NatsBroker
from nats.aio.client import Client
from nats.errors import Error as NatsError
from sqlalchemy import MetaData, Table, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.commands import (
    Redrive,
    Redriven,
    Resend,
    Resent,
    StatusRequest,
    redrive_subject,
    replay_subject,
    resend_subject,
    status_subject,
)
from assay_contracts.http import Replay, ReplayReport, ServiceStatus
from assay_kernel.database import is_outage, open_database
from assay_kernel.dead_letters import resend
from assay_kernel.event_store import EventStore, recorded
from assay_kernel.logging import configure_logging
from assay_kernel.migrations import migrate
from assay_kernel.outbox import Outbox
from assay_kernel.permissions import inbox_prefix
from assay_kernel.projection import Projection, ProjectionRunner
from assay_kernel.rebuild import Rebuild
from assay_kernel.settings import KernelSettings
from assay_kernel.streams import ensure_streams
from assay_kernel.tables import KernelTables

log = structlog.get_logger(__name__)

_CONNECT_SECONDS = 120.0
_ANSWER_SECONDS = 0.5
_DRAIN_SECONDS = 5
"""For leaving NATS: well within the time of grace of a service that is told to stop."""


@dataclass(frozen=True)
class Schema:
    """A service's database: the package that holds its migrations, and its tables."""

    package: str
    metadata: MetaData
    kernel: KernelTables


@dataclass
class Service:
    """A running service, as its wiring sees it."""

    name: str
    settings: KernelSettings
    broker: NatsBroker
    store: EventStore
    database: AsyncEngine | None = None
    schema: Schema | None = None
    runners: list[ProjectionRunner] = field(default_factory=list)
    projections: list[Projection] = field(default_factory=list)
    tasks: dict[str, Awaitable[None]] = field(default_factory=dict)
    details: Callable[[], Mapping[str, Any]] = dict

    @property
    def engine(self) -> AsyncEngine:
        """The service's database.

        Raises:
            RuntimeError: the service was started without one.
        """
        if self.database is None:
            raise RuntimeError(f"{self.name} has no database")
        return self.database

    @property
    def checkpoints(self) -> Table:
        """The service's checkpoint table."""
        if self.schema is None:
            raise RuntimeError(f"{self.name} has no database")
        return self.schema.kernel.checkpoints

    def outbox(self) -> Outbox:
        """The service's outbox, whose relay becomes one of its tasks."""
        if self.schema is None:
            raise RuntimeError(f"{self.name} has no database")
        outbox = Outbox(self.schema.kernel.outbox, self.engine, self.store)
        self.tasks["outbox"] = outbox.relay()
        return outbox

    def project(self, projection: Projection, committed: Callable[[], None] = lambda: None) -> None:
        """Keep a projection in step, as one of the service's tasks."""
        runner = ProjectionRunner(
            self.name,
            projection,
            engine=self.engine,
            store=self.store,
            checkpoints=self.checkpoints,
            committed=committed,
            refold=lambda: self._rebuild(projection).swap(),
        )
        self.projections.append(projection)
        self.runners.append(runner)
        self.tasks[f"projection {projection.name}"] = runner.run()

    async def status(self) -> ServiceStatus:
        """What the service says of itself; it is ready while everything it works with answers."""
        waits_for = [] if self.store.client.is_connected else ["nats"]
        if self.database is not None and not await _answers(self.database):
            waits_for.append("database")
        return ServiceStatus(
            service=self.name,
            ready=not waits_for,
            version=importlib.metadata.version("assay-kernel"),
            instance=self.settings.instance,
            projections={
                projection.name: runner.sequence
                for projection, runner in zip(self.projections, self.runners, strict=True)
            },
            details={**self.details(), **({"waits_for": waits_for} if waits_for else {})},
        )

    async def replay(self, request: Replay) -> list[ReplayReport]:
        """Fold each projection from sequence 0 again; compare or swap."""
        reports = []
        for projection in self.projections:
            rebuild = self._rebuild(projection)
            reports.append(await (rebuild.verify() if request.verify else rebuild.swap()))
        return reports

    async def resend(self, request: Resend) -> Resent:
        """Send a message again that became a dead letter and that this service sent first."""
        return await resend(self.store, self.name, request)

    async def redrive(self, request: Redrive) -> Redriven:
        """Fold an event that a projection left out, in its place, and do what follows from it.

        Rows follow from the order of events, so all of them are made anew.
        """
        for projection, runner in zip(self.projections, self.runners, strict=True):
            if projection.name == request.projection:
                report = await self._rebuild(projection).swap()
                if request.sequence in report.left_out:
                    return Redriven(problem="it still cannot be folded; its letter says why")
                message = await self.store.stored_at(projection.stream, request.sequence)
                await runner.react_to(recorded(message))
                return Redriven()
        return Redriven(problem=f"{self.name} has no projection {request.projection}")

    def _rebuild(self, projection: Projection) -> Rebuild:
        return Rebuild(
            self.name,
            projection,
            engine=self.engine,
            store=self.store,
            checkpoints=self.checkpoints,
        )


Wire = Callable[[Service], Awaitable[None]]


def run_service(
    name: str, settings: KernelSettings, wire: Wire, *, schema: Schema | None = None
) -> None:
    """Run a service until it is told to stop.

    Args:
        name: the service's name, as in `SERVICES`.
        settings: read by the caller, once; printed here without secrets.
        wire: builds the service's parts and adds its tasks.
        schema: the service's database, if it has one; migrated before `wire` is called.
    """
    configure_logging(name, settings)
    log.info("starting", settings=settings.model_dump(mode="json"))
    asyncio.run(_serve(name, settings, wire, schema))
    log.info("stopped")


async def _serve(name: str, settings: KernelSettings, wire: Wire, schema: Schema | None) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with open_service(name, settings, schema) as service:
        await wire(service)
        answer_commands(service)
        await service.broker.start()
        await run_until(stopping, service.tasks)


@contextlib.asynccontextmanager
async def open_service(
    name: str, settings: KernelSettings, schema: Schema | None
) -> AsyncIterator[Service]:
    """Connect a service to its streams and its database, and disconnect it in the end."""
    broker = NatsBroker(
        settings.nats_url.get_secret_value(),
        name=f"{name}-{settings.instance}",
        allow_reconnect=True,
        max_reconnect_attempts=-1,
        reconnect_time_wait=1,
        drain_timeout=_DRAIN_SECONDS,
        inbox_prefix=inbox_prefix(name),
        error_cb=_note_error,
        logger=None,
    )
    client = await _connect(broker)
    database = None
    try:
        await _ensure_streams(client, settings.stream_replicas)
        if schema is not None:
            await _migrate(settings, schema)
            database = open_database(settings.database_url, name)
        yield Service(
            name=name,
            settings=settings,
            broker=broker,
            store=EventStore(client),
            database=database,
            schema=schema,
        )
    finally:
        await _disconnect(broker, client)
        if database is not None:
            await database.dispose()


async def _note_error(error: Exception) -> None:
    """What NATS tells outside of any answer, such as that a subject is refused to this service."""
    log.warning("nats-error", error=str(error))


async def _disconnect(broker: NatsBroker, client: Client) -> None:
    """Leave NATS, after what was sent has gone out; where it is away, nothing more can."""
    try:
        await broker.stop()
    except NatsError as error:
        log.warning("left-in-an-outage", error=str(error))
        await client.close()


async def _connect(broker: NatsBroker) -> Client:
    async for attempt in stamina.retry_context(
        on=(NatsError, OSError, TimeoutError),
        attempts=None,
        timeout=_CONNECT_SECONDS,
        wait_initial=0.1,
        wait_max=2.0,
    ):
        with attempt:
            return await broker.connect()
    raise RuntimeError("unreachable")  # pragma: no cover  the last attempt raises


async def _ensure_streams(client: Client, replicas: int) -> None:
    async for attempt in stamina.retry_context(
        on=is_outage, attempts=None, timeout=_CONNECT_SECONDS, wait_initial=0.1, wait_max=2.0
    ):
        with attempt:
            await ensure_streams(client.jetstream(), replicas)


async def _migrate(settings: KernelSettings, schema: Schema) -> None:
    async for attempt in stamina.retry_context(
        on=OperationalError, attempts=None, timeout=_CONNECT_SECONDS, wait_initial=0.1, wait_max=2.0
    ):
        with attempt:
            await asyncio.to_thread(migrate, settings.database_url, schema.package, schema.metadata)


async def _answers(database: AsyncEngine) -> bool:
    """Whether the database does, within a moment."""

    async def ask() -> None:
        async with database.connect() as connection:
            await connection.execute(select(1))

    asking = asyncio.ensure_future(ask())
    await asyncio.wait([asking], timeout=_ANSWER_SECONDS)
    if not asking.done():
        asking.cancel()
        return False
    return asking.exception() is None


def answer_commands(service: Service) -> None:
    """Answer `status`, `replay`, `redrive` and `resend`; of all but the first, one instance."""
    broker = service.broker

    @broker.subscriber(status_subject(service.name))
    async def status(_: StatusRequest) -> ServiceStatus:
        return await service.status()

    if service.projections:

        @broker.subscriber(replay_subject(service.name), queue=service.name)
        async def replay(request: Replay) -> list[ReplayReport]:
            return await service.replay(request)

        @broker.subscriber(redrive_subject(service.name), queue=service.name)
        async def redrive(request: Redrive) -> Redriven:
            return await service.redrive(request)

    if "outbox" in service.tasks:

        @broker.subscriber(resend_subject(service.name), queue=service.name)
        async def resend(request: Resend) -> Resent:
            return await service.resend(request)


async def run_until(stopping: asyncio.Event, tasks: Mapping[str, Awaitable[None]]) -> None:
    """Run `tasks` until `stopping` is set or one of them ends, then cancel the rest.

    Raises:
        ExceptionGroup: tasks failed.
    """
    running = {asyncio.ensure_future(_named(name, task)): name for name, task in tasks.items()}
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([stop, *running], return_when=asyncio.FIRST_COMPLETED)
    for task in (stop, *running):
        task.cancel()
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    failures = [
        outcome
        for outcome in outcomes
        if isinstance(outcome, Exception) and not isinstance(outcome, asyncio.CancelledError)
    ]
    if failures:
        raise ExceptionGroup("tasks of the service failed", failures)


async def _named(name: str, task: Awaitable[None]) -> None:
    try:
        await task
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("task-failed", task=name)
        raise


__all__: Sequence[str] = ["Schema", "Service", "answer_commands", "open_service", "run_service"]
