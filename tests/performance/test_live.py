"""How soon a result is seen, and what a thousand listeners cost, against bare subscriptions."""

import asyncio
import importlib.util
import os
import shutil
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest
from faststream.nats import NatsBroker
from httpx_sse import aconnect_sse

from assay_contracts.run_events import AttemptStarted, ResultIngested
from assay_kernel.event_store import EventStore
from assay_local.embedded import free_port

RESULTS, LISTENERS, IDLE_SECONDS = 100, 1000, 20.0
QUIET_SECONDS_OF_NATS = 0.005
"""What a bare subscription takes on a machine that has nothing else to do, at most; on a busier one
the figures are printed and held against nothing."""


def _module(name, path):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gateway_stage = _module("gateway_stage", "services/gateway/tests/conftest.py")
platforms = _module("platforms", "tests/end_to_end/conftest.py")

migrated_database = gateway_stage.migrated_database
database_url = gateway_stage.database_url
stage = gateway_stage.stage
HEADERS = {"Authorization": f"Bearer {gateway_stage.ADMIN}"}


@pytest.fixture
async def gateway(stage, settings, tmp_path):
    """The gateway as a process of its own: its port and the process."""
    port = free_port()
    environment = {
        **os.environ,
        "ASSAY_NATS_URL": settings.nats_url.get_secret_value(),
        "ASSAY_DATABASE_URL": settings.database_url.get_secret_value(),
        "ASSAY_BLOB_URL": settings.blob_url,
        "ASSAY_HTTP_PORT": str(port),
        "ASSAY_ADMIN_TOKEN_FILE": str(tmp_path / "admin"),
        "ASSAY_MASTER_KEY_FILE": str(tmp_path / "master"),
    }
    with (tmp_path / "gateway.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", env=environment, stderr=log, stdout=log
        )
    try:
        async with asyncio.timeout(180), httpx.AsyncClient() as client:
            while True:
                try:
                    await client.get(f"http://127.0.0.1:{port}/healthz")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


def megabytes(process):
    return process.memory_info().rss / 2**20


def processor_seconds(process):
    spent = process.cpu_times()
    return spent.user + spent.system


def nats_of(stage):
    port = str(stage.store.client.connected_url.port)
    return next(
        one
        for one in psutil.Process().children(recursive=True)
        if one.name() == "nats-server"
        and port in {str(at.laddr.port) for at in one.net_connections() if at.status == "LISTEN"}
    )


async def consumers(stage):
    streams = await stage.store.client.jetstream().streams_info()
    return sum(one.state.consumer_count for one in streams)


class Arrivals:
    """When each result-ingested came, by way of arriving."""

    def __init__(self):
        self.seconds = []
        self.more = asyncio.Event()

    def now(self):
        self.seconds.append(time.perf_counter())
        self.more.set()

    async def reach(self, count):
        while len(self.seconds) < count:
            self.more.clear()
            await self.more.wait()


@pytest.fixture
def platform(tmp_path_factory):
    """Every service as a process of its own."""
    data = tmp_path_factory.mktemp("platform")
    made = platforms.start(data, free_port(), "local")
    yield made
    made.run("down", "--data", str(data))
    shutil.rmtree(data, ignore_errors=True)


async def test_a_result_is_soon_seen(platform, report):
    """Results as a runner tells them, of a run that no runner works on."""
    token = (platform.data / "admin-token").read_text().strip()
    broker = NatsBroker(platform.nats_url, logger=None)
    store = EventStore(await broker.connect())
    live, bare, shown, told = Arrivals(), Arrivals(), Arrivals(), []
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{platform.port}/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    ) as client:
        run, slots = await imported(client)

        async def listen(ready):
            params = {"type": "result-ingested"}
            async with aconnect_sse(client, "GET", "/events", params=params) as source:
                async for event in source.aiter_sse():
                    ready.set()
                    if event.data:
                        live.now()

        async def ask(count, **which):
            """Return when the API shows so many results; to ask without a pause would be load."""
            while True:
                page = await client.get(f"/runs/{run}/results", params={"limit": 1} | which)
                if page.json()["total_count"] >= count:
                    return
                await asyncio.sleep(0.01)

        async def see(count):
            await ask(count)
            shown.now()

        async def arrived(_):
            bare.now()

        ready = asyncio.Event()
        listening = asyncio.create_task(listen(ready))
        await store.client.subscribe("runs.*.*.attempts.result-ingested", cb=arrived)
        async with asyncio.timeout(300):
            await ready.wait()
            for number, slot in enumerate(slots, start=1):
                event = result_ingested(run, slot)
                told.append(time.perf_counter())
                await asyncio.gather(
                    store.tell(event, message_id=str(event.id)),
                    live.reach(number),
                    bare.reach(number),
                    see(number),
                )
                await ask(number, outcome="passed")  # its verdict is no part of the next one's time
        listening.cancel()
    await broker.stop()

    def since_told(arrivals):
        return [at - began for at, began in zip(arrivals.seconds, told, strict=True)]

    seen = {"on the live stream": since_told(live), "in the API": since_told(shown)}
    for where, took in seen.items():
        report.line(
            f"a result from being told to being seen {where}, median of {RESULTS}, against a bare "
            "NATS subscription",
            took,
            since_told(bare),
        )
    if statistics.median(since_told(bare)) < QUIET_SECONDS_OF_NATS:
        for where, took in seen.items():
            assert statistics.median(took) < 0.15, where


async def imported(client):
    """A run of results from elsewhere on the demo benchmark, and as many of its slots as wanted."""
    tasks = [one["name"] for one in (await client.get("/benchmarks/demo")).json()["tasks"]]
    attempts = -(-RESULTS // len(tasks))
    body = {
        "benchmark": "demo",
        "agents": [{"harness": "codex", "model": "m"}],
        "attempts_per_task": attempts,
        "source": {"kind": "table", "digest": "ab" * 32},
    }
    answer = await client.post("/runs/import", json=body)
    assert answer.status_code == 201, answer.text
    slots = [
        {"agent": 0, "task": task, "attempt": attempt}
        for attempt in range(1, attempts + 1)
        for task in tasks
    ]
    return answer.json()["id"], slots[:RESULTS]


def result_ingested(run, slot):
    now = datetime.now(UTC)
    data = {
        "slot": slot,
        "try_number": 1,
        "runner": "stand-in",
        "environment": "none",
        "rewards": {"reward": 1.0},
        "reward_valid": True,
        "retryable": False,
        "started_at": now,
        "finished_at": now,
    }
    return ResultIngested.model_validate(gateway_stage.envelope(run=run, data=data))


async def test_a_thousand_listeners_cost_little(stage, gateway, report):
    port, process = gateway
    nats = nats_of(stage)
    await stage.add_benchmark()
    run = await stage.submit()
    warm = await listener(port)
    before = megabytes(process), megabytes(nats), await consumers(stage)
    began = time.perf_counter()
    open_ones = [await listener(port) for _ in range(LISTENERS)]
    connected = time.perf_counter() - began
    after = megabytes(process), megabytes(nats), await consumers(stage)
    spent = processor_seconds(process), processor_seconds(nats)
    await asyncio.sleep(IDLE_SECONDS)  # what is measured is the time in which nothing happens
    idle = [
        (now - then) / IDLE_SECONDS
        for now, then in zip(
            (processor_seconds(process), processor_seconds(nats)), spent, strict=True
        )
    ]
    ours, reference = [], []
    for number in range(5):
        began = time.perf_counter()
        await asyncio.gather(
            stage.store.tell(attempt_started(run["id"]), message_id=f"live-{number}"),
            *(heard(reader) for reader, _ in open_ones),
        )
        ours.append(time.perf_counter() - began)
        reference.append(await bare_fan_out(stage))
    for _, writer in [warm, *open_ones]:
        writer.close()
    sys.stdout.write(
        f"\n{LISTENERS} idle listeners, connected in {connected:.1f} s: gateway "
        f"+{(after[0] - before[0]) * 1024 / LISTENERS:.0f} KiB each, NATS "
        f"+{after[1] - before[1]:.1f} MiB and {after[2] - before[2]} consumers in all; idle, the "
        f"gateway takes {idle[0]:.1%} and NATS {idle[1]:.1%} of a core\n"
    )
    report.line(
        f"one event to all of {LISTENERS} listeners over HTTP, against as many bare NATS "
        "subscriptions",
        ours,
        reference,
    )
    assert after[2] == before[2]
    assert after[0] - before[0] < 200
    assert idle[0] < 0.5


async def listener(port):
    """A connection that has been told where it begins."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /api/v1/events HTTP/1.1\r\nHost: assay\r\nAccept: text/event-stream\r\n"
        + f"Authorization: {HEADERS['Authorization']}\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry: 1000")
    return reader, writer


async def heard(reader):
    await reader.readuntil(b"event: attempt-started")


def attempt_started(run):
    data = {
        "slot": {"agent": 0, "task": "fix-roman", "attempt": 1},
        "try_number": 1,
        "runner": "stand-in",
        "environment": "none",
    }
    return AttemptStarted.model_validate(gateway_stage.envelope(run=run, data=data))


async def bare_fan_out(stage):
    """Seconds until as many subscriptions have one message."""
    client = stage.store.client
    subscriptions = [await client.subscribe("bare.fan-out") for _ in range(LISTENERS)]
    await client.flush()
    began = time.perf_counter()
    await client.publish("bare.fan-out", b"x" * 500)
    await asyncio.gather(*(one.next_msg(timeout=30) for one in subscriptions))
    took = time.perf_counter() - began
    for one in subscriptions:
        await one.unsubscribe()
    return took
