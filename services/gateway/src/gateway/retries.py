"""Running errored slots of a finished run again: which are meant, and what they need."""

from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

from sqlalchemy import RowMapping

from assay_contracts.envelope import EventTooLargeError
from assay_contracts.http import RetryRun
from assay_contracts.identifiers import Slot
from assay_contracts.labels import agent_label
from assay_contracts.lifecycle import RunLifecycle
from assay_contracts.run_config import ConfigIssue
from assay_contracts.run_events import RunReopened, SubmittedData
from assay_kernel.event_store import Aggregate
from gateway import domain, run_queries
from gateway.access import Caller
from gateway.billing import Admit, Opening, billed
from gateway.desk import Desk
from gateway.explanations import agent_named
from gateway.moments import stamp
from gateway.problems import conflict, did_you_mean, invalid, not_found, too_large
from gateway.submissions import missing_secrets


async def retry_run(row: RowMapping, body: RetryRun, asking: Caller, desk: Desk) -> int:
    """Reopen a run for its errored slots, all of them or the chosen ones.

    Returns:
        How many slots run again.

    Raises:
        ProblemError: the run's state or the workspace's budget does not allow it, nothing that was
            chosen is errored, or a secret is missing.
    """
    run: UUID = row["id"]
    submitted = SubmittedData.model_validate(row["submitted"])
    agents = sorted({agent_named(ref, submitted) for ref in body.agents})

    async def decide(admit: Admit, seen: Aggregate[RunLifecycle]) -> RunReopened:
        domain.require_reopenable(seen.state)
        await desk.seen_by("grader", "grades", seen.sequence)
        slots = await _chosen(run, submitted, agents, body.tasks, desk)
        await _require_secrets(row, submitted, body, desk)
        event = domain.reopen(
            seen.state,
            run,
            slots,
            body.reason,
            stamp(asking.user),
            asking.workspace,
            asking.request_id,
        )
        _require_room(event)
        await admit(
            Opening(
                asking.workspace,
                asking.user,
                run,
                submitted,
                tasks={
                    agent: [slot.task for slot in slots if slot.agent == agent]
                    for agent in sorted({slot.agent for slot in slots})
                },
                retry=True,
                spent_usd=float(row["spent_usd"]),
            )
        )
        await desk.keep_for_run(asking.workspace, run, body.secrets, asking.user)
        return event

    async with billed(desk.gate) as admit:
        event = await desk.decide_on_run_seen(asking.workspace, run, partial(decide, admit))
    # Once more, since what a run was given is swept away while it is shown as ended.
    await desk.keep_for_run(asking.workspace, run, body.secrets, asking.user)
    return len(event.data.slots)


def _require_room(event: RunReopened) -> None:
    try:
        event.to_bytes()
    except EventTooLargeError as error:
        count = len(event.data.slots)
        raise too_large(
            f"{count} errored results do not fit into one event; choose some by agent or task"
        ) from error


async def _chosen(
    run: UUID,
    submitted: SubmittedData,
    agents: Sequence[int],
    tasks: Sequence[str],
    desk: Desk,
) -> list[Slot]:
    """The errored slots among what was chosen; each agent and task named must have some."""
    async with desk.reading() as connection:
        errored = await run_queries.errored_slots(connection, run)
        ran = await run_queries.tasks_of(connection, run) if tasks else []
    for task in tasks:
        if task not in ran:
            raise not_found(f"the run has no result of a task {task}{did_you_mean(task, ran)}")
    chosen = [
        slot
        for slot in errored
        if (not agents or slot.agent in agents) and (not tasks or slot.task in tasks)
    ]
    scored = list(_without_error(chosen, submitted, agents, tasks))
    if scored:
        raise conflict(f"no result of {', '.join(scored)} is errored; {domain.SCORES_ARE_FINAL}")
    return chosen


def _without_error(
    chosen: Sequence[Slot], submitted: SubmittedData, agents: Sequence[int], tasks: Sequence[str]
) -> Iterator[str]:
    """What was named and has nothing that could run again."""
    for index in agents:
        if all(slot.agent != index for slot in chosen):
            agent = submitted.agents[index]
            yield f"the agent {agent_label(agent.harness, agent.model_label)}"
    for task in tasks:
        if all(slot.task != task for slot in chosen):
            yield f"the task {task}"


async def _require_secrets(
    row: RowMapping, submitted: SubmittedData, body: RetryRun, desk: Desk
) -> None:
    """Every secret that the run refers to must be there, before anything starts again.

    What was given for the run alone does not count: it is swept away when the run has ended.
    """
    issues = [
        ConfigIssue(key=f"secrets.{name}", message="is not in the run's secrets.required")
        for name in body.secrets
        if name not in submitted.run_secrets
    ]
    if issues:
        raise invalid(issues)
    wanted = list(submitted.secret_scopes)
    there = await desk.vault.scopes(row["workspace"], row["submitted_by"], wanted)
    missing = [name for name in wanted if name not in {*there, *body.secrets}]
    if missing:
        raise missing_secrets(missing)
