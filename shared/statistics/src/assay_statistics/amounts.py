"""Cost, time and tokens per task of one agent, each with its 95% bootstrap interval over tasks.
They share one estimator, the ratio of two sums over tasks: an amount over the number of tasks, or
a duration over the number of attempts."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from assay_statistics import checks
from assay_statistics.checks import Floats

N_RESAMPLES = 2_000
_SEED = 20_210_703
_BATCH = 250  # bounds memory; part of the result, as the resamples are drawn batch by batch


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount per task (USD, tokens) or per attempt (seconds), in the unit given, with its 95%
    interval; the interval is None for a single task, where it cannot be estimated."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n_tasks: int


def amount_per_task(totals: npt.ArrayLike) -> Amount:
    """The mean over tasks of what each task used: its cost or its tokens, over all attempts.

    Args:
        totals: the sum over the attempts of each task, >= 0, shape (N,). An agent whose harness
            reports no cost has no cost: do not call this with zeros.

    Interval: BCa bootstrap over tasks, 2,000 resamples, fixed seed (Efron 1987); see
    `time_per_task` for the cases without one.

    Raises:
        ShapeError: empty or more than one dimension.
        NotFiniteError: a NaN or infinite total.
        NegativeAmountError: a total below zero.
    """
    used = checks.amounts("totals", totals)
    return _ratio(used, np.ones(len(used)))


def time_per_task(seconds: npt.ArrayLike, attempts: npt.ArrayLike) -> Amount:
    """The mean duration of an attempt, over all attempts at all tasks.

    Args:
        seconds: the summed duration of the attempts at each task, >= 0, shape (N,).
        attempts: how many attempts that sum is of, integers >= 1, shape (N,).

    Interval: as `amount_per_task`; a resampled task brings all of its attempts. One task has no
    interval. Where every task has the same mean, every resample gives that value and the
    interval is that point.

    Raises:
        ShapeError: empty, more than one dimension, or different lengths.
        CountError: attempts that are not integers >= 1.
        NotFiniteError: a NaN or infinite duration.
        NegativeAmountError: a duration below zero.
    """
    summed = checks.amounts("seconds", seconds)
    tried = checks.counts("attempts", attempts, at_least=1)
    checks.same_length("seconds", summed, "attempts", len(tried))
    return _ratio(summed, tried.astype(np.float64))


def _ratio(totals: Floats, weights: Floats) -> Amount:
    value = math.fsum(totals) / math.fsum(weights)
    n_tasks = len(totals)
    if n_tasks == 1:
        return Amount(value, None, None, n_tasks)
    if _all_equal(totals / weights):
        return Amount(value, value, value, n_tasks)
    ci_low, ci_high = _bca_interval(totals, weights)
    return Amount(value, ci_low, ci_high, n_tasks)


def _all_equal(ratios: Floats) -> bool:
    return bool(np.ptp(ratios) <= 16 * np.finfo(np.float64).eps * ratios.max())


def _bca_interval(totals: Floats, weights: Floats) -> tuple[float, float]:
    order = np.lexsort((weights, totals))  # the resamples pick by position: ignore task order
    unit = float(totals.max())  # scipy cubes deviations, which underflow for amounts near 1e-100
    interval = stats.bootstrap(
        (totals[order] / unit, weights[order]),
        _ratio_of_sums,
        n_resamples=N_RESAMPLES,
        batch=_BATCH,
        vectorized=True,
        paired=True,
        confidence_level=0.95,
        method="BCa",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return unit * float(interval.low), unit * float(interval.high)


def _ratio_of_sums(totals: Floats, weights: Floats, axis: int = -1) -> Floats:
    return np.asarray(totals.sum(axis=axis) / weights.sum(axis=axis), dtype=np.float64)
