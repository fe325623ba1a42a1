"""Lists in pages, as the client asks for them and reads them."""

from typing import Annotated, TypedDict

from fastapi import Query

from assay_contracts.http import Page

MOST_ENTRIES, MOST_LINES = 50, 200
"""The client asks for no more, and takes a refusal of more for granted."""

Limit = Annotated[int, Query(ge=1, le=MOST_ENTRIES)]
LineLimit = Annotated[int, Query(ge=1, le=MOST_LINES)]


class Paging(TypedDict):
    """What every list says of its paging."""

    total_count: int
    has_more: bool
    next_offset: int | None


def paging[Item](found: Page[Item]) -> Paging:
    """The paging of one of our own pages."""
    return Paging(
        total_count=found.total_count,
        has_more=found.next_offset is not None,
        next_offset=found.next_offset,
    )
