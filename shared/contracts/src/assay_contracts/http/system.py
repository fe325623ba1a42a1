"""The platform itself: services, sandboxes, replay, dead letters."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from assay_contracts.http.base import Request, Resource, with_example


class ServiceStatus(Resource):
    """What one service says of itself."""

    service: str
    ready: bool
    version: str
    instance: str
    projections: dict[str, int] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)


class SystemStatus(Resource):
    """Every service, and whether the whole is ready; how many dead letters nobody has redriven."""

    ready: bool
    version: str
    services: list[ServiceStatus]
    missing: list[str]
    dead_letters: int = 0


class SandboxEntry(Resource):
    """A sandbox that is on some machine. `state` is `left` where its runner's process has ended;
    `run`, `slot` and `try_number` are None where it does not tell what it was made for.
    """

    id: str
    environment: str
    runner: str | None
    run: UUID | None
    slot: UUID | None
    try_number: int | None
    state: Literal["live", "left"]
    began_at: datetime


class SandboxList(Resource):
    """Every sandbox that a runner sees, oldest first, and by runner what it could not see."""

    sandboxes: list[SandboxEntry]
    runners: list[str]
    trouble: dict[str, str]


class RowDifference(Resource):
    """A row that differs between the serving read model and the fold from sequence 0."""

    table: str
    key: dict[str, Any]
    columns: list[str]
    problem: Literal["differs", "missing", "unexpected"]


class ReplayReport(Resource):
    """What a replay of one projection found.

    `left_out` are the sequences of events that could not be folded; dead letters say why.
    """

    service: str
    projection: str
    sequence: int
    events: int
    rows: dict[str, int]
    identical: bool
    swapped: bool
    differences: list[RowDifference]
    seconds: float
    left_out: list[int] = Field(default_factory=list)


class Replay(Request):
    """`POST /api/v1/system/replay`: fold again and compare, or swap in (`verify` false)."""

    model_config = with_example(verify=True, service="grader")

    verify: bool = True
    service: str | None = None


class DeadLetterEntry(Resource):
    """Something that could not be handled at `place` (service and part), and why.

    An `event` lies in its stream at `sequence` and was left out of a projection; a `message` was
    meant for `subject`, and only its letter holds it. `tries` is how often it was tried before.
    """

    id: int
    kind: Literal["event", "message"]
    place: str
    stream: str | None
    sequence: int | None
    subject: str
    reason: str
    tries: int
    buried_at: datetime
    redriven_at: datetime | None
    redriven_by: str | None


class DeadLetterDetail(DeadLetterEntry):
    """A letter with what it is about: `content` where that is JSON, else `text`."""

    content: Any = None
    text: str | None = None
