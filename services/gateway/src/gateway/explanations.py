"""From a cell of a run, an agent on a task, down to the events, reward and files behind it."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import RowMapping, select
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import (
    ArtifactEntry,
    ExplainedAttempt,
    ExplainedTry,
    Explanation,
    ResultDetail,
    StoredEvent,
    TextTail,
)
from assay_contracts.labels import agent_label, agent_names
from assay_contracts.run_config import ConfigIssue
from assay_contracts.run_events import Durations, RunEvent, SubmittedData
from assay_contracts.values import Outcome
from assay_kernel.blobs import BlobMissingError, BlobStore
from gateway.benchmark_queries import task_rows
from gateway.desk import Desk
from gateway.problems import did_you_mean, invalid, not_found
from gateway.read_models import agent_metrics, not_ranked, tasks, tries
from gateway.result_queries import find_result, usage_of

_VERIFIER_FILES = "verifier/"
_TAIL_BYTES = 4096
_MOST_TAILS = 4

Manifest = Sequence[ArtifactEntry]


def agent_named(ref: str, submitted: SubmittedData) -> int:
    """The agent of a run that `ref` names: its number, `model (harness)`, harness or model.

    Raises:
        ProblemError: it names none, or more than one.
    """
    agents = [(agent.harness, agent.model_label) for agent in submitted.agents]
    found = [
        index
        for index, agent in enumerate(agents)
        if ref == str(index) or ref in agent_names(*agent)
    ]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{index}: {agent_label(*agent)}" for index, agent in enumerate(agents))
    why = "several agents are called" if found else "no agent is called"
    raise invalid([ConfigIssue(key="agent", message=f"{why} {ref}; the run has {listed}")])


async def explain(run: RowMapping, agent: int, task: str, desk: Desk) -> Explanation:
    """What the agent's score on the task rests on.

    Raises:
        ProblemError: the run has no such task, or nothing is told of it yet.
    """
    submitted = SubmittedData.model_validate(run["submitted"])
    task = await _task_named(task, submitted, desk)
    async with desk.reading() as connection:
        found = list(
            (
                await connection.execute(
                    select(tries)
                    .where(tries.c.run == run["id"], tries.c.agent == agent, tries.c.task == task)
                    .order_by(tries.c.attempt, tries.c.try_number, tries.c.delivery)
                )
            ).mappings()
        )
        category = await _category(connection, submitted, task)
        measures = await _measures(connection, run["id"], agent)
        why_not = await _why_not_ranked(connection, run, agent)
    if not found:
        raise not_found(
            f"there is no result of the task {task} by agent {agent}: the run did not select it, "
            "or has not come to it yet"
        )
    attempts = [
        await _attempt([row for row in found if row["attempt"] == attempt], desk)
        for attempt in sorted({row["attempt"] for row in found})
    ]
    asked = submitted.agents[agent]
    counted = [Outcome(row["outcome"]) for row in found if row["counted"]]
    return Explanation(
        run_id=run["id"],
        run_name=run["name"],
        benchmark_name=submitted.benchmark.name,
        benchmark_version=submitted.benchmark.version,
        benchmark_digest=submitted.benchmark.digest,
        agent=agent,
        harness=asked.harness,
        model=asked.model_label,
        task=task,
        category=category,
        pass_threshold=submitted.execution.pass_threshold,
        passes=counted.count(Outcome.PASSED),
        attempts_counted=sum(one is not Outcome.CANCELLED for one in counted),
        attempts_expected=submitted.execution.attempts_per_task,
        n_tasks=measures.get("n_tasks", 0),
        pass_at_1=measures.get("pass_at_1"),
        not_ranked=why_not,
        attempts=attempts,
    )


async def explain_result(run: RowMapping, slot: UUID, desk: Desk) -> ResultDetail:
    """One result with every try of its slot.

    Raises:
        ProblemError: the run has no result of this slot.
    """
    submitted = SubmittedData.model_validate(run["submitted"])
    async with desk.reading() as connection:
        shown = await find_result(connection, run, slot)
        found = await connection.execute(
            select(tries)
            .where(tries.c.slot == slot, tries.c.run == run["id"])
            .order_by(tries.c.try_number, tries.c.delivery)
        )
        rows = list(found.mappings())
    if shown is None:
        raise not_found("the run has no result with this id")
    asked = submitted.agents[shown.agent]
    return ResultDetail(
        **dict(shown),
        run_id=run["id"],
        run_name=run["name"],
        harness=asked.harness,
        model=asked.model_label,
        pass_threshold=submitted.execution.pass_threshold,
        tries=[await _try(row, desk) for row in rows],
    )


async def _task_named(ref: str, submitted: SubmittedData, desk: Desk) -> str:
    """The task that `ref` names: its whole name, or the part behind the slash of one alone."""
    async with desk.reading() as connection:
        listed = await task_rows(connection, submitted.benchmark.sync)
    names = [one.name for one in listed]
    if ref in names:
        return ref
    short = [name for name in names if name.rpartition("/")[2] == ref]
    if len(short) == 1:
        return short[0]
    if short:
        raise not_found(f"several tasks are called {ref}: {', '.join(short)}")
    raise not_found(f"the benchmark has no task {ref}{did_you_mean(ref, names)}")


async def _category(connection: AsyncConnection, submitted: SubmittedData, task: str) -> str | None:
    found: str | None = await connection.scalar(
        select(tasks.c.category).where(
            tasks.c.sync == submitted.benchmark.sync, tasks.c.name == task
        )
    )
    return found


async def _measures(connection: AsyncConnection, run: UUID, agent: int) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = await connection.scalar(
        select(agent_metrics.c.measures).where(
            agent_metrics.c.run == run, agent_metrics.c.agent == agent
        )
    )
    return found or {}


async def _why_not_ranked(connection: AsyncConnection, run: RowMapping, agent: int) -> str | None:
    entry = await connection.scalar(
        select(not_ranked.c.entry).where(
            not_ranked.c.workspace == run["workspace"],
            not_ranked.c.benchmark == run["benchmark"],
            not_ranked.c.run == run["id"],
            not_ranked.c.agent == agent,
        )
    )
    return None if entry is None else str(entry["reason"])


async def _attempt(rows: Sequence[RowMapping], desk: Desk) -> ExplainedAttempt:
    standing = next((row["outcome"] for row in rows if row["counted"]), None)
    return ExplainedAttempt(
        slot_id=rows[0]["slot"],
        attempt=rows[0]["attempt"],
        outcome=standing,
        tries=[await _try(row, desk) for row in rows],
    )


async def _try(row: RowMapping, desk: Desk) -> ExplainedTry:
    sha256 = (row["artifacts"] or {}).get("sha256")
    files: Manifest = []
    lost = sha256 is not None and not await desk.blobs.holds(sha256)
    if sha256 is not None and not lost:
        files = await manifest(desk.blobs, sha256)
    plain = (
        *("try_number", "delivery", "counted", "outcome", "reward", "reward_rule", "rewards"),
        *("cause", "reason", "exception", "judge", "environment", "runner", "harness_version"),
        *("started_at", "finished_at", "seconds"),
    )
    return ExplainedTry(
        **{name: row[name] for name in plain},
        durations=Durations.model_validate(row["durations"] or {}),
        usage=usage_of(row),
        artifacts=list(files),
        artifacts_lost=lost,
        verifier_output=await _verifier_output(desk.blobs, files),
        events=await _events(desk, [row["ingested_at"], row["graded_at"]]),
    )


async def manifest(blobs: BlobStore, sha256: str) -> Manifest:
    """The files that a try left, from the list of them.

    Raises:
        BlobMissingError: the list is no longer there.
    """
    listed = orjson.loads(await blobs.read(sha256))
    return [ArtifactEntry.model_validate(one) for one in listed["files"]]


async def _verifier_output(blobs: BlobStore, files: Manifest) -> list[TextTail]:
    """The ends of what the verifier wrote, as text."""
    tails: list[TextTail] = []
    for file in files:
        if not file.path.startswith(_VERIFIER_FILES) or len(tails) == _MOST_TAILS:
            continue
        try:
            whole = await blobs.read(file.sha256)
        except BlobMissingError:
            continue  # the list of artifacts shows the file; its content was removed
        text = whole[-_TAIL_BYTES:].decode("utf-8", errors="replace").replace("\0", "")
        tails.append(TextTail(path=file.path, text=text, truncated=len(whole) > _TAIL_BYTES))
    return tails


async def _events(desk: Desk, sequences: Sequence[int | None]) -> list[StoredEvent]:
    found = []
    for sequence in sequences:
        if sequence is not None:
            subject, payload = await desk.store.message(RunEvent.stream, sequence)
            found.append(
                StoredEvent(sequence=sequence, subject=subject, event=orjson.loads(payload))
            )
    return found
