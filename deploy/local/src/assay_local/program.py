"""A program to run, described: command, environment, user, how it is stopped and seen ready.

The supervisor and the tests start programs alike, with `start_program`.
"""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launch.py")
_SYSTEM_VARIABLES = ("PATH", "HOME", "TZ", "TMPDIR")


def system_environment() -> dict[str, str]:
    """What any program needs of the caller's environment."""
    return {name: os.environ[name] for name in _SYSTEM_VARIABLES if name in os.environ}


@dataclass(frozen=True)
class Program:
    """A process to run.

    `environment` is all it gets; `user` is whom to become (None: the same); `stop_signal` asks it
    to stop, and after `grace_seconds` its whole process group is killed.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=system_environment, repr=False)
    user: str | None = None
    folder: Path = Path("/")
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 10.0
    is_ready: Callable[[], bool] = lambda: True


def start_program(program: Program, log: Path) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own, its output appended to `log`.

    It gets its stop signal when the thread that called this ends, so call it from one that lasts.
    """
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  a program of ours
            launch_command(program.command, program.user, program.stop_signal),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
        )


def launch_command(
    command: Sequence[str], user: str | None, death_signal: signal.Signals
) -> list[str]:
    """The command that executes `command` as `user`, tied to the life of this process."""
    return [
        *(sys.executable, "-I", "-S", str(_LAUNCHER)),
        *(str(os.getpid()), str(int(death_signal)), _numeric(user), "--"),
        *command,
    ]


def _numeric(user: str | None) -> str:
    if user is None:
        return "-"
    entry = pwd.getpwnam(user)
    return f"{entry.pw_uid}:{entry.pw_gid}"
