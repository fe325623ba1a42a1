"""Dead letters: what could not be handled within bounded tries, why, and what became of it.

There are two kinds. An *event* stays where it lies, in a stream that nothing is ever removed from;
its letter names the place in the stream, and a redrive folds it again. A *message* lies nowhere
else any more (a work order that was taken off the queue, a row of an outbox); its letter holds it
whole, and a redrive sends it again. Letters stay: a redrive is a record of its own behind them.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import orjson
import structlog
from nats.aio.client import Client
from nats.js.errors import APIError

from assay_contracts.commands import Resend, Resent
from assay_contracts.identifiers import new_id
from assay_kernel.cursor import StoredMessage, read_stored
from assay_kernel.event_store import EventStore
from assay_kernel.streams import DEAD_STREAM, REDRIVEN_SUBJECT

_PREFIX = "dead."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What could not be handled at `place`, such as `grader.grades`, and why.

    `id` is the letter's sequence in the dead-letter stream. `sequence` is the place of the buried
    message in its stream; None for one that was refused by its stream. `payload` is None for an
    event, which lies in its stream.
    """

    id: int
    place: str
    stream: str
    sequence: int | None
    subject: str
    reason: str
    tries: int
    buried_at: datetime
    payload: bytes | None = None
    message_id: str | None = None
    redriven_at: datetime | None = None
    redriven_by: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody has redriven it."""
        return self.redriven_at is None

    @property
    def service(self) -> str:
        """The service that buried it."""
        return self.place.partition(".")[0]

    @property
    def part(self) -> str:
        """The part of the service: a projection, `work` or `outbox`."""
        return self.place.partition(".")[2]

    @property
    def sender(self) -> str:
        """The service that may send a buried message again: who sent it in the first place."""
        return "run-scheduler" if self.subject.startswith("work.") else self.service


async def bury_event(
    store: EventStore, place: str, message: StoredMessage, error: Exception, *, tries: int
) -> None:
    """Put an event that cannot be folded among the dead letters; it stays in its stream."""
    await _write(
        store,
        place,
        {
            "stream": message.stream,
            "sequence": message.sequence,
            "subject": message.subject,
            "reason": _in_words(error),
            "tries": tries,
        },
    )


async def bury_message(
    store: EventStore, place: str, message: StoredMessage, error: Exception, *, tries: int
) -> None:
    """Put a message that is about to leave its queue among the dead letters, whole."""
    await _write(
        store,
        place,
        {
            "stream": message.stream,
            "sequence": message.sequence,
            "subject": message.subject,
            "reason": _in_words(error),
            "tries": tries,
            "payload": b64encode(message.payload).decode(),
        },
    )


async def bury_unsent(
    store: EventStore,
    place: str,
    subject: str,
    payload: bytes,
    error: Exception,
    *,
    message_id: str,
    tries: int,
) -> None:
    """Put a message that its stream refuses among the dead letters, whole."""
    await _write(
        store,
        place,
        {
            "stream": "",
            "sequence": None,
            "subject": subject,
            "reason": _in_words(error),
            "tries": tries,
            "payload": b64encode(payload).decode(),
            "message_id": message_id,
        },
    )


async def read_letters(client: Client) -> Sequence[DeadLetter]:
    """Every letter there is, in the order in which they were first buried.

    What is buried again while its letter is open (a crash before the step after it, a fold that
    was made anew) is one letter, with the latest reason.
    """
    letters: dict[int, DeadLetter] = {}
    still_open: dict[tuple[object, ...], int] = {}
    async for message in read_stored(client, DEAD_STREAM, ["dead.>"]):
        told = orjson.loads(message.payload)
        if message.subject == REDRIVEN_SUBJECT:
            letter = letters[told["letter"]]
            letters[letter.id] = replace(
                letter, redriven_at=message.stored_at, redriven_by=told["by"]
            )
            still_open.pop(_key(letter), None)
            continue
        letter = _letter(message, told)
        first = still_open.setdefault(_key(letter), letter.id)
        buried_at = letters[first].buried_at if first in letters else letter.buried_at
        letters[first] = replace(letter, id=first, buried_at=buried_at)
    return list(letters.values())


async def resend(store: EventStore, service: str, request: Resend) -> Resent:
    """Send a buried message again, in the name of the service that sent it first."""
    for letter in await read_letters(store.client):
        if letter.id == request.letter and letter.sender == service:
            try:
                await _send_again(store, letter)
            except APIError as error:
                return Resent(problem=f"it is still refused: {error.description}")
            return Resent()
    return Resent(problem=f"{service} has sent no message that became the letter {request.letter}")


async def _send_again(store: EventStore, letter: DeadLetter) -> None:
    if letter.payload is None:
        raise ValueError(f"the letter {letter.id} holds no message")
    message_id = letter.message_id or f"redriven:{letter.id}"
    await store.tell_bytes(letter.subject, letter.payload, message_id=message_id)


async def note_redriven(store: EventStore, letter: DeadLetter, by: str) -> None:
    """Record that a letter is dealt with; to be called when it is."""
    await store.tell_bytes(
        REDRIVEN_SUBJECT, orjson.dumps({"letter": letter.id, "by": by}), message_id=str(new_id())
    )
    log.info("dead-letter-redriven", letter=letter.id, place=letter.place, by=by)


async def _write(store: EventStore, place: str, fields: dict[str, object]) -> None:
    told = {"place": place, **fields}
    log.error("dead-letter", **{name: told[name] for name in told if name != "payload"})
    await store.tell_bytes(f"{_PREFIX}{place}", orjson.dumps(told), message_id=str(new_id()))


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _key(letter: DeadLetter) -> tuple[object, ...]:
    return letter.place, letter.stream, letter.sequence, letter.message_id


def _letter(message: StoredMessage, told: dict[str, object]) -> DeadLetter:
    payload = told.pop("payload", None)
    # The subject says who buried it: that is what the server's permissions hold a service to.
    told["place"] = message.subject.removeprefix(_PREFIX)
    return DeadLetter(
        id=message.sequence,
        buried_at=message.stored_at,
        payload=b64decode(payload) if isinstance(payload, str) else None,
        **{"tries": 1, **told},  # type: ignore[arg-type]  # written by `_write` alone
    )
