"""What the gateway reads about the results of a run: one, a page of them, those without a pass.

The grader keeps a row for each slot, with an index for each order; so a page is picked out of 100
rows or 100,000 in the same time, and only the tries of its own rows are read.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    RowMapping,
    Select,
    Text,
    Uuid,
    and_,
    any_,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import Page, ResultRow, ResultSort
from assay_contracts.run_events import Durations, Usage
from assay_contracts.values import CauseClass, Outcome
from gateway.cursors import Place, read_cursor, require_one_beginning, write_cursor
from gateway.read_models import agent_metrics, results, tasks, tries

_AGENT, _TASK, _ATTEMPT = results.c.agent, results.c.task, results.c.attempt
_PLACE = (_AGENT, _TASK, _ATTEMPT)
_SORTS: dict[ResultSort, tuple[ColumnElement[Any], ...]] = {
    "agent": _PLACE,
    "task": (_TASK, _AGENT, _ATTEMPT),
    "attempt": (_ATTEMPT, _AGENT, _TASK),
    "outcome": (results.c.outcome, *_PLACE),
    "reward": (results.c.reward, *_PLACE),
    "seconds": (results.c.seconds, *_PLACE),
    "cost": (results.c.cost_usd, *_PLACE),
    "tokens": (results.c.tokens, *_PLACE),
}
"""The columns of each order: what is asked for first, then what tells equal ones apart."""

_ALWAYS_KNOWN = {"agent", "task", "attempt"}

UNKNOWN = "unknown"
"""Where a try ran whose verdict is there and whose result is not."""

_TRY = ("slot", "try_number", "delivery")


@dataclass(frozen=True)
class Wanted:
    """Which of a run's results are asked for, and in which order; nothing given is no filter."""

    agents: tuple[int, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    causes: tuple[CauseClass, ...] = ()
    category: str | None = None
    task: str | None = None
    search: str | None = None
    sort: ResultSort = "agent"
    descending: bool = False

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The filters."""
        found: list[ColumnElement[bool]] = []
        if self.agents:
            found.append(_AGENT.in_(self.agents))
        if self.outcomes:
            found.append(results.c.outcome.in_([one.value for one in self.outcomes]))
        if self.causes:
            found.append(results.c.cause.in_([one.value for one in self.causes]))
        if self.category is not None:
            found.append(results.c.category == self.category)
        if self.task is not None:
            found.append(results.c.task == self.task)
        if self.search:
            found.append(_TASK.icontains(self.search, autoescape=True))
        return found

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the agent is filtered by."""
        return self == Wanted(agents=self.agents, sort=self.sort, descending=self.descending)


async def list_results(
    connection: AsyncConnection,
    run: RowMapping,
    wanted: Wanted,
    *,
    limit: int,
    offset: int = 0,
    cursor: str | None = None,
) -> Page[ResultRow]:
    """A page of a run's results.

    What is unknown comes last in either order. A page after a cursor takes the same time wherever
    it is; after an offset it takes longer the further down it is.

    Raises:
        ProblemError: the cursor is none, or one of other filters or another order.
    """
    require_one_beginning(cursor, offset)
    question = [run["id"], *astuple(wanted)]
    place = None if cursor is None else _read_place(cursor, question, wanted.sort)
    if place is None:
        total = await _count(connection, run["id"], wanted)
        picked = await _pick_from(connection, run["id"], wanted, limit + 1, offset)
    else:
        total = place.total
        picked = await _pick_after(connection, run["id"], wanted, limit + 1, place.keys)
    following = None
    if len(picked) > limit:
        keys = [picked[limit - 1][column.name] for column in _SORTS[wanted.sort]]
        following = write_cursor(question, Place(tuple(keys), total))
    by_offset = offset + limit if following is not None and place is None else None
    return Page(
        items=await _shown(connection, run, picked[:limit]),
        total_count=total,
        next_offset=by_offset,
        next_cursor=following,
    )


def _read_place(cursor: str, question: Sequence[object], sort: ResultSort) -> Place:
    kinds: dict[str, tuple[type, ...]] = {
        "task": (str,),
        "outcome": (str, type(None)),
        **dict.fromkeys(("agent", "attempt"), (int,)),
        **dict.fromkeys(("reward", "seconds", "cost_usd"), (float, int, type(None))),
        "tokens": (int, type(None)),
    }
    return read_cursor(cursor, question, [kinds[column.name] for column in _SORTS[sort]])


async def _count(connection: AsyncConnection, run: UUID, wanted: Wanted) -> int:
    """How many results there are; without a search through them where it is known already."""
    if wanted.is_plain:
        mine = [agent_metrics.c.run == run]
        if wanted.agents:
            mine.append(agent_metrics.c.agent.in_(wanted.agents))
        query = select(func.sum(agent_metrics.c.slots)).where(*mine)
    else:
        query = select(func.count()).where(results.c.run == run, *wanted.conditions)
    return int(await connection.scalar(query) or 0)


async def _pick_from(
    connection: AsyncConnection, run: UUID, wanted: Wanted, limit: int, offset: int
) -> list[RowMapping]:
    """The first rows, or those after so many."""
    if offset == 0:
        return await _pick_after(connection, run, wanted, limit, None)
    first, *ties = _SORTS[wanted.sort]
    order = [_directed(first, wanted).nulls_last(), *(_directed(one, wanted) for one in ties)]
    query = select(results).where(results.c.run == run, *wanted.conditions)
    found = await connection.execute(query.order_by(*order).limit(limit).offset(offset))
    return list(found.mappings())


async def _pick_after(
    connection: AsyncConnection,
    run: UUID,
    wanted: Wanted,
    limit: int,
    keys: tuple[Any, ...] | None,
) -> list[RowMapping]:
    """The rows after those keys: at first those that are known, then those that are not.

    Asked for one after the other, both can follow an index in either direction.
    """
    first, *ties = _SORTS[wanted.sort]
    if wanted.sort in _ALWAYS_KNOWN:
        return await _pick(connection, run, wanted, [], [first, *ties], keys, limit)
    known: list[RowMapping] = []
    if keys is None or keys[0] is not None:
        known = await _pick(
            connection, run, wanted, [first.is_not(None)], [first, *ties], keys, limit
        )
    left = limit - len(known)
    if left == 0:
        return known
    begun = keys[1:] if keys is not None and keys[0] is None else None
    return known + await _pick(connection, run, wanted, [first.is_(None)], ties, begun, left)


async def _pick(
    connection: AsyncConnection,
    run: UUID,
    wanted: Wanted,
    section: Sequence[ColumnElement[bool]],
    columns: Sequence[ColumnElement[Any]],
    after: tuple[Any, ...] | None,
    limit: int,
) -> list[RowMapping]:
    query = select(results).where(results.c.run == run, *section, *wanted.conditions)
    if after is not None:
        here = tuple_(*columns)
        there = tuple_(*(_literal(value) for value in after))
        query = query.where(here < there if wanted.descending else here > there)
    order = [_directed(column, wanted) for column in columns]
    found = await connection.execute(query.order_by(*order).limit(limit))
    return list(found.mappings())


def _directed(column: ColumnElement[Any], wanted: Wanted) -> Any:
    return column.desc() if wanted.descending else column.asc()


def _literal(value: Any) -> ColumnElement[Any]:
    return literal(value, BigInteger) if isinstance(value, int) else literal(value)


async def _shown(
    connection: AsyncConnection, run: RowMapping, picked: Sequence[RowMapping]
) -> list[ResultRow]:
    """Picked rows with all that their tries tell, in the same order."""
    # Arrays are one parameter each: a list of a hundred would take longer to parse than to answer.
    slots = literal([row["slot"] for row in picked], ARRAY(Uuid))
    found = await connection.execute(select(tries).where(tries.c.slot == any_(slots)))
    told = {tuple(row[name] for name in _TRY): row for row in found.mappings()}
    names = literal(sorted({row["task"] for row in picked}), ARRAY(Text))
    levels = await connection.execute(
        select(tasks.c.name, tasks.c.difficulty).where(
            tasks.c.sync == UUID(run["submitted"]["benchmark"]["sync"]), tasks.c.name == any_(names)
        )
    )
    difficulty = {row.name: row.difficulty for row in levels}
    return [
        _result(
            told[tuple(row[name] for name in _TRY)], row["category"], difficulty.get(row["task"])
        )
        for row in picked
    ]


async def find_result(connection: AsyncConnection, run: RowMapping, slot: UUID) -> ResultRow | None:
    """The result of one slot of a run; None where it has none."""
    found = await connection.execute(
        select(results).where(results.c.slot == slot, results.c.run == run["id"])
    )
    shown = await _shown(connection, run, list(found.mappings()))
    return shown[0] if shown else None


async def problems_of(connection: AsyncConnection, run: RowMapping, most: int) -> list[ResultRow]:
    """At most so many results without a pass that have a reason: those without a score first,
    since somebody may have to act on them."""
    errored = results.c.outcome == Outcome.ERRORED.value
    reasoned = and_(results.c.reason.is_not(None), results.c.outcome != Outcome.PASSED.value)
    query: Select[Any] = select(results).where(results.c.run == run["id"], reasoned)
    found = await connection.execute(query.where(errored).order_by(*_PLACE).limit(most))
    picked = list(found.mappings())
    if len(picked) < most:
        found = await connection.execute(
            query.where(~errored).order_by(*_PLACE).limit(most - len(picked))
        )
        picked += found.mappings()
    return await _shown(connection, run, picked)


def _result(row: RowMapping, category: str | None, difficulty: str | None) -> ResultRow:
    return ResultRow(
        slot_id=row["slot"],
        agent=row["agent"],
        task=row["task"],
        category=category,
        difficulty=difficulty,
        attempt=row["attempt"],
        try_number=row["try_number"],
        outcome=row["outcome"],
        reward=row["reward"],
        rewards=row["rewards"],
        cause=row["cause"],
        reason=row["reason"],
        environment=row["environment"] or UNKNOWN,
        runner=row["runner"] or UNKNOWN,
        seconds=row["seconds"],
        durations=Durations.model_validate(row["durations"] or {}),
        usage=usage_of(row),
        judge=row["judge"],
        artifacts_sha256=(row["artifacts"] or {}).get("sha256"),
    )


def usage_of(row: RowMapping) -> Usage:
    """What a try consumed."""
    return Usage(**{name: row[name] for name in Usage.model_fields})
