"""The embedded servers: how to prepare nats-server and PostgreSQL from their wheels.

Each is described as a `Program`. Both listen on loopback or on a socket alone.
"""

import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg

from assay_kernel.permissions import server_authorization
from assay_local.cluster import (
    POSTGRES,
    ask_for_passwords,
    end_stale_postgres,
    prepare_cluster,
    prepare_sockets,
    server_user,
)
from assay_local.program import Program, start_program, system_environment

_PORT = 5432  # names the socket; nothing listens on it
_OPTIONS = {
    "port": str(_PORT),
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
}


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def nats_program(folder: Path, port: int, passwords: Mapping[str, str] | None = None) -> Program:
    """nats-server with JetStream in `folder`, on loopback at `port`.

    It lets in the users that `passwords` names, each with its permissions; without, anybody.

    The server acknowledges a message when it is written, and syncs to disk every two seconds: a
    crash of the process loses nothing, a crash of the machine at most that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nats.conf"
    config.touch(mode=0o600)
    authorization = "" if passwords is None else server_authorization(passwords)
    config.write_text(
        f"""
server_name: assay
listen: "127.0.0.1:{port}"
max_payload: 1MB
jetstream {{
  store_dir: {_nats_quoted(str((folder / "jetstream").resolve()))}
  sync_interval: "2s"
}}
{authorization}"""
    )
    return Program(
        name="nats-server",
        command=[str(_executable("nats-server")), "--config", str(config.resolve())],
        is_ready=lambda: _answers(port),
    )


def postgres_program(folder: Path, password: str | None = None) -> tuple[Program, str]:
    """PostgreSQL with its cluster in `folder`, and the address of its `postgres` database.

    With `password`, which is the superuser's, everybody needs one; without, nobody does. As root it
    runs as a user of its own, since PostgreSQL refuses root. It listens on a socket that this user
    alone may open. No other PostgreSQL may be using `folder`: one that is left over from before is
    ended.

    Raises:
        ClusterError: the cluster cannot be made.
    """
    folder = folder.resolve()
    user = server_user()
    prepare_cluster(folder, user)
    end_stale_postgres(folder)
    sockets = prepare_sockets(folder, user)
    options = {**_OPTIONS, "unix_socket_directories": str(sockets)}
    login = "postgres"
    if password is not None:
        options["hba_file"] = str(ask_for_passwords(folder, user, password))
        login = f"postgres:{quote(password, safe='')}"
    address = f"postgresql://{login}@/postgres?host={quote(str(sockets), safe='')}&port={_PORT}"
    command = [str(POSTGRES / "postgres"), "-D", str(folder)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]

    def is_ready() -> bool:
        return _accepts(address)

    return Program(
        name="postgres",
        command=command,
        environment={**system_environment(), "LC_ALL": "C"},
        user=user,
        stop_signal=signal.SIGINT,
        grace_seconds=20.0,
        is_ready=is_ready,
    ), address


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
    return database_address(address, name)


def database_address(address: str, name: str) -> str:
    """The address of another database of the same server."""
    return address.replace("@/postgres?", f"@/{name}?")


def login_address(address: str, role: str, password: str) -> str:
    """The same address for another role."""
    return f"postgresql://{role}:{quote(password, safe='')}@{address.rpartition('@')[2]}"


def _executable(name: str) -> Path:
    beside = Path(sys.executable).with_name(name)
    if beside.exists():
        return beside
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed; run the bootstrap again")
    return Path(found)


def _nats_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
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


__all__ = [
    "Program",
    "create_database",
    "database_address",
    "free_port",
    "login_address",
    "nats_program",
    "postgres_program",
    "start_program",
]
