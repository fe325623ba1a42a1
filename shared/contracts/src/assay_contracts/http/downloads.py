"""Downloads of a run: which files there are, and short-lived addresses to get them at."""

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from assay_contracts.http.base import Request, Resource, with_example
from assay_contracts.values import RunStatus

MOST_URLS = 500


class DownloadType(StrEnum):
    """What can be downloaded of a run."""

    SUMMARY = "summary"
    RESULTS = "results"
    ARTIFACTS = "artifacts"
    LOGS = "logs"
    CONFIG = "config"


class TableFormat(StrEnum):
    """How summary and results are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class DownloadFile(Resource):
    """A file of a run; `size` in bytes, `sha256` in hex.

    `token` stands for exactly these bytes: an address made with it serves them, whatever has
    happened to the run meanwhile.
    """

    path: str
    type: DownloadType
    size: int
    sha256: str
    media_type: str
    token: str


class DownloadTotals(Resource):
    """How many files of one type there are, and their bytes together."""

    files: int
    bytes: int


class DownloadManifest(Resource):
    """The files of a run; a `snapshot` where the run goes on, and more may come.

    Artifacts come in pages: `next_after` asks for the next, and is null on the last. `totals` are
    of all pages; the first one alone has them.
    """

    run_id: UUID
    run_name: str
    run_status: RunStatus
    snapshot: bool
    files: list[DownloadFile]
    totals: dict[DownloadType, DownloadTotals]
    next_after: UUID | None


class WantedFile(Request):
    """A file by its path in the manifest; with its token these bytes, else what is there now."""

    path: str = Field(min_length=1, max_length=8192)
    token: str | None = Field(default=None, max_length=1024)


class MakeDownloadUrls(Request):
    """`POST /api/v1/runs/{run}/downloads/urls`: the files that addresses are wanted for."""

    model_config = with_example(items=[{"path": "results.csv"}])

    items: list[WantedFile] = Field(min_length=1, max_length=MOST_URLS)


class DownloadUrl(Resource):
    """Where a file is to be had, without any token of the caller's."""

    path: str
    url: str


class DownloadUrls(Resource):
    """Addresses in the order that they were asked for, valid for `expires_in` seconds."""

    items: list[DownloadUrl]
    expires_in: int
