"""Rendered files do not outlive a day: nobody holds an address of them by then."""

import asyncio
from datetime import UTC, datetime, timedelta

import structlog

from assay_kernel.blobs import BlobsAwayError, BlobStore
from gateway.downloads.files import exports

AGE = timedelta(days=1)
_SWEEP_SECONDS = 3600.0

log = structlog.get_logger(__name__)


async def sweep_exports(blobs: BlobStore) -> None:
    """Sweep again and again until cancelled; a store that does not answer is waited out."""
    while True:
        try:
            swept = await exports(blobs).sweep(datetime.now(UTC) - AGE)
        except BlobsAwayError as error:
            log.warning("export-sweep-waits", error=str(error))
        else:
            log.info("exports-swept", files=swept)
        await asyncio.sleep(_SWEEP_SECONDS)
