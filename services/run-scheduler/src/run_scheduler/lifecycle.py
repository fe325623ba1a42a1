"""Appending lifecycle decisions: load the run's decisions, decide, append, and again if stale."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import structlog

from assay_contracts.envelope import Stamp
from assay_contracts.identifiers import new_id
from assay_contracts.lifecycle import RunLifecycle, evolve_run
from assay_contracts.run_events import RunEvent
from assay_kernel.event_store import EventStore, StaleStateError, lifecycle_filter
from run_scheduler.domain import Command, DecisionRefusedError, decide

ACTOR = "run-scheduler"

log = structlog.get_logger(__name__)


def now_stamp() -> Stamp:
    """A fresh id and the present time, in the scheduler's name."""
    return Stamp(id=new_id(), at=datetime.now(UTC), actor=ACTOR)


class Lifecycles:
    """Takes decisions on runs, each exactly once however many schedulers try."""

    def __init__(self, store: EventStore, stamp: Callable[[], Stamp] = now_stamp) -> None:
        self._store = store
        self._stamp = stamp

    async def decide(self, workspace: str, run: UUID, command: Command) -> bool:
        """Append what `command` leads to; False where the run's state no longer allows it."""
        aggregate = lifecycle_filter(workspace, run)
        while True:
            loaded = await self._store.load(RunEvent.stream, aggregate, RunLifecycle(), evolve_run)
            cause = loaded.correlation
            if cause is None:
                return False
            try:
                event = decide(loaded.state, command, cause, {"run": run}, self._stamp())
            except DecisionRefusedError as refusal:
                log.debug("decision-refused", run=str(run), why=str(refusal))
                return False
            try:
                await self._store.append(event, aggregate=aggregate, expected=loaded.sequence)
            except StaleStateError:
                log.info("decision-stale", run=str(run), command=type(command).__name__)
                continue
            log.info(
                "decided",
                run=str(run),
                decision=event.type,
                correlation_id=str(event.correlation_id),
            )
            return True
