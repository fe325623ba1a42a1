"""Requests that services answer over NATS: how they are, to fold streams or single events again."""

from uuid import UUID

from pydantic import Field

from assay_contracts.http import (
    Metric,
    NotRanked,
    PairComparison,
    Replay,
    ReplayReport,
    SandboxEntry,
    ServiceStatus,
    Standing,
)
from assay_contracts.values import Value

SERVICES = (
    "registry-sync",
    "run-scheduler",
    "sandbox-runner",
    "grader",
    "leaderboard",
    "gateway",
)
"""Every service by name; all must answer before the platform is ready."""


class StatusRequest(Value):
    """Asks every instance of a service how it is; answered with `ServiceStatus`."""


def status_subject(service: str) -> str:
    """Where a service answers `StatusRequest`."""
    return f"commands.{service}.status"


def replay_subject(service: str) -> str:
    """Where a service with projections answers `Replay` with a list of `ReplayReport`."""
    return f"commands.{service}.replay"


def redrive_subject(service: str) -> str:
    """Where a service with projections answers `Redrive` with `Redriven`."""
    return f"commands.{service}.redrive"


def resend_subject(service: str) -> str:
    """Where a service that sends messages answers `Resend` with `Resent`."""
    return f"commands.{service}.resend"


SANDBOXES = "commands.sandbox-runner.sandboxes"
"""Where every sandbox-runner answers `SeeSandboxes` with `SandboxesSeen`."""


class SeeSandboxes(Value):
    """Asks every runner which sandboxes there are."""


class SandboxesSeen(Value):
    """The sandboxes that one runner sees, and why it may not see all."""

    runner: str
    sandboxes: list[SandboxEntry]
    trouble: str | None = None


STANDINGS_AT = "commands.leaderboard.standings-at"
"""Where leaderboard answers `StandingsAt` with `PastStandings`, deflated with zlib."""

COMPARE = "commands.leaderboard.compare"
"""Where leaderboard answers `Compare` with a `PairResult`."""


class Redrive(Value):
    """Asks for the fold of an event that a projection left out, in its place in the stream."""

    projection: str
    sequence: int = Field(ge=1)


class Redriven(Value):
    """The event is folded, or in words why it is not."""

    problem: str | None = None


class Resend(Value):
    """Asks the service that sent a message in the first place to send it again.

    `letter` is the number of the dead letter that holds the message.
    """

    letter: int = Field(ge=1)


class Resent(Value):
    """The message is in its stream, or in words why it is not."""

    problem: str | None = None


class StandingsAt(Value):
    """Asks for the standings of a benchmark as they were at a sequence of the stream of runs."""

    workspace: str
    benchmark: UUID
    metric: Metric
    sequence: int = Field(ge=0)


class PastStandings(Value):
    """Standings and what did not rank, folded up to a sequence."""

    standings: list[Standing]
    not_ranked: list[NotRanked]


class Compare(Value):
    """Asks for the comparison of two agents of ended runs on one benchmark, by run and place."""

    workspace: str
    benchmark: UUID
    metric: Metric
    margin: float
    first: tuple[UUID, int]
    second: tuple[UUID, int]


class PairResult(Value):
    """The comparison, or in words why there is none."""

    comparison: PairComparison | None = None
    problem: str | None = None


__all__ = [
    "COMPARE",
    "SERVICES",
    "STANDINGS_AT",
    "Compare",
    "PairResult",
    "PastStandings",
    "Redrive",
    "Redriven",
    "Replay",
    "ReplayReport",
    "Resend",
    "Resent",
    "ServiceStatus",
    "StandingsAt",
    "StatusRequest",
    "redrive_subject",
    "replay_subject",
    "resend_subject",
    "status_subject",
]
