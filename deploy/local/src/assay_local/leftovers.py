"""What a killed supervisor left behind: its programs and their sandboxes, ended in order."""

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from assay_local.folder import DataFolder, RunningProgram
from assay_local.process import wait_for_end

SERVERS = ("postgres", "nats-server")
"""The servers, in the order in which they are stopped after the services."""

_GRACE_SECONDS = 10.0
_KILLED_SECONDS = 5.0
_REAP_SECONDS = 120.0


def clean_up(folder: DataFolder, environment: Mapping[str, str]) -> Sequence[str]:
    """End everything a killed supervisor left; returns the names of what still ran.

    The caller holds the folder's lock.
    """
    running = folder.read_running()
    if running is None:
        return ()
    by_name = {program.name: program for program in running.programs}
    servers = [by_name.pop(name) for name in SERVERS if name in by_name]
    ended = list(_end(list(by_name.values())))
    reap_sandboxes(folder, environment)
    for server in servers:
        ended += _end([server])
    folder.forget_running()
    return ended


def reap_sandboxes(folder: DataFolder, environment: Mapping[str, str]) -> None:
    """Remove the sandboxes that no runner of this installation holds any more."""
    if importlib.util.find_spec("sandbox_runner.reap") is None:
        return
    command = [
        *(sys.executable, "-P", "-m", "sandbox_runner.reap"),
        *("--scratch", str(folder.root / "sandboxes"), "--installation", folder.installation),
    ]
    with folder.log("sandbox-runner").open("ab") as output:
        try:
            subprocess.run(  # noqa: S603  a program of ours
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder.root,
                timeout=_REAP_SECONDS,
            )
        except subprocess.TimeoutExpired:
            output.write(b"the sandboxes could not be removed in time\n")


def _end(programs: Sequence[RunningProgram]) -> Sequence[str]:
    alive = [program for program in programs if program.process.is_alive()]
    for program in alive:
        program.process.send(program.stop_signal)
    wait_for_end([program.process for program in alive], _GRACE_SECONDS)
    remains = [member for program in programs for member in program.process.session()]
    for member in remains:
        member.send(signal.SIGKILL)
    wait_for_end(remains, _KILLED_SECONDS)
    return [program.name for program in alive]
