"""Follows the events of a workspace over every interruption, each of them once.

The position after the last event is what a broken stream is resumed from. A server that is away is
waited for until a deadline, which every sign of life puts off.
"""

import time
from collections.abc import Iterator

from assay_client.api import AssayClient, WantedEvents
from assay_client.errors import ApiError, NoAnswerError
from assay_client.watching import PATIENCE_SECONDS
from assay_contracts.http import WorkspaceEvent

_RETRY_SECONDS = 1.0


def follow_events(
    client: AssayClient,
    wanted: WantedEvents,
    *,
    after: str | None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[WorkspaceEvent]:
    """Events as they happen, without end; from now on, or after a position.

    Raises:
        NoAnswerError: the server was away for longer than `patience_seconds`, or was never there.
        ApiError: the server refused, such as where the right to listen was taken away.
    """
    position, deadline = after, time.monotonic()
    while True:
        try:
            with client.live_events(wanted, after=position) as arriving:
                for sign in arriving:
                    position = sign.position or position
                    deadline = time.monotonic() + patience_seconds
                    if sign.event is not None:
                        yield sign.event
        except (NoAnswerError, ApiError) as error:
            passes = isinstance(error, NoAnswerError) or error.is_temporary
            if not passes or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def stored_events(
    client: AssayClient, wanted: WantedEvents, *, after: str | None
) -> Iterator[WorkspaceEvent]:
    """What is stored by now, from the beginning or after a position."""
    rest: str | None = after or "0"
    while rest is not None:
        page = client.events(wanted, after=rest)
        yield from page.items
        rest = page.next_after
