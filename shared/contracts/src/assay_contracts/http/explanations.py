"""What a score rests on, and what the check of a proof found."""

from datetime import datetime
from uuid import UUID

from assay_contracts.http.base import Resource
from assay_contracts.http.events import StoredEvent
from assay_contracts.http.measures import Rate
from assay_contracts.http.runs import ArtifactEntry, ResultRow
from assay_contracts.run_events import Durations, ExceptionSummary, JudgeRecord, Usage
from assay_contracts.values import CauseClass, Outcome


class TextTail(Resource):
    """The end of a text file among the artifacts."""

    path: str
    text: str
    truncated: bool


class ExplainedTry(Resource):
    """One try of a slot with all that its verdict rests on.

    `events` are the stored facts themselves: what the runner told, and what the grader made of it.
    `artifacts_lost` is true where files were kept whose list is no longer in the blob store.
    """

    try_number: int
    delivery: int
    counted: bool
    outcome: Outcome | None
    reward: float | None
    reward_rule: str | None
    rewards: dict[str, float] | None
    cause: CauseClass | None
    reason: str | None
    exception: ExceptionSummary | None
    judge: JudgeRecord | None
    environment: str | None
    runner: str | None
    harness_version: str | None
    started_at: datetime | None
    finished_at: datetime | None
    seconds: float | None
    durations: Durations
    usage: Usage
    artifacts: list[ArtifactEntry]
    artifacts_lost: bool
    verifier_output: list[TextTail]
    events: list[StoredEvent]


class ResultDetail(ResultRow):
    """One result with every try of its slot, as `explain` shows them: files, durations, usage, the
    end of what the verifier wrote, and the events that told of them."""

    run_id: UUID
    run_name: str
    harness: str | None
    model: str
    pass_threshold: float
    tries: list[ExplainedTry]


class ExplainedAttempt(Resource):
    """One slot: an attempt with its tries in order."""

    slot_id: UUID
    attempt: int
    outcome: Outcome | None
    tries: list[ExplainedTry]


class Explanation(Resource):
    """A cell of a run, an agent on a task, down to the events behind it.

    `passes` of `attempts_counted` make the task's rate, which is one of `n_tasks` that the agent's
    pass@1 is the mean of. `not_ranked` is why the agent is not on the leaderboard, null where it
    is.
    """

    run_id: UUID
    run_name: str
    benchmark_name: str
    benchmark_version: str
    benchmark_digest: str
    agent: int
    harness: str | None
    model: str
    task: str
    category: str | None
    pass_threshold: float
    passes: int
    attempts_counted: int
    attempts_expected: int
    n_tasks: int
    pass_at_1: Rate | None
    not_ranked: str | None
    attempts: list[ExplainedAttempt]


class VerifiedAgent(Resource):
    """What was computed of an agent out of a proof's events."""

    harness: str | None
    model: str
    pass_at_1: Rate | None
    cost_usd: float | None


class VerificationSummary(Resource):
    """What the check of a run's proof found: it holds where there is no problem."""

    holds: bool
    run_id: UUID | None
    name: str | None
    benchmark: str | None
    imported: bool
    status: str
    events: int
    hash: str
    agents: list[VerifiedAgent]
    problems: list[str]
    notes: list[str]
