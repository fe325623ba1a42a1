"""`assay up` and `assay down` as a person sees them."""

import signal
import socket
from collections.abc import Callable

import nats
import psutil
import psycopg
from nats.js.api import StreamConfig

from assay_contracts.commands import SERVICES
from assay_local.process import ProcessRef

PROGRAMS = {"nats-server", "postgres", *SERVICES}


def test_up_says_what_is_ready_and_then_the_address_the_folder_and_how_to_stop(assay):
    done = assay.run("detach")

    assert done.returncode == 0
    ready = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" ready")}
    assert ready == PROGRAMS
    assert f"address  {assay.url}" in done.stdout
    assert f"data     {assay.data}" in done.stdout
    assert f"stop     assay down --data {assay.data}" in done.stdout
    assert {program.name for program in assay.running().programs} == PROGRAMS
    assert assay.folder.server_file.read_text() == f'{{"url": "{assay.url}"}}'


def test_a_second_up_on_the_same_folder_is_refused_with_the_address(running_assay):
    before = running_assay.running()

    for verb in ("up", "detach"):
        done = running_assay.run(verb)

        assert done.returncode == 1
        assert f"already running at {running_assay.url}" in done.stdout + done.stderr
    assert running_assay.running() == before
    assert all(program.process.is_alive() for program in before.programs)


def test_no_secret_is_in_a_command_line_or_a_log(running_assay):
    names = ("admin-token", "master-key", "runner-token")
    values = [running_assay.folder.secret(name) for name in names]
    values += [path.read_text() for path in (running_assay.data / "credentials").iterdir()]
    commands = [" ".join(process.cmdline()) for process in running_assay.processes()]
    logs = [log.read_text() for log in (running_assay.data / "logs").iterdir()]

    assert len(commands) > len(PROGRAMS)
    assert len(logs) > len(PROGRAMS)
    assert not [value for value in values for text in (*commands, *logs) if value in text]


def test_everything_listens_on_loopback_or_sockets_alone(running_assay):
    addresses = {
        connection.laddr.ip
        for process in running_assay.processes()
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN and connection.family == socket.AF_INET
    }

    assert addresses == {"127.0.0.1"}


def test_a_taken_port_is_said_and_nothing_is_left_running(assay):
    with socket.create_server(("127.0.0.1", assay.port)):
        for verb in ("up", "detach"):
            done = assay.run(verb)

            assert done.returncode == 1
            assert f"port {assay.port} is taken" in done.stdout + done.stderr
            assert assay.processes() == []


def test_a_folder_that_cannot_be_used_is_said(assay):
    assay.data.write_text("a file")

    for verb in ("up", "detach"):
        done = assay.run(verb)

        assert done.returncode == 1
        assert f"the data folder {assay.data} cannot be used" in done.stderr


def test_down_stops_all_and_a_second_down_says_that_nothing_is_running(assay):
    assay.run("detach")
    programs = assay.running().programs

    first, second = assay.run("down"), assay.run("down")

    assert (first.returncode, second.returncode) == (0, 0)
    assert f"Stopping Assay at {assay.url}" in first.stdout
    assert "Nothing is running" in second.stdout
    assert not [program for program in programs if program.process.is_alive()]
    assert assay.processes() == []


def test_ctrl_c_stops_a_platform_in_the_foreground(assay, wait_until: Callable[..., None]):
    process = assay.start()
    wait_until(lambda: assay.folder.log("supervisor").exists())
    wait_until(lambda: '"event": "ready"' in assay.folder.log("supervisor").read_text())

    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "stop     Ctrl-C" in output
    assert "stopped after" in output
    assert assay.processes() == []


def test_a_service_that_does_not_stop_is_killed_with_all_it_started(assay):
    assay.run("detach", "grader=stubborn")
    started = assay.process("grader").session()

    done = assay.run("down")

    assert done.returncode == 0
    assert len(started) == 2
    assert not [process for process in started if process.is_alive()]
    assert "grader did not stop in time" in assay.folder.log("supervisor").read_text()


def test_a_start_that_fails_shows_the_last_lines_of_the_log_and_leaves_nothing(assay):
    done = assay.run("detach", "leaderboard=broken,gateway=waiting")

    assert done.returncode == 1
    assert "leaderboard ended again and again" in done.stdout
    assert "something is wrong with this one" in done.stdout
    assert assay.processes() == []


async def test_state_survives_down_and_up(assay):
    assay.run("detach")
    port = assay.folder.nats_port
    with psycopg.connect(_database(assay)) as database:
        database.execute("CREATE TABLE kept AS SELECT 'a row' AS what")
    client = await nats.connect(_nats(assay))
    await client.jetstream().add_stream(StreamConfig(name="KEPT", subjects=["kept"]))
    await client.jetstream().publish("kept", b"an event")
    await client.close()

    assert assay.run("down").returncode == 0
    assert assay.run("detach").returncode == 0

    assert assay.folder.nats_port == port
    with psycopg.connect(_database(assay)) as database:
        assert database.execute("SELECT what FROM kept").fetchall() == [("a row",)]
    client = await nats.connect(_nats(assay))
    assert (await client.jetstream().get_msg("KEPT", seq=1)).data == b"an event"
    await client.close()


def test_nats_moves_to_another_port_where_its_own_is_taken(assay):
    assay.run("detach")
    port = assay.folder.nats_port
    assay.run("down")

    with socket.create_server(("127.0.0.1", port)):
        assert assay.run("detach").returncode == 0

    assert assay.folder.nats_port != port


def test_a_process_that_got_the_number_of_a_dead_one_is_never_signalled(assay):
    assay.run("detach")
    running = assay.running()
    assay.run("down")
    bystander = psutil.Popen(["sleep", "600"])
    recycled = ProcessRef(bystander.pid, running.supervisor.born)
    programs = [
        type(program)(program.name, recycled, program.stop_signal) for program in running.programs
    ]
    assay.folder.write_running(type(running)(recycled, running.url, programs))
    try:
        done = assay.run("down")

        assert "Nothing is running" in done.stdout
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def _database(assay) -> str:
    password = assay.folder.credential("postgres", "superuser")
    return f"host={assay.data}/postgres port=5432 user=postgres password={password} dbname=assay"


def _nats(assay) -> str:
    password = assay.folder.credential("nats", "operator")
    return f"nats://operator:{password}@127.0.0.1:{assay.folder.nats_port}"
