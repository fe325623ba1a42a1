"""What every request and every answer derives from, and a page of a list."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Resource(BaseModel):
    """Base of every answer; can be read off an object with attributes of the same names."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class Request(BaseModel):
    """Base of every request body: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


def with_example(**fields: Any) -> ConfigDict:
    """The settings of a request body with an example, which the API's description shows."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class Page[Item](Resource):
    """A page of a list; `next_offset` and `next_cursor` are null on the last one.

    A list that grows has cursors: the page after one neither skips nor repeats what came between.
    `total_count` is of the moment in which the listing began.
    """

    items: list[Item]
    total_count: int
    next_offset: int | None = None
    next_cursor: str | None = None
