"""What a service says of itself is so, and an outage is no reason to end."""

import asyncio
import os
import signal
import socket
from contextlib import contextmanager

import pytest
from pydantic import SecretStr

from assay_contracts.identifiers import new_id
from assay_kernel.database import open_database
from assay_kernel.projection import ProjectionRunner
from assay_kernel.service import Service, open_service
from assay_local.embedded import (
    create_database,
    free_port,
    nats_program,
    postgres_program,
    start_program,
)


@pytest.fixture
def servers(tmp_path):
    """A nats-server and a PostgreSQL that a test may kill and start again, by name."""

    class Servers:
        def __init__(self):
            port = free_port()
            self.nats_url = f"nats://127.0.0.1:{port}"
            program, self.postgres_url = postgres_program(tmp_path / "killed-postgres")
            self._programs = {
                "nats": nats_program(tmp_path / "killed-nats", port),
                "postgres": program,
            }
            self._processes = {}

        def start(self, name):
            program = self._programs[name]
            self._processes[name] = start_program(program, tmp_path / f"killed-{name}.log")

        async def ready(self, name):
            async with asyncio.timeout(60):
                while not await asyncio.to_thread(self._programs[name].is_ready):
                    await asyncio.sleep(0.05)

        def kill(self, name):
            process = self._processes.pop(name)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        def kill_all(self):
            for name in list(self._processes):
                self.kill(name)

    made = Servers()
    yield made
    made.kill_all()


async def test_a_service_whose_database_does_not_answer_is_not_ready(settings, store):
    with silent() as port:
        address = SecretStr(f"postgresql://postgres@127.0.0.1:{port}/nothing")
        database = open_database(address, "toy")
        service = Service("toy", settings, broker=None, store=store, database=database)
        status = await service.status()
        assert (status.ready, status.details) == (False, {"waits_for": ["database"]})
        await database.dispose()
    without = Service("toy", settings, broker=None, store=store)
    assert (await without.status()).ready


async def test_a_service_waits_for_a_server_that_is_not_there_yet(servers, settings):
    own = settings.model_copy(update={"nats_url": SecretStr(servers.nats_url)})

    async def opened() -> int:
        async with open_service("toy", own, None) as service:
            return await service.store.last_sequence("RUNS")

    opening = asyncio.ensure_future(opened())
    done, _ = await asyncio.wait([opening], timeout=1)
    assert not done
    servers.start("nats")
    assert await asyncio.wait_for(opening, 30) == 0


async def test_a_service_can_stop_while_its_server_is_away(servers, settings):
    servers.start("nats")
    await servers.ready("nats")
    own = settings.model_copy(update={"nats_url": SecretStr(servers.nats_url)})
    async with open_service("toy", own, None) as service:
        client = service.store.client
        servers.kill("nats")
        async with asyncio.timeout(60):
            while not client.is_reconnecting:
                await asyncio.sleep(0.01)
    assert client.is_closed


async def test_a_projection_goes_on_after_both_servers_were_killed(
    servers, tmp_path, settings, counting, added, kernel_tables_of_toy, monkeypatch
):
    for name in ("nats", "postgres"):
        servers.start(name)
        await servers.ready(name)
    address = create_database(servers.postgres_url, "toy")
    own = settings.model_copy(
        update={
            "nats_url": SecretStr(servers.nats_url),
            "database_url": SecretStr(address),
        }
    )
    async with open_service("toy", own, None) as service:
        service.database = open_database(own.database_url, "toy")
        async with service.engine.begin() as connection:
            await connection.exec_driver_sql("CREATE SCHEMA toy")
            await connection.run_sync(kernel_tables_of_toy.checkpoints.metadata.create_all)

        async def refold() -> None:
            raise AssertionError("nothing is to be folded anew")

        runner = ProjectionRunner(
            "toy",
            counting,
            engine=service.engine,
            store=service.store,
            checkpoints=kernel_tables_of_toy.checkpoints,
            refold=refold,
        )
        folding = asyncio.ensure_future(runner.run())
        for killed in ("nats", "postgres"):
            await service.store.tell(added(new_id()), message_id=str(new_id()))
            servers.kill(killed)
            async with asyncio.timeout(60):
                while (await service.status()).ready:
                    await asyncio.sleep(0.05)
            servers.start(killed)
            await servers.ready(killed)
            async with asyncio.timeout(60):
                while not (await service.status()).ready:
                    await asyncio.sleep(0.05)
            last = await service.store.tell(added(new_id()), message_id=str(new_id()))
            async with asyncio.timeout(60):
                while runner.sequence < last.sequence:
                    assert not folding.done()
                    await asyncio.sleep(0.05)
        folding.cancel()
        await asyncio.gather(folding, return_exceptions=True)
        await service.engine.dispose()
        service.database = None
    assert counting.reacted == [1, 2, 3, 4]


@contextmanager
def silent():
    """A port at which somebody listens and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]
