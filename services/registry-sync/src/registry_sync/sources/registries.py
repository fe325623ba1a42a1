"""Datasets of a Harbor registry: a registry JSON, or the hosted registry."""

import re
from collections import defaultdict
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import anyio.to_thread
import httpx
from harbor.models.registry import DatasetSpec, RegistryTaskId
from harbor.models.task.id import GitTaskId
from harbor.registry.client.base import resolve_version
from harbor.registry.client.json import JsonRegistryClient
from pydantic import TypeAdapter, ValidationError

from assay_contracts.values import RegistrySource
from registry_sync.sources.errors import (
    CredentialsNeededError,
    MalformedRegistryError,
    SourceError,
    UnknownDatasetError,
    UnknownVersionError,
    UnreachableError,
    listed,
    near_names,
    refuse_secrets,
)
from registry_sync.sources.git import Repositories, check_address, is_local
from registry_sync.sources.listing import InFolder, InGit, Listing, Reference, Unreachable

_LARGEST_REGISTRY = 256 * 2**20
_SPECS = TypeAdapter(list[DatasetSpec])
_FULL_COMMIT = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")


def dataset_and_version(source: RegistrySource) -> tuple[str, str | None]:
    """Name and version, where the version may also stand behind an @ in the name."""
    name, _, version = source.dataset.partition("@")
    return name, source.version or version or None


async def list_registry(
    source: RegistrySource,
    registry: str,
    repositories: Repositories,
    *,
    work_dir: Path,
    timeout: float,
) -> Listing:
    """List a dataset of the registry JSON at `registry`, an http(s) address or a path.

    Relative paths in it are relative to the folder that it lies in.

    Raises:
        SourceError: it cannot be read, or has no such dataset or version.
    """
    remote = urlsplit(registry).scheme in {"http", "https"}
    path = await _download(registry, work_dir, timeout) if remote else _local(registry)
    client = await anyio.to_thread.run_sync(_parse, path, registry)
    spec = _choose(client, source, registry)
    home = None if remote else path.parent
    references = await _references(spec, home, repositories)
    return Listing(
        name=spec.name,
        version=spec.version,
        references=references,
        description=spec.description,
        source_url=_common_repository(references) or (registry if remote else None),
    )


async def pin_tasks(
    tasks: list[tuple[str, GitTaskId]], repositories: Repositories, *, local: bool
) -> list[Reference]:
    """Git tasks at full commits: what names a branch, a tag or nothing is resolved once.

    Raises:
        SourceError: a repository cannot be read.
    """
    commits: dict[tuple[str, str | None], str | SourceError] = {}
    pinned: list[Reference] = []
    for name, task in tasks:
        url, ref = task.git_url, task.git_commit_id
        if (url, ref) not in commits:
            commits[url, ref] = await _commit(url, ref, repositories, local=local)
        commit = commits[url, ref]
        if isinstance(commit, SourceError):
            pinned.append(Unreachable(name, str(commit)))
        else:
            pinned.append(InGit(url, commit, task.path.as_posix(), name))
    return pinned


async def _commit(
    url: str, ref: str | None, repositories: Repositories, *, local: bool
) -> str | SourceError:
    """The commit, or what is wrong with this task's address; an outage is raised."""
    try:
        check_address(url, local=local)
    except SourceError as error:
        return error
    if ref is not None and _FULL_COMMIT.fullmatch(ref):
        return ref.lower()
    try:
        return (await repositories.resolve(url, ref))[0]
    except UnknownVersionError as error:
        return error


async def _download(address: str, work_dir: Path, timeout: float) -> Path:
    refuse_secrets(address, "registry")
    path = work_dir / "registry.json"
    size = 0
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, follow_redirects=True, max_redirects=5) as client,
            client.stream("GET", address) as answer,
            await anyio.open_file(path, "wb") as file,
        ):
            _check_status(answer.status_code, address)
            async for piece in answer.aiter_bytes():
                size += len(piece)
                if size > _LARGEST_REGISTRY:
                    raise MalformedRegistryError(
                        f"the registry at {address} has more than "
                        f"{_LARGEST_REGISTRY // 2**20} MiB; check the address"
                    )
                await file.write(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreachableError(
            f"the registry at {address} cannot be reached ({_reason(error)}); check the address "
            "and the network"
        ) from error
    return path


def _check_status(status: int, address: str) -> None:
    if status in {401, 403, 407}:
        raise CredentialsNeededError(
            f"the registry at {address} is not open to this server (HTTP {status})"
        )
    if status in {404, 410}:
        raise SourceError(f"there is no registry at {address} (HTTP {status}); check the address")
    if status >= 400:
        raise UnreachableError(
            f"the registry at {address} answers with HTTP {status}; try again later"
        )


def _local(registry: str) -> Path:
    path = Path(registry.removeprefix("file://")).expanduser()
    if not path.is_absolute():
        raise SourceError(f"give the registry's path on the server in full: '{registry}' is not")
    if not path.is_file():
        raise SourceError(f"there is no registry file at {registry} on the server")
    return path


def _parse(path: Path, registry: str) -> JsonRegistryClient:
    try:
        _SPECS.validate_json(path.read_bytes())
        return JsonRegistryClient(path=path)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
        place = f" at {where.removeprefix('.')}" if where else ""
        raise MalformedRegistryError(
            f"the registry {registry} is malformed{place}: {first['msg']}"
        ) from error
    except (OSError, ValueError) as error:
        raise MalformedRegistryError(f"the registry {registry} cannot be read: {error}") from error


def _choose(client: JsonRegistryClient, source: RegistrySource, registry: str) -> DatasetSpec:
    name, version = dataset_and_version(source)
    datasets = client.dataset_specs
    versions = datasets.get(name)
    if not versions:
        raise UnknownDatasetError(
            f"the registry {registry} has no dataset '{name}'; {near_names(name, datasets)}"
        )
    wanted = version or resolve_version(list(versions))
    if wanted not in versions:
        raise UnknownVersionError(
            f"the dataset '{name}' has no version '{wanted}'; it has {listed(versions)}"
        )
    return versions[wanted]


async def _references(
    spec: DatasetSpec, home: Path | None, repositories: Repositories
) -> tuple[Reference, ...]:
    """The tasks of a dataset, each once; `home` is None for a registry from elsewhere."""
    found: dict[int, Reference] = {}
    in_git: dict[int, tuple[str, GitTaskId]] = {}
    seen: set[object] = set()
    for place, task in enumerate(spec.tasks):
        located = _locate(task, home)
        if located in seen:
            continue
        seen.add(located)
        if isinstance(located, GitTaskId):
            in_git[place] = (task.name, located)
        else:
            found[place] = located
    pinned = await pin_tasks(list(in_git.values()), repositories, local=home is not None)
    found |= dict(zip(in_git, pinned, strict=True))
    return tuple(found[place] for place in sorted(found))


def _locate(task: RegistryTaskId, home: Path | None) -> GitTaskId | InFolder | Unreachable:
    if task.git_url is None:
        if home is None:
            return Unreachable(
                task.name, "a registry elsewhere names a path on this server's disk for the task"
            )
        return InFolder(home / task.path.expanduser(), task.name)
    url = task.git_url
    if home is not None and is_local(url) and not url.startswith("file:"):
        url = str(home / Path(url).expanduser())
    try:
        return GitTaskId(git_url=url, git_commit_id=task.git_commit_id, path=task.path)
    except ValueError as error:
        message = str(error).splitlines()[2:3]
        return Unreachable(task.name, "".join(message).strip() or f"'{task.path}' is no path")


def _common_repository(references: tuple[Reference, ...]) -> str | None:
    """The web address of the repository that holds all tasks, where there is one."""
    urls: defaultdict[str, int] = defaultdict(int)
    for reference in references:
        if isinstance(reference, InGit):
            urls[reference.url] += 1
    if len(urls) != 1:
        return None
    return web_address(next(iter(urls)))


def web_address(url: str) -> str | None:
    """A repository's address as a browser opens it; None where it has none."""
    if urlsplit(url).scheme not in {"http", "https"}:
        return None
    return url.removesuffix("/").removesuffix(".git")


def folder_name(path: str) -> str:
    """The last part of a path or address, without `.git`."""
    return PurePosixPath(path.replace(":", "/").rstrip("/")).name.removesuffix(".git")


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return str(cause).rstrip(".") or type(error).__name__
