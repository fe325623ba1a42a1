"""The requests and answers of the HTTP API, version 1."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from assay_contracts.run_events import Durations, Usage
from assay_contracts.values import (
    BenchmarkRules,
    BenchmarkSource,
    CauseClass,
    Difficulty,
    Outcome,
    RunStatus,
    Selection,
    SourceType,
    SyncStatus,
)


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


class AddBenchmark(Request):
    """`POST /api/v1/benchmarks`: a name of its own (default: the source's) and a source."""

    source: BenchmarkSource
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class TaskSetEntry(Resource):
    """A published subset of a benchmark."""

    name: str
    task_count: int
    recommended: bool
    description: str | None


class BenchmarkEntry(Resource):
    """A benchmark in a list. `task_count` is null until the task list is ready."""

    id: UUID
    name: str
    key: str
    description: str
    source_type: SourceType
    source: BenchmarkSource
    source_url: str | None
    version: str | None
    digest: str | None
    task_count: int | None
    category_count: int | None
    task_sets: list[TaskSetEntry]
    sync_status: SyncStatus
    synced_task_count: int
    syncing_task_count: int | None
    sync_error: str | None
    managed: bool
    added_at: datetime
    added_by: str
    run_count: int
    running_count: int
    last_run_name: str | None
    last_run_status: RunStatus | None
    last_run_at: datetime | None


class TaskRow(Resource):
    """A task of the pinned list; `unavailable` says why it cannot be run."""

    name: str
    category: str | None
    difficulty: Difficulty | None
    unavailable: str | None


class CategoryEntry(Resource):
    """A category with the number of its tasks."""

    name: str
    task_count: int


class BenchmarkDetail(BenchmarkEntry):
    """One benchmark with its rules and its full task list."""

    rules: BenchmarkRules
    categories: list[CategoryEntry]
    tasks: list[TaskRow]


class SubmitRun(Request):
    """`POST /api/v1/runs`: the configuration (the TOML as an object), the sandbox environment
    (default: the runner's choice) and the values of `[secrets].required` for this run alone."""

    config: dict[str, Any]
    environment: str | None = None
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)


class Rate(Resource):
    """A rate with its 95% interval over `n_tasks` tasks; `partial` while results are missing."""

    value: float
    ci_low: float
    ci_high: float
    n_tasks: int
    partial: bool = False


class RateAtK(Rate):
    """The rate of solving a task in at least one of `k` attempts."""

    k: int


class Amount(Resource):
    """A mean per task with its 95% interval; the interval is null where it cannot be estimated."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n_tasks: int


class AgentRow(Resource):
    """One agent of a run with its metrics; times in seconds, money in USD."""

    index: int
    harness: str | None
    model: str
    status: RunStatus
    expected_results: int
    ingested_results: int
    passed: int
    failed: int
    errored: int
    cancelled: int
    pass_at_1: Rate | None
    pass_at_k: list[RateAtK]
    cost_per_task: Amount | None
    seconds_per_task: Amount | None
    tokens_per_task: Amount | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class RunEntry(Resource):
    """A run in a list."""

    id: UUID
    name: str
    status: RunStatus
    reason: str | None
    benchmark_id: UUID
    benchmark_name: str
    agent_count: int
    expected_results: int
    ingested_results: int
    best_pass_at_1: float | None
    submitted_by: str
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class RunDetail(RunEntry):
    """One run: what was asked for, pinned to what, and how each agent does."""

    benchmark_version: str
    benchmark_digest: str
    benchmark_key: str
    selection: Selection
    environment: str | None
    config: dict[str, Any]
    secret_scopes: dict[str, str]
    agents: list[AgentRow]
    problems: list["ResultRow"]


class ResultRow(Resource):
    """The counted result of one slot, or the latest try where none is counted yet."""

    slot_id: UUID
    agent: int
    task: str
    attempt: int
    try_number: int
    outcome: Outcome | None
    reward: float | None
    rewards: dict[str, float] | None
    cause: CauseClass | None
    reason: str | None
    environment: str
    runner: str
    seconds: float | None
    durations: Durations
    usage: Usage
    artifacts_sha256: str | None


class StoredEvent(Resource):
    """An event with its place in the stream, exactly as it is stored."""

    sequence: int
    subject: str
    event: dict[str, Any]


class EventPage(Resource):
    """Events of one run in stream order; `next_after` is the sequence to go on from."""

    items: list[StoredEvent]
    next_after: int | None


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


class StopRun(Request):
    """`POST /api/v1/runs/{run}/stop`."""

    reason: str = "stopped by a user"


class Comparison(Resource):
    """The paired test against the leader: `difference` is the leader's mean minus this one's.

    On the scale `logarithm` it is the mean difference of logarithms. The interval holds for all
    `n_entrants` of the group at once; it is null for a single task.
    """

    leader_run: UUID
    leader_agent: int
    difference: float
    ci_low: float | None
    ci_high: float | None
    p_value: float
    scale: str
    n_entrants: int
    n_tasks: int
    tasks_won: int
    tasks_lost: int
    tasks_drawn: int


class Standing(Resource):
    """One entrant. `rank` follows the chosen metric; `tied` marks those that share rank 1 because
    they cannot be told apart from the leader."""

    rank: int | None
    tied: bool
    harness: str | None
    model: str
    agent: int
    task_set: str
    benchmark_version: str
    run_id: UUID
    run_name: str
    environment: list[str]
    pass_at_1: Rate
    pass_at_k: list[RateAtK]
    cost_per_task: Amount | None
    seconds_per_task: Amount | None
    tokens_per_task: Amount | None
    comparison: Comparison | None


Metric = Literal["pass@1", "pass@k", "cost", "time", "tokens"]


class Leaderboard(Resource):
    """The standings of a benchmark by one metric, and what does not rank, with the reason."""

    benchmark_id: UUID
    benchmark_name: str
    metric: Metric
    sequence: int
    standings: list[Standing]
    not_ranked: list["NotRanked"]


class NotRanked(Resource):
    """An agent of a run that is not on the leaderboard, and why."""

    run_id: UUID
    run_name: str
    agent: int
    harness: str | None
    model: str
    reason: str


class ServiceStatus(Resource):
    """What one service says of itself."""

    service: str
    ready: bool
    version: str
    instance: str
    projections: dict[str, int] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)


class SystemStatus(Resource):
    """Every service, and whether the whole is ready."""

    ready: bool
    version: str
    services: list[ServiceStatus]
    missing: list[str]


class RowDifference(Resource):
    """A row that differs between the serving read model and the fold from sequence 0."""

    table: str
    key: dict[str, Any]
    columns: list[str]
    problem: Literal["differs", "missing", "unexpected"]


class ReplayReport(Resource):
    """What a replay of one projection found."""

    service: str
    projection: str
    sequence: int
    events: int
    rows: dict[str, int]
    identical: bool
    swapped: bool
    differences: list[RowDifference]
    seconds: float


class Replay(Request):
    """`POST /api/v1/system/replay`: fold again and compare, or swap in (`verify` false)."""

    verify: bool = True
    service: str | None = None


class SecretEntry(Resource):
    """A secret's record; its value never leaves."""

    name: str
    scope: Literal["workspace", "user"]
    created_at: datetime
    updated_at: datetime
    updated_by: str


class SetSecret(Request):
    """`PUT /api/v1/secrets/{name}`."""

    value: str = Field(min_length=1, max_length=65536, repr=False)
    scope: Literal["workspace", "user"] = "user"


class ClaimSecrets(Request):
    """A runner that holds a claimed try asks for its secrets, sealed to `public_key` (base64)."""

    workspace: str
    run: UUID
    names: list[str]
    public_key: str


class SealedSecrets(Resource):
    """The secrets as a sealed box (base64) over a JSON object of names to values."""

    sealed: str
