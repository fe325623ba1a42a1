"""Keeps one program running: starts it, starts it again when it ends, and stops it when asked."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay_local.logs import rotate
from assay_local.process import ProcessRef
from assay_local.program import Program, start_program

FIRST_DELAY_SECONDS = 0.2
LONGEST_DELAY_SECONDS = 10.0
LONG_LIFE_SECONDS = 30.0


class Child:
    """A process of ours. It is reaped by `look`, after its whole group was killed.

    Until it is reaped its number stays its own, so that no other group can be hit.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.exited = asyncio.Event()

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`, None while it runs."""
        return self._process.returncode

    def look(self) -> None:
        """See whether it has ended. To be called whenever a child has."""
        if self.exited.is_set():
            return
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        self.kill_group()
        self._process.wait()
        self.exited.set()

    def send(self, number: signal.Signals) -> None:
        """Signal the process alone."""
        if not self.exited.is_set():
            self._process.send_signal(number)

    def kill_group(self) -> None:
        """Kill it and what it started in its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Keeper:
    """One program, kept running from `run` until `stop`.

    `changed` is called with each new process and with None when it has ended; `tell` with what a
    person should know.
    """

    def __init__(
        self,
        program: Program,
        log: Path,
        changed: Callable[[Program, ProcessRef | None], None],
        tell: Callable[[str], None],
    ) -> None:
        self.program = program
        self.log = log
        self.deaths = 0
        self.child: Child | None = None
        self._changed = changed
        self._tell = tell
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Start the program, again and again, until it is stopped."""
        delay = FIRST_DELAY_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            ending = await self._live_once()
            if self._stopping.is_set():
                return
            self.deaths += 1
            if time.monotonic() - started > LONG_LIFE_SECONDS:
                delay = FIRST_DELAY_SECONDS
            self._tell(f"{self.program.name} {ending}; it is started again in {delay:.1f} s")
            await within(self._stopping.wait(), delay)
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)

    async def stop(self, hurry: asyncio.Event) -> None:
        """Ask the program to stop; kill it after its time of grace, or once `hurry` is set."""
        self._stopping.set()
        child = self.child
        if child is None:
            return
        child.send(self.program.stop_signal)
        await _first(child.exited.wait(), hurry.wait(), seconds=self.program.grace_seconds)
        if not child.exited.is_set():
            self._tell(f"{self.program.name} did not stop in time and is killed")
            child.kill_group()
        await child.exited.wait()

    async def _live_once(self) -> str:
        try:
            rotate(self.log)
            process = start_program(self.program, self.log)
        except OSError as error:
            return f"could not be started ({error})"
        self.child = Child(process)
        self._changed(self.program, ProcessRef.of(process.pid))
        await self.child.exited.wait()
        code = self.child.returncode
        self.child = None
        self._changed(self.program, None)
        return f"ended ({_meaning(code)})"


async def within(awaitable: Awaitable[object], seconds: float) -> bool:
    """Whether it came to its end within the time; it is cancelled if not."""
    try:
        await asyncio.wait_for(awaitable, seconds)
    except TimeoutError:
        return False
    return True


async def _first(*awaited: Coroutine[Any, Any, object], seconds: float) -> None:
    tasks = [asyncio.ensure_future(one) for one in awaited]
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _meaning(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
