"""The hosted Harbor registry, through Harbor's own clients.

A name with a slash (`org/name`) is a dataset of task packages; one without is a dataset of the
older registry, whose tasks lie in git. Both answer anonymously for what is public; a Harbor API
key in `HARBOR_API_KEY` opens what is not. `HARBOR_SUPABASE_URL` replaces the address of both.
"""

import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import httpx
from harbor.constants import HARBOR_REGISTRY_DATASETS_URL, ORG_NAME_PATTERN
from harbor.models.registry import DatasetMetadata
from harbor.models.task.id import GitTaskId, PackageTaskId

from assay_contracts.values import Difficulty, RegistrySource
from registry_sync.sources.errors import (
    CredentialsNeededError,
    SourceError,
    UnknownDatasetError,
    UnknownVersionError,
    UnreachableError,
    listed,
    near_names,
)
from registry_sync.sources.folders import labels
from registry_sync.sources.git import Repositories
from registry_sync.sources.listing import InHub, Listing
from registry_sync.sources.registries import dataset_and_version, pin_tasks, web_address

Labels = tuple[str | None, Difficulty | None]

_VERSIONS_ASKED = 1000


async def list_hosted(
    source: RegistrySource, repositories: Repositories, *, timeout: float
) -> Listing:
    """List a dataset of the hosted registry; `timeout` in seconds is that of one answer.

    Raises:
        SourceError: it cannot be read, or has no such dataset or version.
    """
    name, version = dataset_and_version(source)
    if "/" in name:
        return await _list_packages(name, version, timeout)
    return await _list_in_git(name, version, repositories, timeout)


async def package_labels(digests: Sequence[str], *, timeout: float) -> dict[str, Labels]:
    """Category and difficulty of task packages by digest (`sha256:…`), as far as published.

    Raises:
        UnreachableError: the registry does not answer.
    """
    from harbor.auth.client import create_authenticated_client
    from postgrest.exceptions import APIError

    hashes = [digest.removeprefix("sha256:") for digest in digests]
    try:
        async with _answers(timeout):
            client = await create_authenticated_client()
            query = client.table("task_version").select("*").in_("content_hash", hashes)
            rows = (await query.execute()).data
    except APIError:  # labels are an addition: their absence keeps no task from running
        return {}
    return {
        f"sha256:{row.get('content_hash')}": labels(row.get("metadata"))
        for row in rows
        if isinstance(row, Mapping)
    }


async def _list_packages(name: str, version: str | None, timeout: float) -> Listing:
    from harbor.registry.client.package import PackageDatasetClient

    if not re.fullmatch(ORG_NAME_PATTERN, name):
        raise UnknownDatasetError(f"'{name}' is no name of a dataset; it is written org/name")
    async with _answers(timeout):
        client = PackageDatasetClient()
        metadata = await _package_metadata(client.get_dataset_metadata, name, version, timeout)
    revisions = await _revisions(name, timeout)
    pinned = next((key for key, digest in revisions if digest == metadata.version), None)
    return Listing(
        name=name,
        version=pinned or metadata.version,
        references=tuple(
            InHub(task.org, task.name, str(task.ref))
            for task in dict.fromkeys(metadata.task_ids)
            if isinstance(task, PackageTaskId)
        ),
        description=metadata.description,
        source_url=f"{HARBOR_REGISTRY_DATASETS_URL}/{name}",
    )
