"""Cursors: where a page of a list ended, so that the next one begins there whatever has come since.

To a client a cursor is a text without a meaning. It holds the place after which the list goes on,
how many there were when the listing began, and a mark of the question that it belongs to: with
other filters or another order it would skip and repeat at random, so there it is refused.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

import orjson
from fastapi import Query

from assay_contracts.run_config import ConfigIssue
from gateway.paging import LARGEST_SEQUENCE
from gateway.problems import ProblemError, invalid

Cursor = Annotated[
    str | None,
    Query(
        max_length=4096,
        description="the `next_cursor` of the page before; filters and order must be the same",
    ),
]

_MARK_LENGTH = 16


@dataclass(frozen=True)
class Place:
    """The keys of the last row of a page, and how many rows the whole list had at its beginning."""

    keys: tuple[Any, ...]
    total: int


def require_one_beginning(cursor: str | None, offset: int) -> None:
    """A page begins after a cursor or after an offset.

    Raises:
        ProblemError: both are given.
    """
    if cursor is not None and offset:
        raise refused("and an offset cannot be given together")


def write_cursor(question: Sequence[object], place: Place) -> str:
    """The cursor after `place` of the list that `question` asked for.

    Args:
        question: everything that decides which rows the list has, and in which order.
        place: its keys must be what JSON can hold.
    """
    packed = orjson.dumps([_mark(question), place.total, *place.keys])
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def read_cursor(
    cursor: str, question: Sequence[object], kinds: Sequence[type | tuple[type, ...]]
) -> Place:
    """The place that a cursor stands for.

    Args:
        cursor: what `write_cursor` made.
        question: the same as then.
        kinds: the types that the keys must have, one after the other.

    Raises:
        ProblemError: it is no cursor, or one of another question.
    """
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        mark, total, *keys = orjson.loads(packed)
    except (binascii.Error, orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise refused("is no cursor of this list") from error
    if mark != _mark(question):
        raise refused("belongs to other filters or another order; leave it out to begin anew")
    fits = len(keys) == len(kinds) and all(map(_is_a, keys, kinds))
    if not fits or not _is_a(total, int) or not all(map(_can_be_asked_for, [total, *keys])):
        raise refused("is no cursor of this list")
    return Place(tuple(keys), total)


def _is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _can_be_asked_for(value: object) -> bool:
    """What the database takes: no text with a zero byte, no number that it cannot hold."""
    if isinstance(value, str):
        return "\0" not in value
    return not isinstance(value, int) or 0 <= value <= LARGEST_SEQUENCE


def _mark(question: Sequence[object]) -> str:
    return sha256(orjson.dumps([str(one) for one in question])).hexdigest()[:_MARK_LENGTH]


def refused(why: str) -> ProblemError:
    """A cursor that cannot be used."""
    return invalid([ConfigIssue(key="cursor", message=why)])
