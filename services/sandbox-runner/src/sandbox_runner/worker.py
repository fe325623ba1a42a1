"""Taking work: pull a work order, hold the claim while the try goes on, tell the result, let go.

A claim is acknowledged only when the result lies in the stream, so a runner that dies loses no
result: the order is delivered again. Before work is done a second time, the stream is asked whether
the first runner got as far as telling its result, and the other runners whether one of them is
still at it: a claim also runs out where the server was away for too long. A runner that itself was
held up for so long, and could not answer, leaves a try that another has begun meanwhile.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from pydantic import ValidationError

from assay_contracts.envelope import UnknownEventError
from assay_contracts.run_events import (
    AttemptStarted,
    ResultIngested,
    ResultIngestedData,
    RunEvent,
)
from assay_contracts.values import Phase
from assay_contracts.work import HELD_SUBJECT, WORK_STREAM, WorkOrder
from assay_kernel.cursor import StoredMessage
from assay_kernel.database import is_outage
from assay_kernel.dead_letters import bury_message
from assay_kernel.event_store import EventStore
from assay_kernel.live_secrets import kept_out_of_logs
from assay_kernel.logging import bind_correlation
from sandbox_runner.attempts import AttemptRunner
from sandbox_runner.disk import RoomWatch
from sandbox_runner.settings import RunnerSettings
from sandbox_runner.stops import StopWatch
from sandbox_runner.stopwatch import Stopwatch

_PULL_SECONDS = 5.0
_RETRY_SECONDS = 0.5
_TELL_SECONDS = 10.0
_ANSWER_SECONDS = 1.0
_SETTLE_SECONDS = 5.0
"""Within it, every runner has found its way back to a server that is there again."""

log = structlog.get_logger(__name__)


class RunnerLostError(Exception):
    """Runner after runner was lost while it ran the same try."""


class SupersededError(Exception):
    """Another runner has begun the try, because our claim on it had run out."""


@dataclass
class Claim:
    """Our hold on an order: when it was last extended (loop time), and whether it ever ran out."""

    kept_at: float
    ran_out: bool = False


class Worker:
    """Pulls work from the pools that this machine can run, several tries at once."""

    def __init__(
        self,
        store: EventStore,
        attempts: AttemptRunner,
        stops: StopWatch,
        settings: RunnerSettings,
        pools: Sequence[str],
        room: RoomWatch | None = None,
    ) -> None:
        """With `room`, no work is taken while a disk is nearly full."""
        self._store = store
        self._jetstream = store.client.jetstream(timeout=5)
        self._attempts = attempts
        self._stops = stops
        self._settings = settings
        self._pools = list(pools)
        self._room = room
        self._places = asyncio.Semaphore(settings.runner_concurrency)
        self._working: set[asyncio.Future[None]] = set()
        self._claims: dict[int, Claim] = {}
        self._reconnects = 0
        self._settled_at = 0.0
        self._alone: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.running = 0
        """How many tries are running now."""

    async def run(self) -> None:
        """Take work until cancelled; what is running then is stopped and handed back."""
        asked = await self._store.client.subscribe(HELD_SUBJECT, cb=self._answer_who_holds)
        self._settled_at = asyncio.get_running_loop().time() + _SETTLE_SECONDS
        pulling = [asyncio.ensure_future(self._pull(pool)) for pool in self._pools]
        try:
            await asyncio.gather(*pulling)
        finally:
            # First no more pulls, which would take what is handed back; then the hand-back.
            await _cancelled(pulling)
            await _cancelled(self._working)
            with contextlib.suppress(NatsError):
                await asked.unsubscribe()

    async def _pull(self, pool: str) -> None:
        """Claim one order ahead of the next free place, and start it there."""
        subscription: JetStreamContext.PullSubscription | None = None
        try:
            while True:
                if self._room is not None:
                    await self._room.wait()
                try:
                    if subscription is None:
                        subscription = await self._subscribe(pool)
                    [message] = await subscription.fetch(1, timeout=_PULL_SECONDS)
                except TimeoutError:
                    continue
                except NatsError as error:
                    log.warning("pull-waits", pool=pool, error=str(error))
                    subscription = None
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                if not await self._take(message):
                    log.info("work-held-by-a-live-runner", subject=message.subject)
                    continue
                working = asyncio.ensure_future(self._work(message))
                self._working.add(working)
                working.add_done_callback(self._working.discard)
        finally:
            if subscription is not None:
                with contextlib.suppress(NatsError):
                    await subscription.unsubscribe()

    async def _take(self, message: Msg) -> bool:
        """Claim an order and wait for a place; False where a live runner has not let go of it."""
        number, claim = _order_number(message), Claim(asyncio.get_running_loop().time())
        try:
            async with self._held(message, claim):
                if message.metadata.num_delivered > 1 and await self._is_held(number):
                    return False
                self._claims[number] = claim
                await self._places.acquire()
        except asyncio.CancelledError:
            if self._claims.get(number) is claim:
                del self._claims[number]
            with contextlib.suppress(NatsError):
                await message.nak()
            raise
        return True

    async def _is_held(self, number: int) -> bool:
        """Whether a runner, this one or another, lives and is at an earlier delivery of an order.

        It goes on extending its claim and acknowledges the order in the end; if it dies, the order
        comes once more. After a start and after an outage the others get time to connect as well.
        """
        now = asyncio.get_running_loop().time
        if (reconnects := self._store.client.stats["reconnects"]) != self._reconnects:
            self._reconnects, self._settled_at = reconnects, now() + _SETTLE_SECONDS
        while number not in self._claims:
            try:
                question = str(number).encode()
                await self._store.client.request(HELD_SUBJECT, question, timeout=_ANSWER_SECONDS)
            except TimeoutError:
                if now() >= self._settled_at:
                    return False
            except NatsError as error:
                log.warning("holders-unknown", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return True
        return True

    async def _answer_who_holds(self, question: Msg) -> None:
        if int(question.data) in self._claims:
            await question.respond(self._settings.instance.encode())

    async def _subscribe(self, pool: str) -> JetStreamContext.PullSubscription:
        durable = f"runner-{pool}"
        config = ConsumerConfig(
            durable_name=durable,
            filter_subject=f"work.{pool}",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._settings.runner_ack_wait,
            max_deliver=-1,
            max_ack_pending=10_000,
        )
        await self._jetstream.add_consumer(WORK_STREAM, config)
        return await self._jetstream.pull_subscribe_bind(stream=WORK_STREAM, durable=durable)

    async def _work(self, message: Msg) -> None:
        with kept_out_of_logs():
            await self._work_on(message)

    async def _work_on(self, message: Msg) -> None:
        self.running += 1
        try:
            async with self._held(message, self._claims[_order_number(message)]):
                await self._handle(message)
        except asyncio.CancelledError:
            with contextlib.suppress(NatsError):
                await message.nak()
            raise
        except SupersededError as error:
            log.warning("try-left", why=str(error))
        except Exception as error:
            # The order stays claimed until its ack wait is over, and comes again.
            log.exception("work-failed", subject=message.subject)
            if not is_outage(error) and self._is_hopeless(message):
                await self._bury(message, error)
        finally:
            del self._claims[_order_number(message)]
            self.running -= 1
            self._places.release()

    @contextlib.asynccontextmanager
    async def _held(self, message: Msg, claim: Claim) -> AsyncIterator[None]:
        """Keep a claim alive while the body runs."""

        async def hold() -> None:
            while True:
                await asyncio.sleep(self._settings.runner_ack_wait / 3)
                self._look_at(claim)
                try:
                    await message.in_progress()
                except NatsError as error:
                    log.warning("claim-not-extended", error=str(error))

        holding = asyncio.create_task(hold())
        try:
            yield
        finally:
            holding.cancel()

    def _look_at(self, claim: Claim) -> None:
        """Note whether a claim ran out, because this process hung or NATS was away."""
        now = asyncio.get_running_loop().time()
        claim.ran_out = claim.ran_out or now - claim.kept_at > self._settings.runner_ack_wait
        if self._store.client.is_connected:
            claim.kept_at = now

    async def _handle(self, message: Msg) -> None:
        delivery = message.metadata.num_delivered
        try:
            order = WorkOrder.model_validate_json(message.data)
        except ValidationError as error:
            await self._bury(message, error)
            return
        structlog.contextvars.clear_contextvars()
        bind_correlation(order.correlation_id, run=order.run, slot=order.slot.id(order.run))
        alone = self._alone.setdefault(order.message_id, asyncio.Lock())
        async with alone:  # an earlier delivery may still be at work here
            if delivery > 1 and await self._is_told(order):
                log.info("result-told-before", delivery=delivery)
            else:
                await self._attempt(order, delivery, self._claims[_order_number(message)])
        await message.ack_sync(timeout=10)

    def _is_hopeless(self, message: Msg) -> bool:
        """Whether not even the result that ends a try too often begun could be told."""
        return message.metadata.num_delivered > self._settings.runner_deliveries

    async def _bury(self, message: Msg, error: Exception) -> None:
        """Take an order that cannot be handled off the queue; a redrive queues it again."""
        await bury_message(
            self._store,
            "sandbox-runner.work",
            _stored(message),
            error,
            tries=message.metadata.num_delivered,
        )
        await message.term()

    async def _attempt(self, order: WorkOrder, delivery: int, claim: Claim) -> None:
        self._look_at(claim)
        if await self._stops.is_stopping(order.run):
            result = self._attempts.cancelled(order, delivery)
        elif delivery > self._settings.runner_deliveries:
            lost = RunnerLostError(f"{delivery - 1} runners were lost while they ran this try")
            result = self._attempts.unscored(
                order, delivery, lost, Phase.PREPARATION, retryable=False
            )
        else:
            started = self._attempts.started(order, delivery)
            told = await self._store.tell(
                started, message_id=started.data.message_id(order.run, started.type)
            )
            if told.duplicate and await self._is_told(order):
                log.info("result-told-before", delivery=delivery)  # the order was queued twice
                return
            log.info("attempt-started", task=order.slot.task, try_number=order.try_number)
            result = await self._run_unless_ended(order, started, claim)
        await self._tell_unhurried(order, result)
        log.info("result-told", task=order.slot.task, rewards=result.rewards)

    async def _tell_unhurried(self, order: WorkOrder, result: ResultIngestedData) -> None:
        """Tell a result even while the runner shuts down: the try was run, and may be paid for."""
        telling = asyncio.ensure_future(self._tell_result(order, result))
        try:
            await asyncio.shield(telling)
        except asyncio.CancelledError:
            await asyncio.wait([telling], timeout=_TELL_SECONDS)
            telling.cancel()
            raise

    async def _tell_result(self, order: WorkOrder, result: ResultIngestedData) -> None:
        """Tell a result, for as long as it takes: somebody may have paid for it."""
        event = self._attempts.ingested(order, result)
        message_id = result.message_id(order.run, event.type)
        while True:
            try:
                await self._store.tell(event, message_id=message_id)
            except (NatsError, TimeoutError, OSError) as error:
                log.warning("result-waits", task=order.slot.task, error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            return

    async def _run_unless_ended(
        self, order: WorkOrder, started: AttemptStarted, claim: Claim
    ) -> ResultIngestedData:
        """Run a try unless its run is stopped, or another runner has begun it.

        Raises:
            SupersededError: another runner has.
        """
        delivery = started.data.delivery
        watch = Stopwatch()
        running = asyncio.ensure_future(self._attempts.run(order, delivery))
        stopped = asyncio.ensure_future(self._stops.stopped(order.run))
        taken = asyncio.ensure_future(self._taken_over(started, claim))
        try:
            await asyncio.wait([running, stopped, taken], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            if stopped.done():
                return self._attempts.cancelled(order, delivery, watch=watch)
            raise SupersededError(f"{taken.result()} has begun the try after our claim ran out")
        finally:
            stopped.cancel()
            running.cancel()
            taken.cancel()
            # The sandbox is gone when the cancelled try has come to its end.
            await asyncio.gather(running, taken, return_exceptions=True)

    async def _taken_over(self, ours: AttemptStarted, claim: Claim) -> str:
        """Return the runner that has begun the try as well; the stream is asked only once our claim
        ran out, since nobody can begin it before."""
        while True:
            if claim.ran_out and (runner := await self._begun_by_another(ours)):
                return runner
            await asyncio.sleep(self._settings.runner_ack_wait / 3)

    async def _begun_by_another(self, ours: AttemptStarted) -> str | None:
        try:
            async for stored in self._store.read(RunEvent.stream, [ours.subject]):
                event = stored.event
                if (
                    isinstance(event, AttemptStarted)
                    and (event.data.slot, event.data.try_number)
                    == (ours.data.slot, ours.data.try_number)
                    and event.data.delivery > ours.data.delivery
                ):
                    return event.data.runner
        except (NatsError, TimeoutError, UnknownEventError) as error:
            log.warning("takeover-unknown", error=str(error))
        return None

    async def _is_told(self, order: WorkOrder) -> bool:
        """Whether an earlier delivery of this try has left its result in the stream."""
        subject = f"runs.{order.workspace}.{order.run}.attempts.result-ingested"
        last = await self._store.last_sequence(RunEvent.stream)
        async for stored in self._store.history(RunEvent.stream, [subject], until=last):
            event = stored.event
            if (
                isinstance(event, ResultIngested)
                and event.data.slot == order.slot
                and event.data.try_number == order.try_number
            ):
                return True
        return False


async def _cancelled(tasks: Iterable[asyncio.Future[None]]) -> None:
    """Cancel tasks, and return when all have come to their end."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def _order_number(message: Msg) -> int:
    """The order's place in the queue, the same in all of its deliveries."""
    return message.metadata.sequence.stream


def _stored(message: Msg) -> StoredMessage:
    metadata = message.metadata
    return StoredMessage(
        stream=WORK_STREAM,
        subject=message.subject,
        sequence=metadata.sequence.stream,
        payload=message.data,
        stored_at=metadata.timestamp,
        pending=metadata.num_pending,
    )
