"""Amounts per task, their bootstrap intervals, and the cases that have none."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from assay_statistics import (
    Amount,
    CountError,
    NegativeAmountError,
    NotFiniteError,
    ShapeError,
    amount_per_task,
    time_per_task,
)

patient = settings(deadline=None, max_examples=50)
totals = st.lists(st.floats(0, 1e9) | st.integers(0, 3).map(float), min_size=1, max_size=12)
timed = st.lists(st.tuples(st.floats(0, 1e5), st.integers(1, 8)), min_size=1, max_size=12)


def time_of(tasks: list[tuple[float, int]]) -> Amount:
    return time_per_task([seconds for seconds, _ in tasks], [tried for _, tried in tasks])


@given(totals)
@patient
def test_an_amount_per_task_is_the_total_over_the_number_of_tasks(used: list[float]):
    amount = amount_per_task(used)
    assert (amount.value, amount.n_tasks) == (math.fsum(used) / len(used), len(used))


@given(timed)
@patient
def test_time_per_task_is_the_mean_duration_of_an_attempt(tasks: list[tuple[float, int]]):
    amount = time_of(tasks)
    attempts = sum(tried for _, tried in tasks)
    assert amount.value == math.fsum(seconds for seconds, _ in tasks) / attempts
    assert amount.n_tasks == len(tasks)


@given(totals)
@patient
def test_the_interval_contains_the_amount_and_stays_within_the_tasks(used: list[float]):
    amount = amount_per_task(used)
    if len(used) == 1:
        assert (amount.ci_low, amount.ci_high) == (None, None)
    else:
        rounding = 1e-12 * max(used)
        assert min(used) - rounding <= amount.ci_low <= amount.value + rounding
        assert amount.value - rounding <= amount.ci_high <= max(used) + rounding


@given(timed, st.randoms(use_true_random=False))
@patient
def test_the_order_of_tasks_changes_nothing(tasks: list[tuple[float, int]], random):
    shuffled = tasks.copy()
    random.shuffle(shuffled)
    assert time_of(shuffled) == time_of(tasks)


def test_the_interval_is_close_to_that_of_the_t_distribution_where_that_one_is_right():
    used = np.random.default_rng(5).normal(100, 10, 200)
    amount = amount_per_task(used)
    low, high = stats.t.interval(0.95, 199, used.mean(), stats.sem(used))
    assert (amount.ci_low, amount.ci_high) == pytest.approx((low, high), abs=0.15)


def test_the_interval_of_a_skewed_amount_reaches_further_up():
    amount = amount_per_task(np.random.default_rng(5).lognormal(0, 1.5, 40))
    assert amount.ci_high - amount.value > 1.3 * (amount.value - amount.ci_low)


def test_a_resampled_task_brings_all_of_its_attempts():
    once, thrice = [10.0, 20.0, 60.0, 30.0], [30.0, 60.0, 180.0, 90.0]
    assert time_per_task(thrice, [3] * 4) == time_per_task(once, [1] * 4)
    uneven = time_per_task([10.0, 20.0, 600.0, 30.0], [1, 1, 10, 1])
    assert uneven.value == 660 / 13
    assert uneven.ci_high <= 60.0


def test_the_same_amounts_give_the_same_interval_every_time():
    used = [0.4, 1.2, 0.1, 3.5, 0.9]
    assert amount_per_task(used) == amount_per_task(used)


def test_a_single_task_has_an_amount_and_no_interval():
    assert amount_per_task([0.25]) == Amount(0.25, None, None, 1)
    assert time_per_task([90.0], [3]) == Amount(30.0, None, None, 1)


def test_tasks_that_all_used_the_same_have_an_interval_of_that_point():
    assert amount_per_task([0.5, 0.5, 0.5]) == Amount(0.5, 0.5, 0.5, 3)
    assert amount_per_task([0.0, 0.0]) == Amount(0.0, 0.0, 0.0, 2)
    assert time_per_task([30.0, 90.0], [1, 3]) == Amount(30.0, 30.0, 30.0, 2)


def test_tasks_that_used_the_same_but_for_rounding_have_an_interval_of_that_point():
    amount = amount_per_task([0.1 + 0.2, 0.3])
    assert amount.ci_low == amount.value == amount.ci_high


def test_amounts_too_small_to_cube_still_have_an_interval():
    tiny = amount_per_task([1e-200, 3e-200, 2e-200])
    plain = amount_per_task([1.0, 3.0, 2.0])
    assert (tiny.ci_low, tiny.ci_high) == pytest.approx(
        (1e-200 * plain.ci_low, 1e-200 * plain.ci_high), rel=1e-12, abs=0
    )


@pytest.mark.parametrize("used", [[], [[1.0, 2.0]], 1.0])
def test_anything_but_one_total_for_each_task_is_refused(used):
    with pytest.raises(ShapeError, match="totals"):
        amount_per_task(used)


@pytest.mark.parametrize("hole", [float("nan"), float("inf"), None])
def test_a_task_without_an_amount_is_refused(hole: float | None):
    with pytest.raises(NotFiniteError, match="totals has a NaN or infinite value"):
        amount_per_task([1.0, hole])


def test_an_amount_below_zero_is_refused():
    with pytest.raises(NegativeAmountError, match="seconds has a value below zero"):
        time_per_task([1.0, -1.0], [1, 1])


def test_durations_of_no_attempts_are_refused():
    with pytest.raises(CountError, match="attempts has a value below 1"):
        time_per_task([1.0, 1.0], [1, 0])


def test_durations_and_attempts_of_different_tasks_are_refused():
    with pytest.raises(ShapeError, match="seconds has 2 tasks and attempts has 1"):
        time_per_task([1.0, 1.0], [1])
