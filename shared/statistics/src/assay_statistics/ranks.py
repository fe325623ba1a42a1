"""Competition ranks with ties to the leader: 1, 1, 3. Entrants of every task set and version are
ranked in one list by value, but only those of the leader's own group are tested against it and can
share rank 1 without sharing its value."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay_statistics.errors import NotFiniteError
from assay_statistics.ties import Comparison, Direction, Metric, tie_test


@dataclass(frozen=True, slots=True)
class Entrant:
    """One entrant under the ranked metric.

    `group` is what makes entrants comparable: task set and resolved benchmark version. `value` is
    the metric, None or NaN where it has none. `per_task` holds the metric of each task by task
    name, in the unit of `value`, without the tasks that have none.
    """

    group: Hashable
    value: float | None
    per_task: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an entrant stands.

    `rank` is None without a value. `tied` is true for the leader and for those of its group that
    cannot be told apart from it; `leader` tells which one it is. `comparison` is with the leader:
    None for the leader, outside its group, without a value, and without a common task.
    """

    rank: int | None
    tied: bool
    leader: bool
    comparison: Comparison | None


_UNRANKED = Placement(rank=None, tied=False, leader=False, comparison=None)


def rank_entrants(entrants: Sequence[Entrant], metric: Metric) -> tuple[Placement, ...]:
    """Rank entrants by `metric`; one placement for each entrant, in the order given.

    The leader is the entrant with the best value; of several that share it, the first given, so
    pass entrants in an order that does not change. Rank is 1 for the leader and those tied with
    it, else 1 + the number of entrants, of all groups, with a strictly better value. The tests are
    simultaneous over the entrants of the leader's group that have a value.

    Raises:
        NotFiniteError: a value is infinite, or a per-task value is NaN or infinite.
    """
    losses = np.array([_loss(entrant, metric) for entrant in entrants], dtype=np.float64)
    has_value = ~np.isnan(losses)
    if not has_value.any():
        return tuple(_UNRANKED for _ in entrants)
    first = int(np.nanargmin(losses))
    leader = entrants[first]
    ranks = 1 + np.searchsorted(np.sort(losses[has_value]), losses, side="left")
    n_entrants = sum(
        bool(valued) and entrant.group == leader.group
        for entrant, valued in zip(entrants, has_value, strict=True)
    )

    def place(index: int) -> Placement:
        if not has_value[index]:
            return _UNRANKED
        if index == first:
            return Placement(rank=1, tied=True, leader=True, comparison=None)
        return _follow(leader, entrants[index], int(ranks[index]), n_entrants, metric)

    return tuple(place(index) for index in range(len(entrants)))


def _loss(entrant: Entrant, metric: Metric) -> float:
    """The value turned so that less is better; NaN where there is none."""
    if entrant.value is None:
        return math.nan
    if math.isinf(entrant.value):
        raise NotFiniteError("an entrant's value is infinite: give None where there is none")
    if metric.direction is Direction.HIGHER_IS_BETTER:
        return -entrant.value
    return entrant.value


def _follow(
    leader: Entrant, entrant: Entrant, rank: int, n_entrants: int, metric: Metric
) -> Placement:
    if entrant.group != leader.group:
        return Placement(rank, tied=False, leader=False, comparison=None)
    comparison = _compare(leader, entrant, n_entrants, metric)
    # Without a common task, as with a single one, nothing tells the two apart.
    tied = comparison is None or comparison.tied
    return Placement(1 if tied else rank, tied, leader=False, comparison=comparison)


def _compare(
    leader: Entrant, entrant: Entrant, n_entrants: int, metric: Metric
) -> Comparison | None:
    tasks = sorted(leader.per_task.keys() & entrant.per_task.keys())
    if not tasks:
        return None
    return tie_test(
        [leader.per_task[task] for task in tasks],
        [entrant.per_task[task] for task in tasks],
        n_entrants=n_entrants,
        metric=metric,
    )
