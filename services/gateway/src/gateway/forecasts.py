"""What many results will take together, from what such results took before. Pure.

The total over the slots of a run is a sum of draws. Its mean and variance follow from the past
results by task; its distribution is taken as the log-normal one with the same two moments, which is
never negative and leans as sums of costs and durations do (the approximation of Fenton 1960, "The
sum of log-normal probability distributions in scatter transmission systems").
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, variance

from assay_contracts.http import Forecast

COVERAGE = 0.95
"""The chance with which a forecast's interval is to hold what comes."""

FEWEST = 2
"""From one result nobody can tell how much results differ."""


@dataclass(frozen=True, slots=True)
class Past:
    """What results on one task took: how many, their mean, and their variance (0 of one alone)."""

    results: int
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Total:
    """A total that is to come: its mean and variance, how many past results say so, and with how
    many degrees of freedom the variance is known."""

    mean: float
    variance: float
    results: int
    freedom: int

    def over(self, parts: float) -> "Total":
        """The total shared by so many, such as sandboxes that work at the same time."""
        return replace(self, mean=self.mean / parts, variance=self.variance / parts**2)

    def forecast(self) -> Forecast:
        """Median and interval."""
        if self.mean == 0:
            return Forecast(median=0.0, low=0.0, high=0.0, results=self.results)
        spread = math.sqrt(math.log1p(self.variance / self.mean**2))
        centre = math.log(self.mean) - spread**2 / 2
        half = _quantile_of_t((1 + COVERAGE) / 2, self.freedom) * spread
        return Forecast(
            median=math.exp(centre),
            low=math.exp(centre - half),
            high=math.exp(centre + half),
            results=self.results,
        )


def total_of(totals: Sequence[Total]) -> Total:
    """Several totals together; they come about independently."""
    return Total(
        mean=math.fsum(one.mean for one in totals),
        variance=math.fsum(one.variance for one in totals),
        results=sum(one.results for one in totals),
        freedom=min(one.freedom for one in totals),
    )


def _quantile_of_t(chance: float, freedom: int) -> float:
    """The quantile of Student's distribution, by the expansion 26.7.5 of Abramowitz and Stegun,
    Handbook of Mathematical Functions: within 0.1% from 5 degrees of freedom, short of the true
    one below."""
    z = NormalDist().inv_cdf(chance)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def total_to_come(past: Mapping[str, Past], tasks: Sequence[str], attempts: int) -> Total | None:
    """What `attempts` results on each of `tasks` will take; None where nobody can tell: from fewer
    than two past results, or from one task what others take.

    A task with two results or more is taken as it was; any other as one more of the tasks that were
    seen. In the variance are the results' own spread, how much tasks differ where one is not known,
    and how far off the means are that all this rests on.

    Args:
        past: what results took, by task; tasks that are not asked for say what others may take.
        tasks: which tasks are to be run.
        attempts: how many results each of them will have.
    """
    seen = sum(one.results for one in past.values())
    known = [past[task] for task in tasks if task in past and past[task].results >= FEWEST]
    others = len(tasks) - len(known)
    if seen < FEWEST or (others and len(past) < FEWEST):
        return None
    mean = math.fsum(attempts * one.mean for one in known)
    spread = math.fsum(one.variance * (attempts + attempts**2 / one.results) for one in known)
    freedom = sum(one.results - 1 for one in known)
    if others:
        freedom = len(past) - 1
        means = [one.mean for one in past.values()]
        within, between = _spreads(list(past.values()))
        mean += others * attempts * fmean(means)
        spread += others * (attempts * within + attempts**2 * between)
        spread += (others * attempts) ** 2 * variance(means) / len(means)
    return Total(mean, spread, seen, freedom)


def _spreads(past: Sequence[Past]) -> tuple[float, float]:
    """The variance of results on one task, and that of the tasks' own means.

    By the method of moments: the means that were seen differ by both. Where no task has two
    results the two cannot be told apart, and all is taken to be between tasks, which errs to the
    wide side.
    """
    repeated = sum(one.results - 1 for one in past)
    squares = math.fsum((one.results - 1) * one.variance for one in past)
    within = squares / repeated if repeated else 0.0
    by_chance = within * fmean(1 / one.results for one in past)
    return within, max(0.0, variance(one.mean for one in past) - by_chance)


def share_kept_busy(measured: Sequence[float]) -> float:
    """The share of the sandboxes that were asked for which past runs kept busy: their mean, at
    most all; all of them where no run was measured."""
    return min(1.0, fmean(measured)) if measured else 1.0
