"""An event as it is told to listeners: its place, what it is about, and its JSON, made once."""

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from assay_contracts.http import StoredEvent
from assay_kernel.cursor import StoredMessage


@dataclass(frozen=True, slots=True)
class Told:
    """A message of a stream on `<stream>.<workspace>.<about>….<kind>`.

    `about` is the id of a run or a benchmark; `kind` is the event's type, of an audit event its
    act. `text` is the JSON of its `StoredEvent`, on one line.
    """

    stream: str
    subject: str
    sequence: int
    workspace: str
    about: str
    kind: str
    stored_at: datetime
    event: dict[str, Any]
    text: str


def owner_of(message: StoredMessage) -> str:
    """The workspace that a message is of, without reading more of it."""
    return message.subject.split(".", 2)[1]


def told(message: StoredMessage) -> Told:
    """What is told of a stored message."""
    parts = message.subject.split(".")
    event = _event(message, parts[-1])
    place = {"sequence": message.sequence, "subject": message.subject, "event": event}
    return Told(
        stream=message.stream,
        subject=message.subject,
        sequence=message.sequence,
        workspace=owner_of(message),
        about=parts[2] if len(parts) > 2 else "",
        kind=parts[-1],
        stored_at=message.stored_at,
        event=event,
        text=orjson.dumps(place).decode(),
    )


def as_stored(message: StoredMessage) -> StoredEvent:
    """An event exactly as it lies in the stream; what is no JSON object, as base64."""
    kind = message.subject.rpartition(".")[2]
    return StoredEvent(
        sequence=message.sequence, subject=message.subject, event=_event(message, kind)
    )


def _event(message: StoredMessage, kind: str) -> dict[str, Any]:
    """The payload; one that cannot be read must not end the streams of all who listen."""
    try:
        event = orjson.loads(message.payload)
    except orjson.JSONDecodeError:
        event = None
    if isinstance(event, dict):
        return event
    return {"type": kind, "unreadable": base64.b64encode(message.payload).decode()}
