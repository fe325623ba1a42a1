"""The tie test: can this entrant be told apart from the leader? Paired by task, with the
studentized range, because the leader was chosen by looking and each further entrant is one more
chance to be wrong. Also what distinguishes the metrics it is applied to: which direction is better
and on which scale differences are taken."""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from assay_statistics import checks
from assay_statistics.checks import Floats
from assay_statistics.errors import CountError

ALPHA = 0.05


class Direction(StrEnum):
    """Which of two values of a metric is the better one."""

    HIGHER_IS_BETTER = "higher"
    LOWER_IS_BETTER = "lower"


class Scale(StrEnum):
    """What a difference is taken of: the per-task values, or their natural logarithms."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is ranked and tested. `Scale.LOG` is used where all values of a comparison
    are positive; a comparison with a zero in it falls back to `Scale.LINEAR`."""

    direction: Direction
    scale: Scale


RATE = Metric(Direction.HIGHER_IS_BETTER, Scale.LINEAR)
"""pass@k and pass^k."""

AMOUNT = Metric(Direction.LOWER_IS_BETTER, Scale.LOG)
"""Cost, time and tokens per task."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The leader against one entrant over the tasks both have.

    `difference` is the mean over tasks of the leader's value minus the entrant's, on `scale`: on
    the log scale its exponential is the ratio of their geometric means. `ci_low` and `ci_high` are
    its simultaneous 95% interval, None below two tasks. `tasks_won`, `tasks_lost` and
    `tasks_drawn` are the leader's, in the direction of the metric.
    """

    difference: float
    ci_low: float | None
    ci_high: float | None
    p_value: float
    n_tasks: int
    n_entrants: int
    tasks_won: int
    tasks_lost: int
    tasks_drawn: int
    scale: Scale

    @property
    def tied(self) -> bool:
        """True where the two cannot be told apart at the 5% level."""
        return self.p_value >= ALPHA


def tie_test(
    leader: npt.ArrayLike, entrant: npt.ArrayLike, *, n_entrants: int, metric: Metric
) -> Comparison:
    """Compare an entrant with the leader of its group, paired by task.

    Args:
        leader: the leader's value for each common task, shape (N,), in the metric's unit.
        entrant: the entrant's values for the same tasks in the same order, shape (N,).
        n_entrants: K, entrants in the group, leader included, >= 2.
        metric: `RATE` or `AMOUNT`.

    p is the studentized-range survival function of |T| sqrt(2), T the paired t statistic, with K
    groups and N - 1 degrees of freedom; 1 below two tasks. Where all differences are the same, p
    is 1 if they are zero, else min(1, (K - 1) 2^(1 - N)), that of the sign test with Bonferroni's
    correction. "The same" allows for rounding: a gap of 0.1 on every task is no exact constant in
    floats. Source: Tukey's honestly significant difference, on within-task differences.

    Raises:
        ShapeError: empty, more than one dimension, or different lengths.
        NotFiniteError: a NaN or infinite value.
        CountError: fewer than two entrants.
    """
    ours = checks.vector("leader", leader)
    theirs = checks.vector("entrant", entrant)
    checks.same_length("leader", ours, "entrant", len(theirs))
    if n_entrants < 2:
        raise CountError(f"n_entrants is {n_entrants}: a comparison is among two or more")

    scale = _scale(ours, theirs, metric)
    differences, rounding = _differences(ours, theirs, scale)
    mean, standard_error = _mean_and_error(differences, rounding)
    half_width = _half_width(standard_error, n_entrants, len(ours))
    won, lost = int((ours > theirs).sum()), int((ours < theirs).sum())
    if metric.direction is Direction.LOWER_IS_BETTER:
        won, lost = lost, won
    return Comparison(
        difference=mean,
        ci_low=None if half_width is None else mean - half_width,
        ci_high=None if half_width is None else mean + half_width,
        p_value=_p_value(mean, standard_error, n_entrants, len(ours)),
        n_tasks=len(ours),
        n_entrants=n_entrants,
        tasks_won=won,
        tasks_lost=lost,
        tasks_drawn=len(ours) - won - lost,
        scale=scale,
    )


@lru_cache(maxsize=4096)
def range_quantile(n_entrants: int, degrees_of_freedom: int) -> float:
    """The 0.95 quantile q of the studentized range; cached, as it takes about 0.2 s.

    Two entrants are the paired t test: q is sqrt(2) times the 0.975 quantile of t.
    """
    if n_entrants == 2:
        return math.sqrt(2) * float(stats.t.ppf(1 - ALPHA / 2, degrees_of_freedom))
    return float(stats.studentized_range.ppf(1 - ALPHA, n_entrants, degrees_of_freedom))


def _range_survival(t: float, n_entrants: int, degrees_of_freedom: int) -> float:
    if n_entrants == 2:
        return 2 * float(stats.t.sf(t, degrees_of_freedom))
    p = float(stats.studentized_range.sf(t * math.sqrt(2), n_entrants, degrees_of_freedom))
    return min(max(p, 0.0), 1.0)  # it is an integral done numerically


def _scale(ours: Floats, theirs: Floats, metric: Metric) -> Scale:
    if metric.scale is Scale.LOG and min(ours.min(), theirs.min()) > 0:
        return Scale.LOG
    return Scale.LINEAR


def _differences(ours: Floats, theirs: Floats, scale: Scale) -> tuple[Floats, float]:
    """The differences on `scale`, and how far rounding alone may move one of them."""
    if scale is Scale.LOG:
        ours, theirs = np.log(ours), np.log(theirs)
    largest = float(max(np.abs(ours).max(), np.abs(theirs).max()))
    if scale is Scale.LOG:
        largest += 1.0  # a relative error of a value is an absolute error of its logarithm
    return ours - theirs, 16 * float(np.finfo(np.float64).eps) * largest


def _mean_and_error(differences: Floats, rounding: float) -> tuple[float, float]:
    n_tasks = len(differences)
    mean = math.fsum(differences) / n_tasks
    if np.abs(differences - mean).max() <= rounding:
        return (0.0 if abs(mean) <= rounding else mean), 0.0
    return mean, float(differences.std(ddof=1)) / math.sqrt(n_tasks)


def _half_width(standard_error: float, n_entrants: int, n_tasks: int) -> float | None:
    if n_tasks < 2:
        return None
    if standard_error == 0.0:
        return 0.0
    return range_quantile(n_entrants, n_tasks - 1) / math.sqrt(2) * standard_error


def _p_value(mean: float, standard_error: float, n_entrants: int, n_tasks: int) -> float:
    if n_tasks < 2:
        return 1.0
    if standard_error > 0.0:
        return _range_survival(abs(mean) / standard_error, n_entrants, n_tasks - 1)
    if mean == 0.0:
        return 1.0
    return min(1.0, (n_entrants - 1) * 2.0 ** (1 - n_tasks))
