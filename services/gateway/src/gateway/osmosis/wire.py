"""The shapes that the Osmosis client reads and sends.

They are that client's, and no part of our own HTTP contract: they change with it alone. A moment is
ISO 8601 with its time zone, a rate lies between 0 and 1, durations are seconds, money is USD. What
nothing is known of is null. `platform_url` is null as long as there is no page to open.
"""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from assay_contracts.identity import Role
from assay_contracts.values import Difficulty, RunStatus, SourceType, SyncStatus

LONGEST_DEVICE_NAME = 200


class Answer(BaseModel):
    """Base of what the client reads."""

    model_config = ConfigDict(extra="forbid")


class Sent(BaseModel):
    """Base of what the client sends: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class Paged(Answer):
    """The paging of every list."""

    total_count: int
    has_more: bool
    next_offset: int | None


class User(Answer):
    """Who a token belongs to; the client refuses an empty id or address."""

    id: str
    email: str
    name: str | None


class VerifiedWorkspace(Answer):
    """The workspace that the request's scope names."""

    id: str
    name: str
    role: Role | None


class Verified(Answer):
    """A token that is good; null in `expires_at` is for ever."""

    user: User
    expires_at: datetime | None
    token_id: UUID | None
    workspace: VerifiedWorkspace | None


class AuthorizeDevice(Sent):
    """A device without a browser, which asks to be signed in."""

    device_name: str = Field(default="a device", min_length=1, alias="deviceName")


class AuthorizedDevice(Answer):
    """What the device shows and asks with (RFC 8628); times in seconds."""

    device_code: str = Field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class PollDevice(Sent):
    """A device that asks how it stands."""

    device_code: str = Field(max_length=200, repr=False)


class DeviceToken(Answer):
    """The token of a device that was let in."""

    token: str = Field(repr=False)
    token_id: UUID
    expires_at: datetime | None
    user: User


class ConnectedRepository(Answer):
    """The repository whose clones name a workspace."""

    repo_full_name: str


class Workspace(Answer):
    """A workspace of the caller's."""

    id: str
    name: str
    connected_repo: ConnectedRepository | None


class Workspaces(Answer):
    """Every workspace of the caller's."""

    workspaces: list[Workspace]


class Secret(Answer):
    """A secret's record, never its value."""

    id: str
    name: str
    scope: Literal["workspace", "user"]
    created_at: datetime
    updated_at: datetime
    creator_name: str | None
    updater_name: str | None
    platform_url: str | None = None


class Secrets(Paged):
    """A page of secrets."""

    environment_secrets: list[Secret]
    platform_url: str | None = None


class SetSecret(Sent):
    """A value to keep."""

    name: str
    value: str = Field(min_length=1, max_length=65536, repr=False)
    scope: Literal["workspace", "user"]


class DeleteSecret(Sent):
    """A record to delete."""

    name: str
    scope: Literal["workspace", "user"]


class TaskSet(Answer):
    """A published subset of a benchmark."""

    name: str
    task_count: int
    recommended: bool
    description: str | None


class Benchmark(Answer):
    """What a list and a detail say of a benchmark; `task_count` is what is expected while the task
    list is read."""

    id: UUID
    name: str
    description: str | None
    source_type: SourceType
    source_ref: str
    source_url: str | None
    task_count: int
    category_count: int
    task_sets: list[TaskSet]
    sync_status: SyncStatus
    synced_task_count: int
    sync_error: str | None
    platform_url: str | None = None
    run_count: int
    running_count: int
    last_run_at: datetime | None
    last_run_status: RunStatus | None
    last_run_name: str | None
    creator_name: str


class Benchmarks(Paged):
    """A page of benchmarks."""

    benchmarks: list[Benchmark]


class Category(Answer):
    """A category with the number of its tasks."""

    name: str
    task_count: int


class Task(Answer):
    """A task of the pinned list."""

    name: str
    category: str | None
    difficulty: Difficulty | None


class UnavailableTasks(Answer):
    """Tasks that cannot be run, with every reason there is."""

    reason: str
    tasks: list[Task]


class BenchmarkDetail(Benchmark):
    """One benchmark with its rules and its task list; `tasks` are those that can be run."""

    runner_family: str
    supports_harness: bool
    requires_harness: bool
    default_harness: str | None
    requires_judge_model: bool
    requires_judge_api_key: bool
    judge_model_default: str | None
    pass_threshold: float
    categories: list[Category]
    tasks: list[Task]
    unavailable_tasks: UnavailableTasks | None


class Rate(Answer):
    """A rate with its 95% interval, over `n` tasks."""

    value: float
    ci_low: float
    ci_high: float
    n: int


class RateAtK(Rate):
    """The rate of solving a task in at least one of `k` attempts."""

    k: int


class RunBehind(Answer):
    """The run behind a standing."""

    id: UUID
    name: str
    platform_url: str | None = None


class Standing(Answer):
    """One entrant of a leaderboard by pass@1."""

    rank: int | None
    tied: bool
    harness: str | None
    model: str
    task_set: str
    pass_at_1: Rate
    pass_at_k: list[RateAtK]
    cost_per_task: float | None
    mean_duration_seconds: float | None
    tokens_per_task: float | None
    run: RunBehind


class ShownBenchmark(Answer):
    """One benchmark and its leaderboard."""

    benchmark: BenchmarkDetail
    leaderboard: list[Standing]


class SubmittedSecrets(Sent):
    """Names that a run needs besides its keys, and values of some for this run alone."""

    required: list[Any] = Field(default_factory=list)
    provided: dict[str, str] = Field(default_factory=dict, repr=False)


class SubmitRun(Sent):
    """A run configuration, section by section; what is in them is checked as every other is."""

    experiment_config: dict[str, Any]
    agents: list[Any]
    tasks_config: dict[str, Any] | None = None
    execution_config: dict[str, Any] | None = None
    env_config: dict[str, Any] | None = None
    secrets: SubmittedSecrets | None = None


class SubmittedRun(Answer):
    """A run just submitted; `task_count` counts tasks, not results."""

    id: UUID
    name: str
    status: RunStatus
    workflow_id: str
    task_count: int
    created_at: datetime
    platform_url: str | None = None


class Run(Answer):
    """A run in a list."""

    id: UUID
    name: str
    status: RunStatus
    benchmark_id: UUID
    benchmark_name: str
    agent_count: int
    best_pass_at_1: float | None
    ingested_results: int
    expected_results: int
    creator_name: str
    creator_email: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    platform_url: str | None = None


class Runs(Paged):
    """A page of runs."""

    benchmark_runs: list[Run]


class Configuration(Answer):
    """What a run was asked for, and what it is pinned to."""

    benchmark_id: UUID
    benchmark_name: str
    source_type: SourceType
    source_ref: str
    resolved_version: str
    resolved_digest: str
    task_filters: dict[str, Any]
    config: dict[str, Any]
    resolved_secret_scopes: dict[str, str]


class Aggregates(Answer):
    """Sums and means of an agent's counted results."""

    reported_cost_usd: float | None
    mean_duration_seconds: float | None
    tokens_per_task: float | None


class RunAgent(Answer):
    """An agent of a run; its variables are the run's and its own, which win."""

    id: UUID
    agent_index: int
    harness: str | None
    model: str
    model_display_name: str
    status: RunStatus
    environment_variables: dict[str, str]
    aggregates: Aggregates


class AgentMetrics(Answer):
    """An agent's rates; `rank` is its place on the benchmark's leaderboard, if it has one."""

    benchmark_run_agent_id: UUID
    rank: int | None
    n_tasks: int
    pass_at_1: Rate | None
    pass_at_k: list[RateAtK]


class Progress(Answer):
    """How many results there are, of how many."""

    ingested: int
    expected: int


class Totals(Answer):
    """Outcomes and consumption of all agents."""

    passed: int
    failed: int
    errored: int
    cancelled: int
    total_input_tokens: int | None
    total_output_tokens: int | None
    total_cost_usd: float | None


class ShownRun(Answer):
    """One run, whole."""

    benchmark_run: Run
    configuration: Configuration
    agents: list[RunAgent]
    progress: Progress
    totals: Totals
    agent_metrics: list[AgentMetrics]


class LogLine(Answer):
    """One line of a run's log."""

    timestamp: datetime
    level: str
    step: str
    message: str
    details: dict[str, Any] | None


class Logs(Answer):
    """Lines, the oldest first; `next_cursor` goes on in the direction that was asked for."""

    logs: list[LogLine]
    next_cursor: str | None


class ManifestFile(Answer):
    """A file of a run; `size` in bytes, `token` stands for exactly these."""

    path: str
    size: int
    token: str


class FileTotals(Answer):
    """How many files of a type there are, and their bytes together."""

    files: int
    bytes: int


class Manifest(Answer):
    """The files of a run, with totals by type."""

    files: list[ManifestFile]
    totals: dict[str, FileTotals]


class DownloadUrl(Answer):
    """Where a file is to be had."""

    path: str
    token: str | None
    url: str


class DownloadUrls(Answer):
    """Addresses, valid for `expires_in` seconds."""

    items: list[DownloadUrl]
    expires_in: int
