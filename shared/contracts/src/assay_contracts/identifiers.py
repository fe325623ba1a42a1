"""Identifiers: UUIDv7 for things and events, slugs for workspaces, human names for runs.

A *slot* is one (agent, task, attempt) cell of a run; a *try* is one execution of a slot. A slot's
id is derived from its cell, so that every part of the system arrives at the same one on its own.
"""

from collections.abc import Iterable
from typing import Annotated
from uuid import UUID, uuid5

from coolname import generate_slug
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from uuid6 import uuid7

MANAGED_WORKSPACE = "managed"
"""Owner of the catalogue's benchmarks, which every workspace sees and none can remove."""

WorkspaceSlug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
RunName = Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[a-z0-9]+)+$", max_length=80)]

_CATALOGUE_NAMESPACE = UUID("6f1d6c5e-2f0c-5d4b-9a7e-3d1b0a8c4e21")


def new_id() -> UUID:
    """A fresh UUIDv7 (RFC 9562): unique, and ordered by the time it was made."""
    return UUID(int=uuid7().int)


def catalogue_benchmark_id(key: str) -> UUID:
    """The id of a managed benchmark: the same on every installation, made from its key."""
    return uuid5(_CATALOGUE_NAMESPACE, key)


def new_run_name() -> str:
    """A human name of two words such as `bright-otter`; may repeat, so the caller reserves it."""
    return generate_slug(2)


class Slot(BaseModel):
    """One cell of a run: an agent by its place in the configuration, a task, an attempt from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: int = Field(ge=0)
    task: str = Field(min_length=1)
    attempt: int = Field(ge=1)

    def id(self, run: UUID) -> UUID:
        """The slot's identity within all of Assay, derived from the run and the cell."""
        return uuid5(run, f"{self.agent}/{self.attempt}/{self.task}")


def format_positions(positions: Iterable[int]) -> str:
    """Positions of a task list as ranges, for example `0-4,7,9-20`.

    Args:
        positions: places in a pinned task list, from 0, in any order.
    """
    ranges: list[tuple[int, int]] = []
    for position in sorted(set(positions)):
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], position)
        else:
            ranges.append((position, position))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_positions(text: str) -> list[int]:
    """The positions that `format_positions` wrote, ascending.

    Raises:
        ValueError: the text is not a list of ranges.
    """
    positions: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        positions.extend(range(int(first), int(last or first) + 1))
    return positions
