"""What the client downloads of a run: the list of files, and addresses to get them at.

Tables are plain CSV in this client's layout. Of a run that goes on they are a snapshot: the token
of a file stands for the bytes that were listed, whatever has come since.
"""

from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import RowMapping

from assay_contracts.http import DownloadTotals, DownloadType, MakeDownloadUrls
from assay_contracts.run_config import ConfigIssue
from gateway.desk import Desk, DeskNow
from gateway.downloads.addresses import LIFETIME, Signer
from gateway.downloads.endpoints import addresses, find, owner_of, types_of, wanted_files
from gateway.downloads.files import (
    RunFile,
    artifact_files,
    artifact_totals,
    rendered_files,
    require_begun,
)
from gateway.downloads.writers import Layout
from gateway.osmosis import wire
from gateway.osmosis.scope import Reading
from gateway.problems import invalid

router = APIRouter(prefix="/benchmark-runs/{ref}/outputs")

_DEFAULT_TYPES = "summary,results"


@router.get("/manifest")
async def list_files(
    ref: str,
    asking: Reading,
    desk: DeskNow,
    types: Annotated[str, Query(max_length=200)] = _DEFAULT_TYPES,
) -> StreamingResponse:
    """Every file at once, as the client wants it; told while it is found, however long it is."""
    run = await find(desk, asking.workspace, ref)
    require_begun(run)
    kinds = _types(types)
    plain = [kind for kind in kinds if kind is not DownloadType.ARTIFACTS]
    rendered = await rendered_files(run, plain, Layout.PLAIN_CSV, desk)
    totals = {one.type: DownloadTotals(files=1, bytes=one.size) for one in rendered}
    if DownloadType.ARTIFACTS in kinds:
        totals[DownloadType.ARTIFACTS] = await artifact_totals(run, desk)
    signer = Signer(desk.vault)
    return StreamingResponse(
        _manifest(run, rendered, totals, signer, desk), media_type="application/json"
    )


@router.post("/download-urls")
async def make_urls(
    ref: str, body: MakeDownloadUrls, asking: Reading, desk: DeskNow, request: Request
) -> wire.DownloadUrls:
    """Addresses that serve what was listed for a quarter of an hour, without a token."""
    run = await find(desk, asking.workspace, ref)
    files = await wanted_files(run, body.items, Layout.PLAIN_CSV, desk)
    urls = addresses(run, files, desk, request)
    return wire.DownloadUrls(
        items=[
            wire.DownloadUrl(path=one.path, token=one.token, url=url)
            for one, url in zip(body.items, urls, strict=True)
        ],
        expires_in=int(LIFETIME.total_seconds()),
    )


def _types(listed: str) -> list[DownloadType]:
    kinds = types_of(listed)
    if DownloadType.CONFIG in kinds:
        message = "must be of summary, results, artifacts, logs"
        raise invalid([ConfigIssue(key="types", message=message)])
    return kinds


async def _manifest(
    run: RowMapping,
    rendered: list[RunFile],
    totals: dict[DownloadType, DownloadTotals],
    signer: Signer,
    desk: Desk,
) -> AsyncIterator[bytes]:
    """A `wire.Manifest`, piece by piece."""
    owner = owner_of(run)

    def entry(file: RunFile) -> bytes:
        listed = wire.ManifestFile(path=file.path, size=file.size, token=signer.pin(owner, file))
        return orjson.dumps(listed.model_dump())

    told = {kind.value: one.model_dump() for kind, one in totals.items()}
    yield b'{"totals":' + orjson.dumps(told) + b',"files":['
    yield b",".join(entry(file) for file in rendered)
    is_first = not rendered
    if DownloadType.ARTIFACTS in totals:
        async for file in artifact_files(run, desk):
            yield entry(file) if is_first else b"," + entry(file)
            is_first = False
    yield b"]}"
