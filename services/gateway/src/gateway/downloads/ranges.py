"""Serves the bytes of a blob, all or a range of them (RFC 9110), a piece at a time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response, StreamingResponse

from assay_contracts.problems import Problem, ProblemCode
from assay_kernel.blobs import BlobStore
from gateway.downloads.names import attachment
from gateway.problems import ProblemError

_ONE_RANGE = re.compile(r"bytes=\s*(\d{0,19})-(\d{0,19})\s*", re.IGNORECASE)

BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}},
    206: {"description": "The range that was asked for"},
    304: {"description": "The file is the one that `If-None-Match` names"},
    416: {"model": Problem, "description": "The range begins behind the end of the file"},
}
"""The answers of a route that serves a file, beside those of every route."""


@dataclass(frozen=True)
class Span:
    """Bytes from `first` up to but without `end`."""

    first: int
    end: int


@dataclass(frozen=True)
class Served:
    """A blob as an answer tells of it; `size` in bytes is what was promised."""

    sha256: str
    size: int
    media_type: str
    filename: str

    @property
    def etag(self) -> str:
        """The hash of the bytes: the same hash is the same file."""
        return f'"{self.sha256}"'


async def serve(
    served: Served,
    blobs: BlobStore,
    asked: Mapping[str, str],
    more: Mapping[str, str] | None = None,
) -> Response:
    """The answer to a GET with the headers `asked`: 200, 206 or 304; `more` headers go with it.

    Raises:
        BlobMissingError: the bytes are gone.
        ProblemError: the range begins behind the end.
    """
    headers = {
        "ETag": served.etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": attachment(served.filename),
        **(more or {}),
    }
    if _matches(asked.get("if-none-match"), served.etag):
        return Response(status_code=304, headers=headers)
    span = requested_span(asked, served)
    if span is None:
        opened, length, status = await blobs.open(served.sha256), served.size, 200
    else:
        opened = await blobs.open(served.sha256, first=span.first, end=span.end)
        length, status = span.end - span.first, 206
        headers["Content-Range"] = f"bytes {span.first}-{span.end - 1}/{served.size}"
    if opened.size != served.size:
        raise ValueError(f"blob {served.sha256} has {opened.size} bytes and not {served.size}")
    headers["Content-Length"] = str(length)
    return StreamingResponse(
        opened.pieces, status_code=status, media_type=served.media_type, headers=headers
    )


def requested_span(asked: Mapping[str, str], served: Served) -> Span | None:
    """The range that is asked for; None for the whole.

    The whole is the answer, too, where the range is of another version (`If-Range`), has no form
    that is known, or is one of several: nobody has to answer those in parts.

    Raises:
        ProblemError: 416, the range begins behind the end.
    """
    found = _ONE_RANGE.fullmatch(asked.get("range", ""))
    if found is None or asked.get("if-range", served.etag) != served.etag:
        return None
    first, last = found.groups()
    if first:
        if last and int(last) < int(first):
            return None
        begin, end = int(first), min(int(last) + 1, served.size) if last else served.size
    elif last:
        begin, end = max(0, served.size - int(last)), served.size
    else:
        return None
    if begin >= end:
        raise ProblemError(
            ProblemCode.RANGE_NOT_SATISFIABLE,
            416,
            f"the file has {served.size} bytes, and the range begins behind them",
            headers={"Content-Range": f"bytes */{served.size}"},
        )
    return Span(begin, end)


def _matches(listed: str | None, etag: str) -> bool:
    if listed is None:
        return False
    known = [one.strip().removeprefix("W/") for one in listed.split(",")]
    return etag in known or "*" in known
