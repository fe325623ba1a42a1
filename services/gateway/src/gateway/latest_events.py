"""A run's events from the newest back, page by page.

JetStream reads forwards only, but a consumer that is made and never read from tells how many
messages it would have to deliver. So the place to begin is searched for by halves: a page costs a
few round trips, however long the run.
"""

from uuid import UUID

from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from assay_contracts.run_events import RunEvent
from assay_kernel.event_store import EventStore
from gateway.run_events import Messages, run_messages, subjects_of

_IDLE_SECONDS = 5.0
_FIRST = ".lifecycle.submitted"
"""The subject of a run's first event ends so."""


async def messages_before(
    store: EventStore, workspace: str, run: UUID, *, before: int | None, limit: int
) -> tuple[Messages, int | None]:
    """The last messages of a run before a sequence (None: the newest), at most `limit`.

    Returns:
        The messages in stream order, and what to pass as `before` for those before them; None
        where there are none.
    """
    end = await store.last_sequence(RunEvent.stream)
    if before is not None:
        end = min(end, max(before - 1, 0))
    (subject,) = subjects_of(workspace, run)
    start = await _start(store, subject, end, limit)
    told = await run_messages(store, workspace, run, after=start, limit=limit)
    items = [one for one in told.items if one.sequence <= end]
    page = Messages(run, items, next_after=None)
    is_first = not items or items[0].subject.endswith(_FIRST)
    return page, None if is_first else items[0].sequence


async def _start(store: EventStore, subject: str, end: int, limit: int) -> int:
    """The smallest sequence after which no more than `limit` messages lie up to `end`."""
    behind = await _left(store, subject, end)
    too_early, enough = -1, max(end - limit, 0)  # each sequence holds one message at most
    step = limit
    while enough > 0 and too_early < 0:
        tried = max(enough - step, 0)
        if await _left(store, subject, tried) - behind > limit:
            too_early = tried
        else:
            enough, step = tried, step * 2
    while enough - too_early > 1 and too_early >= 0:
        middle = (enough + too_early) // 2
        if await _left(store, subject, middle) - behind > limit:
            too_early = middle
        else:
            enough = middle
    return enough


async def _left(store: EventStore, subject: str, after: int) -> int:
    """How many messages the stream holds after a sequence."""
    jetstream = store.client.jetstream()
    made = await jetstream.add_consumer(
        RunEvent.stream,
        ConsumerConfig(
            filter_subject=subject,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_IDLE_SECONDS,
            mem_storage=True,
            num_replicas=1,
        ),
    )
    await jetstream.delete_consumer(RunEvent.stream, made.name)
    return made.num_pending or 0
