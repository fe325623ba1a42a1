"""The worker that judges: claims cases, asks, and tells each verdict once.

A verdict and the end of its claim are one transaction, and the verdict leaves through the outbox
under an id that follows from the result. So a grader that dies before the transaction has told
nothing, and its case is judged again once the claim has run out; one that dies after it has told
everything. A claim that was lost meanwhile is noticed there too.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from nats.errors import Error as NatsError
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.identifiers import new_id
from assay_contracts.run_events import RunEvent
from assay_contracts.values import CauseClass
from assay_kernel.database import is_outage
from assay_kernel.event_store import EventStore
from assay_kernel.live_secrets import kept_out_of_logs
from assay_kernel.outbox import Outbox, Outgoing
from assay_kernel.secret_claims import GatewayAwayError
from assay_scoring.judging import errored
from grader import judge_queries as queries
from grader.judge_cases import Judge, Judged
from grader.judge_queries import Case
from grader.judge_verdicts import graded
from grader.settings import GraderSettings

_MOST_CLAIMS = 3
"""After so many claims a case that breaks the judge is given up."""

_LATER = timedelta(seconds=5)

log = structlog.get_logger(__name__)


class JudgeWorker:
    """Judges what waits for it, several cases at once, until cancelled."""

    def __init__(
        self,
        engine: AsyncEngine,
        store: EventStore,
        outbox: Outbox,
        judge: Judge,
        settings: GraderSettings,
        *,
        folded: Callable[[], int],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`folded` is the sequence up to which the projection that notes cases has come."""
        self._engine = engine
        self._store = store
        self._outbox = outbox
        self._judge = judge
        self._settings = settings
        self._folded = folded
        self._now = now
        self._lease = timedelta(seconds=settings.judge_lease)
        self._held: dict[UUID, Case] = {}
        self._changed = asyncio.Event()

    @property
    def judging(self) -> int:
        """How many cases are being judged here."""
        return len(self._held)

    def wake(self) -> None:
        """Tell the worker that there may be cases."""
        self._changed.set()

    async def run(self) -> None:
        """Judge until cancelled; an outage of PostgreSQL or NATS is waited out."""
        try:
            await self._catch_up()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hold_on())
                await self._claim_and_work(group)
        finally:
            await self._judge.close()

    async def _claim_and_work(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._changed.clear()
            try:
                for case in await self._claimed():
                    group.create_task(self._work(case))
            except Exception as error:
                if not is_outage(error):
                    raise
                log.warning("judge-waits", error=str(error))
            await self._wait()

    async def _catch_up(self) -> None:
        """Wait until the projection has seen every verdict that the stream held at the start.

        Where all events are folded anew, the results come before their verdicts: judging at once
        would ask, and pay, for what was judged long ago.
        """
        last = await self._last_told()
        while self._folded() < last:
            self._changed.clear()
            await self._wait()

    async def _last_told(self) -> int:
        while True:
            try:
                return await self._store.last_sequence(RunEvent.stream)
            except (NatsError, TimeoutError) as error:
                log.warning("judge-waits", error=str(error))
                await self._wait()

    async def _claimed(self) -> list[Case]:
        free = self._settings.judge_concurrency - len(self._held)
        if free <= 0:
            return []
        async with self._engine.begin() as connection:
            cases = await queries.claim(connection, new_id(), free, self._lease)
        for case in cases:
            self._held[case.result.id] = case
        return cases

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._settings.judge_tick):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _hold_on(self) -> None:
        """Renew the claims on what is being judged."""
        while True:
            await asyncio.sleep(self._settings.judge_lease / 3)
            try:
                async with self._engine.begin() as connection:
                    await queries.renew(connection, list(self._held.values()), self._lease)
            except Exception as error:
                if not is_outage(error):
                    raise
                log.warning("judge-claims-wait", error=str(error))

    async def _work(self, case: Case) -> None:
        with kept_out_of_logs():
            await self._judge_and_settle(case)

    async def _judge_and_settle(self, case: Case) -> None:
        try:
            await self._settle(case, await self._judge.judge(case))
        except Exception as error:  # noqa: BLE001  one case must not end the others
            await self._judge_later(case, error)
        finally:
            del self._held[case.result.id]
            self.wake()

    async def _judge_later(self, case: Case, error: Exception) -> None:
        passing = is_outage(error) or isinstance(error, GatewayAwayError | NatsError | TimeoutError)
        told = {"run": str(case.result.run), "slot": case.result.data.slot.model_dump()}
        if passing:
            log.warning("judgement-waits", error=str(error), **told)
        else:
            log.error("judgement-broke", exc_info=error, claims=case.claims, **told)
        try:
            if passing or case.claims < _MOST_CLAIMS:
                async with self._engine.begin() as connection:
                    await queries.put_back(connection, case, _LATER)
            else:
                reason = f"the judgement broke {case.claims} times: {type(error).__name__}"
                await self._settle(
                    case, Judged(errored(CauseClass.VERIFIER, reason, retryable=True))
                )
        except Exception as outage:
            if not is_outage(outage):
                raise
            log.warning("judgement-left", error=str(outage), **told)  # its claim runs out

    async def _settle(self, case: Case, judged: Judged) -> None:
        event = graded(
            case.result,
            judged.verdict,
            pass_threshold=case.submitted.data.execution.pass_threshold,
            now=self._now(),
            judge=judged.record,
        )
        async with self._engine.begin() as connection:
            if not await queries.settle(connection, case):
                log.warning("judgement-lost", run=str(event.run))
                return
            await self._outbox.write(
                connection, [Outgoing.fact(event, event.data.message_id(event.run, event.type))]
            )
        self._outbox.wake()
        log.info("judged", run=str(event.run), outcome=event.data.outcome.value)
