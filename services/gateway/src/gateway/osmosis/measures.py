"""Rates and amounts in the client's shapes."""

from collections.abc import Sequence

from assay_contracts.http import Amount, Rate, RateAtK
from gateway.osmosis import wire


def rate(measured: Rate | None) -> wire.Rate | None:
    """A rate, where there is one."""
    return None if measured is None else known_rate(measured)


def known_rate(measured: Rate) -> wire.Rate:
    """A rate that is there."""
    return wire.Rate(
        value=measured.value,
        ci_low=measured.ci_low,
        ci_high=measured.ci_high,
        n=measured.n_tasks,
    )


def curve(measured: Sequence[RateAtK]) -> list[wire.RateAtK]:
    """pass@k for more than one attempt, the deepest last: the client shows that one."""
    return [
        wire.RateAtK(k=one.k, **known_rate(one).model_dump())
        for one in sorted(measured, key=lambda one: one.k)
        if one.k > 1
    ]


def amount(measured: Amount | None) -> float | None:
    """The mean per task, where there is one."""
    return None if measured is None else measured.value
