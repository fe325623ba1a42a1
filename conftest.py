"""What tests of every member share: a real nats-server and a real PostgreSQL, started once."""

import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from faststream.nats import NatsBroker
from pydantic import SecretStr

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


def wait_until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
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
