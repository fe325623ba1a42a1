"""Log files: one for each program, put aside when they have grown large, and their last lines."""

import os
from collections.abc import Sequence
from pathlib import Path

import structlog

_LARGEST_BYTES = 10 * 1024 * 1024
_KEPT = 3
_TAIL_BYTES = 64 * 1024


def rotate(log: Path) -> None:
    """Put a log that has grown large aside, and keep a few of those."""
    if not log.exists() or log.stat().st_size < _LARGEST_BYTES:
        return
    names = [log, *(log.with_name(f"{log.name}.{number}") for number in range(1, _KEPT + 1))]
    for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
        if newer.exists():
            newer.replace(older)


def last_lines(log: Path, count: int = 15) -> Sequence[str]:
    """The last lines of a log, none if there is no log."""
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = source.read().decode(errors="replace")
    except OSError:
        return ()
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def open_event_log(log: Path) -> structlog.typing.FilteringBoundLogger:
    """A logger that appends the supervisor's events to a file, one JSON object a line."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(os.fdopen(descriptor, "a", buffering=1)),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        service="supervisor",
    )
    return logger
