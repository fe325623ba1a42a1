"""Finding a dataset in a Harbor registry: the hosted one, or a registry JSON by address or path."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import ValidationError
from rapidfuzz import process

from assay_contracts.values import RegistrySource

os.environ.setdefault("HARBOR_TELEMETRY", "0")

from harbor.models.task.id import GitTaskId, LocalTaskId, PackageTaskId
from harbor.registry.client.base import BaseRegistryClient, resolve_version
from harbor.registry.client.harbor.harbor import HarborRegistryClient
from harbor.registry.client.json import JsonRegistryClient
from harbor.registry.client.package import PackageDatasetClient

_TIMEOUT_SECONDS = 60.0


class SourceError(Exception):
    """A benchmark's source cannot be used; the message says what a person can do."""


@dataclass(frozen=True)
class ListedTask:
    """A task as its source lists it; `named` where the list itself gives the name."""

    name: str
    id: GitTaskId | LocalTaskId | PackageTaskId
    origin: str
    named: bool = True


@dataclass(frozen=True)
class FoundDataset:
    """A dataset with its version resolved."""

    version: str
    description: str
    tasks: Sequence[ListedTask]


async def find_dataset(source: RegistrySource, work_dir: Path) -> FoundDataset:
    """Find a dataset and resolve its version.

    Raises:
        SourceError: no such dataset or version, or the registry cannot be used.
    """
    if source.registry is None:
        return await _hosted(source)
    if source.registry.startswith(("http://", "https://")):
        path = await _fetched(source.registry, work_dir)
        return await asyncio.to_thread(_in_file, source, path, None)
    path = Path(source.registry)
    if not path.is_file():
        raise SourceError(f"there is no registry file {path} on the server")
    return await asyncio.to_thread(_in_file, source, path, path.parent)


async def _hosted(source: RegistrySource) -> FoundDataset:
    """From the hosted registry: packages are called org/name, its older datasets plainly name."""
    wanted = source.dataset if source.version is None else f"{source.dataset}@{source.version}"
    try:
        client: BaseRegistryClient = (
            PackageDatasetClient()  # type: ignore[no-untyped-call]  # Harbor leaves it bare
            if "/" in source.dataset
            else HarborRegistryClient()
        )
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            found = await client.get_dataset_metadata(wanted)
    except (httpx.TransportError, TimeoutError, OSError) as error:
        raise SourceError(
            "the hosted Harbor registry cannot be reached "
            f"({type(error).__name__}: {error}); check the server's network and retry the sync"
        ) from error
    except Exception as error:
        raise SourceError(f"the hosted Harbor registry has no {wanted}: {error}") from error
    return FoundDataset(
        version=found.version or "head",
        description=found.description,
        tasks=[ListedTask(one.get_name(), one, _origin(one)) for one in found.task_ids],
    )


async def _fetched(address: str, work_dir: Path) -> Path:
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=True) as client:
            response = await client.get(address)
            response.raise_for_status()
    except httpx.HTTPStatusError as error:
        raise SourceError(
            f"the registry at {address} answered {error.response.status_code}; check the address"
        ) from error
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise SourceError(
            f"the registry at {address} cannot be reached ({error}); "
            "check the address and the server's network, then retry the sync"
        ) from error
    path = work_dir / "registry.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(response.content)
    return path


def _in_file(source: RegistrySource, path: Path, beside: Path | None) -> FoundDataset:
    """A dataset of a registry JSON; local paths in it are relative to the file's folder."""
    where = source.registry
    try:
        specs = JsonRegistryClient(path=path).dataset_specs
    except (ValueError, ValidationError) as error:
        said = " ".join(str(error).split())[:300]
        raise SourceError(f"the registry {where} is not a registry JSON: {said}") from error
    if source.dataset not in specs:
        near = [str(one[0]) for one in process.extract(source.dataset, list(specs), limit=3)]
        hint = f"; it has {', '.join(near)}" if near else "; it has no datasets"
        raise SourceError(f"the registry {where} has no dataset {source.dataset}{hint}")
    versions = specs[source.dataset]
    version = source.version or resolve_version(list(versions))
    if version not in versions:
        known = ", ".join(sorted(versions))
        raise SourceError(f"{source.dataset} has no version {version}; it has {known}")
    spec = versions[version]
    tasks = []
    for task in spec.tasks:
        one = task.to_source_task_id()
        if isinstance(one, LocalTaskId) and not one.path.is_absolute() and beside is not None:
            one = LocalTaskId(path=beside / one.path)
        tasks.append(ListedTask(task.name, one, _origin(one)))
    if not tasks:
        raise SourceError(f"{source.dataset}@{version} of {where} has no tasks")
    return FoundDataset(version=version, description=spec.description, tasks=tasks)


def _origin(task: GitTaskId | LocalTaskId | PackageTaskId) -> str:
    match task:
        case GitTaskId(git_url=url, git_commit_id=commit, path=path):
            return f"{url} at {commit or 'HEAD'}, {path}"
        case LocalTaskId(path=path):
            return str(path)
        case PackageTaskId(org=org, name=name, ref=ref):
            return f"{org}/{name}@{ref}"
