"""The data folder of an installation: its paths, its secrets, its lock, and who runs on it."""

import fcntl
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from assay_local.process import ProcessRef

_MASTER_KEYS = "master-key"
_SECRETS = ("admin-token", _MASTER_KEYS, "runner-token")
_CREDENTIALS = "credentials"
_FOLDERS = (_CREDENTIALS, "logs", "nats", "blobs", "registry", "sandboxes")
_POLL_SECONDS = 0.05


class FolderError(RuntimeError):
    """The data folder cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class RunningProgram:
    """A program that a supervisor started."""

    name: str
    process: ProcessRef
    stop_signal: signal.Signals


@dataclass(frozen=True)
class Running:
    """The supervisor on a data folder, its address, and what it started."""

    supervisor: ProcessRef
    url: str
    programs: Sequence[RunningProgram] = ()

    def with_program(self, name: str, program: RunningProgram | None) -> "Running":
        """The same with another process, or none, for the program `name`."""
        others = [other for other in self.programs if other.name != name]
        return replace(self, programs=others if program is None else [*others, program])


class HeldError(RuntimeError):
    """Another process holds the data folder: the supervisor in `running`, or one unknown."""

    def __init__(self, root: Path, running: Running | None) -> None:
        self.running = running
        super().__init__(
            f"another process holds {root}"
            if running is None
            else f"Assay is already running at {running.url} (data folder {root})"
        )


@dataclass(frozen=True)
class DataFolder:
    """Paths of an installation, and what is kept there."""

    root: Path

    @classmethod
    def prepare(cls, root: Path) -> "DataFolder":
        """Make the folder, its secrets and its identity, as far as they are missing.

        It is the user's alone. For root, others may pass through it, since PostgreSQL runs as a
        user of its own and must reach its cluster; the other folders in it stay closed.

        Raises:
            FolderError: it cannot be written, or holds something else.
        """
        folder = cls(root.expanduser().resolve())
        try:
            folder._prepare()
        except OSError as error:
            reason = error.strerror or str(error)
            raise FolderError(
                f"the data folder {folder.root} cannot be used: {reason}; "
                "choose another with --data"
            ) from error
        return folder

    def _prepare(self) -> None:
        if self.root.exists() and not self.identity_file.exists() and any(self.root.iterdir()):
            raise FolderError(
                f"{self.root} is not empty and is no data folder of Assay; "
                "choose another with --data"
            )
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.identity_file.exists():
            _write_private(self.identity_file, json.dumps({"id": uuid4().hex}))
        self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in _FOLDERS:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)
        for name in _SECRETS:
            _keep_secret(self.root / name)

    @property
    def identity_file(self) -> Path:
        """The installation's id and the port of its nats-server."""
        return self.root / "installation.json"

    @property
    def server_file(self) -> Path:
        """The address, for the `assay` command."""
        return self.root / "server.json"

    @property
    def running_file(self) -> Path:
        """The supervisor and what it started."""
        return self.root / "running.json"

    @property
    def installation(self) -> str:
        """The id that sandboxes of this installation are labelled with."""
        return str(_read(self.identity_file)["id"])

    @property
    def nats_port(self) -> int | None:
        """The port that nats-server had last."""
        port = _read(self.identity_file).get("nats_port")
        return port if isinstance(port, int) else None

    def remember_nats_port(self, port: int) -> None:
        """Keep the port, so that nats-server gets the same next time."""
        _write_private(self.identity_file, json.dumps({"id": self.installation, "nats_port": port}))

    def secret(self, name: str) -> str:
        """The value of one of the installation's secrets."""
        return (self.root / name).read_text()

    def add_master_key(self) -> None:
        """Make a master key that is newer than those there are, which go on opening secrets.

        It is on the disk for good when this returns: secrets are kept under it from then on.
        """
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # of two at once, neither may lose the other's key
            keys = self.secret(_MASTER_KEYS).strip()
            _write_private(self.root / _MASTER_KEYS, f"{keys}\n{secrets.token_urlsafe(32)}\n")
            os.fsync(folder)
        finally:
            os.close(folder)

    def credential(self, server: str, user: str) -> str:
        """The password of a user of one of the servers; made when it is first asked for."""
        return _keep_secret(self.root / _CREDENTIALS / f"{server}-{user}")

    def log(self, program: str) -> Path:
        """The log file of a program."""
        return self.root / "logs" / f"{program}.log"

    def announce(self, url: str) -> None:
        """Write the address down for the `assay` command."""
        _write_private(self.server_file, json.dumps({"url": url}))

    def write_running(self, running: Running) -> None:
        """Write down who runs."""
        _write_private(self.running_file, json.dumps(asdict(running)))

    def read_running(self) -> Running | None:
        """Who runs, or ran last and was killed."""
        found = _read(self.running_file)
        try:
            return Running(
                supervisor=ProcessRef(**found["supervisor"]),
                url=found["url"],
                programs=[
                    RunningProgram(
                        name=program["name"],
                        process=ProcessRef(**program["process"]),
                        stop_signal=signal.Signals(program["stop_signal"]),
                    )
                    for program in found["programs"]
                ],
            )
        except (KeyError, TypeError, ValueError):
            return None

    def forget_running(self) -> None:
        """Nobody runs any more."""
        self.running_file.unlink(missing_ok=True)

    @contextmanager
    def lock(self, wait_seconds: float = 0.0) -> Iterator[None]:
        """Hold the folder; the lock ends with the process, whatever ends it.

        Raises:
            HeldError: a supervisor holds it, or another process still after `wait_seconds` (the
                guard of a supervisor that was killed, while it cleans up).
        """
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + wait_seconds
            while not _try_lock(descriptor):
                running = self.read_running()
                if running is not None and running.supervisor.is_alive():
                    raise HeldError(self.root, running)
                if time.monotonic() > deadline:
                    raise HeldError(self.root, None)
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _keep_secret(path: Path) -> str:
    """The secret in a file of mode 0600, which is made with a fresh one if it is missing."""
    if not path.exists():
        _write_private(path, secrets.token_urlsafe(32))
    path.chmod(0o600)
    return path.read_text()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 whole or not at all."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as output:
        output.write(text)
        output.flush()
        os.fsync(output.fileno())
    fresh.replace(path)
