"""How a submission looks that was checked and not made: what would run, and what it may take."""

from collections.abc import Iterator

from rich.console import RenderableType

from assay_client.render import values
from assay_client.render.output import Frame, facts, table, text
from assay_client.render.runs import secrets_by_scope
from assay_contracts.http import Forecast, RunEstimate, RunPreview


def preview(run: RunPreview, _: Frame) -> Iterator[RenderableType]:
    """The selection and its size, the agents with their estimates, then what to think about."""
    yield facts(_facts(run))
    yield _agents(run)
    for warning in run.warnings:
        yield text(f"Warning: {warning.message}", style="yellow")
    yield text("Nothing was submitted", style="dim")


def _facts(run: RunPreview) -> Iterator[tuple[str, object]]:
    tasks, agents = run.selection.task_count, len(run.agents)
    parts = (
        values.plural(tasks, "task"),
        values.plural(agents, "agent"),
        values.plural(run.attempts_per_task, "attempt"),
    )
    yield ("Benchmark", f"{run.benchmark_name} ({run.benchmark_key})")
    yield ("Version", run.benchmark_version)
    yield ("Digest", run.benchmark_digest)
    yield ("Tasks", f"{run.selection.task_set}: {parts[0]}")
    yield ("Results", f"{run.slots:,} ({' x '.join(parts)})")
    yield ("Environment", run.environment or "the runner's choice")
    if run.secret_scopes:
        yield ("Secrets", secrets_by_scope(run.secret_scopes))
    yield ("Cost", _cost(run.estimate.cost_usd, run.estimate.why_no_cost))
    yield ("Time", _time(run.estimate))


def _cost(cost: Forecast | None, why_not: str | None) -> str:
    if cost is None:
        return f"no estimate: {why_not}"
    between = f"{values.cost(cost.low)}{values.MISSING}{values.cost(cost.high)}"
    return f"about {values.cost(cost.median)} ({between}), from {_past(cost)}"


def _time(estimate: RunEstimate) -> str:
    time = estimate.seconds
    if time is None:
        return f"no estimate: {estimate.why_no_time}"
    between = f"{values.seconds(time.low)}{values.MISSING}{values.seconds(time.high)}"
    at_once = f"{estimate.concurrency:.1f}".removesuffix(".0")
    how = f"{at_once} at a time, from {_past(time)}"
    return f"about {values.seconds(time.median)} ({between}), {how}"


def _past(forecast: Forecast) -> str:
    return values.plural(forecast.results, "past result")


def _agents(run: RunPreview) -> RenderableType:
    headings = (">Past Results", ">Past Tries", ">Known Tasks", ">Cost", ">Sandbox Time")
    drawn = table(">#", "Agent", *headings, title="\nAgents")
    for agent, past in zip(run.agents, run.estimate.agents, strict=True):
        cost, busy = past.cost_usd, past.busy_seconds
        drawn.add_row(
            text(agent.index),
            text(values.agent_label(agent.harness, agent.model)),
            text(f"{past.past_results:,}"),
            text(f"{past.past_tries:,}"),
            text(f"{past.known_tasks:,}/{run.selection.task_count:,}"),
            text(values.cost(cost.median if cost else None)),
            text(values.seconds(busy.median if busy else None)),
        )
    return drawn
