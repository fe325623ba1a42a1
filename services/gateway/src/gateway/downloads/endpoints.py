"""Downloads of a run: the list of its files, signed addresses, and the bytes themselves."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import RowMapping
from starlette.responses import Response

from assay_contracts.http import (
    DownloadFile,
    DownloadManifest,
    DownloadTotals,
    DownloadType,
    DownloadUrl,
    DownloadUrls,
    MakeDownloadUrls,
    TableFormat,
    WantedFile,
)
from assay_contracts.problems import Problem, ProblemCode
from assay_contracts.run_config import ConfigIssue
from assay_contracts.values import RunStatus
from assay_kernel.blobs import BlobMissingError
from gateway.access import Reading
from gateway.desk import Desk, DeskNow
from gateway.downloads import queries
from gateway.downloads.addresses import LIFETIME, AddressRefusedError, Owner, Signer
from gateway.downloads.archive import zip_pieces
from gateway.downloads.files import (
    ArtifactPage,
    RunFile,
    artifact_page,
    artifact_totals,
    blobs_of,
    find_file,
    missing,
    rendered_files,
    require_begun,
)
from gateway.downloads.names import attachment
from gateway.downloads.ranges import BYTES, Served, serve
from gateway.downloads.writers import Layout
from gateway.problems import ProblemError, invalid
from gateway.runs import find as find_run

router = APIRouter(prefix="/runs/{ref}/downloads", tags=["downloads"])
addressed = APIRouter(prefix="/downloads", tags=["downloads"])
"""The one part that takes no caller: its addresses are signed, and stand for one file each."""

SNAPSHOT = "X-Assay-Snapshot"
"""`true` with a file of a run that goes on."""

_MOST_FILES = 10_000
_EVERY_TYPE = ",".join(DownloadType)


async def find(desk: Desk, workspace: str, ref: str) -> RowMapping:
    """A run by name or id.

    Raises:
        ProblemError: there is none.
    """
    async with desk.reading() as connection:
        return await find_run(connection, workspace, ref)


def owner_of(run: RowMapping) -> Owner:
    """The run, as its addresses name it."""
    return Owner(run["workspace"], run["id"], run["name"])


def types_of(listed: str) -> list[DownloadType]:
    """The types of a comma list, each once, in the order of `DownloadType`.

    Raises:
        ProblemError: one of them is none.
    """
    names = {name.strip().lower() for name in listed.split(",")}
    unknown = sorted(names - set(DownloadType))
    if unknown:
        message = f"must be of {_EVERY_TYPE}, and not {', '.join(unknown) or 'empty'}"
        raise invalid([ConfigIssue(key="types", message=message)])
    return [kind for kind in DownloadType if kind in names]


@router.get("", summary="List the files of a run")
async def list_files(
    ref: str,
    asking: Reading,
    desk: DeskNow,
    types: Annotated[str, Query(max_length=200)] = _EVERY_TYPE,
    table_format: Annotated[TableFormat, Query(alias="format")] = TableFormat.CSV,
    after: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_FILES)] = 1000,
) -> DownloadManifest:
    """Tables, log and configuration as they are now, and the artifacts in pages of about `limit`.

    `types` is a comma list; `format` is of summary and results. A page holds whole results; the
    first one alone has the files that are no artifacts, and the totals. Of a run that goes on it is
    a snapshot: every file that it lists stays as it is for a day.
    """
    run = await find(desk, asking.workspace, ref)
    require_begun(run)
    kinds = types_of(types)
    signer, owner = Signer(desk.vault), owner_of(run)
    files, totals = [], {}
    if after is None:
        plain = [kind for kind in kinds if kind is not DownloadType.ARTIFACTS]
        files = await rendered_files(run, plain, Layout(table_format.value), desk)
        totals = {one.type: DownloadTotals(files=1, bytes=one.size) for one in files}
    page = ArtifactPage([], None)
    if DownloadType.ARTIFACTS in kinds:
        page = await artifact_page(run, desk, after=after, limit=limit)
        if after is None:
            totals[DownloadType.ARTIFACTS] = await artifact_totals(run, desk)
    return DownloadManifest(
        run_id=run["id"],
        run_name=run["name"],
        run_status=run["status"],
        snapshot=not RunStatus(run["status"]).is_terminal,
        files=[_listed(one, signer.pin(owner, one)) for one in (*files, *page.files)],
        totals=totals,
        next_after=page.next_after,
    )


def _listed(file: RunFile, token: str) -> DownloadFile:
    return DownloadFile(
        path=file.path,
        type=file.type,
        size=file.size,
        sha256=file.sha256,
        media_type=file.media_type,
        token=token,
    )


@router.post("/urls", summary="Make addresses of files")
async def make_urls(
    ref: str, body: MakeDownloadUrls, asking: Reading, desk: DeskNow, request: Request
) -> DownloadUrls:
    """Signed addresses that serve the files for a quarter of an hour, without any other token.

    With its token from the list a file is to the byte what was listed; without, it is the file as
    it is now.
    """
    run = await find(desk, asking.workspace, ref)
    files = await wanted_files(run, body.items, Layout.CSV, desk)
    return DownloadUrls(
        items=[
            DownloadUrl(path=file.path, url=url)
            for file, url in zip(files, addresses(run, files, desk, request), strict=True)
        ],
        expires_in=int(LIFETIME.total_seconds()),
    )


async def wanted_files(
    run: RowMapping, wanted: Sequence[WantedFile], layout: Layout, desk: Desk
) -> list[RunFile]:
    """Each file that is wanted, in order; `layout` is of tables in CSV without a token.

    Raises:
        ProblemError: some are not there, or a token is none of theirs.
    """
    require_begun(run)
    signer, owner = Signer(desk.vault), owner_of(run)
    now: dict[str, RunFile | None] = {}  # rendered once, however often it is asked for
    for path in [one.path for one in wanted if one.token is None]:
        if path not in now:
            now[path] = await find_file(run, path, layout, desk)
    found: list[RunFile] = []
    unknown: list[str] = []
    for one in wanted:
        file = now[one.path] if one.token is None else _pinned(signer, owner, one.path, one.token)
        if file is None:
            unknown.append(one.path)
        else:
            found.append(file)
    if unknown:
        raise ProblemError(
            ProblemCode.NOT_FOUND,
            404,
            f"the run has no file {', '.join(unknown[:3])}{' …' if len(unknown) > 3 else ''}",
            details={"paths": unknown},
        )
    return found


def _pinned(signer: Signer, owner: Owner, path: str, token: str) -> RunFile:
    try:
        return signer.pinned(owner, path, token)
    except AddressRefusedError as error:
        raise invalid([ConfigIssue(key="items.token", message=str(error))]) from error


def addresses(run: RowMapping, files: Sequence[RunFile], desk: Desk, request: Request) -> list[str]:
    """An address for each file, on the server as the request reached it or as it is published."""
    signer, owner, now = Signer(desk.vault), owner_of(run), datetime.now(UTC)
    base = str(request.app.state.public_url or request.base_url).rstrip("/")
    return [f"{base}/api/v1/downloads/{signer.address(owner, one, now)}" for one in files]


@router.get(
    "/artifacts.zip",
    summary="Download a run's artifacts as a zip file",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}}},
)
async def artifacts_zip(ref: str, asking: Reading, desk: DeskNow) -> StreamingResponse:
    """Every artifact under `artifacts/<slot id>/<path>`, made while it is sent.

    Files that the blob store has no more are listed in `artifacts/MISSING.txt`.
    """
    run = await find(desk, asking.workspace, ref)
    require_begun(run)
    async with desk.reading() as connection:
        slots = await queries.slots_with_artifacts(connection, run["id"], after=None, limit=None)
    headers = {"Content-Disposition": attachment(f"{run['name']}-artifacts.zip")}
    if not RunStatus(run["status"]).is_terminal:
        headers[SNAPSHOT] = "true"
    return StreamingResponse(
        zip_pieces(slots, desk.blobs), media_type="application/zip", headers=headers
    )


@addressed.get(
    "/{signed}",
    summary="Download a file by its signed address",
    response_class=StreamingResponse,
    responses=BYTES | {403: {"model": Problem, "description": "Expired, or not of this server"}},
)
async def download(signed: str, request: Request, desk: DeskNow) -> Response:
    """The file, or a range of it. The address is all that it takes; the ETag is the SHA-256."""
    try:
        found = Signer(desk.vault).addressed(signed, datetime.now(UTC))
    except AddressRefusedError as error:
        raise ProblemError(ProblemCode.FORBIDDEN, 403, str(error)) from error
    file = found.file
    served = Served(file.sha256, file.size, file.media_type, found.filename)
    more = {SNAPSHOT: "true"} if file.snapshot else None
    try:
        return await serve(served, blobs_of(file.place, desk.blobs), request.headers, more)
    except BlobMissingError as error:
        raise missing(file.path) from error
