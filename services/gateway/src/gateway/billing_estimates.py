"""What a run is expected to cost, and how long its sandboxes are expected to run, all together.

An entrant (harness and model) that has run on the benchmark in the workspace is expected to take
what its slots took on average, retries and judge included; any other takes a flat amount for each
slot, which is a setting. A run's own budget is taken for its cost, and its deadline bounds its
time. None of these is a promise: a run may take more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import Numeric, RowMapping, cast, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import BillingEstimate
from assay_contracts.run_config import Agent
from assay_contracts.run_events import SubmittedData
from gateway.billing import Opening
from gateway.read_models import runs, tries

_RUNS_LOOKED_AT = 20
_HOUR = Decimal(3600)


@dataclass(frozen=True)
class Flat:
    """What a slot is taken to need where nothing is known: USD, and hours in a sandbox.

    An agent without a model is taken to cost nothing.
    """

    usd: Decimal
    hours: Decimal


@dataclass(frozen=True)
class PerSlot:
    """What slots of an entrant took on average; `usd` is None where no cost was reported."""

    slots: int
    seconds: Decimal
    usd: Decimal | None


@dataclass(frozen=True)
class Expected:
    """USD and sandbox-seconds, and in words what they rest on."""

    usd: Decimal
    seconds: Decimal
    basis: str

    @property
    def shown(self) -> BillingEstimate:
        """As a webhook is told it."""
        hours = float(self.seconds / _HOUR)
        return BillingEstimate(usd=float(self.usd), sandbox_hours=hours, basis=self.basis)


async def expected(connection: AsyncConnection, opening: Opening, flat: Flat) -> Expected:
    """What an opening is expected to take."""
    return expectation(opening, await _past(connection, opening), flat)


def expectation(opening: Opening, past: Mapping[str, PerSlot], flat: Flat) -> Expected:
    """What an opening is expected to take, by what entrants took before."""
    execution = opening.submitted.execution
    usd, seconds, known = Decimal(0), Decimal(0), 0
    for place, slots in opening.slots.items():
        agent = opening.submitted.agents[place]
        before = past.get(entrant_of(agent))
        known += 0 if before is None else before.slots
        usd += slots * _usd(agent, before, flat)
        seconds += slots * (flat.hours * _HOUR if before is None else before.seconds)
    basis = [f"{known} earlier slots of its agents" if known else "a flat amount for each slot"]
    if execution.budget_usd is not None:
        usd = max(Decimal(0), Decimal(str(execution.budget_usd)) - Decimal(str(opening.spent_usd)))
        basis.append("the run's budget_usd")
    if execution.deadline is not None:
        longest = Decimal(str(execution.deadline)) * execution.max_concurrent_attempts
        if longest < seconds:
            seconds = longest
            basis.append("the run's deadline")
    return Expected(usd, seconds, ", ".join(basis))


def _usd(agent: Agent, before: PerSlot | None, flat: Flat) -> Decimal:
    if before is not None and before.usd is not None:
        return before.usd
    return Decimal(0) if agent.model is None else flat.usd


def entrant_of(agent: Agent) -> str:
    """What tells agents apart that are not the same harness and model."""
    return agent.model_dump_json(include={"harness", "model"})


async def _past(connection: AsyncConnection, opening: Opening) -> dict[str, PerSlot]:
    """What the entrants of the latest runs on the benchmark took for each slot."""
    imported = runs.c.submitted["imported"].astext
    latest = await connection.execute(
        select(runs.c.id, runs.c.submitted)
        .where(
            runs.c.workspace == opening.workspace,
            runs.c.benchmark == opening.submitted.benchmark.id,
            imported.is_(None),
        )
        .order_by(runs.c.submitted_at.desc())
        .limit(_RUNS_LOOKED_AT)
    )
    agents = {row.id: SubmittedData.model_validate(row.submitted).agents for row in latest.all()}
    judged = cast(tries.c.judge["usage"]["cost_usd"].astext, Numeric)
    by_agent = await connection.execute(
        select(
            tries.c.run,
            tries.c.agent,
            func.count(tries.c.slot.distinct()).label("slots"),
            func.count(tries.c.slot.distinct())
            .filter(tries.c.cost_usd.is_not(None))
            .label("priced"),
            func.coalesce(func.sum(cast(tries.c.seconds, Numeric)), 0).label("seconds"),
            func.sum(
                func.coalesce(cast(tries.c.cost_usd, Numeric), 0)
                + func.coalesce(judged, literal_column("0"))
            ).label("usd"),
        )
        .where(tries.c.run.in_(agents), tries.c.started_at.is_not(None))
        .group_by(tries.c.run, tries.c.agent)
    )
    found: dict[str, list[RowMapping]] = {}
    for row in by_agent.mappings():
        found.setdefault(entrant_of(agents[row["run"]][row["agent"]]), []).append(row)
    return {entrant: _mean(rows) for entrant, rows in found.items()}


def _mean(rows: Sequence[RowMapping]) -> PerSlot:
    slots = sum(row["slots"] for row in rows)
    priced = sum(row["priced"] for row in rows)
    usd = sum((row["usd"] for row in rows if row["priced"]), Decimal(0))
    return PerSlot(
        slots=slots,
        seconds=sum((row["seconds"] for row in rows), Decimal(0)) / slots,
        usd=usd / priced if priced else None,
    )
