"""Runs the platform on a data folder: prepares what it consists of and hands it to a supervisor."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from assay_contracts.commands import SERVICES
from assay_kernel.database import SQL_ROLE
from assay_kernel.permissions import OPERATOR, USERS
from assay_local.cluster import ClusterError
from assay_local.embedded import (
    create_database,
    database_address,
    free_port,
    login_address,
    nats_program,
    postgres_program,
)
from assay_local.environment import Addresses, passed_environment, service_environment
from assay_local.folder import DataFolder, FolderError, HeldError, Running
from assay_local.guard import guarded
from assay_local.leftovers import clean_up, reap_sandboxes
from assay_local.logs import open_event_log, rotate
from assay_local.process import ProcessRef
from assay_local.program import Program
from assay_local.provision import (
    WITH_SCHEMA,
    provision_database,
    provision_streams,
    role_of,
)
from assay_local.supervisor import Plan, Supervisor, Telling

_DATABASE = "assay"
_SERVICE_GRACE_SECONDS = 20.0
_GUARD_SECONDS = 60.0


class NotStartedError(RuntimeError):
    """The platform cannot be started here; the message says why and what to do."""


def assay_services(
    folder: DataFolder, addresses: Addresses, caller: Mapping[str, str]
) -> Sequence[Program]:
    """Every service of the platform as its own program."""
    return [
        Program(
            name=service,
            command=[sys.executable, "-P", "-m", service.replace("-", "_")],
            environment=service_environment(service, folder, addresses, caller),
            folder=folder.root,
            grace_seconds=_SERVICE_GRACE_SECONDS,
        )
        for service in SERVICES
    ]


def run_platform(root: Path, port: int, telling: Telling) -> int:
    """Run the platform until it is stopped; returns the exit code.

    Raises:
        NotStartedError: it runs already, the port is taken, or the folder cannot be used.
    """
    try:
        folder = DataFolder.prepare(root)
        with folder.lock(_GUARD_SECONDS):
            _end_leftovers(folder, telling)
            _require_free(port)
            url = f"http://127.0.0.1:{port}"
            folder.write_running(Running(supervisor=ProcessRef.current(), url=url))
            try:
                return _run(folder, port, telling)
            finally:
                folder.forget_running()
    except (FolderError, HeldError, ClusterError) as error:
        raise NotStartedError(str(error)) from error
    except OSError as error:
        raise NotStartedError(f"Assay could not start on {root}: {error}") from error


def _run(folder: DataFolder, port: int, telling: Telling) -> int:
    rotate(folder.log("supervisor"))
    log = open_event_log(folder.log("supervisor"))
    telling.line(f"Starting Assay on {folder.root}")
    plan = _plan(folder, port)
    folder.announce(plan.url)
    with guarded(folder):
        return asyncio.run(Supervisor(folder, plan, telling, log).run())


def _plan(folder: DataFolder, port: int) -> Plan:
    """Servers that the caller's environment names elsewhere are not started here."""
    caller = dict(os.environ)
    embedded = [
        start(folder)
        for variable, start in (
            ("ASSAY_NATS_URL", _embedded_nats),
            ("ASSAY_DATABASE_URL", _embedded_postgres),
        )
        if variable not in caller
    ]
    known = {server.program.name: server.addresses for server in embedded}
    addresses = Addresses(
        nats=known.get("nats-server", {}), database=known.get("postgres", {}), port=port
    )

    def prepare() -> None:
        for server in embedded:
            server.prepare()

    return Plan(
        url=addresses.url,
        servers=[server.program for server in embedded],
        prepare=prepare,
        services=assay_services(folder, addresses, caller),
        reap=lambda: reap_sandboxes(folder, passed_environment(caller)),
    )


@dataclass(frozen=True)
class EmbeddedServer:
    """A server of our own: what to do once it runs, and its address for each user."""

    program: Program
    prepare: Callable[[], None]
    addresses: Mapping[str, str] = field(repr=False)


def _embedded_nats(folder: DataFolder) -> EmbeddedServer:
    port = folder.nats_port
    if port is None or not _is_free(port):
        port = free_port()
        folder.remember_nats_port(port)
    passwords = {user: folder.credential("nats", user) for user in USERS}
    addresses = {
        user: f"nats://{user}:{password}@127.0.0.1:{port}" for user, password in passwords.items()
    }
    return EmbeddedServer(
        nats_program(folder.root / "nats", port, passwords),
        partial(provision_streams, addresses[OPERATOR]),
        addresses,
    )


def _embedded_postgres(folder: DataFolder) -> EmbeddedServer:
    superuser = folder.credential("postgres", "superuser")
    program, server = postgres_program(folder.root / "postgres", superuser)
    roles = {service: role_of(service) for service in WITH_SCHEMA} | {SQL_ROLE: SQL_ROLE}
    passwords = {role: folder.credential("postgres", role) for role in roles.values()}
    database = database_address(server, _DATABASE)

    def prepare() -> None:
        create_database(server, _DATABASE)
        provision_database(database, passwords)

    addresses = {
        user: login_address(database, role, passwords[role]) for user, role in roles.items()
    }
    return EmbeddedServer(program, prepare, addresses)


def _end_leftovers(folder: DataFolder, telling: Telling) -> None:
    ended = clean_up(folder, passed_environment(os.environ))
    if ended:
        telling.line(f"Ended what a killed supervisor had left: {', '.join(ended)}")


def _require_free(port: int) -> None:
    if not _is_free(port):
        raise NotStartedError(
            f"port {port} is taken by another program; choose another with --port"
        )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
