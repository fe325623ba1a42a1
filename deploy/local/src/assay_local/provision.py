"""What the supervisor makes before the services start, so that none of them needs the right to.

In PostgreSQL: a login role for each service, which owns its own schema and sees no other; the role
`assay_reader`, which the gateway's may become; and `assay_sql`, under which people's queries run.
What PostgreSQL lets everybody do (look into its catalogue, signal other sessions, take locks, make
temporary tables) is left to the services alone. In NATS: the streams.
"""

import asyncio
from collections.abc import Mapping

import nats
import psycopg
from psycopg import sql

from assay_contracts.commands import SERVICES
from assay_kernel.database import READER_ROLE, SQL_ROLE
from assay_kernel.permissions import OPERATOR, inbox_prefix
from assay_kernel.streams import ensure_streams

WITH_SCHEMA = tuple(service for service in SERVICES if service != "sandbox-runner")
"""The services that have a schema in the database."""

_GROUP = "assay_service"

_SQL_LIMITS = (
    "CONNECTION LIMIT 20",
    "SET temp_file_limit = '256MB'",
    "SET statement_timeout = '10min'",
    "SET default_transaction_read_only = on",
)
"""What holds for people's queries whatever the gateway asks for, which may be less."""

_HAND_OVER = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT n.nspname FROM pg_namespace n
        WHERE n.nspname = {schema} OR starts_with(n.nspname, {schema} || '_shadow_')
    LOOP
        EXECUTE format('ALTER SCHEMA %I OWNER TO %I', one.nspname, {role});
    END LOOP;
    FOR one IN
        SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE (n.nspname = {schema} OR starts_with(n.nspname, {schema} || '_shadow_'))
            AND c.relkind IN ('r', 'p') AND c.relowner <> {role}::regrole
    LOOP
        EXECUTE format('ALTER TABLE %I.%I OWNER TO %I', one.nspname, one.relname, {role});
    END LOOP;
END $$
"""
"""Makes a role the owner of its schema and of what an interrupted rebuild left, tables and all."""

_CLOSE_CATALOGUE = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass AS name FROM pg_class c
        WHERE c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
            AND c.relkind IN ('r', 'v') AND has_table_privilege('public', c.oid, 'SELECT')
    LOOP
        EXECUTE format('REVOKE SELECT ON %s FROM PUBLIC', one.name);
        EXECUTE format('GRANT SELECT ON %s TO {group}', one.name);
    END LOOP;
    FOR one IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
            AND (p.provolatile = 'v' OR p.proname ~ '^(pg_stat_get_|pg_lock|pg_show_|.*_to_xml)')
            AND p.proname NOT IN ('random', 'random_normal', 'gen_random_uuid', 'clock_timestamp')
            AND NOT 'internal'::regtype = ANY (p.proargtypes)
            AND has_function_privilege('public', p.oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one.name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {group}', one.name);
    END LOOP;
END $$
"""
"""Leaves the catalogue, and every function that has an effect or tells of others, to services."""


def role_of(service: str) -> str:
    """The login role of a service."""
    return f"assay_{schema_of(service)}"


def schema_of(service: str) -> str:
    """The schema that a service owns."""
    return service.replace("-", "_")


def provision_database(address: str, passwords: Mapping[str, str]) -> None:
    """Make every role, its schema and its rights, as far as they are missing.

    Tables that belong to somebody else, as those of an older version do, change their owner.

    Args:
        address: of the platform's database, as its superuser.
        passwords: of each role that may log in.
    """
    with psycopg.connect(address) as connection:
        for role in (_GROUP, READER_ROLE):
            _ensure_role(connection, role)
        for role, password in passwords.items():
            _ensure_role(connection, role)
            _set_password(connection, role, password)
        _reserve_database(connection)
        for service in WITH_SCHEMA:
            _give_schema(connection, role_of(service), schema_of(service))
        _run(connection, "GRANT {} TO {}", _GROUP, READER_ROLE)
        _run(connection, "GRANT {} TO {} WITH INHERIT FALSE", READER_ROLE, role_of("gateway"))
        _run(connection, "GRANT CONNECT ON DATABASE {} TO {}", connection.info.dbname, SQL_ROLE)
        for limit in _SQL_LIMITS:
            _run(connection, f"ALTER ROLE {{}} {limit}", SQL_ROLE)
        connection.execute(sql.SQL(_CLOSE_CATALOGUE).format(group=sql.SQL(_GROUP)))


def _ensure_role(connection: psycopg.Connection, role: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    if known is None:
        _run(connection, "CREATE ROLE {} NOLOGIN", role)


def _set_password(connection: psycopg.Connection, role: str, password: str) -> None:
    # Hashed here, so that the password itself is in no statement that the server may log.
    hashed = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    connection.execute(
        sql.SQL("ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}").format(
            sql.Identifier(role), sql.Literal(hashed.decode())
        )
    )


def _reserve_database(connection: psycopg.Connection) -> None:
    """Leave the database to the services: nobody connects or makes anything by default."""
    name = connection.info.dbname
    _run(connection, "REVOKE ALL ON DATABASE {} FROM PUBLIC", name)
    _run(connection, "REVOKE ALL ON SCHEMA {} FROM PUBLIC", "public")
    for service in WITH_SCHEMA:
        # A rebuild folds into a schema of its own, which the service makes.
        _run(connection, "GRANT CONNECT, CREATE ON DATABASE {} TO {}", name, role_of(service))


def _give_schema(connection: psycopg.Connection, role: str, schema: str) -> None:
    _run(connection, "GRANT {} TO {}", _GROUP, role)
    _run(connection, "CREATE SCHEMA IF NOT EXISTS {}", schema)
    connection.execute(
        sql.SQL(_HAND_OVER).format(schema=sql.Literal(schema), role=sql.Literal(role))
    )


def _run(connection: psycopg.Connection, statement: str, *names: str) -> None:
    quoted = [sql.Identifier(name) for name in names]
    connection.execute(sql.SQL(statement).format(*quoted))


def provision_streams(url: str) -> None:
    """Make the streams that are missing.

    Args:
        url: of the server, as the user `operator`.
    """
    asyncio.run(_make_streams(url))


async def _make_streams(url: str) -> None:
    client = await nats.connect(url, inbox_prefix=inbox_prefix(OPERATOR))
    try:
        await ensure_streams(client.jetstream(), replicas=1)
    finally:
        await client.close()
