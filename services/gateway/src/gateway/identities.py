"""The ids that a request's work gets: fresh ones, or the same again where the work is repeated.

A request with an idempotency key may be cut off anywhere, also between an append and its answer.
Its record is begun before the work, and every id that the work makes follows from the record's own.
So whoever does the work again finds what was done, in the stream itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID, uuid5

from assay_contracts.identifiers import new_id


@dataclass(frozen=True)
class Work:
    """What a request does under an idempotency key; `repeated` where it was begun before."""

    id: UUID
    repeated: bool


_present: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def working(work: Work) -> Iterator[None]:
    """Within, ids follow from `work`."""
    token = _present.set(work)
    try:
        yield
    finally:
        _present.reset(token)


def work_id(purpose: str) -> UUID:
    """The id of what is made for a purpose: the same whenever the same work is done."""
    work = _present.get()
    return new_id() if work is None else uuid5(work.id, purpose)


def is_under_key() -> bool:
    """Whether the request carries an idempotency key."""
    return _present.get() is not None


def is_repeated() -> bool:
    """Whether the work was begun before, and what it makes may be there already."""
    work = _present.get()
    return work is not None and work.repeated
