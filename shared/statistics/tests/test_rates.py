"""pass@k and pass^k against their definitions by enumeration, and what holds for any results."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay_statistics import (
    CountError,
    Rate,
    ShapeError,
    TooFewAttemptsError,
    pass_at_k,
    pass_at_k_curve,
    pass_at_k_per_task,
    pass_hat_k,
    pass_hat_k_curve,
    pass_hat_k_per_task,
)

type Task = tuple[int, int]

patient = settings(deadline=None)


@st.composite
def tasks(draw: st.DrawFn, max_attempts: int = 12) -> list[Task]:
    """(attempts, passes) of each task."""
    attempts = draw(st.lists(st.integers(1, max_attempts), min_size=1, max_size=15))
    return [(n, draw(st.integers(0, n))) for n in attempts]


def split(results: list[Task]) -> tuple[list[int], list[int]]:
    return [n for n, _ in results], [c for _, c in results]


def every_rate(results: list[Task]) -> tuple[Rate, ...]:
    return pass_at_k_curve(*split(results)) + pass_hat_k_curve(*split(results))


@given(tasks(max_attempts=6), st.data())
@patient
def test_pass_at_k_is_the_share_of_draws_with_a_pass(results: list[Task], data: st.DataObject):
    attempts, passes = split(results)
    k = data.draw(st.integers(1, min(attempts)))

    def share(n: int, c: int) -> Fraction:
        draws = list(combinations([True] * c + [False] * (n - c), k))
        return Fraction(sum(any(draw) for draw in draws), len(draws))

    shares = [share(n, c) for n, c in results]
    assert pass_at_k_per_task(attempts, passes, k).tolist() == [float(part) for part in shares]
    assert pass_at_k(attempts, passes, k).value == float(sum(shares) / len(shares))


@given(tasks(max_attempts=6), st.data())
@patient
def test_pass_hat_k_is_the_share_of_draws_of_only_passes(results: list[Task], data: st.DataObject):
    attempts, passes = split(results)
    k = data.draw(st.integers(1, min(attempts)))

    def share(n: int, c: int) -> Fraction:
        draws = list(combinations([True] * c + [False] * (n - c), k))
        return Fraction(sum(all(draw) for draw in draws), len(draws))

    shares = [share(n, c) for n, c in results]
    assert pass_hat_k_per_task(attempts, passes, k).tolist() == [float(part) for part in shares]
    assert pass_hat_k(attempts, passes, k).value == float(sum(shares) / len(shares))


@given(tasks())
@patient
def test_pass_at_1_and_pass_hat_1_are_the_mean_over_tasks_of_the_share_that_passed(
    results: list[Task],
):
    mean = float(sum(Fraction(c, n) for n, c in results) / len(results))
    attempts, passes = split(results)
    assert pass_at_k(attempts, passes, 1).value == mean
    assert pass_at_k(attempts, passes, 1) == pass_hat_k(attempts, passes, 1)


@given(tasks())
@patient
def test_pass_at_k_never_falls_and_pass_hat_k_never_rises_with_k(results: list[Task]):
    attempts, passes = split(results)
    rising = [rate.value for rate in pass_at_k_curve(attempts, passes)]
    falling = [rate.value for rate in pass_hat_k_curve(attempts, passes)]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)


@given(tasks())
@patient
def test_the_curves_are_the_single_rates_for_k_from_1_to_the_fewest_attempts(results: list[Task]):
    attempts, passes = split(results)
    ks = range(1, min(attempts) + 1)
    assert pass_at_k_curve(attempts, passes) == tuple(pass_at_k(attempts, passes, k) for k in ks)
    assert pass_hat_k_curve(attempts, passes) == tuple(pass_hat_k(attempts, passes, k) for k in ks)


@given(tasks(max_attempts=30))
@patient
def test_the_interval_lies_within_0_and_1_and_contains_the_rate(results: list[Task]):
    for rate in every_rate(results):
        assert 0 <= rate.ci_low <= rate.value <= rate.ci_high <= 1
        assert rate.ci_low < rate.ci_high


def test_the_interval_contains_a_rate_that_its_own_quantiles_leave_out():
    rate = pass_hat_k([20, 20], [10, 0], 10)
    assert rate.value == 1 / 184_756 / 2
    assert rate.ci_low == rate.value
    rate = pass_at_k([20, 20], [10, 20], 10)
    assert rate.ci_high == rate.value == 1 - 1 / 184_756 / 2


@given(tasks(), st.randoms(use_true_random=False))
@patient
def test_the_order_of_tasks_changes_nothing(results: list[Task], random):
    shuffled = results.copy()
    random.shuffle(shuffled)
    assert every_rate(shuffled) == every_rate(results)


@given(tasks())
@patient
def test_swapping_passes_and_failures_mirrors_pass_at_k_into_pass_hat_k(results: list[Task]):
    attempts, passes = split(results)
    failures = [n - c for n, c in results]
    pairs = zip(
        pass_at_k_curve(attempts, passes), pass_hat_k_curve(attempts, failures), strict=True
    )
    for rate, mirror in pairs:
        assert rate.value == pytest.approx(1 - mirror.value, abs=1e-12)
        assert rate.ci_low == pytest.approx(1 - mirror.ci_high, abs=1e-9)
        assert rate.ci_high == pytest.approx(1 - mirror.ci_low, abs=1e-9)


@given(tasks())
@patient
def test_the_sample_size_never_exceeds_the_attempts(results: list[Task]):
    attempts, _ = split(results)
    for rate in every_rate(results):
        assert 0 < rate.n_star <= sum(attempts)
        assert (rate.n_tasks, rate.n_attempts) == (len(attempts), sum(attempts))
        assert rate.within_task_only is (len(attempts) == 1)


def test_equal_rates_from_different_attempts_are_equal_floats():
    thirds = pass_at_k([3] * 7, [1, 2, 0, 3, 1, 2, 1], 1)
    assert pass_at_k([6] * 7, [2, 4, 0, 6, 2, 4, 2], 1).value == thirds.value == 10 / 21


def test_many_attempts_do_not_overflow():
    rate = pass_at_k([4000, 4000], [2000, 1], 1000)
    assert rate.value == pytest.approx((1 + 0.25) / 2, abs=1e-12)


def test_numpy_integers_of_any_width_are_counts():
    expected = pass_at_k([3, 3], [1, 2], 2)
    for dtype in (np.int8, np.uint16, np.int32, np.uint64):
        assert pass_at_k(np.array([3, 3], dtype), np.array([1, 2], dtype), 2) == expected


@pytest.mark.parametrize("rate", [pass_at_k, pass_hat_k, pass_at_k_per_task, pass_hat_k_per_task])
class TestRefusals:
    @pytest.mark.parametrize("k", [-1, 0, 3])
    def test_a_k_that_some_task_has_no_attempts_for_is_refused(self, rate, k: int):
        with pytest.raises(TooFewAttemptsError, match=f"k is {k}: it must be from 1 to 2"):
            rate([4, 2], [1, 1], k)

    def test_attempts_and_passes_of_different_tasks_are_refused(self, rate):
        with pytest.raises(ShapeError, match="attempts has 2 tasks and passes has 1"):
            rate([1, 1], [1], 1)

    @pytest.mark.parametrize(("attempts", "passes"), [([], []), (3, 1), ([[3, 3]], [[1, 1]])])
    def test_anything_but_one_number_for_each_task_is_refused(self, rate, attempts, passes):
        with pytest.raises(ShapeError, match="attempts"):
            rate(attempts, passes, 1)

    @pytest.mark.parametrize(
        ("attempts", "passes", "message"),
        [
            ([0, 2], [0, 1], "attempts has a value below 1"),
            ([2, 2], [0, -1], "passes has a value below 0"),
            ([2, 2], [0, 3], "task 1 has 3 passes of 2 attempts"),
            ([2.0, 2.0], [0, 1], "attempts must be whole numbers"),
            ([1, 1], [True, False], "passes must be whole numbers"),
        ],
    )
    def test_counts_that_cannot_be_are_refused(self, rate, attempts, passes, message: str):
        with pytest.raises(CountError, match=message):
            rate(attempts, passes, 1)
