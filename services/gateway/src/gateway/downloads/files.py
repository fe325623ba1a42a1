"""The files of a run: rendered ones, kept apart under their hash, and the artifacts of its results.

A path is stable: `summary.csv`, `results.csv`, `logs.txt`, `config.toml`, and
`artifacts/<slot id>/<path>`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from cachetools import TTLCache
from sqlalchemy import RowMapping

from assay_contracts.http import DownloadTotals, DownloadType
from assay_contracts.run_events import RunEvent
from assay_contracts.values import RunStatus
from assay_kernel.blobs import BlobMissingError, BlobStore
from gateway import run_queries
from gateway.desk import Desk
from gateway.downloads import queries, rendering
from gateway.downloads.names import fit_paths
from gateway.downloads.queries import SlotArtifacts
from gateway.downloads.rendering import Kept
from gateway.downloads.writers import Layout
from gateway.explanations import manifest
from gateway.problems import conflict, not_found
from gateway.run_events import subjects_of

_EXPORTS = "exports"
_LISTS_AT_ONCE = 16
_FOLDER = "artifacts"
_BINARY = "application/octet-stream"
_REMEMBERED_SECONDS = 600


class Place(StrEnum):
    """Where the bytes of a file lie: apart, until they are swept, or among what is kept."""

    EXPORTS = "exports"
    BLOBS = "blobs"


@dataclass(frozen=True)
class RunFile:
    """A file of a run, pinned to its bytes; a snapshot where the run goes on."""

    path: str
    type: DownloadType
    size: int
    sha256: str
    media_type: str
    place: Place
    snapshot: bool


@dataclass(frozen=True)
class ArtifactPage:
    """Some of a run's artifacts by slot; `next_after` is the slot to go on after."""

    files: list[RunFile]
    next_after: UUID | None


def exports(blobs: BlobStore) -> BlobStore:
    """Where rendered files are kept until they are swept."""
    return blobs.apart(_EXPORTS)


def blobs_of(place: Place, blobs: BlobStore) -> BlobStore:
    """The blobs of a place."""
    return exports(blobs) if place is Place.EXPORTS else blobs


def require_begun(run: RowMapping) -> None:
    """Whether there can be anything to download.

    Raises:
        ProblemError: the run has yet to begin.
    """
    if RunStatus(run["status"]) in {RunStatus.PENDING, RunStatus.QUEUED}:
        raise conflict(
            f"the run is {run['status']} and has nothing to download until it runs; "
            f"follow it with: assay run watch {run['name']}"
        )


def path_of(kind: DownloadType, layout: Layout) -> str:
    """Where a rendered file lies."""
    match kind:
        case DownloadType.SUMMARY | DownloadType.RESULTS:
            return f"{kind.value}.{layout.extension}"
        case DownloadType.LOGS:
            return "logs.txt"
        case DownloadType.CONFIG:
            return "config.toml"
        case DownloadType.ARTIFACTS:
            raise ValueError("artifacts are not rendered")


async def rendered_files(
    run: RowMapping, kinds: Iterable[DownloadType], layout: Layout, desk: Desk
) -> list[RunFile]:
    """Tables (in one layout), log and configuration of a run as it stands.

    Raises:
        ProblemError: the run has yet to begin.
    """
    require_begun(run)
    return [await _rendered(run, kind, layout, desk) for kind in kinds]


_Render = tuple[UUID, int, DownloadType, Layout]
_renders: TTLCache[_Render, RunFile] = TTLCache(maxsize=1024, ttl=_REMEMBERED_SECONDS)
"""What was rendered a moment ago of runs that have ended: by run, its last event, and the file."""


async def _rendered(run: RowMapping, kind: DownloadType, layout: Layout, desk: Desk) -> RunFile:
    """A file as it is now; one of a run that has ended is not rendered again and again."""
    last = await _last_event(run, desk)
    if last is None:
        return await _rendered_anew(run, kind, layout, desk)
    key = (run["id"], last, kind, layout)
    known = _renders.get(key)
    if known is None or not await exports(desk.blobs).holds(known.sha256):
        known = _renders[key] = await _rendered_anew(run, kind, layout, desk)
    return known


async def _last_event(run: RowMapping, desk: Desk) -> int | None:
    """The sequence of a run's last event; None while it goes on, or a read model lags behind."""
    if _goes_on(run):
        return None
    (subject,) = subjects_of(run["workspace"], run["id"])
    last = await desk.store.last_sequence(RunEvent.stream, subject)
    async with desk.reading() as connection:
        for schema, projection in (("run_scheduler", "runs"), ("grader", "grades")):
            if await run_queries.checkpoint(connection, schema, projection) < last:
                return None
    return last


async def _rendered_anew(
    run: RowMapping, kind: DownloadType, layout: Layout, desk: Desk
) -> RunFile:
    kept, media_type = await _render(run, kind, layout, desk)
    return RunFile(
        path=path_of(kind, layout),
        type=kind,
        size=kept.size,
        sha256=kept.sha256,
        media_type=media_type,
        place=Place.EXPORTS,
        snapshot=_goes_on(run) and kind is not DownloadType.CONFIG,
    )


async def _render(
    run: RowMapping, kind: DownloadType, layout: Layout, desk: Desk
) -> tuple[Kept, str]:
    apart = exports(desk.blobs)
    match kind:
        case DownloadType.SUMMARY:
            return await rendering.summary(run, layout, desk, apart), layout.media_type
        case DownloadType.RESULTS:
            return await rendering.results(run, layout, desk, apart), layout.media_type
        case DownloadType.LOGS:
            return await rendering.logs(run, desk, apart), "text/plain; charset=utf-8"
        case DownloadType.CONFIG:
            return await rendering.config(run, desk, apart), "application/toml"
        case DownloadType.ARTIFACTS:
            raise ValueError("artifacts are not rendered")


def _goes_on(run: RowMapping) -> bool:
    return not RunStatus(run["status"]).is_terminal


async def artifact_totals(run: RowMapping, desk: Desk) -> DownloadTotals:
    """How many artifacts a run has, and their bytes."""
    async with desk.reading() as connection:
        return await queries.artifact_totals(connection, run["id"])


async def artifact_page(
    run: RowMapping, desk: Desk, *, after: UUID | None, limit: int
) -> ArtifactPage:
    """The artifacts of whole slots from after one of them: `limit` files, or what the slot has that
    goes beyond.

    Raises:
        ProblemError: the run has yet to begin.
    """
    require_begun(run)
    async with desk.reading() as connection:
        found = await queries.slots_with_artifacts(connection, run["id"], after=after, limit=limit)
    chosen: list[SlotArtifacts] = []
    files = 0
    for one in found:
        if files >= limit:
            break
        chosen.append(one)
        files += one.files
    listed = await _all(chosen, lambda one: _artifacts(run, one, desk))
    has_more = len(chosen) < len(found) or len(found) == limit
    return ArtifactPage(
        files=[file for files_of_slot in listed for file in files_of_slot],
        next_after=chosen[-1].slot if chosen and has_more else None,
    )


async def artifact_files(run: RowMapping, desk: Desk) -> AsyncIterator[RunFile]:
    """Every artifact of a run, by slot."""
    after, is_last = None, False
    while not is_last:
        page = await artifact_page(run, desk, after=after, limit=1000)
        for file in page.files:
            yield file
        after, is_last = page.next_after, page.next_after is None


async def find_file(run: RowMapping, path: str, layout: Layout, desk: Desk) -> RunFile | None:
    """The file at a path as it is now, rendered anew; None where the run has none there.

    Args:
        run: as the list of runs has it.
        path: as a manifest says it.
        layout: what a table that ends in `.csv` is written as.
        desk: the gateway's parts.

    Raises:
        ProblemError: the run has yet to begin.
    """
    require_begun(run)
    folder, _, rest = path.partition("/")
    if folder == _FOLDER and rest:
        return await _find_artifact(run, path, rest.partition("/")[0], desk)
    layouts = [layout, Layout.JSONL, Layout.PARQUET]
    for kind in DownloadType:
        for one in layouts:
            if kind is not DownloadType.ARTIFACTS and path == path_of(kind, one):
                return await _rendered(run, kind, one, desk)
    return None


async def _find_artifact(run: RowMapping, path: str, slot: str, desk: Desk) -> RunFile | None:
    with suppress(ValueError):
        async with desk.reading() as connection:
            found = await queries.artifacts_of_slot(connection, run["id"], UUID(slot))
        if found is not None:
            for file in await _artifacts(run, found, desk):
                if file.path == path:
                    return file
    return None


async def _artifacts(run: RowMapping, listed: SlotArtifacts, desk: Desk) -> list[RunFile]:
    """The files of one slot. Where their list is gone, so are they."""
    try:
        files = await manifest(desk.blobs, listed.sha256)
    except BlobMissingError:
        return []
    return [
        RunFile(
            path=f"{_FOLDER}/{listed.slot}/{path}",
            type=DownloadType.ARTIFACTS,
            size=file.size,
            sha256=file.sha256,
            media_type=_BINARY,
            place=Place.BLOBS,
            snapshot=_goes_on(run),
        )
        for path, file in fit_paths(files)
    ]


async def _all[Given, Found](
    given: Sequence[Given], find: Callable[[Given], Awaitable[Found]]
) -> list[Found]:
    """What is found of each, in order, some at a time."""
    turns = asyncio.Semaphore(_LISTS_AT_ONCE)

    async def in_turn(one: Given) -> Found:
        async with turns:
            return await find(one)

    return await asyncio.gather(*(in_turn(one) for one in given))


def missing(path: str) -> Exception:
    """The problem that a file's bytes are gone."""
    return not_found(f"{path} is no longer in the blob store; ask for the run's downloads again")
