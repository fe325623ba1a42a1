"""A platform of stand-ins, run by the same commands as the real one, on a folder of its own."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from assay_local.embedded import free_port
from assay_local.folder import DataFolder, Running
from assay_local.process import ProcessRef

_DRIVER = Path(__file__).with_name("assay_with_stand_ins.py")


def _wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Return when `condition` holds; fail the test when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true in {seconds} s"
        time.sleep(0.02)


class Assay:
    """The `assay` command on one data folder and port."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.folder = DataFolder(data)
        self.port = free_port()
        self.started: list[subprocess.Popen[str]] = []

    @property
    def url(self) -> str:
        """The address it would have."""
        return f"http://127.0.0.1:{self.port}"

    def run(self, verb: str, behaviours: str = "-") -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return subprocess.run(
            self._command(verb, behaviours),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def start(self, behaviours: str = "-") -> subprocess.Popen[str]:
        """Start `assay up` in the foreground."""
        process = subprocess.Popen(
            self._command("up", behaviours),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def running(self) -> Running:
        """The supervisor and its programs."""
        running = self.folder.read_running()
        assert running is not None
        return running

    def process(self, name: str) -> ProcessRef:
        """The process of a program."""
        return next(one.process for one in self.running().programs if one.name == name)

    def pid(self, name: str) -> int | None:
        """The process of a program, None while it has none."""
        found = [one for one in self.running().programs if one.name == name]
        return found[0].process.pid if found else None

    def processes(self) -> list[psutil.Process]:
        """Every process that belongs to this data folder."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                ours = str(self.data) in " ".join(process.cmdline())
                if process.status() != psutil.STATUS_ZOMBIE and (
                    ours or process.cwd().startswith(str(self.data))
                ):
                    found.append(process)
        return found

    def clean(self) -> None:
        """Stop everything."""
        self.run("down")
        for process in self.started:
            process.kill()
            process.communicate()

    def _command(self, verb: str, behaviours: str) -> list[str]:
        return [sys.executable, str(_DRIVER), verb, behaviours, str(self.data), str(self.port)]


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Waits for a condition, with a deadline."""
    return _wait_until


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    """A folder outside pytest's own, which another session closes to PostgreSQL's user."""
    folder = Path(tempfile.mkdtemp(prefix="assay-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def assay() -> Iterator[Assay]:
    """A platform that is not running yet."""
    folder = Path(tempfile.mkdtemp(prefix="assay-test-"))
    assay = Assay(folder / "data")
    yield assay
    assay.clean()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def running_assay(short_folder: Path) -> Iterator[Assay]:
    """A platform that runs in the background, for several tests."""
    assay = Assay(short_folder / "data")
    done = assay.run("detach")
    assert done.returncode == 0, done.stdout + done.stderr
    yield assay
    assay.clean()


@pytest.fixture
def kill() -> Callable[[int | None], None]:
    """Kills a process without asking it."""

    def kill(pid: int | None) -> None:
        assert pid is not None
        psutil.Process(pid).send_signal(signal.SIGKILL)

    return kill
