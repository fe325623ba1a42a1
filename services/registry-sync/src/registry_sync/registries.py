"""Finding a dataset in a Harbor registry: the hosted one, or a registry JSON by address or path.

A registry from elsewhere is not trusted: a task that it places on this server's own disk stays in
the list, unavailable.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import TypeAdapter, ValidationError

from assay_contracts.values import RegistrySource

os.environ.setdefault("HARBOR_TELEMETRY", "0")

from harbor.models.registry import DatasetSpec, RegistryTaskId
from harbor.models.task.id import GitTaskId, LocalTaskId, PackageTaskId
from harbor.registry.client.base import resolve_version
from harbor.registry.client.json import JsonRegistryClient

from registry_sync.git import Repositories, check_address, is_local
from registry_sync.source_errors import (
    CredentialsNeededError,
    MalformedRegistryError,
    SourceError,
    UnknownDatasetError,
    UnknownVersionError,
    UnreachableError,
    listed,
    near_names,
    refuse_secrets,
    without_secrets,
)

TIMEOUT_SECONDS = 60.0
_LARGEST_REGISTRY = 256 * 2**20
_SPECS = TypeAdapter(list[DatasetSpec])
_FULL_COMMIT = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class ListedTask:
    """A task as its source lists it.

    `named` where the list itself gives the name; `unavailable` where the list already shows that
    the task cannot be had.
    """

    name: str
    id: GitTaskId | LocalTaskId | PackageTaskId | None
    origin: str
    named: bool = True
    unavailable: str | None = None


@dataclass(frozen=True)
class FoundDataset:
    """A dataset with its version resolved."""

    version: str
    description: str
    tasks: Sequence[ListedTask]


def name_and_version(source: RegistrySource) -> tuple[str, str | None]:
    """Name and version, where the version may also stand behind an @ in the name."""
    name, _, version = source.dataset.partition("@")
    return name, source.version or version or None


async def find_in_file(
    source: RegistrySource, registry: str, repositories: Repositories, work_dir: Path
) -> FoundDataset:
    """Find a dataset in the registry JSON at `registry`, an http(s) address or a path.

    Local paths in it are relative to the folder that it lies in.

    Raises:
        SourceError: no such dataset or version, or the registry cannot be used.
    """
    remote = registry.startswith(("http://", "https://"))
    path = await _fetched(registry, work_dir) if remote else _on_disk(registry)
    specs = await asyncio.to_thread(_parsed, path, registry)
    spec = _chosen(specs, source, registry)
    home = None if remote else path.parent
    tasks = list(dict.fromkeys(_listed(task, home) for task in spec.tasks))
    return FoundDataset(
        version=spec.version,
        description=spec.description,
        tasks=await pinned(tasks, repositories, local=home is not None),
    )


async def pinned(
    tasks: Sequence[ListedTask], repositories: Repositories, *, local: bool
) -> list[ListedTask]:
    """The tasks, those in git at full commits: what names a branch, a tag or nothing is resolved.

    Args:
        tasks: as a list names them.
        repositories: where they are looked up.
        local: whether the list may name repositories on this server's own disk.

    Raises:
        SourceError: a repository cannot be read.
    """
    commits: dict[tuple[str, str | None], str | SourceError] = {}
    found: list[ListedTask] = []
    for task in tasks:
        if not isinstance(task.id, GitTaskId):
            found.append(task)
            continue
        url, ref = task.id.git_url, task.id.git_commit_id
        if (url, ref) not in commits:
            commits[url, ref] = await _commit(url, ref, repositories, local=local)
        commit = commits[url, ref]
        if isinstance(commit, SourceError):
            found.append(ListedTask(task.name, None, task.origin, task.named, str(commit)))
        else:
            place = GitTaskId(git_url=url, git_commit_id=commit, path=task.id.path)
            found.append(ListedTask(task.name, place, origin_of(place), task.named))
    return found


def origin_of(task: GitTaskId | LocalTaskId | PackageTaskId) -> str:
    """Where a task's files come from, for a person."""
    match task:
        case GitTaskId(git_url=url, git_commit_id=commit, path=path):
            return without_secrets(f"{url} at {commit or 'HEAD'}, {path}")
        case LocalTaskId(path=path):
            return str(path)
        case PackageTaskId(org=org, name=name, ref=ref):
            return f"{org}/{name}@{ref}"


async def _commit(
    url: str, ref: str | None, repositories: Repositories, *, local: bool
) -> str | SourceError:
    """The commit, or what is wrong with this task's address; an outage is raised."""
    try:
        check_address(url, local=local)
        if ref is not None and _FULL_COMMIT.fullmatch(ref):
            return ref.lower()
        return await repositories.resolve(url, ref)
    except UnreachableError:
        raise
    except SourceError as error:
        return error


async def _fetched(address: str, work_dir: Path) -> Path:
    refuse_secrets(address, "registry")
    content = bytearray()
    try:
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=True) as client,
            client.stream("GET", address) as answer,
        ):
            _check_status(answer.status_code, address)
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > _LARGEST_REGISTRY:
                    raise MalformedRegistryError(
                        f"the registry at {address} has more than {_LARGEST_REGISTRY >> 20} MiB; "
                        "check the address"
                    )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreachableError(
            f"the registry at {address} cannot be reached ({error or type(error).__name__}); "
            "check the address and the server's network, then retry the sync"
        ) from error
    path = work_dir / "registry.json"
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_bytes, content)
    return path


def _check_status(status: int, address: str) -> None:
    if status in {401, 403, 407}:
        raise CredentialsNeededError(
            f"the registry at {address} is not open to this server (it answered {status})"
        )
    if status >= 500 or status == 429:
        raise UnreachableError(f"the registry at {address} answered {status}; try again later")
    if status >= 400:
        raise SourceError(f"the registry at {address} answered {status}; check the address")


def _on_disk(registry: str) -> Path:
    path = Path(registry.removeprefix("file://"))
    if not path.is_file():
        raise SourceError(f"there is no registry file {path} on the server")
    return path.absolute()


def _parsed(path: Path, registry: str) -> Mapping[str, Mapping[str, DatasetSpec]]:
    try:
        _SPECS.validate_json(path.read_bytes())  # tells the place of a mistake, as Harbor does not
        return JsonRegistryClient(path=path).dataset_specs
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
        place = f" at {where}" if where else ""
        raise MalformedRegistryError(
            f"the registry {registry} is not a registry JSON{place}: {first['msg']}"
        ) from error
    except (OSError, ValueError) as error:
        raise MalformedRegistryError(f"the registry {registry} cannot be read: {error}") from error


def _chosen(
    specs: Mapping[str, Mapping[str, DatasetSpec]], source: RegistrySource, registry: str
) -> DatasetSpec:
    name, version = name_and_version(source)
    versions = specs.get(name)
    if not versions:
        raise UnknownDatasetError(
            f"the registry {registry} has no dataset {name}; {near_names(name, specs)}"
        )
    wanted = version or resolve_version(list(versions))
    if wanted not in versions:
        raise UnknownVersionError(
            f"{name} has no version {wanted}; it has {listed(sorted(versions))}"
        )
    if not versions[wanted].tasks:
        raise SourceError(f"{name}@{wanted} of {registry} has no tasks")
    return versions[wanted]


def _listed(task: RegistryTaskId, home: Path | None) -> ListedTask:
    """A registry's task; `home` is the registry's folder, None where it came from elsewhere."""
    if task.git_url is None:
        if home is None:
            reason = "a registry elsewhere names a path on this server's disk for the task"
            return ListedTask(task.name, None, str(task.path), unavailable=reason)
        place = LocalTaskId(path=home / task.path)
        return ListedTask(task.name, place, origin_of(place))
    url = task.git_url
    if home is not None and is_local(url) and not url.startswith("file:"):
        url = str(home / url)
    try:
        in_git = GitTaskId(git_url=url, git_commit_id=task.git_commit_id, path=task.path)
    except ValueError:
        reason = f"the path '{task.path}' does not stay within the repository"
        return ListedTask(task.name, None, without_secrets(url), unavailable=reason)
    return ListedTask(task.name, in_git, origin_of(in_git))
