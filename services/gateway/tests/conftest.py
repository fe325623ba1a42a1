"""The gateway's application over real read models, which the services' own projections keep."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

import gateway.tables
import grader.tables
import leaderboard.tables
import registry_sync.tables
import run_scheduler.tables
from assay_contracts.benchmark_events import (
    BenchmarkAdded,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
)
from assay_contracts.identifiers import Slot, new_id
from assay_contracts.run_events import (
    ResultGraded,
    ResultIngested,
    RunEvent,
    RunFinished,
    RunQueued,
    RunStarted,
    RunStopped,
)
from assay_kernel.blobs import BlobStore
from assay_kernel.database import open_database, open_reader
from assay_kernel.event_store import EventStore, Recorded, benchmark_filter, lifecycle_filter
from assay_kernel.migrations import migrate
from assay_kernel.outbox import Outbox
from assay_kernel.projection import ProjectionRunner
from assay_kernel.rebuild import Rebuild
from assay_kernel.settings import KernelSettings
from assay_local.embedded import create_database, database_address, free_port
from gateway.access import Tokens
from gateway.app import build_app
from gateway.audit import Audit
from gateway.audit_projection import AuditProjection
from gateway.desk import Desk
from gateway.master_keys import KeySource
from gateway.people.tokens import Wanted, issue
from gateway.server import serve
from gateway.settings import HttpLimits
from gateway.spending_projection import SpendingProjection
from gateway.vault import Vault
from grader.projection import GradesProjection
from leaderboard.projection import StandingsProjection
from registry_sync.projection import CatalogueProjection
from run_scheduler.runs_projection import RunsProjection

ADMIN, RUNNER = "admin-token-of-this-test", "runner-token-of-this-test"
SCHEMAS = (registry_sync, run_scheduler, grader, leaderboard, gateway)
MORE_WORKSPACES = ("other", "elsewhere", "foreign", "empty")
TASKS = ("fix-roman", "fix-greek", "count-words", "sort-lines")

Fields = dict[str, Any]


def envelope(**more: Any) -> Fields:
    """The fields that every event has."""
    return {
        "id": new_id(),
        "workspace": "default",
        "occurred_at": datetime.now(UTC),
        "actor": "tester",
        "correlation_id": new_id(),
        **more,
    }


@pytest.fixture(scope="session")
def migrated_database(postgres_url: str) -> str:
    """The name of a database in which every service has migrated, to copy from."""
    name = "gateway_template"
    address = SecretStr(create_database(postgres_url, name))
    for service in SCHEMAS:
        migrate(address, service.__name__, service.tables.metadata)
    with psycopg.connect(address.get_secret_value(), autocommit=True) as connection:
        for workspace in MORE_WORKSPACES:
            connection.execute(
                "INSERT INTO gateway.workspaces (name, created_at, created_by) "
                "VALUES (%s, now(), 'tester')",
                [workspace],
            )
    return name


@pytest.fixture
def database_url(postgres_url: str, migrated_database: str) -> str:
    """A database of the test's own, with every service's tables."""
    name = f"t{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated_database}".encode())
    return database_address(postgres_url, name)


class Stage:
    """The application, the streams behind it, and what the other services would do."""

    def __init__(self, store: EventStore, settings: KernelSettings, files: Path) -> None:
        self.store = store
        self.settings = settings
        self.engine: AsyncEngine = open_database(settings.database_url, "stage")
        self.reader = open_reader(settings.database_url, "stage")
        self.blobs = BlobStore(settings.blob_url)
        for name, content in (("admin", ADMIN), ("runner", RUNNER), ("master", "m" * 40)):
            (files / name).write_text(content)
        self.vault = Vault(self.engine, KeySource(files / "master"))
        self.outbox = Outbox(gateway.tables.kernel.outbox, self.engine, store)
        audit = Audit(self.outbox)
        self.desk = Desk(store, self.engine, self.reader, self.blobs, self.vault, audit)
        self.closing = asyncio.Event()
        tokens = Tokens.read(files / "admin", files / "runner")
        self.app = build_app(self.desk, tokens, self.closing)
        outbox = Outbox(grader.tables.kernel.outbox, self.engine, store)
        self.following: list[asyncio.Task[None]] = []
        self.runners = [
            ProjectionRunner(
                service.__name__,
                projection,
                engine=self.engine,
                store=store,
                checkpoints=service.tables.kernel.checkpoints,
                refold=Rebuild(
                    service.__name__,
                    projection,
                    engine=self.engine,
                    store=store,
                    checkpoints=service.tables.kernel.checkpoints,
                ).swap,
            )
            for service, projection in (
                (registry_sync, CatalogueProjection()),
                (run_scheduler, RunsProjection()),
                (grader, GradesProjection(outbox, store)),
                (leaderboard, StandingsProjection(store)),
                (gateway, AuditProjection()),
                (gateway, SpendingProjection()),
            )
        ]

    admin_token, runner_token = ADMIN, RUNNER

    def client(
        self, token: str | None = ADMIN, workspace: str | None = "default", **more: Any
    ) -> httpx.AsyncClient:
        """A client of the application in this process; without a token a browser."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if workspace is not None:
            headers["X-Assay-Workspace"] = workspace
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url="http://gateway/api/v1",
            headers=headers,
            **more,
        )

    async def person(self, name: str, **roles: str) -> None:
        """A user with a role in each workspace that is named."""
        async with self.client() as admin:
            body = {"name": name, "email": f"{name}@example.org"}
            answer = await admin.post("/users", json=body)
            assert answer.status_code == 201, answer.text
            for workspace, role in roles.items():
                path = f"/workspaces/{workspace}/members/{name}"
                assert (await admin.put(path, json={"role": role})).status_code == 200

    async def token_of(self, user: str, **more: Any) -> str:
        """A token of a user's own, as if it had signed in."""
        wanted = Wanted("a test's", **({"workspace": None, "scopes": None} | more), expires_at=None)
        async with self.desk.acting() as connection:
            return (await issue(connection, user, wanted)).token

    async def audited(self, acts: int) -> None:
        """Wait until that many acts have gone through the outbox and are folded."""
        async with asyncio.timeout(60):
            while await self.store.last_sequence("AUDIT") < acts:
                await asyncio.sleep(0.01)
        await self.caught_up()

    async def somebody_waits(self) -> None:
        """Wait until a session of the database waits for another one's transaction."""
        blocked = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = :kind")
        async with asyncio.timeout(60), self.engine.connect() as connection:
            while not await connection.scalar(blocked, {"kind": "transactionid"}):
                await asyncio.sleep(0.01)

    def follow(self) -> None:
        """Let every read model follow its stream from now on."""
        self.following = [asyncio.create_task(runner.run()) for runner in self.runners]
        self.following.append(asyncio.create_task(self.outbox.relay()))

    async def hold_read_models(self) -> None:
        """Let every read model stay as it is."""
        for task in self.following:
            task.cancel()
        await asyncio.gather(*self.following, return_exceptions=True)
        self.following = []

    async def caught_up(self) -> None:
        """Wait until every read model stands where its stream does, unless they are held."""
        if not self.following:
            return
        async with asyncio.timeout(60):
            for runner in self.runners:
                projection = runner._projection
                (subject,) = projection.subjects
                last = await self.store.last_sequence(projection.stream, subject)
                while runner.sequence < last:
                    await asyncio.sleep(0.01)

    async def add_benchmark(
        self,
        name: str = "toy",
        *,
        workspace: str = "default",
        tasks: Sequence[Fields | str] = TASKS,
        status: str = "ready",
        **synced: Any,
    ) -> UUID:
        """A benchmark, as far as `status` says; `synced` are more fields of its last event."""
        benchmark, sync = new_id(), new_id()
        own = {"workspace": workspace, "benchmark": benchmark}
        located = {"location": {"sha256": "0" * 64, "size": 1}}
        entries = [
            {"name": one} | located if isinstance(one, str) else located | one for one in tasks
        ]
        managed = workspace == "managed"
        source = (
            {"kind": "catalogue", "key": name} if managed else {"kind": "folder", "path": "/toy"}
        )
        kind = "osmosis_managed" if managed else "harbor_registry"
        page = {"sync": sync, "first_position": 0, "task_count": len(entries), "tasks": entries}
        pinned = {
            "sync": sync,
            "version": "1",
            "digest": f"sha256:{name}",
            "key": f"{name}@1",
            "task_count": len(entries),
            **synced,
        }
        failed = {"sync": sync, "reason": "the registry does not answer"}
        added = {"name": name, "source": source, "source_type": kind}
        events = [
            BenchmarkAdded.model_validate(envelope(**own, data=added)),
            BenchmarkSyncStarted.model_validate(
                envelope(**own, data={"sync": sync, "task_count": len(entries)})
            ),
            BenchmarkTasksSynced.model_validate(envelope(**own, data=page)),
            BenchmarkSynced.model_validate(envelope(**own, data=pinned)),
        ]
        if status == "failed":
            events[2:] = [BenchmarkSyncFailed.model_validate(envelope(**own, data=failed))]
        sequence, wanted = 0, {"pending": 1, "syncing": 2}.get(status, len(events))
        for event in events[:wanted]:
            sequence = await self.store.append(
                event, aggregate=benchmark_filter(workspace, benchmark), expected=sequence
            )
        await self.caught_up()
        return benchmark

    async def submit(self, *, workspace: str = "default", **changes: Any) -> Fields:
        """A run by HTTP; `changes` replace sections of its configuration."""
        async with self.client(workspace=workspace) as client:
            answer = await client.post("/runs", json={"config": config(**changes)})
        assert answer.status_code == 201, answer.text
        run: Fields = answer.json()
        return run

    async def decide(self, run: str, *kinds: str, workspace: str = "default") -> None:
        """Append lifecycle events, as the scheduler would."""
        shapes: dict[str, tuple[type[RunEvent], Fields]] = {
            "queued": (RunQueued, {"expected_results": 1}),
            "started": (RunStarted, {}),
            "finished": (RunFinished, {"scored": 1, "errored": 0}),
            "stopped": (RunStopped, {"reason": "enough"}),
        }
        for kind in kinds:
            shape, fields = shapes[kind]
            own = envelope(run=UUID(run), workspace=workspace, data=fields)
            last = [one async for one in self.store.read("RUNS", [lifecycle_filter("*", run)])]
            await self.store.append(
                shape.model_validate(own),
                aggregate=lifecycle_filter(workspace, run),
                expected=last[-1].sequence,
            )
        await self.caught_up()

    async def result(
        self,
        run: str,
        task: str,
        outcome: str | None = "passed",
        *,
        agent: int = 0,
        attempt: int = 1,
        try_number: int = 1,
        seconds: float = 1.2,
        graded: Fields | None = None,
        workspace: str = "default",
        **ingested: Any,
    ) -> UUID:
        """A try that ended and, with an `outcome`, its verdict; returns the slot's id."""
        slot, now = Slot(agent=agent, task=task, attempt=attempt), datetime.now(UTC)
        which = {"slot": slot, "try_number": try_number}
        scored = outcome in {"passed", "failed"}
        told = ResultIngested.model_validate(
            envelope(
                run=UUID(run),
                workspace=workspace,
                data={
                    **which,
                    "runner": "stand-in",
                    "environment": "local",
                    "reward_valid": scored,
                    "retryable": not scored,
                    "started_at": now - timedelta(seconds=seconds),
                    "finished_at": now,
                    **ingested,
                },
            )
        )
        reward = {"passed": 1.0, "failed": 0.0}.get(outcome or "")
        await self.store.tell(told, message_id=str(told.id))
        if outcome is not None:
            verdict = ResultGraded.model_validate(
                envelope(
                    run=UUID(run),
                    workspace=workspace,
                    data={
                        **which,
                        "outcome": outcome,
                        "reward": reward,
                        "pass_threshold": 1.0,
                        **(graded or {}),
                    },
                )
            )
            await self.store.tell(verdict, message_id=str(verdict.id))
        await self.caught_up()
        return slot.id(UUID(run))

    async def events(self, run: str) -> list[Recorded[Any]]:
        """Everything that is told about a run, in stream order."""
        return [one async for one in self.store.read("RUNS", [f"runs.*.{run}.>"])]

    async def nothing_happened(self) -> bool:
        """No run was submitted, no name taken, no secret kept."""
        async with self.engine.connect() as connection:
            for table in (gateway.tables.run_names, gateway.tables.secrets):
                if await connection.scalar(select(func.count()).select_from(table)):
                    return False
        return await self.store.last_sequence("RUNS") == 0


def config(**changes: Any) -> Fields:
    """A configuration that is right for the benchmark `toy`, with some sections replaced."""
    return {"experiment": {"benchmark": "toy"}, "agents": [{"harness": "oracle"}]} | changes


@pytest.fixture(name="config")
def _config():
    return config


@pytest.fixture
async def stage(
    store: EventStore, settings: KernelSettings, tmp_path: Path
) -> AsyncIterator[Stage]:
    """The application, with every read model following its stream."""
    stage = Stage(store, settings, tmp_path)
    await stage.vault.load_keys()
    stage.follow()
    try:
        yield stage
    finally:
        await stage.hold_read_models()
        await stage.engine.dispose()
        await stage.reader.dispose()


@pytest.fixture
async def http(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator in the workspace `default`."""
    async with stage.client() as client:
        yield client


@pytest.fixture
async def runner_http(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    """A sandbox-runner."""
    async with stage.client(token=RUNNER) as client:
        yield client


@pytest.fixture
async def served(stage: Stage) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.Task[None]]]:
    """A client of the application behind a real server, and the server's task."""
    port = free_port()
    serving = asyncio.create_task(serve(stage.app, "127.0.0.1", port, stage.closing, HttpLimits()))
    headers = {"Authorization": stage.client().headers["Authorization"]}
    base = f"http://127.0.0.1:{port}/api/v1"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=20) as client:
        async with asyncio.timeout(60):
            while True:
                try:
                    await client.get("/runs")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
        yield client, serving
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
