"""What a submission would lead to: checked like one, resolved, estimated, and not done."""

from collections.abc import Iterator, Sequence

from sqlalchemy import RowMapping

from assay_contracts.http import PlannedAgent, RunPreview, RunWarning, SubmitRun, TaskRow
from assay_contracts.run_events import SubmittedData
from assay_contracts.values import TaskSet
from gateway import benchmark_queries
from gateway.access import Caller
from gateway.desk import Desk
from gateway.domain import CUSTOM, FULL
from gateway.estimates import estimate_run
from gateway.submissions import checked_event, places_of


async def preview_run(body: SubmitRun, asking: Caller, desk: Desk) -> RunPreview:
    """Check a submission, and say what it asks for and what it is likely to take.

    Raises:
        ProblemError: with every mistake, as where it is submitted.
    """
    event, listed = await checked_event(body, asking, desk)
    data = event.data
    async with desk.reading() as connection:
        benchmark = await benchmark_queries.find_benchmark(
            connection, asking.workspace, str(data.benchmark.id)
        )
        chosen = [listed[place].name for place in places_of(data, listed)]
        estimate = await estimate_run(connection, asking.workspace, data, chosen)
    return RunPreview(
        benchmark_id=data.benchmark.id,
        benchmark_name=data.benchmark.name,
        benchmark_key=data.benchmark.key,
        benchmark_version=data.benchmark.version,
        benchmark_digest=data.benchmark.digest,
        selection=data.selection,
        agents=[
            PlannedAgent(index=index, harness=agent.harness, model=agent.model_label)
            for index, agent in enumerate(data.agents)
        ],
        attempts_per_task=data.execution.attempts_per_task,
        max_concurrent_attempts=data.execution.max_concurrent_attempts,
        slots=data.expected_results,
        environment=data.environment,
        secret_scopes=data.secret_scopes,
        warnings=list(_warnings(data, listed, benchmark)),
        estimate=estimate,
    )


def _warnings(
    data: SubmittedData, listed: Sequence[TaskRow], benchmark: RowMapping | None
) -> Iterator[RunWarning]:
    chosen = data.selection.task_set
    published = [] if benchmark is None else benchmark["task_sets"]
    for one in map(TaskSet.model_validate, published):
        if one.recommended and one.name != chosen:
            yield RunWarning(
                code="TASK_SET_RECOMMENDED",
                message=f"{data.benchmark.name} recommends its task set {one.name} "
                f"({len(one.tasks)} tasks), and this run would be of {data.selection.task_count}; "
                f'for the set: task_set = "{one.name}" under [tasks]',
            )
    if chosen == CUSTOM:
        yield RunWarning(
            code="DOES_NOT_RANK",
            message="a choice of categories or tasks of one's own never ranks on the leaderboard",
        )
    left_out = sum(task.unavailable is not None for task in listed)
    if chosen == FULL and left_out:
        yield RunWarning(
            code="TASKS_UNAVAILABLE",
            message=f"{left_out} of the {len(listed)} tasks cannot be run here, and are left out",
        )
