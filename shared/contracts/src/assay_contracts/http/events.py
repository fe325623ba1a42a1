"""A run's events as they are stored, and its log."""

from datetime import datetime
from typing import Any, Literal

from assay_contracts.http.base import Resource


class StoredEvent(Resource):
    """An event with its place in the stream, exactly as it is stored."""

    sequence: int
    subject: str
    event: dict[str, Any]


class EventPage(Resource):
    """Events of one run in stream order; `next_after` is the sequence to go on from."""

    items: list[StoredEvent]
    next_after: int | None


class WorkspaceEvent(StoredEvent):
    """An event of a workspace; `id` is the place in all of its streams to go on after."""

    id: str


class WorkspaceEventPage(Resource):
    """Events of a workspace's streams by the time they were stored.

    `position` is where the page ends: what happens later comes after it. `next_after` is the same
    where there is more already.
    """

    items: list[WorkspaceEvent]
    position: str
    next_after: str | None


class LogLine(Resource):
    """One line of a run's log."""

    sequence: int
    timestamp: datetime
    level: Literal["info", "warning", "error"]
    step: str
    message: str
    details: dict[str, Any] | None = None


class LogPage(Resource):
    """Lines of a run's log in stream order; `next_after` is the sequence to go on from."""

    items: list[LogLine]
    next_after: int | None
