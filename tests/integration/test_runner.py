"""A real runner on real NATS and real sandboxes: claims, second deliveries, stops, shutdown."""

import asyncio
import contextlib
import importlib.util
import os
import subprocess
import time
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from assay_contracts.identifiers import Slot, new_id
from assay_contracts.run_config import Agent
from assay_contracts.run_events import RunStopRequested
from assay_contracts.values import ArchivedTask
from assay_contracts.work import WORK_STREAM, WorkOrder
from assay_kernel.blobs import BlobsAwayError, BlobStore
from assay_kernel.cursor import read_stored
from assay_kernel.secret_claims import SecretClaims
from registry_sync.archives import pack_task
from sandbox_runner.attempts import AttemptRunner
from sandbox_runner.disk import RoomWatch
from sandbox_runner.locate import TaskShelf
from sandbox_runner.settings import RunnerSettings
from sandbox_runner.stops import StopWatch
from sandbox_runner.worker import Worker

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)


@pytest.fixture
def order(settings, tmp_path):
    """Queues an order for a task whose solution is given; returns the order."""

    async def make(store, solve, run=None, task="toy"):
        folder = tmp_path / "tasks" / task
        for part in ("environment", "solution", "tests"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "task.toml").write_text(
            'version = "1.0"\n[environment]\ndocker_image = "x"\nworkdir = "/app"\n'
            'network_mode = "no-network"\n'
        )
        (folder / "instruction.md").write_text("Do it.\n")
        (folder / "solution" / "solve.sh").write_text(solve)
        (folder / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
        archive = pack_task(folder)
        sha256 = await BlobStore(settings.blob_url).keep(archive)
        made = WorkOrder(
            workspace="default",
            run=run or new_id(),
            slot=Slot(agent=0, task=task, attempt=1),
            try_number=1,
            benchmark="toy",
            agent=Agent(harness="oracle"),
            location=ArchivedTask(sha256=sha256, size=len(archive)),
            task_digest=None,
            correlation_id=new_id(),
            causation_id=new_id(),
        )
        await store.tell_bytes(
            made.subject, made.model_dump_json().encode(), message_id=made.message_id
        )
        return made

    return make


@pytest.fixture
def working(own_settings, store, settings, tmp_path):
    """Runs a worker; `async with working() as worker`."""

    @asynccontextmanager
    async def run(room=None, **changes):
        own = own_settings(
            RunnerSettings,
            **{
                "runner_ack_wait": 2,
                "runner_concurrency": 2,
                "scratch_dir": tmp_path / "scratch",
                **changes,
            },
        )
        blobs = BlobStore(settings.blob_url)
        attempts = AttemptRunner(
            own,
            blobs,
            TaskShelf(tmp_path / "scratch" / "tasks", blobs),
            SecretClaims("http://127.0.0.1:9", None),
            "local",
        )
        stops = StopWatch(store)
        worker = Worker(store, attempts, stops, own, ["default"], room)
        tasks = [asyncio.create_task(stops.follow()), asyncio.create_task(worker.run())]
        try:
            yield worker
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return run


async def told(platform, run, kind, count=1):
    """Wait until a run has `count` events of a kind; returns them."""
    async with asyncio.timeout(60):
        while True:
            found = [one.event for one in await platform.events(run) if one.event.type == kind]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


async def queue_is_empty(store):
    async with asyncio.timeout(60):
        while (await store.client.jetstream().stream_info(WORK_STREAM)).state.messages:
            await asyncio.sleep(0.05)


async def test_an_order_becomes_a_result_with_its_artifacts(platform, store, order, working):
    async with working():
        queued = await order(store, "touch /app/done\n")
        [result] = await told(platform, queued.run, "result-ingested")
        await queue_is_empty(store)
    [started] = await told(platform, queued.run, "attempt-started")
    assert started.causation_id == queued.causation_id
    assert result.data.rewards == {"reward": 1.0}
    assert result.data.artifacts is not None
    manifest = orjson.loads(
        await BlobStore(platform.settings.blob_url).read(result.data.artifacts.sha256)
    )
    assert "verifier/reward.txt" in [one["path"] for one in manifest["files"]]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 40 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
async def test_work_waits_untouched_while_the_disk_is_nearly_full(
    platform, store, order, working, small_disk
):
    (small_disk / "filling").write_bytes(bytes(39 * 1024 * 1024))
    room = RoomWatch(small_disk, "test", 2048, has_docker=False)
    await room.look()
    async with working(room):
        queued = await order(store, "touch /app/done\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await told(platform, queued.run, "attempt-started")
        (small_disk / "filling").unlink()
        await room.look()
        [result] = await told(platform, queued.run, "result-ingested")
    assert (result.data.try_number, result.data.delivery) == (1, 1)
    assert result.data.rewards == {"reward": 1.0}


async def test_work_whose_result_was_told_is_not_done_again(platform, store, order, working):
    queued = await order(store, "touch /app/done\n")
    jetstream = store.client.jetstream()
    await jetstream.add_consumer(
        WORK_STREAM,
        ConsumerConfig(
            durable_name="runner-default",
            filter_subject="work.default",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=2,
            max_deliver=-1,
            max_ack_pending=10_000,
        ),
    )
    lost = await jetstream.pull_subscribe_bind(stream=WORK_STREAM, durable="runner-default")
    await lost.fetch(1, timeout=60)
    first = pipeline.result_event(queued, pipeline.passed(queued))
    await store.tell(first, message_id=first.data.message_id(queued.run, first.type))
    async with working():
        await queue_is_empty(store)
    types = [one.event.type for one in await platform.events(queued.run)]
    assert types == ["result-ingested"]


async def test_a_runner_that_shuts_down_hands_its_work_back_and_leaves_no_sandbox(
    platform, store, order, working, tmp_path
):
    marker = tmp_path / "scratch"
    async with working():
        queued = await order(store, "sleep 5555; touch /app/done\n")
        await told(platform, queued.run, "attempt-started")
        async with asyncio.timeout(60):
            while not _running("sleep 5555"):
                await asyncio.sleep(0.05)
    assert not _running("sleep 5555")
    assert not list(marker.glob("local-*"))
    async with working():
        started = await told(platform, queued.run, "attempt-started", count=2)
    assert [one.data.delivery for one in started] == [1, 2]


def _running(text):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, UnicodeDecodeError):
                continue
            if command.startswith(text):
                found.append(command)
    return found


async def test_work_of_a_run_that_was_asked_to_stop_is_cancelled_wherever_it_is(
    platform, store, order, working
):
    run = new_id()
    async with working() as worker:
        await order(store, "sleep 6666\n", run=run, task="one")
        await order(store, "sleep 6666\n", run=run, task="two")
        await order(store, "sleep 6666\n", run=run, task="three")
        await told(platform, run, "attempt-started", count=2)
        stop = RunStopRequested.model_validate(pipeline.base(run=run, data={"reason": "enough"}))
        await store.tell(stop, message_id="stop")
        results = await told(platform, run, "result-ingested", count=3)
        await queue_is_empty(store)
        assert worker.running == 0
    assert all(one.data.cancelled and not one.data.reward_valid for one in results)
    started = await told(platform, run, "attempt-started", count=2)
    assert len(started) == 2
    assert not _running("sleep 6666")


async def test_an_order_that_is_queued_twice_is_run_once(platform, store, order, working):
    queued = await order(store, "sleep 1; touch /app/done\n")
    again = queued.model_dump_json().encode()
    await store.tell_bytes(queued.subject, again, message_id="a second time")
    async with working():
        await told(platform, queued.run, "result-ingested")
        await queue_is_empty(store)
    types = [one.event.type for one in await platform.events(queued.run)]
    assert types == ["attempt-started", "result-ingested"]


async def test_a_runner_that_hung_longer_than_its_claim_does_not_run_the_try_a_second_time(
    platform, store, order, working
):
    async with working():
        queued = await order(store, "sleep 7; touch /app/done\n")
        await told(platform, queued.run, "attempt-started")
        hang_longer_than_a_claim()
        [result] = await told(platform, queued.run, "result-ingested")
        await queue_is_empty(store)
    types = [one.event.type for one in await platform.events(queued.run)]
    assert types == ["attempt-started", "result-ingested"]
    assert (result.data.delivery, result.data.rewards) == (1, {"reward": 1.0})


async def test_a_try_of_a_live_runner_whose_claim_ran_out_is_left_to_it(
    platform, store, order, working, monkeypatch, tmp_path
):
    monkeypatch.setattr(Msg, "in_progress", cut_off)
    async with working(), working(scratch_dir=tmp_path / "other", instance="other"):
        queued = await order(store, "sleep 6; touch /app/done\n")
        [result] = await told(platform, queued.run, "result-ingested")
        await queue_is_empty(store)
    types = [one.event.type for one in await platform.events(queued.run)]
    assert types == ["attempt-started", "result-ingested"]
    assert (result.data.delivery, result.data.rewards) == (1, {"reward": 1.0})


async def cut_off(message):
    """In place of extending a claim: the server heard nothing of it."""


async def test_a_runner_that_hung_leaves_a_try_that_another_has_begun(
    platform, store, order, working
):
    async with working() as worker:
        queued = await order(store, "sleep 7777\n")
        [ours] = await told(platform, queued.run, "attempt-started")
        async with asyncio.timeout(60):
            while not _running("sleep 7777"):
                await asyncio.sleep(0.05)
        data = ours.data.model_copy(update={"delivery": 9, "runner": "another"})
        theirs = ours.model_copy(update={"id": new_id(), "data": data})
        await store.tell(theirs, message_id=data.message_id(queued.run, theirs.type))
        assert worker.running == 1
        hang_longer_than_a_claim()
        async with asyncio.timeout(60):
            while _running("sleep 7777"):
                await asyncio.sleep(0.05)
    types = [one.event.type for one in await platform.events(queued.run)]
    assert "result-ingested" not in types


def hang_longer_than_a_claim():
    """Hold up the runner's whole loop, which runs in this process."""
    time.sleep(5)


async def test_a_result_that_is_being_told_is_told_although_the_runner_shuts_down(
    platform, store, order, working, monkeypatch
):
    telling, may_tell = asyncio.Event(), asyncio.Event()
    tell = store.tell

    async def slowly(event, *, message_id):
        if event.type == "result-ingested":
            telling.set()
            await may_tell.wait()
        return await tell(event, message_id=message_id)

    monkeypatch.setattr(store, "tell", slowly)
    async with working():
        queued = await order(store, "touch /app/done\n")
        await asyncio.wait_for(telling.wait(), 60)
        asyncio.get_running_loop().call_later(1, may_tell.set)
    types = [one.event.type for one in await platform.events(queued.run)]
    assert types == ["attempt-started", "result-ingested"]
    async with working():
        await queue_is_empty(store)
    assert len(await told(platform, queued.run, "attempt-started")) == 1


@pytest.fixture
def full_disk(tmp_path):
    """The blob store on a small disk of its own: `fill()` it, and make room again with `free()`."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "blobs"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    filler = disk / "filler"

    def fill():
        with filler.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
            while opened.write(b"x" * 4096):
                pass

    yield SimpleNamespace(fill=fill, free=filler.unlink)
    subprocess.run(["umount", disk], check=True)


async def test_a_full_disk_delays_a_result_and_loses_nothing(
    platform, store, order, working, full_disk, monkeypatch
):
    refused = asyncio.Event()
    really_keep = BlobStore.keep_file

    async def keep_file(blobs, path):
        try:
            return await really_keep(blobs, path)
        except BlobsAwayError:
            refused.set()
            raise

    monkeypatch.setattr(BlobStore, "keep_file", keep_file)
    async with working():
        queued = await order(store, "touch /app/done\n")
        full_disk.fill()
        async with asyncio.timeout(60):
            await refused.wait()
        types = [one.event.type for one in await platform.events(queued.run)]
        assert types == ["attempt-started"]
        full_disk.free()
        [result] = await told(platform, queued.run, "result-ingested")
    assert (result.data.delivery, result.data.rewards) == (1, {"reward": 1.0})
    assert result.data.artifacts is not None


async def test_a_disk_that_stays_full_costs_the_files_and_not_the_score(
    platform, store, order, working, full_disk
):
    async with working(runner_keep_seconds=1):
        queued = await order(store, "touch /app/done\n")
        full_disk.fill()
        [result] = await told(platform, queued.run, "result-ingested")
    assert (result.data.rewards, result.data.artifacts) == ({"reward": 1.0}, None)


async def test_a_message_that_is_no_order_is_buried_and_blocks_nothing(
    platform, store, order, working
):
    await store.tell_bytes("work.default", b"no order", message_id="garbage")
    async with working():
        queued = await order(store, "true\n")
        await told(platform, queued.run, "result-ingested")
        await queue_is_empty(store)
    [letter] = [one async for one in read_stored(store.client, "DEAD", ["dead.>"])]
    assert orjson.loads(letter.payload)["subject"] == "work.default"


async def test_a_task_whose_files_are_gone_is_an_error_with_the_reason(
    platform, store, order, working, settings
):
    async with working():
        queued = await order(store, "true\n")
        await told(platform, queued.run, "result-ingested")
        gone = queued.model_copy(
            update={
                "run": new_id(),
                "location": ArchivedTask(sha256="f" * 64, size=1),
            }
        )
        await store.tell_bytes(
            gone.subject, gone.model_dump_json().encode(), message_id=gone.message_id
        )
        [result] = await told(platform, gone.run, "result-ingested")
    assert result.data.exception is not None
    assert result.data.exception.type == "TaskUnavailableError"
    assert "synchronise the benchmark again" in result.data.exception.message
    assert (result.data.reward_valid, result.data.retryable) == (False, True)
