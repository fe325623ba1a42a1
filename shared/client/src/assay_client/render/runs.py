"""How runs look: the list, the page of one, its results."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from assay_client.render import values
from assay_client.render.measures import measures
from assay_client.render.output import Frame, facts, status, table, text
from assay_client.render.paging import more
from assay_contracts.http import (
    AgentRow,
    Page,
    PauseEntry,
    ResultRow,
    RetriedRun,
    RunDetail,
    RunEntry,
    RunLimits,
)

_PARTIAL = {
    False: "some results are missing yet, and the rate may change",
    True: "some slots have no result, and count in nothing",
}
_SOURCES = {"harbor": "a Harbor job", "inspect": "an Inspect log", "table": "a table of results"}


def run_list(page: Page[RunEntry], frame: Frame) -> Iterator[RenderableType]:
    """Runs, without the last two columns where there is little room."""
    if not page.items:
        yield text("No runs yet; submit one with: assay run submit FILE")
        return
    wide = () if frame.is_narrow else (">Agents", "Submitted By")
    drawn = table("Name", "Status", ">Progress", "Benchmark", ">Best Pass@1", "Submitted", *wide)
    for run in page.items:
        cells = [
            text(f"{run.name} [imported]" if run.imported else run.name),
            status(run.status.value),
            text(f"{run.ingested_results:,}/{run.expected_results:,}"),
            text(run.benchmark_name),
            text(values.percent(run.best_pass_at_1)),
            text(values.age(run.submitted_at, frame.now)),
        ]
        if wide:
            cells += [text(run.agent_count), text(run.submitted_by)]
        drawn.add_row(*cells)
    yield drawn
    yield from more(page)


def submitted(run: RunEntry, _: Frame) -> Iterator[RenderableType]:
    """What a submission led to."""
    yield text(
        f"Submitted {run.name}: {values.plural(run.expected_results, 'result')} of "
        f"{values.plural(run.agent_count, 'agent')} on {run.benchmark_name}"
    )
    yield text(f"  follow it   assay run watch {run.name}")
    yield text(f"  stop it     assay run stop {run.name}")


def stopping(run: RunEntry, _: Frame) -> Iterator[RenderableType]:
    """What a request to stop led to."""
    if run.status.is_terminal:
        yield text(f"{run.name} is {run.status.value}")
    else:
        yield text(f"{run.name} is stopping; the results that are there stay")


def deleted(ref: str) -> Iterator[RenderableType]:
    """What a deletion led to."""
    yield text(f"{ref} is deleted; its events stay, and its name stays taken")


def pausing(run: RunEntry, frame: Frame) -> Iterator[RenderableType]:
    """What a request to pause or to resume led to."""
    if not run.pauses:
        yield text(f"{run.name} goes on")
    for pause in run.pauses:
        yield text(f"{run.name}: {_pause(pause, run.name, frame.now)}")


def _pause(pause: PauseEntry, name: str, now: datetime) -> str:
    who = "the run" if pause.agent is None else f"agent {pause.agent}"
    chosen = "" if pause.agent is None else f" --agent {pause.agent}"
    after = f"go on with: assay run resume {name}{chosen}"
    if pause.until is not None:
        left = max(0.0, (pause.until - now).total_seconds())
        after = f"goes on by itself in {values.seconds(left)}"
    return f"{who} is paused by {pause.paused_by}: {pause.reason}; {after}"


def retried(run: RetriedRun, _: Frame) -> Iterator[RenderableType]:
    """What a request to run errored results again led to."""
    yield text(f"{run.name}: {values.plural(run.slots, 'errored result')} to run again")
    yield text(f"  follow it   assay run watch {run.name}")


def run_page(run: RunDetail, frame: Frame) -> Iterator[RenderableType]:
    """Status, pins, agents with their metrics, and why each result that is no pass is none."""
    yield facts(_facts(run, frame.now))
    yield _agents(run)
    yield from measures(run.agents, frame)
    if any(_is_partial(agent) for agent in run.agents):
        yield text(f"partial: {_PARTIAL[run.status.is_terminal]}", style="dim")
    if run.problems:
        yield problem_table(run, frame)


def _is_partial(agent: AgentRow) -> bool:
    return agent.pass_at_1 is not None and agent.pass_at_1.partial


def _facts(run: RunDetail, now: datetime) -> Iterator[tuple[str, object]]:
    shown = status(run.status.value)
    yield ("Name", run.name)
    yield ("Id", run.id)
    yield ("Status", Text.assemble(shown, ": ", text(run.reason)) if run.reason else shown)
    yield ("Progress", _progress(run))
    for pause in run.pauses:
        yield ("Paused", _pause(pause, run.name, now))
    if run.limits is not None:
        yield ("Limits", ", ".join(_limits(run.limits, now)))
    if run.imported is not None:
        yield ("Imported", f"{_SOURCES[run.imported.kind]}, sha256:{run.imported.digest}")
    yield ("Benchmark", f"{run.benchmark_name} ({run.benchmark_key})")
    yield ("Version", run.benchmark_version)
    yield ("Digest", run.benchmark_digest)
    yield ("Tasks", _selection(run))
    if run.imported is None:
        yield ("Environment", run.environment or "the runner's choice")
    yield ("Settings", _settings(run.config.get("execution")))
    if run.secret_scopes:
        yield ("Secrets", secrets_by_scope(run.secret_scopes))
    yield ("Best Pass@1", _best(run))
    yield ("Submitted", f"{values.moment(run.submitted_at)} by {run.submitted_by}")
    yield ("Started", values.moment(run.started_at))
    yield ("Ended", values.moment(run.ended_at))
    if run.started_at is not None:
        passed = (run.ended_at or now) - run.started_at
        yield ("Duration", values.seconds(max(0.0, passed.total_seconds())))


def _limits(limits: RunLimits, now: datetime) -> Iterator[str]:
    if limits.deadline_at is not None:
        left = (limits.deadline_at - now).total_seconds()
        after = f" ({values.seconds(left)} left)" if left > 0 else ""
        yield f"deadline {values.moment(limits.deadline_at)}{after}"
    if limits.budget_usd is not None:
        yield f"{limits.spent_usd or 0:.2f} of {limits.budget_usd:.2f} USD spent"
    if limits.budget_tokens is not None:
        yield f"{limits.spent_tokens or 0:,} of {limits.budget_tokens:,} tokens spent"


def _best(run: RunDetail) -> str:
    rates = [agent.pass_at_1 for agent in run.agents if agent.pass_at_1 is not None]
    return values.rate(max(rates, key=lambda one: one.value, default=None))


def _progress(run: RunDetail) -> str:
    share = run.ingested_results / run.expected_results if run.expected_results else 0.0
    again = f", {run.reopened_results:,} to run again" if run.reopened_results else ""
    done = f"{run.ingested_results:,} of {run.expected_results:,} results ({share:.0%})"
    return f"{done}{again}{left(run)}"


def left(run: RunDetail) -> str:
    """How long the run will take yet, where that can be said; begins with a comma."""
    if run.seconds_left is None:
        return ""
    return f", about {values.seconds(run.seconds_left)} left"


def _selection(run: RunDetail) -> str:
    chosen = run.selection
    named = {"full": "all", "custom": "chosen"}.get(chosen.task_set, f"task set {chosen.task_set}")
    tasks = f"{named}: {values.plural(chosen.task_count, 'task')}"
    return f"{tasks} of {', '.join(chosen.categories)}" if chosen.categories else tasks


def _settings(execution: object) -> str:
    if not isinstance(execution, Mapping) or not execution:
        return "defaults"
    return ", ".join(f"{key} {value}" for key, value in execution.items() if value is not None)


def _why_no_results(page: Page[ResultRow], agents: Sequence[AgentRow]) -> str:
    if page.total_count:
        return "No more results"
    has_some = any(agent.ingested_results for agent in agents)
    return "No result is of that kind" if has_some else "No results yet"


def secrets_by_scope(scopes: Mapping[str, str]) -> str:
    """The names of secrets, each with whose value it is."""
    return ", ".join(f"{name} ({values.scope(kind)})" for name, kind in scopes.items())


def _agents(run: RunDetail) -> RenderableType:
    headings = (">Results", ">Passed", ">Failed", ">Errored", ">Cancelled")
    drawn = table(">#", "Agent", "Status", *headings, title="\nAgents")
    for agent in run.agents:
        drawn.add_row(
            text(agent.index),
            text(values.agent_label(agent.harness, agent.model)),
            status(agent.status.value),
            text(f"{agent.ingested_results:,}/{agent.expected_results:,}"),
            *(
                text(f"{number:,}")
                for number in (agent.passed, agent.failed, agent.errored, agent.cancelled)
            ),
        )
    return drawn


def problem_table(run: RunDetail, frame: Frame) -> RenderableType:
    """Results that are no pass, with what became of them and why."""
    title = "\nResults without a pass"
    if frame.is_narrow:
        drawn = table("Result", "Outcome", "Reason", title=title)
        for row in run.problems:
            place = f"{row.task}\nagent {row.agent}, attempt {row.attempt}"
            what = f"{_outcome(row)}\n{row.cause.value if row.cause else ''}".rstrip()
            drawn.add_row(text(place), text(what), text(row.reason or values.MISSING))
        drawn.columns[0].max_width = 28
        drawn.columns[2].min_width = 30
        return drawn
    headings = (">Agent", ">Attempt", "Outcome", "Cause", "Reason")
    drawn = table("Task", *headings, title=title)
    for row in run.problems:
        drawn.add_row(
            text(row.task),
            text(row.agent),
            text(row.attempt),
            status(_outcome(row)),
            text(row.cause.value if row.cause else values.MISSING),
            text(row.reason or values.MISSING),
        )
    return drawn


def _outcome(row: ResultRow) -> str:
    return row.outcome.value if row.outcome else "no verdict"


def result_list(
    page: Page[ResultRow], agents: Sequence[AgentRow], frame: Frame
) -> Iterator[RenderableType]:
    """Results slot by slot, without what they took where there is little room; `agents` gives the
    numbers a legend."""
    if not page.items:
        yield text(_why_no_results(page, agents))
        return
    wide = () if frame.is_narrow else (">Cost", ">Tokens", "Category")
    headings = (">Agent", ">Attempt", ">Try", "Outcome", "Cause", ">Reward", ">Time")
    drawn = table("Task", *headings, *wide)
    for row in page.items:
        cells = [
            text(row.task),
            text(row.agent),
            text(row.attempt),
            text(row.try_number),
            status(_outcome(row)),
            text(row.cause.value if row.cause else values.MISSING),
            text(values.MISSING if row.reward is None else f"{row.reward:g}"),
            text(values.seconds(row.seconds)),
        ]
        if wide:
            cells += [
                text(values.cost(row.usage.cost_usd)),
                text(values.tokens(row.usage.tokens)),
                text(row.category or values.MISSING),
            ]
        drawn.add_row(*cells)
    yield drawn
    yield from more(page)
    for agent in agents:
        yield text(f"agent {agent.index}: {values.agent_label(agent.harness, agent.model)}")
