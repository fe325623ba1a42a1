"""What tests of every member share: a real nats-server, PostgreSQL and Osmosis client."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from faststream.nats import NatsBroker
from pydantic import SecretStr
from xdist.scheduler import LoadScopeScheduling

from assay_kernel.event_store import EventStore
from assay_kernel.settings import KernelSettings
from assay_kernel.streams import ensure_streams
from assay_local.embedded import (
    Program,
    create_database,
    free_port,
    nats_program,
    postgres_program,
    start_program,
)

ALONE = ("tests/end_to_end/", "tests/chaos/", "tests/integration/", "services/sandbox-runner/")
"""Tests that start the whole platform, or disturb what they share, such as the Docker engine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that have to stay together take longest, and begin first."""
    items.sort(key=lambda item: not item.nodeid.startswith(ALONE))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Side by side, a file's tests stay with one worker, and so do all that bear no others."""
    return _ByFile(config, log)


class _ByFile(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return "alone" if nodeid.startswith(ALONE) else nodeid.partition("::")[0]


def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Return when `condition` holds; fail the test when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true in {seconds} s"
        time.sleep(0.02)


def _run(program: Program, folder: Path) -> Iterator[None]:
    log = folder / f"{program.name}.log"
    process = start_program(program, log)
    try:
        wait_until(program.is_ready)
        yield
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A nats-server with JetStream for the whole session."""
    folder = tmp_path_factory.mktemp("nats")
    port = free_port()
    for _ in _run(nats_program(folder, port), folder):
        yield f"nats://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL for the whole session."""
    folder = tmp_path_factory.mktemp("pg")
    program, address = postgres_program(folder / "cluster")
    for _ in _run(program, folder):
        yield address


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """A database of the test's own."""
    return create_database(postgres_url, f"t{uuid4().hex}")


@pytest.fixture
def own_nats_url(tmp_path: Path) -> Iterator[str]:
    """A nats-server of the test's own, with empty streams."""
    port = free_port()
    for _ in _run(nats_program(tmp_path / "nats", port), tmp_path):
        yield f"nats://127.0.0.1:{port}"


@pytest.fixture
def settings(own_nats_url: str, database_url: str, tmp_path: Path) -> KernelSettings:
    """Settings that point at servers of the test's own."""
    return KernelSettings(
        nats_url=SecretStr(own_nats_url),
        database_url=SecretStr(database_url),
        blob_url=f"file://{tmp_path}/blobs",
    )


@pytest.fixture
async def store(own_nats_url: str) -> AsyncIterator[EventStore]:
    """An event store on a nats-server of the test's own."""
    broker = NatsBroker(own_nats_url, logger=None)
    client = await broker.connect()
    await ensure_streams(client.jetstream(), replicas=1)
    try:
        yield EventStore(client)
    finally:
        await broker.stop()


OSMOSIS_CLIENT = "osmosis-ai==0.3.8"


@pytest.fixture(scope="session")
def osmosis_programs() -> Path:
    """The programs of an environment of its own in which the real Osmosis client is installed."""
    folder = Path(__file__).parent / ".cache" / OSMOSIS_CLIENT.replace("==", "-")
    programs, stamp = folder / "bin", folder / "installed"
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of workers side by side, one installs
        if not stamp.exists():
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(folder)],
                [str(programs / "python"), "-m", "pip", "install", "--quiet", OSMOSIS_CLIENT],
            ):
                subprocess.run(command, check=True)  # noqa: S603  every word of it stands above
            stamp.touch()
    return programs


class Osmosis:
    """The `osmosis` command of a person, with a token or none, in a home and folder of its own."""

    def __init__(self, programs: Path, folder: Path, url: str, token: str | None) -> None:
        self.programs = programs
        self.folder = folder
        self.url = url
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "OSMOSIS_TOKEN_STORE": "file",
            "OSMOSIS_PLATFORM_URL": url,
        }
        if token is not None:
            self.environment |= {"OSMOSIS_TOKEN": token, "OSMOSIS_TOKEN_PLATFORM_URL": url}

    async def run(
        self,
        *arguments: str,
        workspace: str | None = "default",
        expect: int = 0,
        **variables: str,
    ) -> tuple[str, str]:
        """Type `osmosis --workspace … …`; returns what was printed and what was complained of."""
        scope = () if workspace is None else ("--workspace", workspace)
        return await self.start("osmosis", *scope, *arguments, expect=expect, **variables)

    async def start(
        self, program: str, *arguments: str, expect: int = 0, **variables: str
    ) -> tuple[str, str]:
        """Start a program of the client's environment, `python` for one, and wait for its end."""
        process = await asyncio.create_subprocess_exec(
            str(self.programs / program),
            *arguments,
            cwd=self.folder,
            env=self.environment | variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            out, err = (one.decode() for one in await process.communicate())
        assert process.returncode == expect, f"{arguments}\n{out}\n{err}"
        return out, err

    async def json(self, *arguments: str, **more: Any) -> Any:
        """What `osmosis --json …` prints."""
        return json.loads((await self.run("--json", *arguments, **more))[0])

    async def refusal(self, *arguments: str, **more: Any) -> Any:
        """The error that `osmosis --json …` ends with."""
        _, told = await self.run("--json", *arguments, expect=1, **more)
        lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
        [error] = [line["error"] for line in lines if "error" in line]
        return error


@pytest.fixture
def osmosis(osmosis_programs: Path, tmp_path: Path) -> Callable[[str, str | None], Osmosis]:
    """The command for a server's address and a token, if there is one."""
    folder = tmp_path / "osmosis-home"
    folder.mkdir()
    return lambda url, token: Osmosis(osmosis_programs, folder, url, token)
