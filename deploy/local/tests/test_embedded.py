"""The embedded servers, from their wheels."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
import nats.errors
import psutil
import psycopg
import pytest

from assay_local.cluster import ClusterError, prepare_cluster, prepare_sockets, server_user
from assay_local.embedded import (
    Program,
    create_database,
    free_port,
    nats_program,
    postgres_program,
    start_program,
)


@contextmanager
def _started(
    program: Program, log: Path, wait_until: Callable[..., None]
) -> Iterator[subprocess.Popen[bytes]]:
    process = start_program(program, log)
    try:
        wait_until(program.is_ready)
        yield process
    finally:
        process.send_signal(program.stop_signal)
        process.wait(60)


def test_free_ports_can_be_listened_on_and_differ():
    assert len({free_port() for _ in range(20)}) > 1


def test_postgres_runs_without_root_on_a_socket_for_its_user_alone(
    short_folder: Path, wait_until: Callable[..., None]
):
    cluster = short_folder / "cluster"
    program, address = postgres_program(cluster)

    with _started(program, short_folder / "log", wait_until) as process:
        server = psutil.Process(process.pid)
        assert server.uids().effective != 0
        assert not [one for one in server.net_connections() if one.status == psutil.CONN_LISTEN]
        assert cluster.stat().st_mode & 0o077 == 0
        first, second = create_database(address, "kept"), create_database(address, "kept")
        assert first == second
        with psycopg.connect(first) as database:
            row = database.execute("SELECT current_database(), current_setting('fsync')").fetchone()
        assert row == ("kept", "on")
    assert process.returncode == 0


def test_a_lock_file_whose_process_is_another_now_does_not_stop_postgres(
    short_folder: Path, wait_until: Callable[..., None]
):
    cluster = short_folder / "recycled"
    postgres_program(cluster)
    lock = cluster / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{cluster}\n1\n5432\n\n\n")

    program, _ = postgres_program(cluster)

    assert not lock.exists()
    with _started(program, short_folder / "log", wait_until):
        pass


def test_a_server_that_was_left_on_the_cluster_is_ended_first(
    short_folder: Path, wait_until: Callable[..., None]
):
    program, _ = postgres_program(short_folder / "left")
    with _started(program, short_folder / "log", wait_until) as process:
        again, _ = postgres_program(short_folder / "left")
        process.wait(60)
        with _started(again, short_folder / "log", wait_until):
            pass


def test_a_long_path_gets_a_short_folder_for_the_socket(
    short_folder: Path, wait_until: Callable[..., None]
):
    program, address = postgres_program(short_folder / ("long" * 25) / "cluster")

    with _started(program, short_folder / "log", wait_until):
        assert len(address) < 100


def test_a_short_folder_of_somebody_else_is_refused(short_folder: Path, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    cluster = short_folder / ("long" * 25)
    prepare_sockets(cluster, None).rmdir()
    tmp_path.joinpath(prepare_sockets(cluster, None).name).rmdir()
    target = tmp_path / "target"
    target.mkdir()
    short = prepare_sockets(cluster, None)
    short.rmdir()
    short.symlink_to(target)

    with pytest.raises(ClusterError, match="somebody else"):
        prepare_sockets(cluster, None)


def test_a_cluster_of_another_version_is_refused(short_folder: Path):
    cluster = short_folder / "old"
    cluster.mkdir()
    (cluster / "PG_VERSION").write_text("12\n")

    with pytest.raises(ClusterError, match="made by PostgreSQL 12"):
        prepare_cluster(cluster, server_user())


def test_folders_above_the_cluster_are_opened_for_passing_through_alone(short_folder: Path):
    if os.geteuid() != 0:
        pytest.skip("only root runs PostgreSQL as another user")
    above = short_folder / "closed"
    above.mkdir(mode=0o700)

    postgres_program(above / "cluster")

    assert above.stat().st_mode & 0o777 == 0o701


async def test_nats_refuses_who_does_not_know_a_password(tmp_path, wait_until: Callable[..., None]):
    port = free_port()
    program = nats_program(tmp_path / "nats", port, {"operator": 'a "password"'})

    with _started(program, tmp_path / "log", wait_until):
        url = f"nats://127.0.0.1:{port}"
        client = await nats.connect(url, user="operator", password='a "password"')
        assert (await client.jetstream().account_info()).streams == 0
        await client.close()
        for login in ({}, {"user": "operator", "password": "guessed"}, {"user": "grader"}):
            with pytest.raises(nats.errors.Error, match="Authorization"):
                await nats.connect(url, allow_reconnect=False, error_cb=_ignore, **login)
    assert program.stop_signal is signal.SIGTERM
    assert (tmp_path / "nats" / "nats.conf").stat().st_mode & 0o077 == 0


async def _ignore(_: Exception) -> None:
    """The refusal is expected."""
