"""The pipeline from submission to leaderboard with real services and a scripted stand-in runner."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from nats.js.api import AckPolicy, ConsumerConfig
from pydantic import SecretStr

import gateway.app
import grader.app
import leaderboard.app
import registry_sync.app
import run_scheduler.app
from assay_contracts.benchmark_events import (
    BenchmarkAdded,
    BenchmarkSynced,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
)
from assay_contracts.envelope import Event
from assay_contracts.identifiers import Slot, new_id
from assay_contracts.run_config import Agent
from assay_contracts.run_events import (
    AttemptStarted,
    ResultIngested,
    RunStopRequested,
    RunSubmitted,
)
from assay_contracts.values import ArchivedTask, SourceType, TaskEntry
from assay_contracts.work import WORK_STREAM, WorkOrder
from assay_kernel.event_store import (
    EventStore,
    Recorded,
    benchmark_filter,
    lifecycle_filter,
)
from assay_kernel.service import Schema, Service, answer_commands, open_service, run_until
from assay_kernel.settings import KernelSettings
from assay_local.embedded import free_port
from gateway.settings import GatewaySettings
from registry_sync.settings import RegistrySettings
from run_scheduler.settings import SchedulerSettings

WORKSPACE = "default"
TASKS_OF_A_PAGE = 200


def base(**more: Any) -> dict[str, Any]:
    """Fields of an envelope."""
    return {
        "id": new_id(),
        "workspace": WORKSPACE,
        "occurred_at": datetime.now(UTC),
        "actor": "tester",
        "correlation_id": new_id(),
        **more,
    }


class Platform:
    """The streams, and what a test does on them."""

    def __init__(self, store: EventStore, settings: KernelSettings) -> None:
        self.store = store
        self.settings = settings

    async def add_benchmark(self, tasks: Sequence[str]) -> dict[str, Any]:
        """Append a benchmark that is ready; returns the pin that runs carry."""
        benchmark, sync = new_id(), new_id()
        aggregate = benchmark_filter(WORKSPACE, benchmark)
        entries = [
            TaskEntry(name=name, location=ArchivedTask(sha256="0" * 64, size=1)) for name in tasks
        ]
        events: list[Event] = [
            BenchmarkAdded.model_validate(
                base(
                    benchmark=benchmark,
                    data={
                        "name": "toy",
                        "source": {"kind": "folder", "path": "/toy"},
                        "source_type": SourceType.REGISTRY,
                    },
                )
            ),
            BenchmarkSyncStarted.model_validate(base(benchmark=benchmark, data={"sync": sync})),
            *(
                BenchmarkTasksSynced.model_validate(
                    base(
                        benchmark=benchmark,
                        data={
                            "sync": sync,
                            "first_position": first,
                            "task_count": len(entries),
                            "tasks": entries[first : first + TASKS_OF_A_PAGE],
                        },
                    )
                )
                for first in range(0, len(entries), TASKS_OF_A_PAGE)
            ),
            BenchmarkSynced.model_validate(
                base(
                    benchmark=benchmark,
                    data={
                        "sync": sync,
                        "version": "1",
                        "digest": "sha256:toy",
                        "key": "toy@1",
                        "task_count": len(entries),
                    },
                )
            ),
        ]
        sequence = 0
        for event in events:
            sequence = await self.store.append(event, aggregate=aggregate, expected=sequence)
        return {
            "id": benchmark,
            "owner": WORKSPACE,
            "name": "toy",
            "key": "toy@1",
            "source_type": SourceType.REGISTRY,
            "sync": sync,
            "version": "1",
            "digest": "sha256:toy",
        }

    async def submit(
        self,
        pin: dict[str, Any],
        tasks: int,
        *,
        agents: Sequence[str] = ("oracle",),
        attempts: int = 1,
        concurrent: int = 4,
        retries: int = 0,
    ) -> UUID:
        """Append a run over the full task list."""
        run = new_id()
        event = RunSubmitted.model_validate(
            base(
                run=run,
                data={
                    "name": f"run-{run.hex[-6:]}",
                    "benchmark": pin,
                    "selection": {"task_set": "full", "task_count": tasks},
                    "agents": [Agent(harness=name) for name in agents],
                    "execution": {
                        "attempts_per_task": attempts,
                        "max_concurrent_attempts": concurrent,
                        "timeout_multiplier": 1.0,
                        "max_retries": retries,
                        "pass_threshold": 1.0,
                    },
                    "expected_results": tasks * len(agents) * attempts,
                },
            )
        )
        await self.store.append(event, aggregate=lifecycle_filter(WORKSPACE, run), expected=0)
        return run

    async def ask_to_stop(self, run: UUID) -> None:
        """Append a stop request on the run's present state."""
        aggregate = lifecycle_filter(WORKSPACE, run)
        last = [stored async for stored in self.store.read("RUNS", [aggregate])][-1]
        event = RunStopRequested.model_validate(base(run=run, data={"reason": "enough"}))
        await self.store.append(event, aggregate=aggregate, expected=last.sequence)

    async def events(self, run: UUID) -> list[Recorded[Event]]:
        """Everything of one run, in stream order."""
        return [stored async for stored in self.store.read("RUNS", [f"runs.*.{run}.>"])]

    async def lifecycle(self, run: UUID) -> list[str]:
        """The types of the run's decisions, in order."""
        return [
            stored.event.type
            for stored in await self.events(run)
            if ".lifecycle." in stored.event.subject
        ]

    async def ended(self, run: UUID, *, seconds: float = 60.0) -> str:
        """Wait for the run's last decision; returns its type."""
        async with asyncio.timeout(seconds):
            while True:
                types = await self.lifecycle(run)
                if types and types[-1] in {"finished", "stopped", "failed"}:
                    return types[-1]
                await asyncio.sleep(0.05)


Answer = Callable[[WorkOrder], dict[str, Any]]


def passed(_: WorkOrder) -> dict[str, Any]:
    """A result with the full reward."""
    return {"rewards": {"reward": 1.0}, "reward_valid": True, "retryable": False}


def failed(_: WorkOrder) -> dict[str, Any]:
    """A result with no reward."""
    return {"rewards": {"reward": 0.0}, "reward_valid": True, "retryable": False}


def lost(_: WorkOrder) -> dict[str, Any]:
    """A result without a valid reward that may be retried."""
    return {
        "reward_valid": False,
        "retryable": True,
        "exception": {"type": "NetworkConnectionError", "message": "lost", "phase": "agent"},
    }


def result_event(order: WorkOrder, answer: dict[str, Any], delivery: int = 1) -> ResultIngested:
    """The event that a runner tells at the end of a try."""
    now = datetime.now(UTC)
    return ResultIngested.model_validate(
        base(
            run=order.run,
            data={
                "slot": order.slot,
                "try_number": order.try_number,
                "delivery": delivery,
                "runner": "stand-in",
                "environment": "none",
                "started_at": now - timedelta(seconds=1),
                "finished_at": now,
                **answer,
            },
        )
    )


class StandInRunner:
    """Takes work as a runner does, and tells what `answer` says; knows how many it held at once."""

    def __init__(self, store: EventStore, answer: Answer) -> None:
        self._store = store
        self._answer = answer
        self.orders: list[WorkOrder] = []
        self.holding: dict[UUID, int] = {}
        self.most_held: dict[UUID, int] = {}
        self.gate: asyncio.Event = asyncio.Event()
        self.gate.set()

    async def run(self) -> None:
        jetstream = self._store.client.jetstream()
        await jetstream.add_consumer(
            WORK_STREAM,
            ConsumerConfig(
                durable_name="stand-in", filter_subject="work.>", ack_policy=AckPolicy.EXPLICIT
            ),
        )
        pull = await jetstream.pull_subscribe_bind(stream=WORK_STREAM, durable="stand-in")
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    [message] = await pull.fetch(1, timeout=60)
                except TimeoutError:
                    continue
                group.create_task(self._work(message))

    async def _work(self, message: Any) -> None:
        order = WorkOrder.model_validate_json(message.data)
        self.orders.append(order)
        self.holding[order.run] = self.holding.get(order.run, 0) + 1
        self.most_held[order.run] = max(self.most_held.get(order.run, 0), self.holding[order.run])
        started = AttemptStarted.model_validate(
            base(
                run=order.run,
                data={
                    "slot": order.slot,
                    "try_number": order.try_number,
                    "runner": "stand-in",
                    "environment": "none",
                },
            )
        )
        await self._store.tell(started, message_id=str(started.id))
        await self.gate.wait()
        event = result_event(order, self._answer(order))
        self.holding[order.run] -= 1
        await self._store.tell(event, message_id=event.data.message_id(order.run, event.type))
        await message.ack()


@pytest.fixture
async def platform(store: EventStore, settings: KernelSettings) -> Platform:
    return Platform(store, settings)


@pytest.fixture
def serving(settings: KernelSettings):
    """Runs services in this process: `async with serving(("name", settings, wire, schema), …)`."""

    @asynccontextmanager
    async def serve(
        *parts: tuple[str, KernelSettings, Any, Schema],
    ) -> AsyncIterator[list[Service]]:
        stopping = asyncio.Event()
        async with AsyncExitStack() as stack:
            services = []
            for name, own, wire, schema in parts:
                service = await stack.enter_async_context(open_service(name, own, schema))
                await wire(service)
                answer_commands(service)
                await service.broker.start()
                services.append(service)
            running = [
                asyncio.create_task(run_until(stopping, service.tasks)) for service in services
            ]
            try:
                yield services
            finally:
                stopping.set()
                await asyncio.gather(*running)

    return serve


@pytest.fixture
def own_settings(settings: KernelSettings):
    """The test's settings as another settings class, with changes."""

    def build(kind: type[KernelSettings], **changes: Any) -> KernelSettings:
        values = settings.model_dump() | changes
        for name, value in values.items():
            if isinstance(value, SecretStr):
                values[name] = value.get_secret_value()
        return kind(**values)

    return build


def slot_keys(slots: Sequence[Slot]) -> list[tuple[int, str, int]]:
    """Slots as plain tuples, sorted."""
    return sorted((slot.agent, slot.task, slot.attempt) for slot in slots)


ADMIN, RUNNER = "admin-token-of-this-test", "runner-token-of-this-test"


class Door:
    """The gateway's address, and clients of it."""

    def __init__(self, url, platform, services):
        self.url = url
        self.platform = platform
        self.services = services

    def client(self, token=ADMIN, workspace="default"):
        return httpx.AsyncClient(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}", "X-Assay-Workspace": workspace},
            timeout=20,
        )


@pytest.fixture
async def door(serving, own_settings, platform, tmp_path):
    """Gateway, registry-sync, scheduler, grader and leaderboard, ready, with the demo read."""
    for name, text in (("admin", ADMIN), ("runner", RUNNER), ("master", "m" * 40)):
        (tmp_path / name).write_text(text)
    port = free_port()
    own = own_settings(
        GatewaySettings,
        http_port=port,
        admin_token_file=tmp_path / "admin",
        runner_token_file=tmp_path / "runner",
        master_key_file=tmp_path / "master",
    )
    kernel = own_settings(KernelSettings)
    reading = own_settings(RegistrySettings, work_dir=tmp_path / "registry")
    planning = own_settings(
        SchedulerSettings, scheduler_retry_base=0.05, scheduler_pause_shortest=0.2
    )
    async with serving(
        ("registry-sync", reading, registry_sync.app.wire, registry_sync.app.SCHEMA),
        ("run-scheduler", planning, run_scheduler.app.wire, run_scheduler.app.SCHEMA),
        ("grader", kernel, grader.app.wire, grader.app.SCHEMA),
        ("leaderboard", kernel, leaderboard.app.wire, leaderboard.app.SCHEMA),
        ("gateway", own, gateway.app.wire, gateway.app.SCHEMA),
    ) as services:
        door = Door(f"http://127.0.0.1:{port}", platform, services)
        async with door.client() as client, asyncio.timeout(60):
            while True:
                try:
                    answer = await client.get("/benchmarks/demo")
                    if answer.status_code == 200 and answer.json()["sync_status"] == "ready":
                        break
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.1)
        yield door


@asynccontextmanager
async def beside(door, answer):
    """A stand-in runner that works while the body runs."""
    runner = StandInRunner(door.platform.store, answer)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
