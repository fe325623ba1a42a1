"""How one value is written: rates, amounts, times, ages, names. The same rules everywhere.

Text of the server or of an agent is shown without the control characters it may hold, so that
nobody can write to a terminal through a task's name or a verifier's message.
"""

import re
from datetime import UTC, datetime

from assay_contracts import labels
from assay_contracts.http import Amount, Rate, RateAtK

MISSING = "–"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)  # controls but for tab and newline, and marks that turn the direction of writing
_STEPS = ((60.0, "second"), (60.0, "minute"), (24.0, "hour"), (30.0, "day"), (12.0, "month"))


def clean(text: str) -> str:
    """Text without control characters, escape sequences and direction marks."""
    return _UNSEEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def rate(value: Rate | None) -> str:
    """A rate with its interval: `75.0% (71.9–78.1)`; no decimals below 100 tasks."""
    if value is None:
        return MISSING
    digits = 1 if value.n_tasks >= 100 else 0
    low, high = (f"{100 * end:.{digits}f}" for end in (value.ci_low, value.ci_high))
    mark = " partial" if value.partial else ""
    return f"{100 * value.value:.{digits}f}% ({low}{MISSING}{high}){mark}"


def percent(value: float | None) -> str:
    """A rate of which nothing but the value is known."""
    return MISSING if value is None else f"{100 * value:.1f}%"


def deepest(rates: list[RateAtK]) -> RateAtK | None:
    """The rate with the largest k, where it says more than pass@1."""
    found = max(rates, key=lambda one: one.k, default=None)
    return found if found is not None and found.k > 1 else None


def cost(value: float | None) -> str:
    """US dollars to the cent; less than half a cent is not shown as nothing."""
    if value is None:
        return MISSING
    return "<$0.01" if 0 < value < 0.005 else f"${value:,.2f}"


def exact_cost(value: float | None) -> str:
    """US dollars to four decimals, for a sum."""
    return MISSING if value is None else f"${value:,.4f}"


def tokens(value: float | None) -> str:
    """A number of tokens: `950`, `12.3k`, `1.1M`."""
    if value is None:
        return MISSING
    if value < 999.5:
        return f"{value:.0f}"
    if value < 999_950:
        return f"{value / 1e3:.1f}k"
    return f"{value / 1e6:,.1f}M"


def seconds(value: float | None) -> str:
    """A duration: `0.4s`, `54s`, `3m 12s`, `2h 05m`."""
    if value is None:
        return MISSING
    if value < 9.95:
        return f"{value:.1f}s"
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def mean(amount: Amount | None) -> float | None:
    """The mean of an amount, where there is one."""
    return None if amount is None else amount.value


def count(value: int | None) -> str:
    """A whole number with separators for thousands."""
    return MISSING if value is None else f"{value:,}"


def plural(number: int, noun: str) -> str:
    """`1 task`, `89 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def moment(at: datetime | None) -> str:
    """A point in time on this machine's clock, with its zone."""
    return MISSING if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def age(at: datetime | None, now: datetime) -> str:
    """How long ago something was: `just now`, `5 minutes ago`, `3 days ago`."""
    if at is None:
        return MISSING
    passed = (now - at.astimezone(UTC)).total_seconds()
    if passed < 10:
        return "just now"
    for size, unit in _STEPS:
        if passed < size:
            return f"{plural(int(passed), unit)} ago"
        passed /= size
    return f"{plural(int(passed), 'year')} ago"


def agent_label(harness: str | None, model: str, task_set: str | None = None) -> str:
    """`model (harness)`, just the harness where it calls no model, and `[parity]` where it ran on
    that set."""
    label = labels.agent_label(harness, model)
    return f"{label} [parity]" if task_set == "parity" else label


_SCOPES = {
    "workspace": "workspace",
    "user": "personal",
    "user_override": "personal, overrides workspace",
    "run": "this run alone",
}


def scope(kind: str) -> str:
    """Whose secret it is, in words."""
    return _SCOPES.get(kind, kind)
