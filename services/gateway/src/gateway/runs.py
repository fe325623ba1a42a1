"""Runs: validate, submit, list, show, results and artifacts, events, logs, stop, pause, retry,
delete."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, Field
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import Response

from assay_contracts.http import (
    AgentRow,
    ArtifactEntry,
    EventPage,
    Explanation,
    ImportReceipt,
    ImportResults,
    ImportRun,
    LogPage,
    Page,
    PauseRun,
    ResultDetail,
    ResultRow,
    ResultSort,
    ResumeRun,
    RetriedRun,
    RetryRun,
    RunDetail,
    RunEntry,
    RunPreview,
    SortOrder,
    StopRun,
    SubmitRun,
)
from assay_contracts.run_events import RunEvent, SubmittedData
from assay_contracts.values import CauseClass, Outcome, RunStatus
from assay_kernel.blobs import BlobMissingError
from gateway import answers, domain, result_queries, run_events, run_lists, run_log
from gateway import run_queries as queries
from gateway.access import Caller, Reading, Running
from gateway.benchmarks import find as find_benchmark
from gateway.caching import do_not_keep, kept_with
from gateway.cursors import Cursor
from gateway.desk import Desk, DeskNow
from gateway.downloads.ranges import BYTES, Served, serve
from gateway.explanations import Manifest, agent_named, explain, explain_result, manifest
from gateway.freshness import ReadModel
from gateway.imports import import_run, take_results
from gateway.live.standing import StandingNow
from gateway.moments import stamp
from gateway.paging import LARGEST_SEQUENCE, After, Limit, Offset
from gateway.previews import preview_run
from gateway.problems import not_found
from gateway.proofs import proof_lines
from gateway.result_queries import Wanted
from gateway.retries import retry_run
from gateway.run_lists import WantedRuns
from gateway.submissions import submit_run

router = APIRouter(prefix="/runs", tags=["runs"])

AgentIndexes = Annotated[
    list[Annotated[int, Field(ge=0, le=1000)]] | None,
    Query(description="numbers of agents of the run; may be repeated", examples=[[0, 1]]),
]
Search = Annotated[
    str | None,
    Query(max_length=200, description="a part of the name, in capitals or not", examples=["fix"]),
]
Moment = Annotated[AwareDatetime | None, Query(examples=["2026-12-01T12:00:00Z"])]
Reason = Annotated[str, Query(max_length=1000, description="why, for those who look at it later")]
LastEventId = Annotated[int | None, Header(ge=0, le=LARGEST_SEQUENCE)]


async def find(connection: AsyncConnection, workspace: str, ref: str) -> RowMapping:
    """A run by name or id, or the problem that there is none."""
    row = await queries.find_run(connection, workspace, ref)
    if row is None:
        raise not_found(f"there is no run {ref} in this workspace; assay run list shows them")
    return row


@router.post("/validate", summary="Check a submission, and estimate what it takes")
async def validate(body: SubmitRun, asking: Running, desk: DeskNow) -> RunPreview:
    """Everything that a submission checks, and nothing is done.

    The answer is what would run, with warnings and an estimate of cost and time as far as past
    results of the same agents on the benchmark allow it; mistakes are told as for a submission.
    """
    return await preview_run(body, asking, desk)


@router.post("", status_code=201, summary="Submit a run")
async def submit(body: SubmitRun, asking: Running, desk: DeskNow) -> RunEntry:
    """Check everything, then append `submitted`; nothing is half done where it is refused."""
    event, shown = await submit_run(body, asking, desk)
    if not shown:
        return answers.submitted(event)
    return await _entry(asking.workspace, str(event.run), desk)


@router.post("/import", status_code=201, summary="Begin a run of results made elsewhere")
async def begin_import(body: ImportRun, asking: Running, desk: DeskNow) -> RunEntry:
    """Its results follow; it is finished when each slot has one. The same again is the same run."""
    run = await import_run(body, asking, desk)
    return await _entry(asking.workspace, str(run), desk)


@router.post("/{ref}/results", summary="Add results to an imported run")
async def add_results(
    ref: str, body: ImportResults, asking: Running, desk: DeskNow
) -> ImportReceipt:
    """Results that are there already change nothing. Where one is wrong, none is taken."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    return await take_results(row, body, asking, desk)


@router.get(
    "",
    summary="List the runs of the workspace",
    dependencies=[Depends(kept_with(ReadModel.RUNS, ReadModel.GRADES, ReadModel.CATALOGUE))],
)
async def list_all(
    asking: Reading,
    desk: DeskNow,
    benchmark: Annotated[str | None, Query(description="its key, name or id")] = None,
    status: Annotated[
        list[RunStatus] | None, Query(description="one of these; may be repeated")
    ] = None,
    submitter: Annotated[str | None, Query(description="who submitted it")] = None,
    harness: Annotated[
        str | None, Query(description="of one of its agents", examples=["codex"])
    ] = None,
    model: Annotated[
        str | None,
        Query(
            description="of one of its agents, the same as `harness`; `none` for one without",
            examples=["openai/gpt-5.2"],
        ),
    ] = None,
    since: Moment = None,
    until: Moment = None,
    search: Search = None,
    limit: Limit = 50,
    offset: Offset = 0,
    cursor: Cursor = None,
) -> Page[RunEntry]:
    """The newest first; those that fit every filter.

    `since` is the first moment of submission that is meant, `until` the first that is not. Follow
    `next_cursor`: runs that are submitted meanwhile neither shift nor repeat what comes.
    """
    async with desk.reading() as connection:
        of = None
        if benchmark is not None:
            of = (await find_benchmark(connection, asking.workspace, benchmark))["id"]
        wanted = WantedRuns(
            benchmark=of,
            statuses=tuple(status or ()),
            submitter=submitter,
            harness=harness,
            model=model,
            since=since,
            until=until,
            search=search,
        )
        return await run_lists.list_runs(
            connection, asking.workspace, wanted, limit=limit, offset=offset, cursor=cursor
        )


@router.get(
    "/{ref}",
    summary="Show a run",
    dependencies=[Depends(kept_with(ReadModel.RUNS, ReadModel.GRADES, ReadModel.CATALOGUE))],
)
async def show(ref: str, request: Request, asking: Reading, desk: DeskNow) -> RunDetail:
    """Configuration, progress, each agent's metrics, and the results without a pass."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
        detail = await queries.describe_run(connection, row)
    if detail.seconds_left is not None:
        do_not_keep(request)
    return detail


@router.delete("/{ref}", status_code=204, summary="Delete a run")
async def delete(
    ref: str, asking: Running, desk: DeskNow, reason: Reason = "deleted by a user"
) -> None:
    """Only one that has ended. It vanishes from lists, leaderboards and estimates, with its
    results and artifacts; its events stay, and its name stays taken."""
    async with desk.reading() as connection:
        run: UUID = (await find(connection, asking.workspace, ref))["id"]
    await desk.decide_on_run(
        asking.workspace,
        run,
        lambda state: domain.delete(
            state, run, reason, stamp(asking.user), asking.workspace, asking.request_id
        ),
    )
    await desk.vault.drop_run(run)


@router.get("/{ref}/agents", summary="List a run's agents")
async def agents(ref: str, asking: Reading, desk: DeskNow) -> list[AgentRow]:
    """Each with its status and measures, in the order of the configuration."""
    async with desk.reading() as connection:
        return await queries.agent_rows(connection, await find(connection, asking.workspace, ref))


@router.get(
    "/{ref}/results",
    summary="List a run's results",
    dependencies=[Depends(kept_with(ReadModel.RUNS, ReadModel.GRADES))],
)
async def results(
    ref: str,
    asking: Reading,
    desk: DeskNow,
    agent: AgentIndexes = None,
    outcome: Annotated[
        list[Outcome] | None, Query(description="one of these; may be repeated")
    ] = None,
    cause: Annotated[
        list[CauseClass] | None, Query(description="one of these; may be repeated")
    ] = None,
    category: Annotated[str | None, Query(description="of the task, as a whole")] = None,
    task: Annotated[str | None, Query(description="its whole name")] = None,
    search: Search = None,
    sort: Annotated[
        ResultSort, Query(description="equal ones stand by agent, task and attempt")
    ] = "agent",
    order: Annotated[SortOrder, Query(description="what is unknown comes last in both")] = "asc",
    limit: Limit = 100,
    offset: Offset = 0,
    cursor: Cursor = None,
) -> Page[ResultRow]:
    """The counted result of each slot, or its latest; those that fit every filter.

    Follow `next_cursor`: a page takes the same time wherever it is, and results that come meanwhile
    neither shift nor repeat what follows.
    """
    wanted = Wanted(
        agents=tuple(agent or ()),
        outcomes=tuple(outcome or ()),
        causes=tuple(cause or ()),
        category=category,
        task=task,
        search=search,
        sort=sort,
        descending=order == "desc",
    )
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
        return await result_queries.list_results(
            connection, row, wanted, limit=limit, offset=offset, cursor=cursor
        )


@router.get("/{ref}/results/{slot_id}", summary="Show a result")
async def result(ref: str, slot_id: UUID, asking: Reading, desk: DeskNow) -> ResultDetail:
    """One slot with every try of it: verdict, artifacts, durations, usage, and the events."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    return await explain_result(row, slot_id, desk)


@router.get("/{ref}/results/{slot_id}/artifacts", summary="List a result's artifacts")
async def artifacts(ref: str, slot_id: UUID, asking: Reading, desk: DeskNow) -> list[ArtifactEntry]:
    """Path, size in bytes and SHA-256 of each file that the try left."""
    return list(await _manifest(ref, slot_id, asking.workspace, desk))


@router.get(
    "/{ref}/results/{slot_id}/artifacts/{path:path}",
    summary="Download an artifact",
    response_class=StreamingResponse,
    responses=BYTES,
)
async def artifact(
    ref: str, slot_id: UUID, path: str, asking: Reading, desk: DeskNow, request: Request
) -> Response:
    """One file, or a range of it; always as a download, since a sandbox wrote it."""
    for listed in await _manifest(ref, slot_id, asking.workspace, desk):
        if listed.path == path:
            served = Served(listed.sha256, listed.size, "application/octet-stream", path)
            try:
                return await serve(served, desk.blobs, request.headers)
            except BlobMissingError as error:
                raise not_found(f"{path} is no longer in the blob store") from error
    raise not_found(f"the result has no artifact {path}")


async def _manifest(ref: str, slot: UUID, workspace: str, desk: Desk) -> Manifest:
    async with desk.reading() as connection:
        row = await find(connection, workspace, ref)
        found = await result_queries.find_result(connection, row, slot)
    if found is None:
        raise not_found("the run has no result with this id")
    if found.artifacts_sha256 is None:
        return []
    try:
        return await manifest(desk.blobs, found.artifacts_sha256)
    except BlobMissingError as error:
        raise not_found("the result's artifacts are no longer in the blob store") from error


@router.get(
    "/{ref}/events",
    summary="A run's events, in pages or live",
    response_model=EventPage,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def events(
    ref: str,
    request: Request,
    asking: Reading,
    desk: DeskNow,
    standing: StandingNow,
    after: After = 0,
    limit: Limit = 200,
    last_event_id: LastEventId = None,
) -> EventPage | Response:
    """As stored, in stream order. `Accept: text/event-stream` follows them live."""
    async with desk.reading() as connection:
        run = (await find(connection, asking.workspace, ref))["id"]
    if "text/event-stream" in request.headers.get("accept", ""):
        return await run_events.live_run(
            request.app.state.live,
            desk.store,
            standing,
            run,
            after=after if last_event_id is None else last_event_id,
        )
    return await run_events.event_page(desk.store, asking.workspace, run, after=after, limit=limit)


@router.get("/{ref}/logs", summary="A run's log")
async def logs(
    ref: str, asking: Reading, desk: DeskNow, after: After = 0, limit: Limit = 200
) -> LogPage:
    """One readable line an event, from submission through the end."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    told = await run_events.run_messages(
        desk.store, asking.workspace, row["id"], after=after, limit=limit
    )
    async with desk.reading() as connection:
        seconds = await queries.seconds_of(connection, row["id"], run_log.graded_slots(told))
    return run_log.log_page(told, SubmittedData.model_validate(row["submitted"]), seconds)


@router.get("/{ref}/explain", summary="Explain one score")
async def explain_score(
    ref: str, agent: str, task: str, asking: Reading, desk: DeskNow
) -> Explanation:
    """What an agent's score on a task rests on: tries, rewards, verifier output, files, events.

    `agent` is its number in the run, `model (harness)`, the harness or the model.
    """
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    index = agent_named(agent, SubmittedData.model_validate(row["submitted"]))
    return await explain(row, index, task, desk)


@router.get(
    "/{ref}/export",
    summary="Export a run's proof",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/jsonl": {}}}},
)
async def export(ref: str, asking: Reading, desk: DeskNow) -> StreamingResponse:
    """Its events, and the measures that follow from them: `assay run verify` checks the file."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    return StreamingResponse(
        proof_lines(row, desk),
        media_type="application/jsonl",
        headers={"Content-Disposition": f'attachment; filename="{row["name"]}.proof.jsonl"'},
    )


@router.post("/{ref}/stop", summary="Stop a run")
async def stop(ref: str, asking: Running, desk: DeskNow, body: StopRun | None = None) -> RunEntry:
    """Nothing new starts; the run is stopped when its last sandbox is gone."""
    reason = (body or StopRun()).reason
    async with desk.reading() as connection:
        run: UUID = (await find(connection, asking.workspace, ref))["id"]

    await desk.decide_on_run(
        asking.workspace,
        run,
        lambda state: domain.request_stop(
            state, run, reason, stamp(asking.user), asking.workspace, asking.request_id
        ),
    )
    return await _entry(asking.workspace, str(run), desk)


@router.post("/{ref}/pause", summary="Pause a run, or one agent of it")
async def pause(ref: str, asking: Running, desk: DeskNow, body: PauseRun | None = None) -> RunEntry:
    """Nothing new starts until it is resumed; what was handed out may end."""
    return await _pause_or_resume(ref, body or PauseRun(), domain.pause, asking, desk)


@router.post("/{ref}/resume", summary="Resume a run, or one agent of it")
async def resume(
    ref: str, asking: Running, desk: DeskNow, body: ResumeRun | None = None
) -> RunEntry:
    """What was paused goes on: one agent, or all of the run."""
    return await _pause_or_resume(ref, body or ResumeRun(), domain.resume, asking, desk)


async def _pause_or_resume(
    ref: str,
    body: PauseRun | ResumeRun,
    decide: Callable[..., RunEvent],
    asking: Caller,
    desk: Desk,
) -> RunEntry:
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    run: UUID = row["id"]
    submitted = SubmittedData.model_validate(row["submitted"])
    agent = None if body.agent is None else agent_named(body.agent, submitted)
    await desk.decide_on_run(
        asking.workspace,
        run,
        lambda state: decide(
            state, run, agent, body.reason, stamp(asking.user), asking.workspace, asking.request_id
        ),
    )
    return await _entry(asking.workspace, str(run), desk)


@router.post("/{ref}/retry", summary="Run a run's errored results again")
async def retry(
    ref: str, asking: Running, desk: DeskNow, body: RetryRun | None = None
) -> RetriedRun:
    """On the same run, once it has finished. What was scored stays and cannot be run again."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    slots = await retry_run(row, body or RetryRun(), asking, desk)
    entry = await _entry(asking.workspace, str(row["id"]), desk)
    return RetriedRun(**entry.model_dump(), slots=slots)


async def _entry(workspace: str, ref: str, desk: Desk) -> RunEntry:
    async with desk.reading() as connection:
        row = await find(connection, workspace, ref)
        detail = await queries.describe_run(connection, row)
    return RunEntry.model_validate({name: getattr(detail, name) for name in RunEntry.model_fields})
