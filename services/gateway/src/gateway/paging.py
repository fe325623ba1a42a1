"""Lists in pages: how much of one a request asks for, the page that answers it, and its links."""

from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

import orjson
from fastapi import Query
from pydantic import BaseModel, TypeAdapter
from starlette.types import Scope

from assay_contracts.http import Page

LARGEST_SEQUENCE = 2**53 - 1
"""Beyond it no JSON reader keeps a number exact; no stream comes near."""

_LARGEST_OFFSET = 2**31 - 1

Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=_LARGEST_OFFSET)]
After = Annotated[int, Query(ge=0, le=LARGEST_SEQUENCE)]

_PLACES = {"next_cursor": "cursor", "next_after": "after", "next_offset": "offset"}
"""What a page says of the next one, and the parameter that asks for it; the first that is there."""

_NUMBER: TypeAdapter[int] = TypeAdapter(int)
"""Reads a number of an address as the routes do, which take `1.0` for 1."""


def page[Item](items: list[Item], total: int, offset: int) -> Page[Item]:
    """A page, with the offset of the next one if there is one."""
    end = offset + len(items)
    return Page(items=items, total_count=total, next_offset=end if end < total else None)


def links(scope: Scope, body: bytes) -> str | None:
    """The `Link` header (RFC 8288) of a page: the first, the previous and the next one, as they
    are there; None for what is no page.

    Args:
        scope: the request, with the route that answered it.
        body: the page as JSON.
    """
    fields = _fields(scope)
    if fields.isdisjoint(_PLACES):
        return None
    told = orjson.loads(body)
    asked = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    found = {"first": {}, "prev": _before(scope, asked), "next": _after(told)}
    return ", ".join(
        f'<{_address(scope, place)}>; rel="{relation}"'
        for relation, place in found.items()
        if place is not None
    )


def _fields(scope: Scope) -> set[str]:
    """The fields of what the route answers with."""
    model = getattr(scope.get("route"), "response_model", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return set(model.model_fields)
    return set()


def _after(told: dict[str, Any]) -> dict[str, str] | None:
    for field, parameter in _PLACES.items():
        if told.get(field) is not None:
            return {parameter: str(told[field])}
    return None


def _before(scope: Scope, asked: dict[str, str]) -> dict[str, str] | None:
    """The page before the offset that was asked for; a cursor leads on alone."""
    offset = _NUMBER.validate_python(asked.get("offset", 0))
    if offset == 0 or "cursor" in asked:
        return None
    step = _NUMBER.validate_python(asked.get("limit", _default_limit(scope)))
    return {"offset": str(max(offset - step, 0))}


def _default_limit(scope: Scope) -> int:
    """How many the route gives where nobody says."""
    for parameter in scope["route"].dependant.query_params:
        if parameter.alias == "limit":
            return int(parameter.default)
    return 1


def _address(scope: Scope, place: dict[str, str]) -> str:
    """The same question for another page; relative to the server, whatever it is called outside."""
    asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    kept = [(name, value) for name, value in asked if name not in _PLACES.values()]
    query = urlencode([*kept, *place.items()])
    path = scope["raw_path"].decode("ascii")
    return f"{path}?{query}" if query else path
