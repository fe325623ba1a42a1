"""The JetStream streams: append-only ones for facts, a queue for work, one for dead letters.

Append-only is enforced by the server: `deny_delete` and `deny_purge` cannot be taken back. The
server acknowledges a message once it is in the file store; how often that is synced to disk is the
server's own setting (`sync_interval`).
"""

from collections.abc import Sequence

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StoreCompression, StreamConfig
from nats.js.errors import NotFoundError

from assay_contracts.envelope import MAX_EVENT_BYTES
from assay_contracts.work import WORK_STREAM

EVENT_STREAMS = ("RUNS", "BENCHMARKS", "AUDIT")
DEAD_STREAM = "DEAD"
REDRIVEN_SUBJECT = "dead.redriven"
"""Where it is told that a dead letter is dealt with."""

DUPLICATE_WINDOW_SECONDS = 600.0
_HEADROOM = 4 * 1024


def stream_configs(replicas: int) -> Sequence[StreamConfig]:
    """The configuration of every stream of the platform."""
    events = [
        StreamConfig(
            name=name,
            subjects=[f"{name.lower()}.>"],
            storage=StorageType.FILE,
            compression=StoreCompression.S2,
            deny_delete=True,
            deny_purge=True,
            allow_direct=True,
            allow_atomic=True,
            discard=DiscardPolicy.NEW,
            duplicate_window=DUPLICATE_WINDOW_SECONDS,
            max_msg_size=MAX_EVENT_BYTES + _HEADROOM,
            num_replicas=replicas,
        )
        for name in EVENT_STREAMS
    ]
    work = StreamConfig(
        name=WORK_STREAM,
        subjects=["work.>"],
        storage=StorageType.FILE,
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.NEW,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
        num_replicas=replicas,
    )
    dead = StreamConfig(
        name=DEAD_STREAM,
        subjects=["dead.>"],
        storage=StorageType.FILE,
        compression=StoreCompression.S2,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
        num_replicas=replicas,
    )
    return [*events, work, dead]


async def ensure_streams(jetstream: JetStreamContext, replicas: int) -> None:
    """Create the streams that are missing; several services may do so at once."""
    for config in stream_configs(replicas):
        try:
            await jetstream.stream_info(config.name or "")
        except NotFoundError:
            await jetstream.add_stream(config)
