"""A workspace's events: what happens to its runs and benchmarks, in pages and live."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from assay_contracts.events import AnyBenchmarkEvent, AnyRunEvent
from assay_contracts.http import WorkspaceEvent, WorkspaceEventPage
from assay_contracts.identity import Permission
from assay_contracts.run_config import ConfigIssue
from gateway import run_queries
from gateway.access import Reading, require
from gateway.benchmarks import find as find_benchmark
from gateway.desk import Desk, DeskNow
from gateway.live.event_stream import EventStream
from gateway.live.feed import Live
from gateway.live.position import Position
from gateway.live.queries import runs_on
from gateway.live.standing import StandingNow
from gateway.live.wanted import AUDIT, RUNS, Wanted
from gateway.paging import Limit
from gateway.problems import did_you_mean, invalid, not_found

router = APIRouter(tags=["events"])

EVENT_STREAM = "text/event-stream"

StreamName = Literal["runs", "benchmarks", "audit"]
Streams = Annotated[
    list[StreamName],
    Query(description="Which streams; `audit` is for administrators."),
]
Kind = Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)*$", max_length=60)]
Kinds = Annotated[
    list[Kind],
    Query(max_length=50, description="Events of these types alone; of `audit`, these acts."),
]
Ref = Annotated[str | None, Query(max_length=200)]
Place = Annotated[
    str | None,
    Query(max_length=200, description="The id of an event to go on after; `0` is the beginning."),
]
LastEventId = Annotated[str | None, Header(max_length=200)]


def _kinds_of(union: Any) -> Iterator[str]:
    (models, *_) = get_args(union)
    for model in get_args(models):
        yield model.model_fields["type"].default


KNOWN_KINDS = sorted({*_kinds_of(AnyRunEvent), *_kinds_of(AnyBenchmarkEvent)})


async def wanted_events(
    asking: Reading,
    desk: DeskNow,
    stream: Streams = ["runs", "benchmarks"],  # noqa: B006  FastAPI copies it
    kinds: Annotated[Kinds, Query(alias="type")] = [],  # noqa: B006
    run: Ref = None,
    benchmark: Ref = None,
) -> Wanted:
    """What a request asks for, once everything in it was found right."""
    streams = [name.upper() for name in dict.fromkeys(stream)]
    if AUDIT in streams:
        require(asking, Permission.ADMIN)
    else:
        _check_kinds(kinds)
    if run is not None and benchmark is not None:
        raise invalid([ConfigIssue(key="run", message="name a run or a benchmark, not both")])
    wanted = Wanted(asking.workspace, streams, frozenset(kinds))
    if run is not None:
        async with desk.reading() as connection:
            row = await run_queries.find_run(connection, asking.workspace, run)
        if row is None:
            raise not_found(f"there is no run {run} in this workspace; assay run list shows them")
        wanted.run, wanted.streams = row["id"], [RUNS]
    if benchmark is not None:
        async with desk.reading() as connection:
            row = await find_benchmark(connection, asking.workspace, benchmark)
        wanted.benchmark = row["id"]
        wanted.streams = [name for name in streams if name != AUDIT]
        if not wanted.streams:
            message = "leave out `audit` alone: its events belong to no benchmark"
            raise invalid([ConfigIssue(key="stream", message=message)])
    return wanted


def _check_kinds(kinds: list[str]) -> None:
    unknown = [kind for kind in kinds if kind not in KNOWN_KINDS]
    if unknown:
        raise invalid(
            [
                ConfigIssue(
                    key="type",
                    message=f"there are no events of the type {kind}"
                    f"{did_you_mean(kind, KNOWN_KINDS)}",
                )
                for kind in unknown
            ]
        )


WantedNow = Annotated[Wanted, Depends(wanted_events)]


@router.get(
    "/events",
    summary="The workspace's events, in pages or live",
    response_model=WorkspaceEventPage,
    responses={200: {"content": {EVENT_STREAM: {}}}},
)
async def events(
    request: Request,
    wanted: WantedNow,
    desk: DeskNow,
    standing: StandingNow,
    after: Place = None,
    limit: Limit = 200,
    last_event_id: LastEventId = None,
) -> WorkspaceEventPage | Response:
    """Of its runs and benchmarks and of the catalogue, as stored, by the time they were stored.

    `Accept: text/event-stream` follows them live: from now on, or after `Last-Event-ID`. Pages
    begin at the beginning. A stream that an id does not name begins at its beginning.
    """
    live: Live = request.app.state.live
    position = await _position(wanted, desk, after, last_event_id)
    is_live = EVENT_STREAM in request.headers.get("accept", "")
    if is_live and position is None and wanted.benchmark is not None:
        position = await _ends(desk, wanted)
    if wanted.benchmark is not None:
        await _learn_runs(desk, wanted, position)
    if is_live:
        return _followed(live, wanted, position, standing)
    position = position or Position.start(wanted.streams)
    found = await live.archive.passage(wanted, position, limit)
    return WorkspaceEventPage(
        items=[
            WorkspaceEvent(
                id=str(place), sequence=one.sequence, subject=one.subject, event=one.event
            )
            for place, one in found.events
        ],
        position=str(found.position),
        next_after=str(found.position) if found.has_more else None,
    )


def _followed(
    live: Live, wanted: Wanted, position: Position | None, standing: StandingNow
) -> EventStream:
    needed = {Permission.READ} | ({Permission.ADMIN} if AUDIT in wanted.streams else set())
    steps = live.follow(wanted, position, still_allowed=lambda: standing.check(frozenset(needed)))
    return EventStream(steps, str)


async def _position(
    wanted: Wanted, desk: Desk, after: str | None, last_event_id: str | None
) -> Position | None:
    """Where the request goes on; an id of another installation would wait for events in vain."""
    key = "after" if last_event_id is None else "Last-Event-ID"
    text = after if last_event_id is None else last_event_id
    if text is None:
        return None
    position, ends = Position.read(text, wanted.streams, key), await _ends(desk, wanted)
    if any(position[stream] > ends[stream] for stream in wanted.streams):
        raise invalid([ConfigIssue(key=key, message=f"is beyond the last event, {ends}")])
    return position


async def _ends(desk: Desk, wanted: Wanted) -> Position:
    return Position({one: await desk.store.last_sequence(one) for one in wanted.streams})


async def _learn_runs(desk: Desk, wanted: Wanted, position: Position | None) -> None:
    """Know the runs that were submitted before the position; the feed itself tells the later ones.

    The list of runs has to be as far as the position for that.
    """
    if wanted.benchmark is None or position is None or RUNS not in wanted.streams:
        return
    await desk.seen_by("run_scheduler", "runs", position[RUNS])
    async with desk.reading() as connection:
        wanted.known_runs = await runs_on(connection, wanted.workspace, wanted.benchmark)
