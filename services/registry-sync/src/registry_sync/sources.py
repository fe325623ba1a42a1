"""Reading a benchmark's tasks from wherever they are: registries, git, folders, the catalogue.

A source is opened (its version is resolved) and then read in pages. Every task's folder is kept in
the blob store as an archive, so that the pinned task list needs its source no more. A task that
cannot be used stays in the list with the reason; a source that cannot be used is a `SourceError`
with a sentence that a person can act on.
"""

import asyncio
import re
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harbor.models.task.id import GitTaskId, LocalTaskId, PackageTaskId
from harbor.models.task.task import Task
from harbor.tasks.client import TaskClient

from assay_contracts.values import (
    ArchivedTask,
    BenchmarkRules,
    BenchmarkSource,
    CatalogueSource,
    Difficulty,
    FolderSource,
    GitSource,
    RegistrySource,
    TaskEntry,
    TaskSet,
)
from assay_kernel.blobs import BlobStore
from registry_sync.archives import UnfitTaskError, digest_of, pack_task
from registry_sync.catalogue import BundledSource, load_catalogue
from registry_sync.git import clone
from registry_sync.registries import ListedTask, SourceError, find_dataset

PAGE_TASKS = 50
_DOWNLOAD_TASKS = 200
_DIFFICULTIES: Mapping[str, Difficulty] = {"easy": "easy", "medium": "medium", "hard": "hard"}
_UNSAFE = re.compile(r"[^A-Za-z0-9@._/-]+")


@dataclass(frozen=True)
class OpenSource:
    """A source whose version is resolved; `tasks` are yet to be read."""

    version: str
    key: str
    description: str
    source_url: str | None
    tasks: Sequence[ListedTask]
    rules: BenchmarkRules = field(default_factory=BenchmarkRules)
    task_sets: tuple[TaskSet, ...] = ()


@dataclass
class ReadTasks:
    """Adds up what pages held: names seen, and the digest that pins the list."""

    names: set[str] = field(default_factory=set)
    digests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """`sha256:…` over the ordered tasks and their contents."""
        return digest_of(self.digests)


async def open_source(source: BenchmarkSource, work_dir: Path) -> OpenSource:
    """Resolve a source's version and list its tasks.

    Args:
        source: where the benchmark is.
        work_dir: a folder of this synchronisation's own.

    Raises:
        SourceError: it cannot be used, with what to do about it.
    """
    match source:
        case CatalogueSource(key=key):
            return await _open_catalogue(key, work_dir)
        case RegistrySource():
            found = await find_dataset(source, work_dir)
            return OpenSource(
                version=found.version,
                key=_key(source.dataset, found.version),
                description=found.description,
                source_url=source.registry,
                tasks=found.tasks,
            )
        case GitSource(url=url, ref=ref, path=path):
            folder, commit = await clone(url, ref, work_dir / "clone")
            tasks = _in_folder(folder / (path or "."), f"{url} at {commit[:12]}, ")
            name = url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
            return OpenSource(commit, _key(name, commit[:12]), "", url, tasks)
        case FolderSource(path=path):
            folder = Path(path)
            return OpenSource("", folder.name, "", None, _in_folder(folder, ""))


async def _open_catalogue(key: str, work_dir: Path) -> OpenSource:
    entry = load_catalogue().entry(key)
    if entry is None:
        raise SourceError(f"the catalogue has no entry {key} any more; remove the benchmark")
    source = entry.source
    if isinstance(source, BundledSource):
        opened = await open_source(source.as_folder(), work_dir)
    else:
        opened = await open_source(source, work_dir)
    return replace(
        opened, key=key, description=entry.description, rules=entry.rules, task_sets=entry.task_sets
    )


def _key(name: str, version: str) -> str:
    return _UNSAFE.sub("-", f"{name}@{version}" if version else name)


def _in_folder(folder: Path, origin: str) -> list[ListedTask]:
    if not folder.is_dir():
        raise SourceError(f"there is no folder {folder} on the server")
    places = sorted(path.parent for path in folder.glob("*/task.toml"))
    if not places:
        raise SourceError(
            f"the folder {folder} holds no task: each task is a folder with a task.toml in it"
        )
    return [
        ListedTask(
            name=place.name,
            id=LocalTaskId(path=place),
            origin=f"{origin}{place.relative_to(folder)}",
            named=False,
        )
        for place in places
    ]


async def read_tasks(
    opened: OpenSource, blobs: BlobStore, work_dir: Path, read: ReadTasks
) -> AsyncIterator[list[TaskEntry]]:
    """The tasks of an opened source, page by page, kept in the blob store as they come."""
    client = TaskClient()
    for first in range(0, len(opened.tasks), _DOWNLOAD_TASKS):
        part = opened.tasks[first : first + _DOWNLOAD_TASKS]
        folders = await _download(client, part, work_dir)
        for start in range(0, len(part), PAGE_TASKS):
            page = []
            for task in part[start : start + PAGE_TASKS]:
                entry = await _entry(task, folders[task.id], blobs, read.names)
                read.names.add(entry.name)
                read.digests.append(
                    (entry.name, entry.digest or f"unavailable {entry.unavailable}")
                )
                page.append(entry)
            yield page


TaskId = GitTaskId | LocalTaskId | PackageTaskId


async def _download(
    client: TaskClient, tasks: Sequence[ListedTask], work_dir: Path
) -> Mapping[TaskId, Path | str]:
    """The folder of each task, or the sentence why it cannot be had."""
    target = work_dir / "tasks"

    async def fetch(ids: list[TaskId]) -> list[Path]:
        downloaded = await client.download_tasks(task_ids=ids, output_dir=target)
        return downloaded.paths

    wanted = [task.id for task in tasks]
    try:
        return dict(zip(wanted, await fetch(wanted), strict=True))
    except Exception as error:  # noqa: BLE001  told apart below, task by task
        if len(wanted) == 1:
            return {wanted[0]: _sentence(error)}
    found: dict[TaskId, Path | str] = {}
    for one in wanted:
        try:
            [found[one]] = await fetch([one])
        except Exception as error:  # noqa: BLE001  the task stays in the list with this reason
            found[one] = _sentence(error)
    return found


async def _entry(
    task: ListedTask, folder: Path | str, blobs: BlobStore, taken: set[str]
) -> TaskEntry:
    if isinstance(folder, str):
        return TaskEntry(name=task.name, origin=task.origin, unavailable=folder)
    try:
        described = await asyncio.to_thread(_describe, task, folder)
        archive = await asyncio.to_thread(pack_task, folder)
    except (UnfitTaskError, OSError, ValueError) as error:
        return TaskEntry(name=task.name, origin=task.origin, unavailable=_sentence(error))
    if described.name in taken:
        return described.model_copy(
            update={"unavailable": f"another task is called {described.name} too"}
        )
    sha256 = await blobs.keep(archive)
    location = ArchivedTask(sha256=sha256, size=len(archive))
    return described.model_copy(
        update={"location": location, "digest": f"sha256:{sha256}", "unavailable": None}
    )


def _describe(task: ListedTask, folder: Path) -> TaskEntry:
    """Name, category and difficulty as the task itself gives them; Harbor checks its shape."""
    if not folder.is_dir():
        raise FileNotFoundError("the folder of the task is not there")
    if not (folder / "task.toml").is_file():
        raise FileNotFoundError("there is no task.toml in the folder of the task")
    tomllib.loads((folder / "task.toml").read_text())
    loaded = Task(folder)
    metadata: Mapping[str, Any] = loaded.config.metadata
    category = metadata.get("category")
    difficulty = str(metadata.get("difficulty", "")).strip().lower()
    package = loaded.config.task
    name = task.name if task.named or package is None else package.name
    return TaskEntry(
        name=name,
        category=category if isinstance(category, str) and category.strip() else None,
        difficulty=_DIFFICULTIES.get(difficulty),
        origin=task.origin,
        unavailable="not read yet",
    )


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."
