"""Follows a run, or a benchmark's synchronisation, until it has ended.

The live event stream only says *when* to look; what is shown is always read from the server's read
model, so that a stream that breaks, repeats itself or lags changes nothing but the moment. While
the stream is down the server is asked at short intervals, and a server that is away is waited for
until a deadline.
"""

import time
from collections.abc import Callable, Iterator
from threading import Event as Signal
from threading import Thread

from assay_client.api import AssayClient
from assay_client.errors import ApiError, AssayError, NoAnswerError, ServerUnreachableError
from assay_contracts.http import BenchmarkDetail, BenchmarkEntry, RunDetail
from assay_contracts.values import SyncStatus

PATIENCE_SECONDS = 60.0
"""How long a server that answered once may be away."""

_POLL_SECONDS = 1.0
_QUIET_SECONDS = 10.0
_ECHO_SECONDS = 0.4
_ECHOES = 4  # a read model is a moment behind the stream: look again a few times after an event
_APPEARANCE_SECONDS = 10.0
_LONGEST_BACKOFF = 10.0


def watch_run(
    client: AssayClient, ref: str, *, is_new: bool, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[RunDetail]:
    """The run, again and again as it changes; the last one has a terminal status.

    Args:
        client: whom to ask.
        ref: name or id of the run.
        is_new: it was submitted just now, and the read model may not have it yet.
        patience_seconds: how long the server may be away.
    """
    ask = _Patience(patience_seconds)
    run = ask.first(lambda: client.run(ref), may_appear=is_new)
    yield run
    if run.status.is_terminal:
        return
    doorbell = _Doorbell(client, ref)
    doorbell.start()
    try:
        while not run.status.is_terminal:
            doorbell.wait()
            run = ask.again(lambda: client.run(ref))
            yield run
    finally:
        doorbell.stop()


def watch_sync(
    client: AssayClient, asked: BenchmarkEntry, *, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[BenchmarkDetail]:
    """The benchmark while its task list is read; the last one is ready or failed.

    Args:
        client: whom to ask.
        asked: what the server answered to the request. Where it says that the reading has yet to
            begin, an end that is seen at once may be that of an earlier one, and is not believed
            for a moment.
        patience_seconds: how long the server may be away.
    """
    ask, ref = _Patience(patience_seconds), str(asked.id)
    believe_at = time.monotonic() + (0.0 if _has_ended(asked) else _APPEARANCE_SECONDS / 5)
    found = ask.first(lambda: client.benchmark(ref), may_appear=True)
    while _has_ended(found) and time.monotonic() < believe_at:
        time.sleep(_ECHO_SECONDS)
        found = ask.again(lambda: client.benchmark(ref))
    yield found
    while not _has_ended(found):
        time.sleep(_POLL_SECONDS)
        found = ask.again(lambda: client.benchmark(ref))
        yield found


def _has_ended(found: BenchmarkEntry) -> bool:
    return found.sync_status in {SyncStatus.READY, SyncStatus.FAILED}


class _Patience:
    """Asks again while the server is away, until a deadline."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def first[Answer](self, question: Callable[[], Answer], *, may_appear: bool) -> Answer:
        """The first answer; only something new is waited for, not a server that is not there."""
        deadline = time.monotonic() + (_APPEARANCE_SECONDS if may_appear else 0.0)
        while True:
            try:
                return question()
            except ApiError as error:
                if not error.is_not_found or time.monotonic() >= deadline:
                    raise
            time.sleep(_ECHO_SECONDS)

    def again[Answer](self, question: Callable[[], Answer]) -> Answer:
        """A later answer."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return question()
            except AssayError as error:
                temporary = isinstance(error, NoAnswerError) or (
                    isinstance(error, ApiError) and error.is_temporary
                )
                if not temporary or time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_SECONDS)


class _Doorbell:
    """Listens to a run's live events in the background and rings at each.

    It connects again where the stream breaks, from the last event it has seen.
    """

    def __init__(self, client: AssayClient, ref: str) -> None:
        self._client = client
        self._ref = ref
        self._rung = Signal()
        self._stopped = Signal()
        self._connected = False
        self._echoes = 0
        self._sequence: int | None = None

    def start(self) -> None:
        """Begin to listen, in a thread that does not hold up the end of the process."""
        Thread(target=self._listen_on, name="assay-live-events", daemon=True).start()

    def wait(self) -> None:
        """Return when it is time to look: soon after an event, else after a while."""
        if self._echoes > 0:
            self._echoes -= 1
            time.sleep(_ECHO_SECONDS)
        elif self._connected:
            self._rung.wait(_QUIET_SECONDS)
        else:
            self._rung.wait(_POLL_SECONDS)
        if self._rung.is_set():
            self._rung.clear()
            self._echoes = _ECHOES

    def stop(self) -> None:
        """Connect no more; the thread ends by itself."""
        self._stopped.set()

    def _listen_on(self) -> None:
        """Listen until stopped, or until the server says that there is nothing to listen to."""
        backoff = _POLL_SECONDS
        while not self._stopped.is_set():
            try:
                self._listen()
                backoff = _POLL_SECONDS
            except (ServerUnreachableError, NoAnswerError):
                backoff = min(2 * backoff, _LONGEST_BACKOFF)
            except (AssayError, RuntimeError):
                return  # refused, not a stream, or our client is closed: asking goes on without it
            finally:
                self._connected = False
                self._rung.set()
            self._stopped.wait(backoff)

    def _listen(self) -> None:
        with self._client.live_run_events(self._ref, after=self._sequence) as events:
            self._connected = True
            for stored in events:
                self._sequence = stored.sequence
                self._rung.set()
                if self._stopped.is_set():
                    return
