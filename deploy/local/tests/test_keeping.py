"""What dies comes back, and what a dead supervisor leaves ends."""

import sys
from collections.abc import Callable

import httpx
import psutil
import pytest

from assay_contracts.commands import SERVICES
from assay_local.embedded import Program, start_program


@pytest.mark.parametrize("name", ["nats-server", "postgres", *SERVICES])
def test_a_killed_program_comes_back(
    running_assay, name: str, wait_until: Callable[..., None], kill: Callable[..., None]
):
    before = running_assay.pid(name)
    kill(before)

    wait_until(lambda: running_assay.pid(name) not in (before, None))

    log = running_assay.folder.log("supervisor")
    wait_until(lambda: f"{name} ended (killed by SIGKILL)" in log.read_text())


def test_the_servers_answer_again_after_they_were_killed(
    running_assay, wait_until: Callable[..., None], kill: Callable[..., None]
):
    gateway = running_assay.pid("gateway")
    kill(gateway)

    def answers() -> bool:
        try:
            return httpx.get(f"{running_assay.url}/readyz", trust_env=False).is_success
        except httpx.HTTPError:
            return False

    wait_until(lambda: running_assay.pid("gateway") not in (gateway, None) and answers())


def test_what_a_killed_service_had_started_ends_with_it(
    running_assay, wait_until: Callable[..., None], kill: Callable[..., None]
):
    service = running_assay.process("grader")
    wait_until(lambda: len(service.session()) == 2)
    started = service.session()
    kill(service.pid)

    wait_until(lambda: not [process for process in started if process.is_alive()])


def test_a_killed_supervisor_leaves_no_process_and_the_next_up_starts_cleanly(
    assay, wait_until: Callable[..., None], kill: Callable[..., None]
):
    assay.run("detach", "grader=stubborn")
    assert len(assay.processes()) > len(SERVICES) + 2
    kill(assay.running().supervisor.pid)

    wait_until(lambda: assay.processes() == [])

    assert assay.folder.read_running() is None
    assert assay.run("detach").returncode == 0


def test_an_up_right_after_the_supervisor_was_killed_starts_cleanly(
    assay, kill: Callable[..., None]
):
    assay.run("detach")
    left = assay.running().programs
    kill(assay.running().supervisor.pid)

    done = assay.run("detach")

    assert done.returncode == 0, done.stdout + done.stderr
    assert not [program for program in left if program.process.is_alive()]


def test_an_up_after_supervisor_guard_and_postgres_were_killed_starts_cleanly(
    assay, kill: Callable[..., None]
):
    assay.run("detach")
    left = assay.running().programs
    guards = [one for one in assay.processes() if "assay_local.guard" in one.cmdline()]
    numbers = [guard.pid for guard in guards]
    for pid in (*numbers, assay.running().supervisor.pid, assay.pid("postgres")):
        kill(pid)

    done = assay.run("detach")

    assert len(guards) == 1
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [program for program in left if program.process.is_alive()]


def test_a_program_ends_with_the_process_that_started_it(
    tmp_path, wait_until: Callable[..., None], kill: Callable[..., None]
):
    script = (
        "import sys; from pathlib import Path; from assay_local.program import *;"
        "program = Program('sleep', ['sleep', '600']);"
        "print(start_program(program, Path(sys.argv[1])).pid, flush=True); sys.stdin.read()"
    )
    parent = psutil.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")], stdin=-1, stdout=-1
    )
    child = psutil.Process(int(parent.stdout.readline()))
    wait_until(lambda: child.name() == "sleep")

    kill(parent.pid)
    parent.wait()

    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_program_that_is_not_there_says_so_in_its_log(tmp_path):
    process = start_program(Program("none", ["/nowhere/none"]), tmp_path / "log")

    assert process.wait(60) == 127
    assert "/nowhere/none could not be started" in (tmp_path / "log").read_text()
