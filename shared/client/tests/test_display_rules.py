"""How single values are written."""

from datetime import timedelta

import pytest

from assay_client.render import values


def test_a_rate_over_a_hundred_tasks_has_one_decimal(make):
    assert values.rate(make.rate(0.75, 249)) == "75.0% (71.9–78.1)"
    assert values.rate(make.rate(0.75, 100)) == "75.0% (71.9–78.1)"


def test_a_rate_over_fewer_tasks_has_no_decimals(make):
    assert values.rate(make.rate(0.75, 99)) == "75% (72–78)"


def test_a_rate_with_missing_results_says_so(make):
    assert values.rate(make.rate(0.75, 99, partial=True)) == "75% (72–78) partial"


def test_every_missing_value_is_an_en_dash():
    shown = [
        values.rate(None),
        values.percent(None),
        values.cost(None),
        values.exact_cost(None),
        values.tokens(None),
        values.seconds(None),
        values.count(None),
        values.moment(None),
    ]
    assert set(shown) == {"\u2013"}


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (950, "950"),
        (999.6, "1.0k"),
        (12_345, "12.3k"),
        (999_949, "999.9k"),
        (999_950, "1.0M"),
        (1_100_000, "1.1M"),
    ],
)
def test_tokens_are_rounded_to_thousands_and_millions(number, shown):
    assert values.tokens(number) == shown


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(0.0, "$0.00"), (0.004, "<$0.01"), (0.005, "$0.01"), (1234.5, "$1,234.50")],
)
def test_a_cost_is_in_cents_and_never_hides_that_there_is_one(dollars, shown):
    assert values.cost(dollars) == shown


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (0.44, "0.4s"),
        (9.96, "10s"),
        (54.2, "54s"),
        (59.6, "1m 00s"),
        (192, "3m 12s"),
        (7500, "2h 05m"),
    ],
)
def test_a_time_is_in_seconds_up_to_a_minute(time, shown):
    assert values.seconds(time) == shown


def test_an_agent_is_its_model_and_harness_or_the_harness_alone():
    assert values.agent_label("codex", "openai/gpt-5.2") == "openai/gpt-5.2 (codex)"
    assert values.agent_label("oracle", "none") == "oracle"
    assert values.agent_label(None, "openai/gpt-5.2") == "openai/gpt-5.2 (official scaffold)"
    assert values.agent_label("codex", "m", "parity") == "m (codex) [parity]"
    assert values.agent_label("codex", "m", "full") == "m (codex)"


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(seconds=30), "30 seconds ago"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=23), "23 hours ago"),
        (timedelta(days=12), "12 days ago"),
        (timedelta(days=800), "2 years ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(make, passed, shown):
    assert values.age(make.then, make.then + passed) == shown


def test_text_from_elsewhere_cannot_steer_a_terminal():
    hostile = "a\x1b[2Jb\x1b]0;title\x07c\rd\u202ee\x9bf\tg\nh"
    assert values.clean(hostile) == "abcdef\tg\nh"
