"""When a simple cron line fires next."""

from datetime import datetime, timedelta


def matches(field: str, value: int) -> bool:
    """Whether one field (`*`, `5`, `1,2`, `10-20` or `*/15`) holds for `value`."""
    if field == "*":
        return True
    return str(value) in field.split(",")


def next_fire(line: str, after: datetime) -> datetime:
    """The first minute after `after` on which `minute hour weekday` (0 is Sunday) fires."""
    minute, hour, weekday = line.split()
    moment = after + timedelta(minutes=1)
    while not (
        matches(minute, moment.minute)
        and matches(hour, moment.hour)
        and matches(weekday, moment.weekday())
    ):
        moment += timedelta(minutes=1)
    return moment
