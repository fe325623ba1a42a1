"""How soon a result is seen, and what a thousand listeners cost, against bare subscriptions."""

import asyncio
import importlib.util
import os
import statistics
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from httpx_sse import aconnect_sse

from assay_contracts.run_events import AttemptStarted
from assay_local.embedded import free_port

RESULTS, LISTENERS, QUIET_SECONDS = 100, 1000, 20.0

_spec = importlib.util.spec_from_file_location(
    "gateway_stage",
    Path(__file__).parents[2] / "services" / "gateway" / "tests" / "conftest.py",
)
assert _spec is not None
assert _spec.loader is not None
gateway_stage = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(gateway_stage)

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
        async with asyncio.timeout(60), httpx.AsyncClient() as client:
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


async def test_a_result_is_soon_seen(stage, gateway, report):
    port, _ = gateway
    await stage.add_benchmark()
    run = await stage.submit(execution={"attempts_per_task": RESULTS})
    live, bare, shown, told = Arrivals(), Arrivals(), Arrivals(), []
    base = f"http://127.0.0.1:{port}/api/v1"
    async with httpx.AsyncClient(base_url=base, headers=HEADERS, timeout=60) as client:

        async def listen(ready):
            params = {"type": "result-ingested"}
            async with aconnect_sse(client, "GET", "/events", params=params) as source:
                async for event in source.aiter_sse():
                    ready.set()
                    if event.data:
                        live.now()

        async def ask(count):
            while True:
                page = await client.get(f"/runs/{run['id']}/results", params={"limit": 1})
                if page.json()["total_count"] >= count:
                    shown.now()
                    return
                await asyncio.sleep(0.002)

        async def arrived(_):
            bare.now()

        ready = asyncio.Event()
        listening = asyncio.create_task(listen(ready))
        await stage.store.client.subscribe("runs.*.*.attempts.result-ingested", cb=arrived)
        async with asyncio.timeout(300):
            await ready.wait()
            for number in range(RESULTS):
                told.append(time.perf_counter())
                await asyncio.gather(
                    stage.result(run["id"], "fix-roman", attempt=number + 1),
                    live.reach(number + 1),
                    bare.reach(number + 1),
                    ask(number + 1),
                )
        listening.cancel()

    def since_told(arrivals):
        return [at - began for at, began in zip(arrivals.seconds, told, strict=True)]

    for what, arrivals in (("on the live stream", live), ("in the API", shown)):
        took = since_told(arrivals)
        report.line(
            f"a result from being told to being seen {what}, median of {RESULTS}, against a bare "
            "NATS subscription",
            took,
            since_told(bare),
        )
        assert statistics.median(took) < 0.15


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
    await asyncio.sleep(QUIET_SECONDS)  # what is measured is the time in which nothing happens
    idle = [
        (now - then) / QUIET_SECONDS
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
