"""Lists in pages: how much of one a request asks for, and the page that answers it."""

from typing import Annotated

from fastapi import Query

from assay_contracts.http import Page

LARGEST_SEQUENCE = 2**53 - 1
"""Beyond it no JSON reader keeps a number exact; no stream comes near."""

_LARGEST_OFFSET = 2**31 - 1

Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=_LARGEST_OFFSET)]
After = Annotated[int, Query(ge=0, le=LARGEST_SEQUENCE)]


def page[Item](items: list[Item], total: int, offset: int) -> Page[Item]:
    """A page, with the offset of the next one if there is one."""
    end = offset + len(items)
    return Page(items=items, total_count=total, next_offset=end if end < total else None)
