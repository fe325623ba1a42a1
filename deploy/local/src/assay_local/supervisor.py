"""Runs the platform on one machine: starts all in order, keeps it running, stops it in order."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx
import structlog

from assay_local.folder import DataFolder, Running, RunningProgram
from assay_local.keeper import Keeper, within
from assay_local.leftovers import SERVERS
from assay_local.logs import last_lines
from assay_local.process import ProcessRef
from assay_local.program import Program
from assay_local.readiness import ask_readiness

START_SECONDS = 60.0
MOST_DEATHS = 5
_POLL_SECONDS = 0.1
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StartError(RuntimeError):
    """The platform did not become ready; the message says why, with the last lines of the logs."""


class InterruptedStartError(RuntimeError):
    """Somebody asked to stop before the platform was ready."""


@dataclass(frozen=True)
class Plan:
    """What to run: the servers, what to do when they are up, then the services."""

    url: str
    servers: Sequence[Program]
    prepare: Callable[[], object]
    services: Sequence[Program]
    reap: Callable[[], None]


@dataclass(frozen=True)
class Telling:
    """How the supervisor speaks to who started it: `line` for lines, `ready` once all is ready."""

    line: Callable[[str], None]
    ready: Callable[[], None]


class Supervisor:
    """The platform while it runs, from `run` until somebody asks it to stop."""

    def __init__(
        self,
        folder: DataFolder,
        plan: Plan,
        telling: Telling,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._telling = telling
        self._log = log
        self._running = Running(supervisor=ProcessRef.current(), url=plan.url)
        self._keepers: dict[str, Keeper] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_asked = asyncio.Event()
        self._hurry = asyncio.Event()
        self._asked_at: float | None = None

    async def run(self) -> int:
        """Run the platform; returns the exit code once everything has stopped."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._ask_to_stop, number)
        loop.add_signal_handler(signal.SIGCHLD, self._look_at_children)
        try:
            await self._start()
            self._telling.ready()
            await self._stop_asked.wait()
        except StartError as error:
            self._tell(str(error))
            return 1
        except InterruptedStartError:
            self._tell("stopped before it was ready")
            return 1
        finally:
            await self._stop()
        return 0

    async def _start(self) -> None:
        began = time.monotonic()
        deadline = began + START_SECONDS
        self._write_running()
        for server in self._plan.servers:
            self._keep(server)
        await self._until(self._plan.servers, self._servers_missing, deadline)
        try:
            await asyncio.to_thread(self._plan.prepare)
        except Exception as error:
            names = [server.name for server in self._plan.servers]
            raise StartError(self._with_logs(f"its servers: {error}", names)) from error
        for service in self._plan.services:
            self._keep(service)
        async with httpx.AsyncClient(base_url=self._plan.url, trust_env=False) as client:
            names = [service.name for service in self._plan.services]

            async def services_missing() -> Sequence[str]:
                return (await ask_readiness(client, names)).missing

            await self._until(self._plan.services, services_missing, deadline)
        seconds = round(time.monotonic() - began, 1)
        self._note("ready", seconds=seconds)
        self._telling.line(f"Assay is ready after {seconds} s.")

    async def _servers_missing(self) -> Sequence[str]:
        return [
            server.name
            for server in self._plan.servers
            if self._keepers[server.name].child is None
            or not await asyncio.to_thread(server.is_ready)
        ]

    async def _until(
        self,
        programs: Sequence[Program],
        ask: Callable[[], Awaitable[Sequence[str]]],
        deadline: float,
    ) -> None:
        """Wait until nothing is missing, and tell of each program that becomes ready."""
        waiting = [program.name for program in programs]
        while missing := await ask():
            self._announce(waiting, missing)
            waiting = [name for name in waiting if name in missing]
            self._give_up_without_hope(missing, deadline)
            if await within(self._stop_asked.wait(), _POLL_SECONDS):
                raise InterruptedStartError
        self._announce(waiting, missing)

    def _announce(self, waiting: Sequence[str], missing: Sequence[str]) -> None:
        for name in waiting:
            if name not in missing:
                self._telling.line(f"  {name:<15} ready")

    def _give_up_without_hope(self, missing: Sequence[str], deadline: float) -> None:
        dying = [name for name, keeper in self._keepers.items() if keeper.deaths >= MOST_DEATHS]
        if dying:
            message = f"{' and '.join(dying)} ended again and again"
            raise StartError(self._with_logs(message, dying))
        if time.monotonic() > deadline:
            message = f"not ready after {START_SECONDS:.0f} s: {', '.join(missing)}"
            raise StartError(self._with_logs(message, missing))

    def _with_logs(self, message: str, programs: Sequence[str]) -> str:
        parts = [f"Assay could not start: {message}"]
        for name in programs:
            log = self._folder.log(name)
            if lines := last_lines(log):
                parts += ["", f"last lines of {log}:", *(f"  {line}" for line in lines)]
        return "\n".join(parts)

    def _keep(self, program: Program) -> None:
        keeper = Keeper(program, self._folder.log(program.name), self._program_changed, self._tell)
        self._keepers[program.name] = keeper
        task = asyncio.create_task(keeper.run(), name=program.name)
        task.add_done_callback(self._keeper_ended)
        self._tasks.append(task)

    def _keeper_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._note("keeper-failed", program=task.get_name(), exc_info=error)
            self._stop_asked.set()

    async def _stop(self) -> None:
        began = time.monotonic()
        self._tell("stopping")
        services = [keeper for name, keeper in self._keepers.items() if name not in SERVERS]
        await asyncio.gather(*(keeper.stop(self._hurry) for keeper in services))
        if services:
            await asyncio.to_thread(self._plan.reap)
        for name in SERVERS:
            if name in self._keepers:
                await self._keepers[name].stop(self._hurry)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._folder.forget_running()
        self._tell(f"stopped after {time.monotonic() - began:.1f} s")

    def _ask_to_stop(self, number: signal.Signals) -> None:
        # A terminal, and who runs the command in it, may pass on one key as two signals.
        again = self._asked_at is not None and time.monotonic() - self._asked_at > 1
        self._asked_at = self._asked_at or time.monotonic()
        self._note("asked-to-stop", signal=number.name)
        self._stop_asked.set()
        if again:
            self._hurry.set()

    def _look_at_children(self) -> None:
        for keeper in self._keepers.values():
            if keeper.child is not None:
                keeper.child.look()

    def _program_changed(self, program: Program, process: ProcessRef | None) -> None:
        now = (
            None if process is None else RunningProgram(program.name, process, program.stop_signal)
        )
        self._running = self._running.with_program(program.name, now)
        self._write_running()
        if process is not None:
            self._note("started", program=program.name, pid=process.pid)

    def _write_running(self) -> None:
        try:
            self._folder.write_running(self._running)
        except OSError as error:
            self._note("running-file-not-written", error=str(error))

    def _tell(self, line: str) -> None:
        self._telling.line(line)
        self._note(line)

    def _note(self, event: str, **fields: object) -> None:
        with suppress(OSError):  # a full disk must not end what keeps the others running
            self._log.info(event, **fields)
