"""Processes by number and birth: a number that the system gave to another is never signalled."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.02
_ON_LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class ProcessRef:
    """A process: its number, and when it was born in words of the system."""

    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> "ProcessRef | None":
        """The process that has this number now, unless it is dead."""
        born = _birth(pid)
        return None if born is None else cls(pid, born)

    @classmethod
    def current(cls) -> "ProcessRef":
        """This process."""
        this = cls.of(os.getpid())
        if this is None:
            raise RuntimeError("the system's list of processes lacks this one")
        return this

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return _birth(self.pid) == self.born

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it still runs.

        Raises:
            PermissionError: it belongs to another user.
        """
        with suppress(ProcessLookupError):
            if not _ON_LINUX:
                if self.is_alive():
                    os.kill(self.pid, number)
                return
            handle = os.pidfd_open(self.pid)
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def session(self) -> Sequence["ProcessRef"]:
        """The living processes of the session it leads or led, itself included."""
        if _birth(self.pid) not in (self.born, None):
            return ()
        members = (ProcessRef.of(pid) for pid in psutil.pids() if _session(pid) == self.pid)
        return [member for member in members if member is not None]


def wait_for_end(processes: Sequence[ProcessRef], seconds: float) -> Sequence[ProcessRef]:
    """Wait until the processes have ended; returns those that still run after `seconds`."""
    deadline = time.monotonic() + seconds
    while alive := [process for process in processes if process.is_alive()]:
        if time.monotonic() > deadline:
            return alive
        time.sleep(_POLL_SECONDS)
    return ()


def _birth(pid: int) -> str | None:
    if _ON_LINUX:
        return _birth_on_linux(pid)
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None


def _birth_on_linux(pid: int) -> str | None:
    # Ticks since the machine started do not move when its clock is set.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_boot()}:{ticks}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
