"""The events of a run: decisions on its lifecycle, and facts about its attempts."""

from typing import ClassVar, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, Field

from assay_contracts.envelope import Event
from assay_contracts.identifiers import Slot
from assay_contracts.run_config import Agent
from assay_contracts.values import (
    MOST_COUNTED,
    MOST_USD,
    BenchmarkPin,
    CauseClass,
    Count,
    Finite,
    ForeignText,
    ImportSource,
    JudgeRules,
    Money,
    Outcome,
    Phase,
    Seconds,
    Selection,
    Value,
)


class RunEvent(Event):
    """An event of one run."""

    stream: ClassVar[str] = "RUNS"

    run: UUID


class LifecycleEvent(RunEvent):
    """A decision; appended only on the state it was taken on."""

    @property
    def subject(self) -> str:
        """`runs.<workspace>.<run>.lifecycle.<event>`."""
        return f"runs.{self.workspace}.{self.run}.lifecycle.{self.type}"


class AttemptEvent(RunEvent):
    """A fact about one try of one slot; idempotent by its message id."""

    @property
    def subject(self) -> str:
        """`runs.<workspace>.<run>.attempts.<event>`."""
        return f"runs.{self.workspace}.{self.run}.attempts.{self.type}"


class ResolvedExecution(Value):
    """The execution settings with every default filled in; `deadline` in seconds from the start."""

    attempts_per_task: int
    max_concurrent_attempts: int
    timeout_multiplier: float
    max_retries: int
    deadline: Seconds | None = None
    budget_usd: Money | None = None
    budget_tokens: Count | None = None
    pass_threshold: float
    reward_key: str | None = None
    judge_model: str | None = None
    judge_api_key_secret: str | None = None


class SubmittedData(Value):
    """What was asked for, resolved and pinned. Slots are derived from it, never listed.

    `secret_scopes` maps each secret's name to `workspace`, `user`, `user_override` or `run`;
    `environment` is the sandbox asked for, or None to leave the choice to the runner. `judge` is
    how the grader's own judge scores the run, `imported` where its results were made if not here:
    an imported run is never handed out.
    """

    name: str
    benchmark: BenchmarkPin
    selection: Selection
    agents: tuple[Agent, ...] = Field(min_length=1)
    execution: ResolvedExecution
    environment: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    verifier_secrets: tuple[str, ...] = ()
    run_secrets: tuple[str, ...] = ()
    secret_scopes: dict[str, str] = Field(default_factory=dict)
    expected_results: int = Field(ge=1)
    judge: JudgeRules | None = None
    imported: ImportSource | None = None


class QueuedData(Value):
    """The run was admitted: its pinned task list is there."""

    expected_results: int


class NoData(Value):
    """An event that says everything with its type."""


class ReasonData(Value):
    """An event with the reason for it, in words for a person."""

    reason: str


class FinishedData(Value):
    """How many slots ended with a score and how many without."""

    scored: int
    errored: int


class ReopenedData(Value):
    """Errored slots that are to run again."""

    slots: tuple[Slot, ...] = Field(min_length=1)
    reason: str


class PausedData(Value):
    """Nothing new of an agent starts, or of the whole run where `agent` is None.

    `until` is when it goes on by itself; None where somebody has to ask for it.
    """

    agent: int | None = Field(default=None, ge=0)
    reason: str
    until: AwareDatetime | None = None


class ResumedData(Value):
    """An agent goes on, or the whole run, with each of its agents, where `agent` is None."""

    agent: int | None = Field(default=None, ge=0)
    reason: str


class TryData(Value):
    """Which execution of which slot: `try_number` counts retries from 1, `delivery` how often the
    work was handed out for that try (more than once where a runner died)."""

    slot: Slot
    try_number: int = Field(ge=1)
    delivery: int = Field(default=1, ge=1)

    def message_id(self, run: UUID, event_type: str) -> str:
        """The id under which the stream recognises the same fact told twice."""
        return f"{self.slot.id(run)}:{self.try_number}:{self.delivery}:{event_type}"


class AttemptStartedData(TryData):
    """A runner began a try."""

    runner: str
    environment: str


class AttemptRetriedData(TryData):
    """A slot without a score gets another try; `try_number` is the new one."""

    reason: str
    not_before: AwareDatetime


class ExceptionSummary(Value):
    """What went wrong in a try, and in which part of it.

    `step` is the name of a multi-step trial's step; `exit_code` that of the command which failed.
    """

    type: ForeignText
    message: ForeignText
    phase: Phase
    step: ForeignText | None = None
    exit_code: int | None = None


class Usage(Value):
    """What the model consumed, as the harness reports it; None where it reports nothing.

    `total_tokens` is for imported results that name no more than the total.
    """

    input_tokens: Count | None = None
    cached_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cost_usd: Money | None = None

    @classmethod
    def reported(cls, **numbers: float | None) -> Self:
        """What was reported, without numbers that cannot be: negative, not finite, absurd."""
        limits = dict.fromkeys(cls.model_fields, MOST_COUNTED) | {"cost_usd": MOST_USD}
        return cls.model_validate(
            {
                name: number
                for name, number in numbers.items()
                if number is not None and 0 <= number <= limits[name]
            }
        )

    @property
    def tokens(self) -> int | None:
        """Input and output together; None where not both are reported, nor their total."""
        if self.input_tokens is None or self.output_tokens is None:
            return self.total_tokens
        return self.input_tokens + self.output_tokens


class Durations(Value):
    """Seconds spent in each part of a try; None where it was not reached."""

    environment_setup: Finite | None = None
    agent_setup: Finite | None = None
    agent: Finite | None = None
    verifier: Finite | None = None


class ArtifactManifest(Value):
    """Where the list of a try's files is kept: a blob by its SHA-256, and what it adds up to."""

    sha256: str
    files: int
    bytes: int


class ResultIngestedData(TryData):
    """A try ended. `reward_valid` and `retryable` follow Harbor's error policy.

    `rewards` is what the verifier wrote, by key, or None; `exception` the decisive one. `timed` is
    false for an imported result of which nobody knows how long it took.
    """

    runner: str
    environment: str
    harness_version: str | None = None
    rewards: dict[ForeignText, Finite] | None = None
    reward_valid: bool
    retryable: bool
    cancelled: bool = False
    exception: ExceptionSummary | None = None
    started_at: AwareDatetime
    finished_at: AwareDatetime
    timed: bool = True
    durations: Durations = Durations()
    usage: Usage = Usage()
    artifacts: ArtifactManifest | None = None

    @property
    def duration_seconds(self) -> float | None:
        """Wall-clock seconds from claim to result; None where it was not timed.

        None, too, where the clock was set back meanwhile, so that nobody knows.
        """
        passed = (self.finished_at - self.started_at).total_seconds()
        return passed if self.timed and passed >= 0 else None


class JudgeRecord(Value):
    """What the grader's own judge did for a verdict, and what it cost, apart from the agent.

    `exchange` is the blob (SHA-256) with the verdict and every request and reply; `requests` counts
    them, repeated ones too.
    """

    model: str
    requests: int = Field(ge=1)
    exchange: str | None = None
    usage: Usage = Usage()


class ResultGradedData(TryData):
    """The verdict on a try.

    `reward` is the single number that was held against `pass_threshold`; `reward_rule` says how it
    was drawn from the verifier's rewards. `cause` and `reason` explain anything but a pass.
    """

    outcome: Outcome
    reward: float | None = None
    reward_rule: str | None = None
    pass_threshold: float
    cause: CauseClass | None = None
    reason: ForeignText | None = None
    retryable: bool = False
    judge: JudgeRecord | None = None


class RunSubmitted(LifecycleEvent):
    """A run was asked for.

    Version 2: `judge` and `imported`. Version 3: the execution's `deadline` and budgets.
    """

    type: Literal["submitted"] = "submitted"
    version: Literal[3] = 3
    data: SubmittedData


class RunQueued(LifecycleEvent):
    """A run was admitted and waits for capacity."""

    type: Literal["queued"] = "queued"
    version: Literal[1] = 1
    data: QueuedData


class RunStarted(LifecycleEvent):
    """A run got capacity; attempts follow."""

    type: Literal["started"] = "started"
    version: Literal[1] = 1
    data: NoData = NoData()


class RunStopRequested(LifecycleEvent):
    """Somebody asked the run to stop; nothing new starts."""

    type: Literal["stop-requested"] = "stop-requested"
    version: Literal[1] = 1
    data: ReasonData


class RunStopped(LifecycleEvent):
    """The run was stopped and its last sandbox is gone."""

    type: Literal["stopped"] = "stopped"
    version: Literal[1] = 1
    data: ReasonData


class RunFinished(LifecycleEvent):
    """Every slot has its final result."""

    type: Literal["finished"] = "finished"
    version: Literal[1] = 1
    data: FinishedData


class RunFailed(LifecycleEvent):
    """The run cannot go on."""

    type: Literal["failed"] = "failed"
    version: Literal[1] = 1
    data: ReasonData


class RunReopened(LifecycleEvent):
    """Errored slots of an ended run are to run again."""

    type: Literal["reopened"] = "reopened"
    version: Literal[1] = 1
    data: ReopenedData


class RunPaused(LifecycleEvent):
    """Nothing new starts, of the run or of one agent; what runs may end."""

    type: Literal["paused"] = "paused"
    version: Literal[1] = 1
    data: PausedData


class RunResumed(LifecycleEvent):
    """What was paused goes on."""

    type: Literal["resumed"] = "resumed"
    version: Literal[1] = 1
    data: ResumedData


class RunDeleted(LifecycleEvent):
    """A run that had ended was deleted: its events stay, and nothing shows it any more."""

    type: Literal["deleted"] = "deleted"
    version: Literal[1] = 1
    data: ReasonData


class AttemptStarted(AttemptEvent):
    """A runner began a try."""

    type: Literal["attempt-started"] = "attempt-started"
    version: Literal[1] = 1
    data: AttemptStartedData


class AttemptRetried(AttemptEvent):
    """A slot gets another try."""

    type: Literal["attempt-retried"] = "attempt-retried"
    version: Literal[1] = 1
    data: AttemptRetriedData


class ResultIngested(AttemptEvent):
    """A try ended, with what it left.

    Version 2: the exception's `step` and `exit_code`, `timed`, and the usage's `total_tokens`.
    """

    type: Literal["result-ingested"] = "result-ingested"
    version: Literal[2] = 2
    data: ResultIngestedData


class ResultGraded(AttemptEvent):
    """A try was judged. Version 2: `judge`."""

    type: Literal["result-graded"] = "result-graded"
    version: Literal[2] = 2
    data: ResultGradedData
