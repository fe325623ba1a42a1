"""The package as its users meet it: the usage in its docstring, and its public names."""

import doctest

import assay_statistics


def test_the_usage_in_the_docstring_runs_and_prints_what_it_says():
    outcome = doctest.testmod(assay_statistics)
    assert (outcome.failed, outcome.attempted > 5) == (0, True)


def test_every_public_name_exists():
    assert [name for name in assay_statistics.__all__ if not hasattr(assay_statistics, name)] == []
