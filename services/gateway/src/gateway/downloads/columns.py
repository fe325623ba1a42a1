"""The columns of the two tables that a run is downloaded as, and a row of each.

docs/downloads.md lists them in this order; a test holds the two together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import RowMapping

from assay_contracts.http import AgentRow, Amount, Rate, RateAtK, RunDetail
from assay_contracts.run_events import Durations, SubmittedData

Row = dict[str, Any]
"""A value for each column of a table, None where there is none."""


class Kind(StrEnum):
    """What a column holds. A moment is UTC; JSON is an object or a list."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    MOMENT = "moment"
    JSON = "JSON"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind


def _columns(**kinds: Kind) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in kinds.items())


def _with_interval(name: str) -> dict[str, Kind]:
    return dict.fromkeys((name, f"{name}_ci_low", f"{name}_ci_high"), Kind.NUMBER)


SUMMARY = _columns(
    run_id=Kind.TEXT,
    run_name=Kind.TEXT,
    run_status=Kind.TEXT,
    benchmark=Kind.TEXT,
    benchmark_version=Kind.TEXT,
    benchmark_digest=Kind.TEXT,
    task_set=Kind.TEXT,
    agent=Kind.INTEGER,
    harness=Kind.TEXT,
    model=Kind.TEXT,
    agent_status=Kind.TEXT,
    attempts_per_task=Kind.INTEGER,
    pass_threshold=Kind.NUMBER,
    expected_results=Kind.INTEGER,
    ingested_results=Kind.INTEGER,
    n_tasks=Kind.INTEGER,
    passed=Kind.INTEGER,
    failed=Kind.INTEGER,
    errored=Kind.INTEGER,
    cancelled=Kind.INTEGER,
    partial=Kind.BOOLEAN,
    **_with_interval("pass_at_1"),
    k=Kind.INTEGER,
    **_with_interval("pass_at_k"),
    **_with_interval("pass_hat_k"),
    **_with_interval("cost_usd_per_task"),
    **_with_interval("seconds_per_task"),
    **_with_interval("tokens_per_task"),
    input_tokens=Kind.INTEGER,
    output_tokens=Kind.INTEGER,
    cost_usd=Kind.NUMBER,
    spent_tries=Kind.INTEGER,
    spent_input_tokens=Kind.INTEGER,
    spent_output_tokens=Kind.INTEGER,
    spent_cost_usd=Kind.NUMBER,
    judge_cost_usd=Kind.NUMBER,
    least_detectable_difference=Kind.NUMBER,
    pass_at_every_k=Kind.JSON,
    pass_hat_every_k=Kind.JSON,
    causes=Kind.JSON,
    categories=Kind.JSON,
)
"""One row an agent."""

RESULTS = _columns(
    run_id=Kind.TEXT,
    run_name=Kind.TEXT,
    run_status=Kind.TEXT,
    slot_id=Kind.TEXT,
    agent=Kind.INTEGER,
    harness=Kind.TEXT,
    model=Kind.TEXT,
    task=Kind.TEXT,
    category=Kind.TEXT,
    difficulty=Kind.TEXT,
    attempt=Kind.INTEGER,
    try_number=Kind.INTEGER,
    counted=Kind.BOOLEAN,
    outcome=Kind.TEXT,
    reward=Kind.NUMBER,
    reward_rule=Kind.TEXT,
    cause=Kind.TEXT,
    reason=Kind.TEXT,
    environment=Kind.TEXT,
    runner=Kind.TEXT,
    harness_version=Kind.TEXT,
    started_at=Kind.MOMENT,
    finished_at=Kind.MOMENT,
    seconds=Kind.NUMBER,
    environment_setup_seconds=Kind.NUMBER,
    agent_setup_seconds=Kind.NUMBER,
    agent_seconds=Kind.NUMBER,
    verifier_seconds=Kind.NUMBER,
    input_tokens=Kind.INTEGER,
    cached_tokens=Kind.INTEGER,
    output_tokens=Kind.INTEGER,
    total_tokens=Kind.INTEGER,
    cost_usd=Kind.NUMBER,
    exception_type=Kind.TEXT,
    exception_phase=Kind.TEXT,
    judge_model=Kind.TEXT,
    judge_cost_usd=Kind.NUMBER,
    artifact_files=Kind.INTEGER,
    artifact_bytes=Kind.INTEGER,
    rewards=Kind.JSON,
)
"""One row a slot that has a result."""

_AS_READ = (
    *("agent", "task", "category", "difficulty", "attempt", "try_number", "counted", "outcome"),
    *("reward", "reward_rule", "cause", "reason", "environment", "runner", "harness_version"),
    *("started_at", "finished_at", "seconds", "input_tokens", "cached_tokens", "output_tokens"),
    *("total_tokens", "cost_usd", "rewards"),
)


def summary_row(run: RunDetail, agent: AgentRow, submitted: SubmittedData) -> Row:
    """The row of one agent."""
    at_k, hat_k = _deepest(agent.pass_at_k), _deepest(agent.pass_hat_k)
    return {
        "run_id": str(run.id),
        "run_name": run.name,
        "run_status": run.status.value,
        "benchmark": run.benchmark_name,
        "benchmark_version": run.benchmark_version,
        "benchmark_digest": run.benchmark_digest,
        "task_set": run.selection.task_set,
        "agent": agent.index,
        "harness": agent.harness,
        "model": agent.model,
        "agent_status": agent.status.value,
        "attempts_per_task": submitted.execution.attempts_per_task,
        "pass_threshold": submitted.execution.pass_threshold,
        "expected_results": agent.expected_results,
        "ingested_results": agent.ingested_results,
        "n_tasks": agent.n_tasks,
        "passed": agent.passed,
        "failed": agent.failed,
        "errored": agent.errored,
        "cancelled": agent.cancelled,
        "partial": None if agent.pass_at_1 is None else agent.pass_at_1.partial,
        **_interval("pass_at_1", agent.pass_at_1),
        "k": None if at_k is None else at_k.k,
        **_interval("pass_at_k", at_k),
        **_interval("pass_hat_k", hat_k),
        **_interval("cost_usd_per_task", agent.cost_per_task),
        **_interval("seconds_per_task", agent.seconds_per_task),
        **_interval("tokens_per_task", agent.tokens_per_task),
        "input_tokens": agent.input_tokens,
        "output_tokens": agent.output_tokens,
        "cost_usd": agent.cost_usd,
        "spent_tries": agent.spent.tries,
        "spent_input_tokens": agent.spent.input_tokens,
        "spent_output_tokens": agent.spent.output_tokens,
        "spent_cost_usd": agent.spent.cost_usd,
        "judge_cost_usd": agent.spent.judge_cost_usd,
        "least_detectable_difference": agent.least_detectable_difference,
        "pass_at_every_k": [one.model_dump(mode="json") for one in agent.pass_at_k],
        "pass_hat_every_k": [one.model_dump(mode="json") for one in agent.pass_hat_k],
        "causes": [one.model_dump(mode="json") for one in agent.causes],
        "categories": [one.model_dump(mode="json") for one in agent.categories],
    }


def _deepest(rates: Sequence[RateAtK]) -> RateAtK | None:
    return max(rates, key=lambda one: one.k, default=None)


def _interval(name: str, shown: Rate | Amount | None) -> Row:
    return {
        name: None if shown is None else shown.value,
        f"{name}_ci_low": None if shown is None else shown.ci_low,
        f"{name}_ci_high": None if shown is None else shown.ci_high,
    }


def result_row(run: RowMapping, submitted: SubmittedData, found: RowMapping) -> Row:
    """The row of one slot, from its counted or latest try."""
    agent = submitted.agents[found["agent"]]
    durations = found["durations"] or {}
    exception, judge = found["exception"] or {}, found["judge"] or {}
    artifacts = found["artifacts"] or {}
    return {
        "run_id": str(run["id"]),
        "run_name": run["name"],
        "run_status": run["status"],
        "slot_id": str(found["slot"]),
        "harness": agent.harness,
        "model": agent.model_label,
        **{name: found[name] for name in _AS_READ},
        **{f"{part}_seconds": durations.get(part) for part in Durations.model_fields},
        "exception_type": exception.get("type"),
        "exception_phase": exception.get("phase"),
        "judge_model": judge.get("model"),
        "judge_cost_usd": judge.get("usage", {}).get("cost_usd"),
        "artifact_files": artifacts.get("files", 0),
        "artifact_bytes": artifacts.get("bytes", 0),
    }
