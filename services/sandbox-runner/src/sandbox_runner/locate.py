"""Bringing a task's folder to this machine from the blob store.

A task is kept under the hash of its archive, so a folder that is here once is good for ever.
Folders are made beside their final place and renamed into it: what is there is complete.
"""

import asyncio
import io
import shutil
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from assay_contracts.values import ArchivedTask
from assay_kernel.blobs import BlobMissingError, BlobStore


class TaskUnavailableError(Exception):
    """The task's files cannot be had; the message says why."""


class TaskShelf:
    """The tasks on this machine, by the hash of their archive."""

    def __init__(self, folder: Path, blobs: BlobStore) -> None:
        self._folder = folder
        self._blobs = blobs
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def folder_of(self, task: ArchivedTask) -> Path:
        """The folder of the task, unpacked if it is not here yet.

        Raises:
            TaskUnavailableError: its archive is not in the blob store.
        """
        async with self._locks[task.sha256]:
            place = self._folder / task.sha256[:2] / task.sha256
            if await asyncio.to_thread(place.is_dir):
                return place
            try:
                archive = await self._blobs.read(task.sha256)
            except BlobMissingError as error:
                raise TaskUnavailableError(
                    f"the task's archive {task.sha256[:12]} is not in the blob store; "
                    "synchronise the benchmark again"
                ) from error
            await asyncio.to_thread(_unpack, archive, place)
            return place


def _unpack(archive: bytes, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=place.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            opened.extractall(beside, filter="data")
        beside.chmod(0o755)
        beside.rename(place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
