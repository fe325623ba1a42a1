"""What a run is expected to cost, and how long its sandboxes are expected to run, all together.

It is the mean of what past results of the same agents say (see `estimates`); an agent of which
nothing is known takes a flat amount for each slot, which is a setting. A run's own budget is taken
for its cost, and its deadline bounds its time. None of these is a promise: a run may take more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import BillingEstimate
from assay_contracts.run_config import Agent
from gateway.billing import Opening
from gateway.estimates import totals_by_agent
from gateway.forecasts import Total

_HOUR = Decimal(3600)


@dataclass(frozen=True)
class Flat:
    """What a slot is taken to need where nothing is known: USD, and hours in a sandbox.

    An agent without a model is taken to cost nothing.
    """

    usd: Decimal
    hours: Decimal


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
    totals = await totals_by_agent(connection, opening.workspace, opening.submitted, opening.tasks)
    return expectation(opening, totals, flat)


def expectation(
    opening: Opening, totals: Mapping[int, tuple[Total | None, Total | None]], flat: Flat
) -> Expected:
    """What an opening is expected to take, by the totals (USD and seconds) of each agent."""
    execution = opening.submitted.execution
    usd, seconds, known = Decimal(0), Decimal(0), 0
    for place, tasks in opening.tasks.items():
        cost, busy = totals[place]
        known += max(0 if one is None else one.results for one in (cost, busy))
        usd += (
            _usd(opening.submitted.agents[place], flat) * len(tasks)
            if cost is None
            else _mean(cost)
        )
        seconds += flat.hours * _HOUR * len(tasks) if busy is None else _mean(busy)
    basis = [f"{known} past results of its agents" if known else "a flat amount for each slot"]
    if execution.budget_usd is not None:
        usd = max(Decimal(0), Decimal(str(execution.budget_usd)) - Decimal(str(opening.spent_usd)))
        basis.append("the run's budget_usd")
    if execution.deadline is not None:
        longest = Decimal(str(execution.deadline)) * execution.max_concurrent_attempts
        if longest < seconds:
            seconds = longest
            basis.append("the run's deadline")
    return Expected(usd, seconds, ", ".join(basis))


def _usd(agent: Agent, flat: Flat) -> Decimal:
    return Decimal(0) if agent.model is None else flat.usd


def _mean(total: Total) -> Decimal:
    return Decimal(str(round(total.mean, 6)))
