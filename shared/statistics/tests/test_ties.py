"""The tie test against scipy's own paired tests, and the cases where it has no variance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from assay_statistics import (
    AMOUNT,
    RATE,
    Comparison,
    CountError,
    NotFiniteError,
    Scale,
    ShapeError,
    tie_test,
)
from assay_statistics.ties import range_quantile

patient = settings(deadline=None)
fifths = st.integers(0, 5).map(lambda passes: passes / 5)
pairs_of_values = st.lists(st.tuples(fifths, fifths), min_size=1, max_size=30)


def compare(
    leader: list[float], entrant: list[float], *, n_entrants: int = 2, metric=RATE
) -> Comparison:
    return tie_test(leader, entrant, n_entrants=n_entrants, metric=metric)


@given(pairs_of_values)
@patient
def test_two_entrants_are_the_paired_t_test(values):
    leader, entrant = np.array(values).T
    comparison = tie_test(leader, entrant, n_entrants=2, metric=RATE)
    differences = leader - entrant
    if len(values) > 1 and np.ptp(differences) > 1e-9:
        t_test = stats.ttest_rel(leader, entrant)
        interval = t_test.confidence_interval(0.95)
        assert comparison.p_value == pytest.approx(t_test.pvalue, abs=1e-12)
        assert comparison.ci_low == pytest.approx(interval.low, abs=1e-12)
        assert comparison.ci_high == pytest.approx(interval.high, abs=1e-12)
    assert comparison.difference == pytest.approx(differences.mean(), abs=1e-12)


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 9, 99, 499])
def test_the_short_way_for_two_entrants_agrees_with_the_studentized_range(degrees_of_freedom: int):
    q = stats.studentized_range.ppf(0.95, 2, degrees_of_freedom)
    assert range_quantile(2, degrees_of_freedom) == pytest.approx(q, abs=1e-9)
    t = np.array([0.0, 0.1, 1.0, 2.0, 5.0, 40.0])
    p = stats.studentized_range.sf(t * np.sqrt(2), 2, degrees_of_freedom)
    assert 2 * stats.t.sf(t, degrees_of_freedom) == pytest.approx(p, abs=1e-9)


@given(pairs_of_values, st.sampled_from([2, 3, 8]))
@settings(deadline=None, max_examples=40)
def test_a_tie_is_an_interval_that_contains_no_difference(values, n_entrants: int):
    leader, entrant = (list(column) for column in zip(*values, strict=True))
    # Eight tasks, so that the slow quantile is computed once for each number of entrants.
    leader, entrant = (leader * 8)[:8], (entrant * 8)[:8]
    comparison = compare(leader, entrant, n_entrants=n_entrants)
    assert 0 <= comparison.p_value <= 1
    assert comparison.ci_low <= comparison.difference <= comparison.ci_high
    if abs(comparison.p_value - 0.05) > 1e-6 and comparison.ci_low < comparison.ci_high:
        assert comparison.tied is (comparison.ci_low <= 0 <= comparison.ci_high)


@given(pairs_of_values, st.sampled_from([RATE, AMOUNT]))
@patient
def test_swapping_the_two_mirrors_the_comparison(values, metric):
    leader, entrant = (list(column) for column in zip(*values, strict=True))
    one, other = compare(leader, entrant, metric=metric), compare(entrant, leader, metric=metric)
    assert other.difference == -one.difference
    assert other.p_value == one.p_value
    assert (other.tasks_won, other.tasks_lost) == (one.tasks_lost, one.tasks_won)
    assert one.tasks_won + one.tasks_lost + one.tasks_drawn == one.n_tasks == len(values)


@given(st.lists(fifths, min_size=1, max_size=30), st.integers(2, 50))
@patient
def test_equal_values_tie_however_many_entrants_there_are(values: list[float], n_entrants: int):
    comparison = compare(values, values, n_entrants=n_entrants)
    assert comparison.tied
    assert (comparison.p_value, comparison.difference) == (1.0, 0.0)
    assert comparison.tasks_drawn == len(values)


def test_more_entrants_make_the_same_difference_less_certain():
    leader, entrant = [0.8, 0.6, 1.0, 0.4, 0.8, 0.6], [0.6, 0.6, 0.6, 0.0, 0.6, 0.2]
    two, five = compare(leader, entrant), compare(leader, entrant, n_entrants=5)
    assert two.p_value < 0.05 < five.p_value
    assert (two.tied, five.tied) == (False, True)
    assert five.ci_low < two.ci_low < two.ci_high < five.ci_high


@pytest.mark.parametrize(
    ("n_tasks", "n_entrants", "p_value"), [(6, 2, 0.03125), (6, 3, 0.0625), (3, 9, 1.0)]
)
def test_the_same_difference_on_every_task_counts_as_a_run_of_coin_tosses(
    n_tasks: int, n_entrants: int, p_value: float
):
    comparison = compare([1.0] * n_tasks, [0.0] * n_tasks, n_entrants=n_entrants)
    assert comparison.p_value == p_value
    assert (comparison.ci_low, comparison.ci_high) == (1.0, 1.0)


def test_a_constant_difference_is_constant_even_where_floats_round_it():
    leader, entrant = [0.3, 0.4, 0.7, 0.9], [0.2, 0.3, 0.6, 0.8]
    assert len({ours - theirs for ours, theirs in zip(leader, entrant, strict=True)}) > 1
    assert compare(leader, entrant).p_value == 0.125


def test_values_that_differ_only_by_rounding_are_equal():
    comparison = compare([0.1 + 0.2] * 10, [0.3] * 10)
    assert (comparison.p_value, comparison.difference) == (1.0, 0.0)


def test_a_constant_ratio_of_amounts_is_constant_even_where_floats_round_it():
    leader = [0.1, 0.7, 3.3, 900.0]
    comparison = compare(leader, [3 * cost for cost in leader], metric=AMOUNT)
    assert comparison.p_value == 0.125
    assert comparison.difference == pytest.approx(-np.log(3), abs=1e-12)


def test_a_single_task_ties_and_has_no_interval():
    assert compare([1.0], [0.0]) == Comparison(
        difference=1.0,
        ci_low=None,
        ci_high=None,
        p_value=1.0,
        n_tasks=1,
        n_entrants=2,
        tasks_won=1,
        tasks_lost=0,
        tasks_drawn=0,
        scale=Scale.LINEAR,
    )


def test_amounts_are_compared_by_their_logarithms_and_the_lower_one_wins():
    leader, entrant = [1.0, 2.0, 3.0, 5.0], [2.0, 2.0, 9.0, 4.0]
    comparison = compare(leader, entrant, metric=AMOUNT)
    on_logs = compare(np.log(leader).tolist(), np.log(entrant).tolist())
    assert comparison.scale is Scale.LOG
    assert comparison.difference == on_logs.difference
    assert comparison.p_value == on_logs.p_value
    assert (comparison.tasks_won, comparison.tasks_lost, comparison.tasks_drawn) == (2, 1, 1)


def test_amounts_with_a_zero_are_compared_as_they_are():
    leader, entrant = [0.0, 2.0, 3.0, 5.0], [2.0, 2.0, 9.0, 4.0]
    comparison = compare(leader, entrant, metric=AMOUNT)
    assert comparison.scale is Scale.LINEAR
    assert comparison.difference == -1.75
    assert comparison.p_value == compare(leader, entrant).p_value


def test_rates_are_compared_as_they_are_and_the_higher_one_wins():
    comparison = compare([1.0, 0.5, 0.5], [0.5, 0.5, 0.25])
    assert comparison.scale is Scale.LINEAR
    assert comparison.difference == 0.25
    assert (comparison.tasks_won, comparison.tasks_lost, comparison.tasks_drawn) == (2, 0, 1)


@pytest.mark.parametrize(
    ("leader", "entrant", "message"),
    [
        ([], [], "leader is empty"),
        ([1.0, 0.0], [1.0], "leader has 2 tasks and entrant has 1"),
        ([[1.0]], [1.0], "leader must have one dimension"),
    ],
)
def test_values_that_do_not_pair_are_refused(leader, entrant, message: str):
    with pytest.raises(ShapeError, match=message):
        compare(leader, entrant)


@pytest.mark.parametrize("hole", [float("nan"), float("inf")])
def test_a_task_without_a_value_is_refused(hole: float):
    with pytest.raises(NotFiniteError, match="entrant has a NaN or infinite value"):
        compare([1.0, 0.0], [1.0, hole])


def test_a_comparison_among_one_is_refused():
    with pytest.raises(CountError, match="n_entrants is 1"):
        compare([1.0], [1.0], n_entrants=1)
