"""What every request and every answer derives from, and a page of a list."""

from pydantic import BaseModel, ConfigDict


class Resource(BaseModel):
    """Base of every answer; can be read off an object with attributes of the same names."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class Request(BaseModel):
    """Base of every request body: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class Page[Item](Resource):
    """A page of a list; `next_offset` is null on the last one."""

    items: list[Item]
    total_count: int
    next_offset: int | None = None
