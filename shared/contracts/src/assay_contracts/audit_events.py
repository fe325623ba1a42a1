"""The audit stream: every administrative act, as one kind of event."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from assay_contracts.envelope import Event
from assay_contracts.values import Value

INSTALLATION = "installation"
"""Stands in a workspace's place where an act concerns the whole installation."""

Act = Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)*$", max_length=60)]


class ActedData(Value):
    """Who did what to what: `act` such as `token-created`, `target` its name or id.

    `details` are a few words more, never a secret's value.
    """

    act: Act
    target: str
    details: dict[str, str] = Field(default_factory=dict)


class AuditEvent(Event):
    """An event on `audit.<workspace>.<act>`; the envelope's actor is who acted."""

    stream: ClassVar[str] = "AUDIT"


class Acted(AuditEvent):
    """Somebody acted as administrator, or on an account."""

    type: Literal["acted"] = "acted"
    version: Literal[1] = 1
    data: ActedData

    @property
    def subject(self) -> str:
        """By workspace and act."""
        return f"audit.{self.workspace}.{self.data.act}"
