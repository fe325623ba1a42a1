"""The hosted Harbor registry, through Harbor's own clients.

A name with a slash (`org/name`) is a dataset of task packages; one without is a dataset of the
older registry, whose tasks lie in git. Both answer anonymously for what is public; a Harbor API
key in `HARBOR_API_KEY` opens packages that are not. `HARBOR_SUPABASE_URL` replaces the address of
both. The clients write nothing to disk.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from harbor.auth.constants import SUPABASE_URL
from harbor.auth.errors import AuthenticationError
from harbor.constants import ORG_NAME_PATTERN
from harbor.db.client import RegistryDB
from harbor.models.registry import DatasetMetadata
from harbor.registry.client.base import BaseRegistryClient, UnavailableDatasetTasksError
from harbor.registry.client.package import PackageDatasetClient
from postgrest.exceptions import APIError

from assay_contracts.values import RegistrySource
from registry_sync.git import Repositories
from registry_sync.registries import (
    TIMEOUT_SECONDS,
    FoundDataset,
    ListedTask,
    name_and_version,
    origin_of,
    pinned,
)
from registry_sync.source_errors import (
    CredentialsNeededError,
    SourceError,
    UnknownDatasetError,
    UnknownVersionError,
    UnreachableError,
    listed,
    near_names,
)

_VERSIONS_ASKED = 1000
_KNOCK_SECONDS = 15.0
_OUTAGES = (httpx.RequestError, ssl.SSLError, OSError, TimeoutError)


@dataclass(frozen=True)
class _Version:
    revision: str
    digest: str
    tags: tuple[str, ...]


async def find_hosted(source: RegistrySource, repositories: Repositories) -> FoundDataset:
    """Find a dataset in the hosted registry.

    Raises:
        SourceError: no such dataset or version, or the registry cannot be used.
    """
    name, version = name_and_version(source)
    if "/" in name:
        return await _packages(name, version)
    return await _in_git(name, version, repositories)


async def _packages(name: str, version: str | None) -> FoundDataset:
    """A dataset of packages; its version is its revision, a number."""
    if not re.fullmatch(ORG_NAME_PATTERN, name):
        raise UnknownDatasetError(f"{name} is no name of a dataset; it is written org/name")
    address = SUPABASE_URL
    await _knock(address)
    client = PackageDatasetClient()  # type: ignore[no-untyped-call]  # Harbor leaves it bare
    versions = await _package_versions(client, name, address)
    wanted = version or "latest"
    try:
        async with _answering(address):
            found: DatasetMetadata = await client.get_dataset_metadata(f"{name}@{wanted}")
    except ValueError as error:
        known = [key for one in versions for key in (one.revision, *one.tags)]
        raise UnknownVersionError(
            f"{name} has no version {wanted}; it has {listed(known)}"
        ) from error
    revision = next((one.revision for one in versions if one.digest == found.version), None)
    return _found(found, revision or found.version)


async def _package_versions(client: BaseRegistryClient, name: str, address: str) -> list[_Version]:
    org, _, package = name.partition("/")
    try:
        async with _answering(address):
            found, rows = await RegistryDB().list_package_versions(
                org=org, name=package, include_yanked=True, limit=_VERSIONS_ASKED
            )
    except ValueError as error:
        raise await _unknown(client, name, address) from error
    if found["type"] != "dataset":
        raise UnknownDatasetError(f"{name} is a single task of the hosted registry, no dataset")
    return [_Version(str(row["revision"]), row["content_hash"], tuple(row["tags"])) for row in rows]


async def _in_git(name: str, version: str | None, repositories: Repositories) -> FoundDataset:
    # Importing this client reads a `.env` file above its own folder: only where it is used.
    from harbor.registry.client.harbor.config import HARBOR_SUPABASE_URL  # noqa: PLC0415
    from harbor.registry.client.harbor.harbor import HarborRegistryClient  # noqa: PLC0415

    address = HARBOR_SUPABASE_URL
    await _knock(address)
    client = HarborRegistryClient()
    try:
        async with _answering(address):
            found = await client.get_dataset_metadata(f"{name}@{version}" if version else name)
    except ValueError as error:
        if isinstance(error.__context__, _OUTAGES):  # Harbor says "not found" for an outage too
            raise _unreachable(error.__context__, address) from error
        async with _answering(address):
            datasets = await client.list_datasets()
        versions = [str(one.version) for one in datasets if one.name == name]
        if not versions or version is None:
            raise await _unknown(client, name, address) from error
        raise UnknownVersionError(
            f"{name} has no version {version}; it has {listed(versions)}"
        ) from error
    dataset = _found(found, found.version)
    tasks = await pinned(dataset.tasks, repositories, local=False)
    return FoundDataset(dataset.version, dataset.description, tasks)


def _found(found: DatasetMetadata, version: str | None) -> FoundDataset:
    return FoundDataset(
        version=version or "head",
        description=found.description,
        tasks=[
            ListedTask(one.get_name(), one, origin_of(one), named="/" in one.get_name())
            for one in dict.fromkeys(found.task_ids)
        ],
    )


async def _knock(address: str) -> None:
    """Find out at once whether anybody is there: Harbor's clients try for minutes before they say.

    Raises:
        UnreachableError: nobody is.
    """
    try:
        async with httpx.AsyncClient(timeout=_KNOCK_SECONDS) as client:
            await client.head(address)
    except (httpx.RequestError, httpx.InvalidURL) as error:
        raise _unreachable(error, address) from error


async def _unknown(client: BaseRegistryClient, name: str, address: str) -> UnknownDatasetError:
    async with _answering(address):
        names = {dataset.name for dataset in await client.list_datasets()}
    return UnknownDatasetError(
        f"the hosted Harbor registry shows no dataset {name} to this server (a private one needs "
        f"HARBOR_API_KEY); {near_names(name, names)}"
    )


@asynccontextmanager
async def _answering(address: str) -> AsyncIterator[None]:
    """Tell what can go wrong while the hosted registry is asked in the words of a source error.

    A ValueError passes: Harbor's clients raise it for what they do not find.
    """
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            yield
    except UnavailableDatasetTasksError as error:
        raise CredentialsNeededError(
            f"{error.missing_task_count} tasks of the dataset are not open to this server; give it "
            "a HARBOR_API_KEY that may read them"
        ) from error
    except AuthenticationError as error:
        raise CredentialsNeededError(
            f"the hosted Harbor registry does not accept this server's HARBOR_API_KEY: {error}"
        ) from error
    except APIError as error:
        if str(error.code or "").startswith("PGRST30"):
            raise CredentialsNeededError(
                "the hosted Harbor registry does not accept this server's HARBOR_API_KEY"
            ) from error
        raise SourceError(
            f"the hosted Harbor registry refuses to answer: {error.message}"
        ) from error
    except _OUTAGES as error:
        raise _unreachable(error, address) from error


def _unreachable(error: BaseException, address: str) -> UnreachableError:
    said = str(error).rstrip(".") or type(error).__name__
    return UnreachableError(
        f"the hosted Harbor registry at {address} cannot be reached ({said}); check the "
        "server's network and retry the sync, or add the tasks from a folder or git repository"
    )
