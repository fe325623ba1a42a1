"""Task folders on disk: finding them, and reading from each what a task list says about it.

Category and difficulty are those of `[metadata]` in task.toml, where Harbor's own viewer and the
datasets made with its adapters keep them; nothing is derived from keywords or names.
"""

import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from harbor.constants import ORG_NAME_PATTERN
from harbor.models.dataset.manifest import DatasetManifest
from harbor.models.dataset.paths import DatasetPaths
from harbor.models.task.paths import TaskPaths
from harbor.models.task.task import Task
from harbor.publisher.packager import Packager
from pydantic import ValidationError

from assay_contracts.values import Difficulty
from registry_sync.sources.archives import pack_task
from registry_sync.sources.errors import SourceError

CONFIG = TaskPaths.CONFIG_FILENAME
MANIFEST = DatasetPaths.MANIFEST_FILENAME

_DEPTH = 4
"""How far below a dataset's folder its tasks are looked for."""

_LONGEST_NAME = 200
_LONGEST_REASON = 300


class UnreadableTaskError(Exception):
    """The task cannot be run; the message is the reason in one sentence."""


@dataclass(frozen=True)
class TaskFacts:
    """What a task's folder says: its name, labels, content digest, and why it cannot run."""

    name: str
    category: str | None = None
    difficulty: Difficulty | None = None
    digest: str | None = None
    unavailable: str | None = None
    archive: bytes | None = None


def task_folders(paths: Iterable[str]) -> list[str]:
    """The task folders among the files of a tree, sorted.

    Args:
        paths: relative paths of files, with `/` between parts. A folder is a task where it holds
            a task.toml and lies in no other task; `.` is the tree's own root.
    """
    holders = {path.rpartition("/")[0] or "." for path in paths if path.split("/")[-1] == CONFIG}
    if "." in holders:
        return ["."]
    return sorted(holder for holder in holders if not _above(holder) & holders)


def find_task_folders(folder: Path) -> list[Path]:
    """The task folders below a folder on disk, or the folder itself, sorted.

    Hidden folders and links to folders are not followed.
    """
    found: list[str] = []
    for place, folders, files in folder.walk(follow_symlinks=False):
        inside = place.relative_to(folder)
        if CONFIG in files:
            found.append((inside / CONFIG).as_posix())
            folders.clear()
        elif len(inside.parts) >= _DEPTH:
            folders.clear()
        else:
            folders[:] = [name for name in folders if not name.startswith(".")]
    return [folder / path for path in task_folders(found)]


def read_manifest(path: Path) -> DatasetManifest | None:
    """The dataset.toml at `path`, None where there is none.

    Raises:
        SourceError: it cannot be read.
    """
    if not path.is_file():
        return None
    try:
        return DatasetManifest.from_toml_file(path)
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{path.name} cannot be read: {_first_complaint(error, path.parent)}"
        ) from error


def read_task(
    folder: Path, fallback_name: str, *, archive_below: int | None = None
) -> TaskFacts:
    """What a task list says about the task in `folder`. Blocks while it reads every file.

    Args:
        folder: the task's folder; that it is there and sound is what is found out here.
        fallback_name: the task's name where task.toml gives none.
        archive_below: pack the task where its files have less than so many bytes in all; None
            where no archive is wanted.
    """
    name, category, difficulty = fallback_name, None, None
    digest = None
    try:
        config = _read_config(folder)
        name = _name(config) or fallback_name
        category, difficulty = labels(config.get("metadata"))
        with _without_links(folder) as plain:
            digest, files = _content(plain)
            _check(plain)
            archive = None if archive_below is None else _packed(plain, files, archive_below)
    except UnreadableTaskError as error:
        reason = str(error)[:_LONGEST_REASON]
        return TaskFacts(name, category, difficulty, digest, unavailable=reason)
    return TaskFacts(name, category, difficulty, digest, archive=archive)


def labels(metadata: object) -> tuple[str | None, Difficulty | None]:
    """Category and difficulty of a task's `[metadata]`; None where it names none of ours."""
    if not isinstance(metadata, Mapping):
        return None, None
    category = metadata.get("category")
    difficulty = metadata.get("difficulty")
    return (
        category.strip()[:_LONGEST_NAME] or None if isinstance(category, str) else None,
        _difficulty(difficulty) if isinstance(difficulty, str) else None,
    )


def _difficulty(given: str) -> Difficulty | None:
    levels: tuple[Difficulty, ...] = get_args(Difficulty)
    return next((level for level in levels if level == given.strip().lower()), None)


def _above(folder: str) -> set[str]:
    return {parent.as_posix() for parent in Path(folder).parents}


def _read_config(folder: Path) -> dict[str, object]:
    if not folder.is_dir():
        raise UnreadableTaskError("the task's folder does not exist")
    path = folder / CONFIG
    if path.is_symlink() or not path.is_file():
        raise UnreadableTaskError(f"the task's folder has no {CONFIG}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableTaskError(f"{CONFIG} cannot be read: {error}") from error


def _name(config: Mapping[str, object]) -> str | None:
    package = config.get("task")
    name = package.get("name") if isinstance(package, Mapping) else None
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return None
    return name if re.fullmatch(ORG_NAME_PATTERN, name) else None


def _check(folder: Path) -> None:
    """Let Harbor say whether the task can be loaded and verified."""
    try:
        task = Task(folder)
    except (OSError, ValueError, RuntimeError) as error:
        raise UnreadableTaskError(_first_complaint(error, folder)) from error
    if not task.config.environment.docker_image and not task.paths.environment_dir.is_dir():
        raise UnreadableTaskError("the task has neither an environment folder nor a docker_image")


def _content(folder: Path) -> tuple[str, list[Path]]:
    """Harbor's content hash of a task, as it stands in the hosted registry, and what it covers."""
    try:
        digest, files = Packager.compute_content_hash(folder)
    except (OSError, ValueError, RuntimeError) as error:
        raise UnreadableTaskError(_first_complaint(error, folder)) from error
    return f"sha256:{digest}", files


def _packed(folder: Path, files: list[Path], limit: int) -> bytes:
    size = sum(file.stat().st_size for file in files)
    if size >= limit:
        raise UnreadableTaskError(
            f"the task's files have {size / 2**20:,.0f} MiB; up to {limit / 2**20:,.0f} MiB can be "
            "kept, so put what is large into the task's image or into a git repository"
        )
    return pack_task(folder.resolve(), files)


@contextmanager
def _without_links(folder: Path) -> Iterator[Path]:
    """The folder with its links replaced by what they point at, as Harbor fetches tasks.

    Raises:
        UnreadableTaskError: a link leaves the task or leads nowhere, or there is a device.
    """
    if not _has_links(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="task-") as parent:
        plain = Path(parent) / folder.name
        try:
            shutil.copytree(folder, plain, symlinks=False)
        except (shutil.Error, OSError) as error:
            raise UnreadableTaskError("a link within the task leads nowhere") from error
        yield plain


def _has_links(folder: Path) -> bool:
    root = folder.resolve()
    linked = False
    for place, folders, files in folder.walk(follow_symlinks=False):
        for path in (place / name for name in (*folders, *files)):
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink():
                linked = True
                _check_link(path, inside, root)
            elif not path.is_dir() and not path.is_file():
                raise UnreadableTaskError(f"{inside} is neither a file nor a folder")
    return linked


def _check_link(path: Path, inside: str, root: Path) -> None:
    target = Path(os.path.realpath(path))
    if path.readlink().is_absolute() or not target.is_relative_to(root):
        raise UnreadableTaskError(f"the link {inside} points out of the task")
    if not target.exists() or path.parent.resolve().is_relative_to(target):
        raise UnreadableTaskError(f"the link {inside} leads nowhere, or to a folder above it")


def _first_complaint(error: Exception, folder: Path) -> str:
    """The error's first line of substance, without the place of `folder` on this machine."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where or CONFIG}: {first['msg']}"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    for place in {str(folder.resolve()), str(folder)}:
        text = text.replace(f"Task directory {place}", "the task")
        text = text.replace(f"{place}/", "").replace(place, "the task's folder")
    return text
