"""The envelope that every event travels in, and what makes an event fit for the stream."""

from typing import ClassVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

MAX_EVENT_BYTES = 64 * 1024
"""The server refuses a larger message; anything bigger belongs in the blob store."""


class Event(BaseModel):
    """A fact, as it stands on the stream. Published versions never change.

    `causation_id` is the id of the event (or of the request) that led to this one and
    `correlation_id` that of the first in the chain. `occurred_at` is in UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: ClassVar[str]

    id: UUID
    type: str
    version: int = Field(ge=1)
    workspace: str
    occurred_at: AwareDatetime
    actor: str
    correlation_id: UUID
    causation_id: UUID | None = None

    @property
    def subject(self) -> str:
        """The subject that the event is published on."""
        raise NotImplementedError  # pragma: no cover  each kind of event names its own

    def to_bytes(self) -> bytes:
        """The event as it is stored: compact JSON in UTF-8.

        Raises:
            EventTooLargeError: above `MAX_EVENT_BYTES`.
        """
        payload = self.model_dump_json().encode()
        if len(payload) > MAX_EVENT_BYTES:
            raise EventTooLargeError(self.type, len(payload))
        return payload


class EventTooLargeError(ValueError):
    """An event is larger than the stream takes; part of it belongs in the blob store."""

    def __init__(self, event_type: str, size: int) -> None:
        super().__init__(
            f"the {event_type} event is {size} bytes; at most {MAX_EVENT_BYTES} are allowed"
        )


class UnknownEventError(ValueError):
    """The bytes are no event of a type and version that this build knows."""


class Stamp(BaseModel):
    """What a decision needs from outside its rules: an id, the time (UTC) and who decides."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    at: AwareDatetime
    actor: str

    def following(self, cause: Event) -> dict[str, object]:
        """Envelope fields of an event that follows from `cause`."""
        return {
            "id": self.id,
            "workspace": cause.workspace,
            "occurred_at": self.at,
            "actor": self.actor,
            "correlation_id": cause.correlation_id,
            "causation_id": cause.id,
        }

    def beginning(self, workspace: str, correlation_id: UUID) -> dict[str, object]:
        """Envelope fields of an event that a request led to; the request's id goes along."""
        return {
            "id": self.id,
            "workspace": workspace,
            "occurred_at": self.at,
            "actor": self.actor,
            "correlation_id": correlation_id,
        }
