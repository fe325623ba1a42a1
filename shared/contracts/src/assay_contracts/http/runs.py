"""Runs: submitting, listing, results and artifacts, stop, pause and retry."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from assay_contracts.http.base import Request, Resource, with_example
from assay_contracts.http.measures import AgentMeasures
from assay_contracts.run_events import Durations, JudgeRecord, Usage
from assay_contracts.values import CauseClass, ImportSource, Outcome, RunStatus, Selection

ResultSort = Literal["agent", "task", "attempt", "outcome", "reward", "seconds", "cost", "tokens"]
"""What a run's results can be sorted by; `cost` is in USD, `tokens` are input and output."""

SortOrder = Literal["asc", "desc"]


class SubmitRun(Request):
    """`POST /api/v1/runs`: the configuration (the TOML as an object), the sandbox environment
    (default: the runner's choice) and the values of `[secrets].required` for this run alone."""

    model_config = with_example(
        config={
            "experiment": {"benchmark": "terminal-bench-2-1"},
            "tasks": {"task_names": ["terminal-bench/git-multibranch"]},
            "execution": {"attempts_per_task": 3},
            "agents": [
                {
                    "harness": "codex",
                    "model": {
                        "type": "provider",
                        "model": "openai/gpt-5.2",
                        "api_key_secret": "OPENAI_API_KEY",
                    },
                }
            ],
        }
    )

    config: dict[str, Any] = Field(
        examples=[
            {
                "experiment": {"benchmark": "terminal-bench/terminal-bench-2-1"},
                "execution": {"attempts_per_task": 3, "max_concurrent_attempts": 4},
                "agents": [
                    {
                        "harness": "codex",
                        "model": {
                            "type": "provider",
                            "model": "openai/gpt-5.2",
                            "api_key_secret": "OPENAI_API_KEY",
                        },
                    }
                ],
            }
        ]
    )
    environment: str | None = None
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)


class Forecast(Resource):
    """A total that is to come: its median, and an interval that is meant to hold it 19 times of 20.

    `results` says from how many past results it was drawn.
    """

    median: float
    low: float
    high: float
    results: int


class AgentEstimate(Resource):
    """What an agent is likely to take, from its own latest results on the benchmark.

    `cost_usd` is the agent's own, without a judge's; `busy_seconds` is the time of all its
    sandboxes together. Null where nothing can be said: `why_no_cost` and `why_no_time` then say
    why. `past_results` had `past_tries` tries, in `past_runs` runs; `known_tasks` of the selected
    tasks are among them.
    """

    agent: int
    past_runs: int
    past_results: int
    past_tries: int
    known_tasks: int
    cost_usd: Forecast | None
    why_no_cost: str | None
    busy_seconds: Forecast | None
    why_no_time: str | None


class RunEstimate(Resource):
    """What a run is likely to cost (USD, all agents together), and how long it takes (seconds).

    `seconds` is the time of all sandboxes over `concurrency`, the number that is at work at a time:
    what was asked for, times the share of it that `measured_runs` past runs of the benchmark kept
    busy (all of it where none was measured).
    """

    cost_usd: Forecast | None
    why_no_cost: str | None
    seconds: Forecast | None
    why_no_time: str | None
    concurrency: float
    measured_runs: int
    agents: list[AgentEstimate]


class PlannedAgent(Resource):
    """An agent as it would run."""

    index: int
    harness: str | None
    model: str


class RunWarning(Resource):
    """Something that is allowed, and that the submitter may not mean; `code` is stable."""

    code: Literal["TASK_SET_RECOMMENDED", "TASKS_UNAVAILABLE", "DOES_NOT_RANK"]
    message: str


class RunPreview(Resource):
    """`POST /api/v1/runs/validate`: what a submission would lead to; nothing was done.

    `slots` are tasks x agents x attempts: as many results are to come.
    """

    benchmark_id: UUID
    benchmark_name: str
    benchmark_key: str
    benchmark_version: str
    benchmark_digest: str
    selection: Selection
    agents: list[PlannedAgent]
    attempts_per_task: int
    max_concurrent_attempts: int
    slots: int
    environment: str | None
    secret_scopes: dict[str, str]
    warnings: list[RunWarning]
    estimate: RunEstimate


class AgentRow(AgentMeasures):
    """One agent of a run with its measures."""

    index: int
    harness: str | None
    model: str
    status: RunStatus
    expected_results: int
    ingested_results: int


class PauseEntry(Resource):
    """A pause of an agent, or of the whole run where `agent` is null; `until` is when it goes on
    by itself, null where somebody has to ask for it."""

    agent: int | None
    reason: str
    paused_by: str
    since: datetime
    until: datetime | None


class RunEntry(Resource):
    """A run in a list. `imported` says where its results were made if not here; `reopened_results`
    errored before and are to run again: until they have, they are none of the ingested."""

    id: UUID
    name: str
    status: RunStatus
    reason: str | None
    benchmark_id: UUID
    benchmark_name: str
    agent_count: int
    expected_results: int
    ingested_results: int
    reopened_results: int = 0
    pauses: list[PauseEntry] = Field(default_factory=list)
    best_pass_at_1: float | None
    submitted_by: str
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    imported: ImportSource | None


class RunLimits(Resource):
    """What stops a run by itself, and how much of it is used; null where there is no such limit.

    Spent is what agents and judges report, of every try.
    """

    deadline_at: datetime | None
    budget_usd: float | None
    spent_usd: float | None
    budget_tokens: int | None
    spent_tokens: int | None


class RunDetail(RunEntry):
    """One run: what was asked for, pinned to what, and how each agent does.

    `seconds_left` is an estimate from the pace of the latest results; null while nothing can be
    said.
    """

    seconds_left: float | None = None
    limits: RunLimits | None = None

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
    """The counted result of one slot, or the latest try where none is counted yet.

    `category` and `difficulty` are the task's, where the benchmark names them.
    """

    slot_id: UUID
    agent: int
    task: str
    category: str | None = None
    difficulty: str | None = None
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
    judge: JudgeRecord | None
    artifacts_sha256: str | None


class ArtifactEntry(Resource):
    """A file that a try left; `size` in bytes."""

    path: str
    size: int
    sha256: str


class StopRun(Request):
    """`POST /api/v1/runs/{run}/stop`."""

    model_config = with_example(reason="the wrong model")

    reason: str = "stopped by a user"


class PauseRun(Request):
    """`POST /api/v1/runs/{run}/pause`: an agent (number, `model (harness)`, harness or model), or
    the whole run."""

    model_config = with_example(agent="codex", reason="the provider is busy")

    agent: str | None = None
    reason: str = "paused by a user"


class ResumeRun(Request):
    """`POST /api/v1/runs/{run}/resume`: an agent, or all that is paused of the run."""

    model_config = with_example(agent="codex", reason="the provider is back")

    agent: str | None = None
    reason: str = "resumed by a user"


class RetryRun(Request):
    """`POST /api/v1/runs/{run}/retry`: the errored slots that are to run again.

    All of them, or those of some agents (number, `model (harness)`, harness or model) and tasks.
    `secrets` are values for the names in `secrets.required`: those given before ended with the run.
    """

    model_config = with_example(agents=["codex"], reason="the provider was down")

    agents: list[str] = Field(default_factory=list)
    tasks: list[str] = Field(default_factory=list)
    reason: str = "retried by a user"
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)


class RetriedRun(RunEntry):
    """A run that was reopened, and how many of its slots run again."""

    slots: int
