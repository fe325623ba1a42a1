"""Access to PostgreSQL: one schema per service, written by it alone.

Every service's tables live in a schema of its own. Other services may not read them; the gateway
reads all of them through the role `assay_reader`, which can only SELECT.
"""

from pydantic import SecretStr
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

READER_ROLE = "assay_reader"


def database_url(setting: SecretStr) -> URL:
    """The setting as SQLAlchemy wants it, with the psycopg 3 driver."""
    return make_url(setting.get_secret_value()).set(drivername="postgresql+psycopg")


def open_database(setting: SecretStr, service: str, *, pool_size: int = 5) -> AsyncEngine:
    """An engine for the service's own schema; connections are checked before use."""
    return create_async_engine(
        database_url(setting),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        connect_args={"application_name": f"assay-{service}", "connect_timeout": 10},
    )


def open_reader(setting: SecretStr, service: str, *, pool_size: int = 10) -> AsyncEngine:
    """An engine whose every session is `assay_reader`: it can read all schemas and write none."""
    return create_async_engine(
        database_url(setting),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        connect_args={
            "application_name": f"assay-{service}-reader",
            "connect_timeout": 10,
            "options": f"-c role={READER_ROLE} -c default_transaction_read_only=on",
        },
    )


def is_outage(error: BaseException) -> bool:
    """True where the database itself is the trouble, and not what was asked of it."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, OperationalError | InterfaceError | OSError)
