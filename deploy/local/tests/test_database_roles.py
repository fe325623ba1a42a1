"""Each service owns its own schema and sees no other: PostgreSQL itself refuses the rest."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from pydantic import SecretStr
from sqlalchemy import text

from assay_kernel.database import READER_ROLE, SQL_ROLE, open_reader
from assay_kernel.migrations import migrate
from assay_local.embedded import (
    create_database,
    database_address,
    login_address,
    postgres_program,
    start_program,
)
from assay_local.provision import WITH_SCHEMA, provision_database, role_of, schema_of

SUPERUSER = "password-of-the-superuser"
PASSWORDS = {role: f"password-of-{role}" for role in (*map(role_of, WITH_SCHEMA), SQL_ROLE)}


@contextmanager
def _running(cluster: Path, password: str | None) -> Iterator[str]:
    program, address = postgres_program(cluster, password)
    log = cluster.with_name("log")
    process = start_program(program, log)
    try:
        while not program.is_ready():
            assert process.poll() is None, log.read_text()
        yield address
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def _migrate(address: str, service: str) -> None:
    package = schema_of(service)
    migrate(SecretStr(address), package, import_module(f"{package}.tables").metadata)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """A cluster as a version without roles left it: every table is the superuser's."""
    folder = Path(tempfile.mkdtemp(prefix="assay-test-"))
    with _running(folder / "pg", None) as address:
        older = create_database(address, "older")
        for service in WITH_SCHEMA:
            _migrate(older, service)
        with psycopg.connect(older) as connection:
            connection.execute("INSERT INTO gateway.run_names VALUES ('w', 'kept', %s)", ["0" * 32])
            connection.execute("CREATE SCHEMA grader_shadow_grades")
            connection.execute("CREATE TABLE grader_shadow_grades.tries (slot uuid)")
    yield folder / "pg"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server(cluster) -> Iterator[str]:
    """The same cluster, now with passwords."""
    with _running(cluster, SUPERUSER) as address:
        yield address


@pytest.fixture(scope="module", params=["fresh", "older"])
def address(request, server) -> str:
    """A database that was made just now, and one of an older version."""
    address = create_database(server, request.param)
    for _ in range(2):  # the second time changes nothing
        provision_database(address, PASSWORDS)
    for service in WITH_SCHEMA:
        _migrate(_as(address, role_of(service)), service)
    return address


def _as(address: str, role: str) -> str:
    return login_address(address, role, PASSWORDS[role])


def _refused(connection: psycopg.Connection, statement: str) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
    except InsufficientPrivilege:
        return True
    return False


def test_nobody_gets_in_without_their_password(server):
    without = database_address(server.replace(f":{SUPERUSER}", ""), "older")
    for role in ("postgres", *PASSWORDS):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(without.replace("postgres@", f"{role}@"))
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(login_address(server, role, "guessed"))


@pytest.mark.parametrize("service", WITH_SCHEMA)
def test_a_service_does_everything_in_its_schema_and_nothing_in_anothers(address, service):
    with psycopg.connect(_as(address, role_of(service))) as connection:
        for owner in WITH_SCHEMA:
            schema, foreign = schema_of(owner), owner != service
            statements = [
                f"SELECT * FROM {schema}.checkpoints",
                f"INSERT INTO {schema}.checkpoints VALUES ('p', 's', 1)",
                f"UPDATE {schema}.checkpoints SET sequence = 7",
                f"DELETE FROM {schema}.outbox",
                f"TRUNCATE {schema}.outbox",
                f"ALTER TABLE {schema}.checkpoints ADD COLUMN more int",
                f"DROP TABLE {schema}.checkpoints",
                f"CREATE TABLE {schema}.more (x int)",
                f"CREATE VIEW {schema}.seen AS SELECT 1",
                f"GRANT ALL ON {schema}.checkpoints TO PUBLIC",
                f"DROP SCHEMA {schema} CASCADE",
            ]
            assert [_refused(connection, one) for one in statements] == [foreign] * len(statements)


@pytest.mark.parametrize("service", WITH_SCHEMA)
def test_no_service_becomes_another_or_rises_above_itself(address, service):
    others = {role_of(one) for one in WITH_SCHEMA if one != service} | {SQL_ROLE, "postgres"}
    with psycopg.connect(_as(address, role_of(service))) as connection:
        assert {one for one in others if not _refused(connection, f"SET ROLE {one}")} == set()
        assert _refused(connection, f"SET ROLE {READER_ROLE}") == (service != "gateway")
        for statement in (
            "CREATE ROLE more",
            "CREATE DATABASE more",
            "ALTER ROLE postgres PASSWORD NULL",
            f"ALTER ROLE {SQL_ROLE} PASSWORD NULL",
            "SELECT * FROM pg_authid",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('postgresql.conf')",
            "CREATE TABLE public.more (x int)",
            "ALTER SYSTEM SET work_mem = '1GB'",
        ):
            if not statement.startswith(("CREATE DATABASE", "ALTER SYSTEM")):
                assert _refused(connection, statement), statement
    with psycopg.connect(_as(address, role_of(service)), autocommit=True) as connection:
        for statement in (b"CREATE DATABASE more", b"ALTER SYSTEM SET work_mem = '1GB'"):
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement)


async def test_the_gateway_reads_every_schema_as_the_reader_and_writes_none(address):
    reader = open_reader(SecretStr(_as(address, role_of("gateway"))), "gateway")
    async with reader.connect() as connection:
        for service in WITH_SCHEMA:
            await connection.execute(text(f"SELECT * FROM {schema_of(service)}.checkpoints"))
    for service in WITH_SCHEMA:
        async with reader.connect() as connection:
            await connection.execute(text("SET default_transaction_read_only = off"))
            await connection.commit()
            with pytest.raises(Exception, match="permission denied"):
                await connection.execute(text(f"DELETE FROM {schema_of(service)}.checkpoints"))
    await reader.dispose()


def test_who_asks_for_people_sees_no_schema_and_no_catalogue_and_leaves_nothing(address):
    writing = "-c default_transaction_read_only=off"  # what is refused is so for want of rights
    with psycopg.connect(_as(address, SQL_ROLE), options=writing) as connection:
        for statement in (
            *(f"SELECT * FROM {schema_of(service)}.checkpoints" for service in WITH_SCHEMA),
            "SELECT * FROM pg_class",
            "SELECT * FROM pg_stat_activity",
            "SELECT * FROM information_schema.tables",
            "SELECT set_config('work_mem', '1GB', false)",
            "SELECT pg_advisory_lock(1)",
            "SELECT pg_terminate_backend(1)",
            "SELECT pg_sleep(1)",
            "SELECT pg_notify('a', 'b')",
            "SELECT lo_creat(-1)",
            "SELECT pg_stat_get_activity(NULL)",
            "CREATE TEMPORARY TABLE more (x int)",
            "CREATE SCHEMA more",
            "CREATE TABLE public.more (x int)",
            f"SET ROLE {READER_ROLE}",
        ):
            assert _refused(connection, statement), statement


def test_what_an_older_version_kept_is_still_there(server):
    with psycopg.connect(_as(database_address(server, "older"), role_of("gateway"))) as connection:
        assert connection.execute("SELECT name FROM gateway.run_names").fetchall() == [("kept",)]
    with psycopg.connect(_as(database_address(server, "older"), role_of("grader"))) as connection:
        connection.execute("DROP SCHEMA grader_shadow_grades CASCADE")
