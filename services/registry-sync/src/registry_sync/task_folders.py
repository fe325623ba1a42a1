"""Task folders: finding them in a tree, bringing them to this machine, and reading what each says.

Category and difficulty are those of `[metadata]` in task.toml, where Harbor's own viewer and its
template for datasets have them; nothing is derived from keywords or names.
"""

import asyncio
import re
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from harbor.constants import ORG_NAME_PATTERN
from harbor.models.task.id import GitTaskId, LocalTaskId, PackageTaskId
from harbor.models.task.task import Task
from harbor.tasks.client import TaskClient
from pydantic import ValidationError

from assay_contracts.values import Difficulty, TaskEntry
from registry_sync.archives import UnfitTaskError
from registry_sync.git import Repositories
from registry_sync.registries import ListedTask
from registry_sync.source_errors import UnreachableError, without_secrets

_CONFIG = "task.toml"
_DEPTH = 4
"""How far below a dataset's folder its tasks are looked for."""

_LARGEST_TASK = 512 * 2**20
_PACKAGE_SECONDS = 300.0
_DIFFICULTIES: Mapping[str, Difficulty] = {"easy": "easy", "medium": "medium", "hard": "hard"}
_OUTAGES = (httpx.RequestError, ConnectionError, TimeoutError)


def task_folders(paths: Iterable[str]) -> list[str]:
    """The task folders among the files of a tree, sorted.

    Args:
        paths: relative paths of files, with `/` between parts. A folder is a task where it holds
            a task.toml and lies in no other task; `.` is the tree's own root.
    """
    holders = {path.rpartition("/")[0] or "." for path in paths if path.split("/")[-1] == _CONFIG}
    return sorted(
        holder
        for holder in holders
        if holders.isdisjoint(parent.as_posix() for parent in Path(holder).parents)
    )


def find_task_folders(folder: Path) -> list[str]:
    """The task folders below a folder on disk, or the folder itself as `.`; relative and sorted.

    Hidden folders and links to folders are not followed.
    """
    found: list[str] = []
    for place, folders, files in folder.walk(follow_symlinks=False):
        inside = place.relative_to(folder)
        if _CONFIG in files:
            found.append((inside / _CONFIG).as_posix())
        if _CONFIG in files or len(inside.parts) >= _DEPTH:
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]
    return task_folders(found)


async def fetch_tasks(
    tasks: Sequence[ListedTask], repositories: Repositories, work_dir: Path
) -> AsyncIterator[tuple[ListedTask, Path | str]]:
    """Each task with its folder, good until the next is asked for, or why it cannot be had.

    Raises:
        SourceError: a repository or the hosted registry fails.
    """
    in_git: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        match task.id:
            case GitTaskId(git_url=url, git_commit_id=str(commit), path=path):
                in_git.setdefault((url, commit), []).append(path.as_posix())
    clones = {
        (url, commit): await repositories.check_out(url, commit, paths)
        for (url, commit), paths in in_git.items()
    }
    for task in tasks:
        match task.id:
            case GitTaskId(git_url=url, git_commit_id=str(commit), path=path):
                yield task, _within(clones[url, commit], path)
            case LocalTaskId(path=path):
                yield task, path
            case PackageTaskId() as package:
                yield task, await _package(package, work_dir / "packages")
            case _:
                yield task, task.unavailable or "where the task lies is not known"


def describe_task(task: ListedTask, folder: Path) -> tuple[TaskEntry, bool]:
    """Name, category and difficulty as the task itself gives them, and whether it can be run.

    The entry gives a reason in either case: one that can be run is not kept anywhere yet.
    """
    entry = TaskEntry(name=task.name, origin=task.origin, unavailable="not read yet")
    try:
        config = _read_config(folder)
        entry = entry.model_copy(update=_labels(config.get("metadata")))
        if not task.named:
            entry = entry.model_copy(update={"name": _own_name(config) or task.name})
        _check(folder)
    except UnfitTaskError as error:
        return entry.model_copy(update={"unavailable": sentence(error, folder)}), False
    return entry, True


def sentence(error: Exception, folder: Path) -> str:
    """The error in at most 300 characters, without the place of the folder on this machine."""
    text = " ".join(str(error).split()) or type(error).__name__
    for place in {str(folder.resolve()), str(folder)}:
        text = text.replace(f"Task directory {place}", "the task")
        text = text.replace(f"{place}/", "").replace(place, "the task's folder")
    text = without_secrets(text)
    return text if len(text) <= 300 else f"{text[:297]}..."


def _within(clone: Path, path: Path) -> Path | str:
    """The task's folder in a clone, unless a link of the repository leads there."""
    place = clone
    for part in path.parts:
        place /= part
        if place.is_symlink():
            return f"the repository has a link where the task's folder should be: {path}"
    return place if place.is_dir() else f"the repository has no folder {path} at that commit"


async def _package(package: PackageTaskId, target: Path) -> Path | str:
    what = f"the package {package.org}/{package.name}"
    try:
        async with asyncio.timeout(_PACKAGE_SECONDS):
            got = await TaskClient().download_tasks(task_ids=[package], output_dir=target)
    except Exception as error:  # told apart right here
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        said = " ".join(str(cause).split()) or type(cause).__name__
        if isinstance(cause, _OUTAGES):
            raise UnreachableError(
                f"{what} cannot be downloaded ({said}); check the server's network and retry "
                "the sync"
            ) from error
        return f"{what} cannot be downloaded: {said}"[:300]
    folder: Path = got.paths[0]
    return folder


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / _CONFIG
    if not folder.is_dir():
        raise UnfitTaskError("the folder of the task is not there")
    if path.is_symlink() or not path.is_file():
        raise UnfitTaskError(f"there is no {_CONFIG} in the folder of the task")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnfitTaskError(f"{_CONFIG} cannot be read: {error}") from error


def _own_name(config: Mapping[str, Any]) -> str | None:
    package = config.get("task")
    name = package.get("name") if isinstance(package, Mapping) else None
    if not isinstance(name, str) or len(name) > 200 or not re.fullmatch(ORG_NAME_PATTERN, name):
        return None
    return name


def _labels(metadata: object) -> dict[str, str | None]:
    if not isinstance(metadata, Mapping):
        return {}
    category, difficulty = metadata.get("category"), metadata.get("difficulty")
    return {
        "category": category.strip()[:200] or None if isinstance(category, str) else None,
        "difficulty": _DIFFICULTIES.get(str(difficulty).strip().lower()),
    }


def _check(folder: Path) -> None:
    """Let Harbor say whether the task can be loaded and verified."""
    try:
        task = Task(folder)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnfitTaskError(f"{_CONFIG} is wrong at {where}: {first['msg']}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise UnfitTaskError(str(error)) from error
    if not task.config.environment.docker_image and not task.paths.environment_dir.is_dir():
        raise UnfitTaskError("the task has neither an environment folder nor a docker_image")
    size = sum(path.lstat().st_size for path in folder.rglob("*"))
    if size > _LARGEST_TASK:
        raise UnfitTaskError(
            f"the task's files have {size >> 20:,} MiB, more than the {_LARGEST_TASK >> 20} MiB "
            "that can be kept; put what is large into its image"
        )
