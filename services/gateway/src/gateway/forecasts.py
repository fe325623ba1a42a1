"""What many results will take together, from what such results took before. Pure.

The total over the slots of a run is a sum of draws. Its mean and variance follow from the past
results by task; its distribution is taken as the log-normal one with the same two moments, which is
never negative and leans as sums of costs and durations do (the approximation of Fenton 1960, "The
sum of log-normal probability distributions in scatter transmission systems").
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """A total that is to come: its mean and variance, and how many past results say so."""

    mean: float
    variance: float
    results: int

    def over(self, parts: float) -> "Total":
        """The total shared by so many, such as sandboxes that work at the same time."""
        return Total(self.mean / parts, self.variance / parts**2, self.results)

    def forecast(self) -> Forecast:
        """Median and interval."""
        if self.mean == 0:
            return Forecast(median=0.0, low=0.0, high=0.0, results=self.results)
        spread = math.sqrt(math.log1p(self.variance / self.mean**2))
        centre = math.log(self.mean) - spread**2 / 2
        half = NormalDist().inv_cdf((1 + COVERAGE) / 2) * spread
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
    )


def total_to_come(past: Mapping[str, Past], tasks: Sequence[str], attempts: int) -> Total | None:
    """What `attempts` results on each of `tasks` will take; None from fewer than two past ones.

    A task with two results or more is taken as it was; any other as one more task of the kind that
    was seen. Both the results' own spread and that of what was estimated from them are in the
    variance: for a known task the error of its mean, for the others that of the mean over tasks.

    Args:
        past: what results took, by task; tasks that are not asked for say what others may take.
        tasks: which tasks are to be run.
        attempts: how many results each of them will have.
    """
    seen = sum(one.results for one in past.values())
    if seen < FEWEST:
        return None
    known = [past[task] for task in tasks if task in past and past[task].results >= FEWEST]
    mean = math.fsum(attempts * one.mean for one in known)
    spread = math.fsum(one.variance * (attempts + attempts**2 / one.results) for one in known)
    others = attempts * (len(tasks) - len(known))
    if others:
        pool = _pooled(list(past.values()), seen)
        mean += others * pool.mean
        spread += others * pool.variance + others**2 * _variance_of_mean(list(past.values()), pool)
    return Total(mean, spread, seen)


def _pooled(past: Sequence[Past], seen: int) -> Past:
    """All results as if they were of one task."""
    mean = math.fsum(one.results * one.mean for one in past) / seen
    squares = math.fsum(
        (one.results - 1) * one.variance + one.results * (one.mean - mean) ** 2 for one in past
    )
    return Past(seen, mean, squares / (seen - 1))


def _variance_of_mean(past: Sequence[Past], pool: Past) -> float:
    """How far the mean over tasks may be off: results of one task are not independent ones."""
    if len(past) < FEWEST:
        return pool.variance / pool.results
    return max(variance(one.mean for one in past) / len(past), pool.variance / pool.results)


def share_kept_busy(measured: Sequence[float]) -> float:
    """The share of the sandboxes that were asked for which past runs kept busy: their mean, at
    most all; all of them where no run was measured."""
    return min(1.0, fmean(measured)) if measured else 1.0
