"""Keeping what a try left: each file as a blob, and one manifest that lists them."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import structlog

from assay_contracts.run_events import ArtifactManifest
from assay_kernel.blobs import BlobStore

log = structlog.get_logger(__name__)


async def keep_artifacts(
    blobs: BlobStore, folder: Path, files: Sequence[Path]
) -> ArtifactManifest | None:
    """Keep `files` (relative to `folder`) and their manifest; None where there are none.

    The manifest is JSON: `{"files": [{"path", "size", "sha256"}]}`, ordered by path.
    """
    listed = []
    total = 0
    for path in sorted(files):
        sha256, size = await blobs.keep_file(folder / path)
        total += size
        listed.append({"path": path.as_posix(), "size": size, "sha256": sha256})
    if not listed:
        return None
    manifest = await blobs.keep(orjson.dumps({"files": listed}))
    return ArtifactManifest(sha256=manifest, files=len(listed), bytes=total)
