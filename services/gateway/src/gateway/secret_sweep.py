"""Secrets that were given for one run alone do not outlive it."""

import asyncio
from datetime import UTC, datetime, timedelta

import structlog

from assay_kernel.database import is_outage
from gateway import run_queries
from gateway.desk import Desk
from gateway.problems import not_yet_there

_SWEEP_SECONDS = 30.0
_ORPHANED = timedelta(hours=1)
"""A run that has not appeared by then was never submitted: its append failed after its secrets
were kept."""

log = structlog.get_logger(__name__)


async def sweep_secrets(desk: Desk) -> None:
    """Sweep again and again until cancelled; an outage is waited out."""
    while True:
        try:
            await sweep_once(desk, datetime.now(UTC))
        except Exception as error:
            if not (is_outage(error) or not_yet_there(error)):
                raise
            log.warning("sweep-waits", error=type(error).__name__)
        await asyncio.sleep(_SWEEP_SECONDS)


async def sweep_once(desk: Desk, now: datetime) -> None:
    """Delete what was given for runs that have ended, or that never came to be."""
    for run, since in (await desk.vault.runs_with_secrets()).items():
        async with desk.reading() as connection:
            status = await run_queries.run_status(connection, run)
        gone = now - since > _ORPHANED if status is None else status.is_terminal
        if gone:
            await desk.vault.drop_run(run)
            log.info("run-secrets-deleted", run=str(run))
