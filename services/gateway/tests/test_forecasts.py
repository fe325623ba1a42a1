"""Forecasts of totals: their moments, and how often their intervals hold what comes."""

import math
import random
from statistics import fmean, variance

import pytest
from scipy import stats

from gateway.forecasts import Past, Total, share_kept_busy, total_of, total_to_come


def past_of(values):
    return Past(len(values), fmean(values), variance(values) if len(values) > 1 else 0.0)


def test_from_fewer_than_two_results_nothing_is_said():
    assert total_to_come({}, ["a"], 1) is None
    assert total_to_come({"a": Past(1, 2.0, 0.0)}, ["a"], 1) is None


def test_a_known_task_is_taken_as_it_was_with_the_error_of_its_mean():
    total = total_to_come({"a": past_of([1.0, 3.0])}, ["a"], 4)
    assert total == Total(mean=8.0, variance=2.0 * (4 + 16 / 2), results=2, freedom=1)


def test_an_unknown_task_is_one_more_of_the_kind_that_was_seen():
    past = {"a": past_of([1.0, 3.0]), "b": past_of([5.0, 7.0])}
    total = total_to_come(past, ["c"], 1)
    within, of_means = 2.0, variance([2.0, 6.0])
    between = of_means - within / 2
    assert total.mean == 4.0
    assert math.isclose(total.variance, within + between + of_means / 2)


def test_attempts_on_one_unknown_task_share_what_is_its_own():
    past = {"a": past_of([1.0, 3.0]), "b": past_of([5.0, 7.0])}
    total = total_to_come(past, ["c"], 3)
    assert math.isclose(total.variance, 3 * 2.0 + 9 * 7.0 + 9 * 8.0 / 2)


def test_from_one_task_nobody_can_tell_what_others_take():
    assert total_to_come({"a": past_of([1.0, 3.0])}, ["a", "b"], 1) is None


def test_tasks_that_are_not_asked_for_say_nothing_of_those_that_are_known():
    past = {"a": past_of([1.0, 3.0]), "b": past_of([500.0, 700.0])}
    assert total_to_come(past, ["a"], 1).mean == 2.0


def test_what_costs_nothing_is_forecast_as_nothing():
    past = {"a": past_of([0.0, 0.0]), "b": past_of([0.0])}
    found = total_to_come(past, ["a", "b", "c"], 3).forecast()
    assert (found.median, found.low, found.high, found.results) == (0.0, 0.0, 0.0, 3)


def test_a_forecast_lies_between_its_ends_and_keeps_the_two_moments():
    total = Total(mean=10.0, variance=4.0, results=9, freedom=8)
    found = total.forecast()
    assert 0 < found.low < found.median < total.mean < found.high
    spread = math.log(found.high / found.median) / stats.t.ppf(0.975, 8)
    assert found.median * math.exp(spread**2 / 2) == pytest.approx(10.0, rel=1e-3)
    assert 100.0 * math.expm1(spread**2) == pytest.approx(4.0, rel=1e-3)


def test_totals_add_up_and_are_shared_by_those_that_work_at_the_same_time():
    both = total_of([Total(1.0, 4.0, 2, 1), Total(3.0, 5.0, 3, 2)])
    assert both == Total(4.0, 9.0, 5, 1)
    assert both.over(2) == Total(2.0, 2.25, 5, 1)


def test_no_more_than_all_sandboxes_are_kept_busy():
    assert share_kept_busy([]) == 1.0
    assert share_kept_busy([0.5, 0.7]) == pytest.approx(0.6)
    assert share_kept_busy([1.4]) == 1.0


@pytest.mark.parametrize(("seen", "asked"), [(5, 40), (20, 20), (20, 60), (50, 50)])
def test_the_interval_holds_what_comes_about_as_often_as_it_says(seen, asked):
    """Costs of tasks that differ, each with a spread of its own, drawn anew 400 times."""
    draw, held, studies = random.Random(7), 0, 400
    for _ in range(studies):
        centre = {f"t{index}": draw.gauss(0, 0.7) for index in range(asked)}

        def cost(task, centre=centre):
            return math.exp(draw.gauss(centre[task], 0.6))

        tasks = list(centre)
        past = {task: past_of([cost(task) for _ in range(3)]) for task in tasks[:seen]}
        found = total_to_come(past, tasks, 3).forecast()
        held += found.low <= math.fsum(cost(task) for task in tasks for _ in range(3)) <= found.high
    assert 0.90 <= held / studies <= 0.99
