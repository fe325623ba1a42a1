"""What a configuration asks for, held against the benchmark: rules, task selection, judge. Pure.

Every mistake is found before any is told.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz import process

from assay_contracts.http import TaskRow
from assay_contracts.identifiers import format_positions
from assay_contracts.run_config import Agent, ConfigIssue, RunConfig, Tasks
from assay_contracts.run_events import ResolvedExecution
from assay_contracts.values import BenchmarkRules, Selection, SourceType, TaskSet

_CUSTOM = "custom"
_FULL = "full"


@dataclass(frozen=True)
class Offer:
    """What a benchmark offers: its pinned task list, the sets it publishes, its rules."""

    tasks: Sequence[TaskRow]
    task_sets: Sequence[TaskSet]
    rules: BenchmarkRules
    source_type: SourceType


@dataclass(frozen=True)
class Resolved:
    """What will run; `issues` holds every mistake, and the rest is only meant without any."""

    selection: Selection
    agents: tuple[Agent, ...]
    execution: ResolvedExecution
    issues: tuple[ConfigIssue, ...]


def resolve(config: RunConfig, offer: Offer) -> Resolved:
    """Hold a configuration against what the benchmark offers."""
    issues: list[ConfigIssue] = []
    selection = _select(config.tasks, offer, issues)
    agents = tuple(
        _agent(index, agent, offer.rules, issues) for index, agent in enumerate(config.agents)
    )
    issues.extend(_judge_issues(config, offer.rules))
    if config.verifier.required and offer.source_type is SourceType.MANAGED:
        issues.append(
            ConfigIssue(key="verifier", message="is for registry datasets; this one is managed")
        )
    execution = config.execution
    rules = offer.rules
    return Resolved(
        selection=selection,
        agents=agents,
        execution=ResolvedExecution(
            attempts_per_task=execution.attempts_per_task,
            max_concurrent_attempts=execution.max_concurrent_attempts,
            timeout_multiplier=execution.timeout_multiplier,
            max_retries=execution.max_retries,
            pass_threshold=rules.pass_threshold
            if execution.pass_threshold is None
            else execution.pass_threshold,
            reward_key=rules.reward_key,
            judge_model=execution.judge_model or rules.judge_model_default,
            judge_api_key_secret=execution.judge_api_key_secret,
        ),
        issues=tuple(issues),
    )


def _agent(index: int, agent: Agent, rules: BenchmarkRules, issues: list[ConfigIssue]) -> Agent:
    key = f"agents[{index}].harness"
    if agent.harness is not None:
        if not rules.supports_harness:
            issues.append(
                ConfigIssue(key=key, message="is not allowed: the benchmark has its own agent loop")
            )
        return agent
    if rules.default_harness is None and rules.requires_harness:
        issues.append(ConfigIssue(key=key, message="is required by the benchmark"))
        return agent
    return agent.model_copy(update={"harness": rules.default_harness})


def _judge_issues(config: RunConfig, rules: BenchmarkRules) -> Iterator[ConfigIssue]:
    execution = config.execution
    needs_key = rules.requires_judge_model or rules.requires_judge_api_key
    if execution.judge_model is not None and not rules.requires_judge_model:
        why = "the benchmark pins its own grader" if needs_key else "the benchmark has no judge"
        yield ConfigIssue(key="execution.judge_model", message=f"is not allowed: {why}")
    if execution.judge_api_key_secret is not None and not needs_key:
        yield ConfigIssue(
            key="execution.judge_api_key_secret",
            message="is not allowed: the benchmark has no judge",
        )
    if execution.judge_api_key_secret is None and needs_key:
        yield ConfigIssue(
            key="execution.judge_api_key_secret", message="is required: a judge grades the results"
        )


def _select(tasks: Tasks, offer: Offer, issues: list[ConfigIssue]) -> Selection:
    found = len(issues)
    if tasks.task_set is not None:
        chosen = _of_set(tasks.task_set, offer, issues)
        name = tasks.task_set
    elif tasks.categories or tasks.task_names:
        chosen = _of_categories(tasks, offer, issues) | _of_names(tasks, offer, issues)
        name = _CUSTOM
    else:
        chosen, name = set(range(len(offer.tasks))), _FULL
    runnable = {place for place in chosen if offer.tasks[place].unavailable is None}
    if not runnable and len(issues) == found:
        issues.append(ConfigIssue(key="tasks", message="nothing that can be run is left"))
    return Selection(
        task_set=name,
        positions=None if name == _FULL else format_positions(runnable),
        categories=tuple(tasks.categories) if name == _CUSTOM else (),
        task_count=max(len(runnable), 1),
    )


def _of_set(name: str, offer: Offer, issues: list[ConfigIssue]) -> set[int]:
    published = {one.name: one for one in offer.task_sets}
    if name not in published:
        known = ", ".join(sorted(published)) or "none"
        issues.append(
            ConfigIssue(
                key="tasks.task_set", message=f"the benchmark has no set {name}; it has {known}"
            )
        )
        return set()
    wanted = set(published[name].tasks)
    return {place for place, task in enumerate(offer.tasks) if task.name in wanted}


def _of_categories(tasks: Tasks, offer: Offer, issues: list[ConfigIssue]) -> set[int]:
    known = sorted({task.category for task in offer.tasks if task.category is not None})
    for index, category in enumerate(tasks.categories):
        if category not in known:
            issues.append(_unknown(f"tasks.categories[{index}]", "category", category, known))
    return {
        place for place, task in enumerate(offer.tasks) if task.category in set(tasks.categories)
    }


def _of_names(tasks: Tasks, offer: Offer, issues: list[ConfigIssue]) -> set[int]:
    places = {task.name: place for place, task in enumerate(offer.tasks)}
    chosen: set[int] = set()
    for index, name in enumerate(tasks.task_names):
        key = f"tasks.task_names[{index}]"
        if name not in places:
            issues.append(_unknown(key, "task", name, list(places)))
            continue
        reason = offer.tasks[places[name]].unavailable
        if reason is not None:
            issues.append(ConfigIssue(key=key, message=f"{name} cannot be run: {reason}"))
            continue
        chosen.add(places[name])
    return chosen


def _unknown(key: str, kind: str, name: str, known: Sequence[str]) -> ConfigIssue:
    near = process.extractOne(name, known, score_cutoff=60)
    return ConfigIssue(
        key=key,
        message=f"the benchmark has no {kind} {name}",
        key_correction=None if near is None else str(near[0]),
    )
