"""The rows behind the judge: runs that it scores, and tries that wait for it.

None of them is a projection: what `react` noted is worked off once, and no rebuild touches it. A
judgement is claimed for a while by one worker; a claim that is not renewed is anybody's again, and
only who still holds it can settle it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.envelope import Event
from assay_contracts.events import decode_event
from assay_contracts.run_events import (
    ResultGraded,
    ResultIngested,
    RunDeleted,
    RunEvent,
    RunReopened,
    RunStopRequested,
    RunSubmitted,
    TryData,
)
from assay_kernel.event_store import Recorded
from assay_scoring.judging import can_be_judged
from grader.tables import judged_runs, judgements

_TRY = (judgements.c.slot, judgements.c.try_number, judgements.c.delivery)


@dataclass(frozen=True, slots=True)
class Case:
    """A claimed judgement; `claims` counts how often it was claimed, this time included."""

    claim: UUID
    result: ResultIngested
    submitted: RunSubmitted
    stop_requested: bool
    claims: int


async def note_events(connection: AsyncConnection, events: Sequence[Recorded[Event]]) -> set[UUID]:
    """Note what the judge must know of `events`; returns the ids of the results that it takes."""
    for stored in events:
        match stored.event:
            case RunSubmitted() as event if event.data.judge and not event.data.imported:
                await connection.execute(
                    insert(judged_runs)
                    .values(id=event.run, submitted=event.to_bytes(), stop_requested=False)
                    .on_conflict_do_nothing()
                )
            case RunStopRequested() | RunReopened() | RunDeleted() as event:
                await connection.execute(
                    update(judged_runs)
                    .where(judged_runs.c.id == event.run)
                    .values(stop_requested=not isinstance(event, RunReopened))
                )
            case _:
                pass
    taken = await _note_results(connection, events)
    await _drop_settled(connection, events)
    return taken


async def _note_results(
    connection: AsyncConnection, events: Sequence[Recorded[Event]]
) -> set[UUID]:
    results = [
        (stored.sequence, stored.event)
        for stored in events
        if isinstance(stored.event, ResultIngested) and can_be_judged(stored.event.data)
    ]
    if not results:
        return set()
    runs = {event.run for _, event in results}
    judged = set(
        await connection.scalars(select(judged_runs.c.id).where(judged_runs.c.id.in_(runs)))
    )
    taken = [(sequence, event) for sequence, event in results if event.run in judged]
    if taken:
        rows = [
            {
                **_key(event.run, event.data),
                "run": event.run,
                "sequence": sequence,
                "result": event.to_bytes(),
                "claims": 0,
            }
            for sequence, event in taken
        ]
        await connection.execute(insert(judgements).on_conflict_do_nothing(), rows)
    return {event.id for _, event in taken}


async def _drop_settled(connection: AsyncConnection, events: Sequence[Recorded[Event]]) -> None:
    """Forget judgements whose verdict the stream holds, as where all events are folded anew."""
    settled = [
        tuple(_key(stored.event.run, stored.event.data).values())
        for stored in events
        if isinstance(stored.event, ResultGraded)
    ]
    if settled:
        await connection.execute(delete(judgements).where(tuple_(*_TRY).in_(settled)))


async def claim(
    connection: AsyncConnection, token: UUID, limit: int, lease: timedelta
) -> list[Case]:
    """Claim up to `limit` judgements that are due and that nobody holds, the oldest first."""
    due = (
        select(*_TRY)
        .where(
            or_(judgements.c.claimed_until.is_(None), judgements.c.claimed_until < func.now()),
            or_(judgements.c.not_before.is_(None), judgements.c.not_before <= func.now()),
        )
        .order_by(judgements.c.sequence)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    found = await connection.execute(
        update(judgements)
        .where(tuple_(*_TRY).in_(select(due)))
        .where(judged_runs.c.id == judgements.c.run)
        .values(
            claim=token,
            claimed_until=func.now() + lease,
            claims=judgements.c.claims + 1,
        )
        .returning(
            judgements.c.sequence,
            judgements.c.result,
            judgements.c.claims,
            judged_runs.c.submitted,
            judged_runs.c.stop_requested,
        )
    )
    cases = []
    for row in sorted(found.all(), key=lambda row: int(row.sequence)):
        result = decode_event(RunEvent.stream, row.result)
        submitted = decode_event(RunEvent.stream, row.submitted)
        if not isinstance(result, ResultIngested) or not isinstance(submitted, RunSubmitted):
            raise TypeError(f"the judgement at {row.sequence} holds other events")
        cases.append(Case(token, result, submitted, row.stop_requested, row.claims))
    return cases


async def renew(connection: AsyncConnection, cases: Iterable[Case], lease: timedelta) -> None:
    """Hold on to judgements for another `lease`."""
    for case in cases:
        await connection.execute(
            update(judgements).where(_held(case)).values(claimed_until=func.now() + lease)
        )


async def put_back(connection: AsyncConnection, case: Case, pause: timedelta) -> None:
    """Let a judgement be claimed again after `pause`."""
    await connection.execute(
        update(judgements)
        .where(_held(case))
        .values(claim=None, claimed_until=None, not_before=func.now() + pause)
    )


async def settle(connection: AsyncConnection, case: Case) -> bool:
    """Take a judgement off the list; False where the claim was lost, and it is somebody else's."""
    gone = await connection.execute(delete(judgements).where(_held(case)))
    return gone.rowcount == 1


def _held(case: Case) -> ColumnElement[bool]:
    key = _key(case.result.run, case.result.data)
    return and_(
        judgements.c.claim == case.claim,
        *(judgements.c[name] == value for name, value in key.items()),
    )


def _key(run: UUID, data: TryData) -> dict[str, UUID | int]:
    return {
        "slot": data.slot.id(run),
        "try_number": data.try_number,
        "delivery": data.delivery,
    }
