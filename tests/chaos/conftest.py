"""A whole platform to be disturbed, and the seeded script that disturbs it."""

import asyncio
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import nats
import pytest
from nats.errors import Error as NatsError

from assay_client.api import AssayClient
from assay_client.errors import AssayError
from assay_contracts.work import WORK_STREAM
from assay_kernel.cursor import read_stored
from assay_local.embedded import free_port
from assay_local.folder import DataFolder
from assay_local.process import ProcessRef, wait_for_end

_spec = importlib.util.spec_from_file_location(
    "platform_of_tests", Path(__file__).parent.parent / "end_to_end" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
end_to_end = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(end_to_end)

ACK_WAIT_SECONDS = 2.0
GRACE_SECONDS = 20.0
SERVICES = ("registry_sync", "run_scheduler", "sandbox_runner", "grader", "leaderboard", "gateway")
SERVERS = ("nats-server", "postgres")
SECOND_RUNNER = "second runner"
SMALL_DISK_MEGABYTES = 64


@dataclass(frozen=True)
class Disturbance:
    """What was done to whom, from when to when (UTC)."""

    kind: str
    target: str
    began: datetime
    ended: datetime


@dataclass
class Chaos:
    """Disturbs a platform, the same way for the same seed; `done` is what it did."""

    platform: Any
    seed: int
    nats_url: str
    second_runner: ProcessRef | None = None
    done: list[Disturbance] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def plan(self, *, rounds: int, some: int) -> list[Callable[[], None]]:
        """The disturbances, in the seed's order.

        In each round everything is killed, `some` are paused and `some` told to stop, orders and
        facts are delivered twice, and where the blobs have a disk of their own, it is full a while.
        """
        targets = (*SERVICES, *SERVERS)
        planned: list[Callable[[], None]] = []
        for _ in range(rounds):
            each: list[Callable[[], None]] = [self._queue_orders_twice, self._tell_facts_twice]
            each += [partial(self._kill, target) for target in targets]
            each += [partial(self._pause, one) for one in self._random.sample(targets, some)]
            stopped = self._random.sample(SERVICES, min(some, len(SERVICES)))
            each += [partial(self._stop, one) for one in stopped]
            if self.second_runner is not None:
                each.append(partial(self._pause, SECOND_RUNNER))
            if (self.platform.data / "blobs").is_mount():
                each.append(self._fill_disk)
            planned += self._random.sample(each, len(each))
        return planned

    def moment(self) -> float:
        """Seconds until the next disturbance: often before the last one is over."""
        return self._random.choice((0.05, 0.3, 0.8, 2.0))

    def _kill(self, target: str) -> None:
        process = self._alive(target)
        with self._noted("kill", target):
            process.send(signal.SIGKILL)

    def _stop(self, target: str) -> None:
        """Ask a service to stop, which it does in its time of grace; it is started again."""
        process = self._alive(target)
        with self._noted("stop", target):
            process.send(signal.SIGTERM)
            assert not wait_for_end([process], GRACE_SECONDS), f"{target} did not stop"

    def _pause(self, target: str) -> None:
        """Stop a process, for longer than a claim lasts; PostgreSQL and its children together."""
        first = self._alive(target)
        members = first.session() if target == "postgres" else [first]
        with self._noted("pause", target):
            for process in members:
                process.send(signal.SIGSTOP)
            try:
                time.sleep(self._random.uniform(1.5, 2.5) * ACK_WAIT_SECONDS)
            finally:
                for process in members:
                    process.send(signal.SIGCONT)

    def _fill_disk(self) -> None:
        filler = self.platform.data / "blobs" / "filler"
        with self._noted("fill", "disk"):
            try:
                with filler.open("wb", buffering=0) as opened, suppress(OSError):
                    while opened.write(b"x" * 65536):
                        pass
                time.sleep(self._random.uniform(1, 3))
            finally:
                filler.unlink()

    def _queue_orders_twice(self) -> None:
        with self._noted("deliver-twice", "orders"):
            asyncio.run(self._again(WORK_STREAM))

    def _tell_facts_twice(self) -> None:
        with self._noted("deliver-twice", "facts"):
            asyncio.run(self._again("RUNS"))

    async def _again(self, stream: str) -> None:
        """Publish messages of a stream once more, under ids that nothing recognises."""
        client = await nats.connect(self.nats_url, max_reconnect_attempts=60)
        try:
            found = await (self._orders(client) if stream == WORK_STREAM else self._facts(client))
            chosen = self._random.sample(found, min(len(found), 8))
            for subject, payload in chosen:
                await client.jetstream().publish(
                    subject, payload, headers={"Nats-Msg-Id": str(uuid4())}, timeout=30
                )
        finally:
            await client.close()

    @staticmethod
    async def _orders(client: Any) -> list[tuple[str, bytes]]:
        state = (await client.jetstream().stream_info(WORK_STREAM)).state
        found = []
        for sequence in range(state.first_seq, state.last_seq + 1):
            with suppress(NatsError):  # taken off the queue meanwhile
                message = await client.jetstream().get_msg(WORK_STREAM, sequence)
                found.append((message.subject, message.data))
        return found

    @staticmethod
    async def _facts(client: Any) -> list[tuple[str, bytes]]:
        stored = read_stored(client, "RUNS", ["runs.*.*.attempts.>"])
        return [(one.subject, one.payload) async for one in stored]

    def _alive(self, target: str) -> ProcessRef:
        """The target's process; the supervisor may be about to start it again."""
        if target == SECOND_RUNNER and self.second_runner is not None:
            return self.second_runner
        deadline = time.monotonic() + 60
        while True:
            number = self._number(target)
            process = None if number is None else ProcessRef.of(number)
            if process is not None:
                return process
            assert time.monotonic() < deadline, f"{target} did not come back"
            time.sleep(0.05)

    def _number(self, target: str) -> int | None:
        if target in SERVICES:
            return self.platform.processes().get(target)
        for number in self.platform.servers():
            with suppress(OSError):
                command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[0]
                if Path(command.decode()).name == target:
                    return number
        return None

    @contextmanager
    def _noted(self, kind: str, target: str) -> Iterator[None]:
        began = datetime.now(UTC)
        yield
        self.done.append(Disturbance(kind, target, began, datetime.now(UTC)))


@pytest.fixture
def chaotic_platform():
    """Starts a platform with short claims: `with chaotic_platform("local") as platform`.

    With `small_disk`, its blobs lie on a disk of their own, which takes root to mount.
    """

    @contextmanager
    def started(environment: str, *, small_disk: bool = False) -> Iterator[Any]:
        data = Path(tempfile.mkdtemp(prefix="assay-chaos-"))
        platform = end_to_end.Platform(data, free_port())
        folder = ("--data", str(data))
        blobs = data / "blobs"
        if small_disk:
            DataFolder.prepare(data)
            blobs.mkdir(exist_ok=True)
            options = f"size={SMALL_DISK_MEGABYTES}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", blobs], check=True)
        try:
            platform.run(
                *("up", *folder, "--port", str(platform.port), "--detach"),
                env={
                    "ASSAY_SANDBOX_ENVIRONMENT": environment,
                    "ASSAY_RUNNER_CONCURRENCY": "4",
                    "ASSAY_RUNNER_ACK_WAIT": str(ACK_WAIT_SECONDS),
                },
            )
            yield platform
            platform.run("down", *folder)
            assert platform.processes() == {}
        finally:
            platform.run("down", *folder, expect=None)
            kept = os.environ.get("ASSAY_CHAOS_KEEP")
            if kept:
                shutil.copytree(data / "logs", Path(kept) / data.name, dirs_exist_ok=True)
            if small_disk:
                subprocess.run(["umount", blobs], check=True)
            shutil.rmtree(data, ignore_errors=True)

    return started


@contextmanager
def second_runner(platform: Any) -> Iterator[ProcessRef]:
    """A runner beside the supervisor's, as it were on another machine; stopped in the end."""
    listed = Path(f"/proc/{platform.processes()['sandbox_runner']}/environ").read_bytes().decode()
    variables = dict(one.split("=", 1) for one in listed.split("\0") if "=" in one)
    variables |= {
        "ASSAY_INSTANCE": SECOND_RUNNER.replace(" ", "-"),
        "ASSAY_SCRATCH_DIR": str(platform.data / "sandboxes" / "second"),
        # The same place in other words, so that nobody takes it for the supervisor's runner.
        "ASSAY_BLOB_URL": variables["ASSAY_BLOB_URL"] + "/",
    }
    with (platform.data / "logs" / "second-runner.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sandbox_runner"],
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        found = ProcessRef.of(process.pid)
        assert found is not None
        yield found
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def client_of(platform: Any) -> AssayClient:
    """A client of the platform's gateway."""
    token = (platform.data / "admin-token").read_text().strip()
    return AssayClient(f"http://127.0.0.1:{platform.port}", token=token, timeout_seconds=10)


def asked[Answer](ask: Callable[[], Answer], *, seconds: float = 120.0) -> Answer:
    """What the platform answers, once it does: parts of it are down now and then."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except AssayError:
            assert time.monotonic() < deadline, f"no answer in {seconds} s"
            time.sleep(0.2)
