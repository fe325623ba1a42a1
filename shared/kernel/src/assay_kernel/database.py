"""Access to PostgreSQL: one schema per service, written by it alone.

Every service's tables live in a schema of its own, which its own login role owns. Other services
may not read them; the gateway reads all of them through the role `assay_reader`, which can only
SELECT, and answers people's queries through the login role `assay_sql`, which sees its views alone.
"""

from nats.errors import BadHeaderError, BadSubjectError, MaxPayloadError
from nats.errors import Error as NatsError
from nats.js.errors import BadRequestError
from pydantic import SecretStr
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from assay_kernel.blobs import BlobsAwayError

READER_ROLE = "assay_reader"
SQL_ROLE = "assay_sql"


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


_LIMIT_EXCEEDED = "54"
"""PostgreSQL's class of codes for what is too large or too complex: the same is refused every time,
although the driver files it under operational errors."""

_REFUSALS = (BadRequestError, MaxPayloadError, BadSubjectError, BadHeaderError)


def is_outage(error: BaseException) -> bool:
    """True where PostgreSQL, NATS or the blob store is the trouble, and not what was asked of it.

    An outage passes by itself; whatever else goes wrong would go wrong again.
    """
    if isinstance(error, NatsError):
        return not is_refusal(error)
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, OperationalError):
        return not (getattr(error.orig, "sqlstate", None) or "").startswith(_LIMIT_EXCEEDED)
    return isinstance(error, InterfaceError | PoolTimeoutError | BlobsAwayError | ConnectionError)


def is_refusal(error: BaseException) -> bool:
    """True where NATS understood what was asked and will not do it, however often it is asked."""
    return isinstance(error, _REFUSALS)
