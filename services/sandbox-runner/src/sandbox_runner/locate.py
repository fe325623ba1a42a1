"""Bringing a task's folder to this machine: from the blob store, from git, or as a package.

Every location is pinned, so a folder that is here once is good for ever. Folders are made beside
their final place and renamed into it: what is there is complete.
"""

import asyncio
import io
import shutil
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from harbor.models.task.id import GitTaskId, PackageTaskId
from harbor.tasks.client import TaskClient

from assay_contracts.values import ArchivedTask, GitTask, PackageTask, TaskLocation
from assay_kernel.blobs import BlobMissingError, BlobStore


class TaskUnavailableError(Exception):
    """The task's files cannot be had; the message says why."""


class TaskShelf:
    """The tasks on this machine, by location."""

    def __init__(self, folder: Path, blobs: BlobStore) -> None:
        self._folder = folder
        self._blobs = blobs
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._client = TaskClient()

    async def folder_of(self, location: TaskLocation) -> Path:
        """The folder of the task, fetched if it is not here yet.

        Raises:
            TaskUnavailableError: it cannot be fetched.
        """
        async with self._locks[location.model_dump_json()]:
            match location:
                case ArchivedTask():
                    return await self._unpacked(location)
                case GitTask(url=url, commit=commit, path=path):
                    task = GitTaskId(git_url=url, git_commit_id=commit, path=Path(path))
                    return await self._downloaded(task, f"git {url} at {commit[:12]}")
                case PackageTask(org=org, name=name, digest=digest):
                    package = PackageTaskId(org=org, name=name, ref=digest)
                    return await self._downloaded(package, f"package {org}/{name}")

    async def _unpacked(self, location: ArchivedTask) -> Path:
        place = self._folder / location.sha256[:2] / location.sha256
        if await asyncio.to_thread(place.is_dir):
            return place
        try:
            archive = await self._blobs.read(location.sha256)
        except BlobMissingError as error:
            raise TaskUnavailableError(
                f"the task's archive {location.sha256[:12]} is not in the blob store; "
                "synchronise the benchmark again"
            ) from error
        await asyncio.to_thread(_unpack, archive, place)
        return place

    async def _downloaded(self, task: GitTaskId | PackageTaskId, what: str) -> Path:
        try:
            result = await self._client.download_tasks(
                task_ids=[task], overwrite=False, output_dir=self._folder / "downloads"
            )
        except Exception as error:
            raise TaskUnavailableError(f"{what} cannot be downloaded: {error}") from error
        return result.paths[0]


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
