"""Fetches the files of a run: several at once, each retried, continued and checked by its hash.

A file appears under its name only when all of it is there. What a server names as paths is held
against the layout before anything is written.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import stamina
from pydantic import BaseModel

from assay_client.api import AssayClient
from assay_client.errors import (
    ApiError,
    AssayError,
    InterruptedByUserError,
    NoAnswerError,
    UnexpectedAnswerError,
)
from assay_contracts.http import (
    DownloadFile,
    DownloadManifest,
    DownloadTotals,
    DownloadType,
    MakeDownloadUrls,
    TableFormat,
    WantedFile,
)
from assay_contracts.problems import ProblemCode
from assay_contracts.values import RunStatus

_AT_ONCE = 8
_URLS_AT_ONCE = 100
_TRIES = 3
_LONGEST_WAIT = 60
"""Seconds: the window in which a server counts requests."""
_SINGLE = {DownloadType.LOGS: "logs.txt", DownloadType.CONFIG: "config.toml"}
_SLOT_DEPTH = 3
"""Parts of an artifact's path: the folder, the slot, and one name at least."""


class FileRefusedError(AssayError):
    """A file of the list is not written; the title says why."""

    code = "FILE_REFUSED"


class DamagedFileError(AssayError):
    """What came is not what was listed."""

    code = "DAMAGED"


class FailedFile(BaseModel):
    """A file that is not there, and why."""

    path: str
    error: str


class DownloadReport(BaseModel):
    """What came of a download; a `snapshot` where the run goes on.

    Sizes are in bytes; `bytes_downloaded` are those that were written now. `totals` are what the
    run has of each type.
    """

    run_id: str
    run_name: str
    run_status: RunStatus
    snapshot: bool
    types: list[DownloadType]
    table_format: TableFormat
    output_path: str
    total_files: int
    total_bytes: int
    files_downloaded: int = 0
    files_skipped: int = 0
    files_failed: list[FailedFile] = []
    bytes_downloaded: int = 0
    totals: dict[DownloadType, DownloadTotals]


@dataclass(frozen=True)
class Order:
    """What to fetch, and what to do with files of the same name."""

    run: str
    types: Sequence[DownloadType]
    table_format: TableFormat
    overwrite: bool


@dataclass
class _Work:
    client: AssayClient
    order: Order
    folder: Path
    stopping: threading.Event = field(default_factory=threading.Event)
    seen: set[str] = field(default_factory=set)


def download_run(
    client: AssayClient,
    order: Order,
    output: Path | None,
    tell: Callable[[DownloadReport], None],
) -> DownloadReport:
    """Fetch files of a run into a folder, which is named after it by default.

    Args:
        client: of the server that has the run.
        order: what to fetch.
        output: the folder; made where it is not there.
        tell: called after each file with how far it is.

    Raises:
        ApiError: the server refuses to list the files.
    """
    first = _page(client, order, None)
    folder = output or Path(_plain(first.run_name))
    work = _Work(client, order, folder)
    report = DownloadReport(
        run_id=str(first.run_id),
        run_name=first.run_name,
        run_status=first.run_status,
        snapshot=first.snapshot,
        types=list(order.types),
        table_format=order.table_format,
        output_path=str(folder),
        total_files=sum(one.files for one in first.totals.values()),
        total_bytes=sum(one.bytes for one in first.totals.values()),
        totals=first.totals,
    )
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        try:
            for page in _pages(client, order, first):
                for some in _several(page.files, _URLS_AT_ONCE):
                    _fetch_all(work, some, threads, report, tell)
        except BaseException:
            work.stopping.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return report


def _page(client: AssayClient, order: Order, last: DownloadManifest | None) -> DownloadManifest:
    return client.downloads(
        order.run if last is None else str(last.run_id),
        order.types,
        table_format=order.table_format,
        after=None if last is None else last.next_after,
    )


def _pages(
    client: AssayClient, order: Order, first: DownloadManifest
) -> Iterator[DownloadManifest]:
    page = first
    yield page
    while page.next_after is not None:
        page = _page(client, order, page)
        yield page


def _several[One](listed: Sequence[One], number: int) -> Iterator[Sequence[One]]:
    for begin in range(0, len(listed), number):
        yield listed[begin : begin + number]


def _plain(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_" else "_" for one in name) or "_"


def _fetch_all(
    work: _Work,
    files: Sequence[DownloadFile],
    threads: ThreadPoolExecutor,
    report: DownloadReport,
    tell: Callable[[DownloadReport], None],
) -> None:
    """Fetch some files at once, and note in the report what became of each."""
    wanted: list[tuple[DownloadFile, Path]] = []
    for file in files:
        try:
            target = target_of(file, work.folder, work.order, work.seen)
            if _is_there(file, target, work.order):
                report.files_skipped += 1
            else:
                wanted.append((file, target))
        except (AssayError, OSError) as error:
            report.files_failed.append(FailedFile(path=file.path, error=_said(error)))
    tell(report)
    if not wanted:
        return
    urls = _urls(work, [file for file, _ in wanted])
    begun = {
        threads.submit(_fetch, work, file, target, url): file
        for (file, target), url in zip(wanted, urls, strict=True)
    }
    for done in as_completed(begun):
        try:
            report.bytes_downloaded += done.result()
            report.files_downloaded += 1
        except (AssayError, OSError) as error:
            report.files_failed.append(FailedFile(path=begun[done].path, error=_said(error)))
        tell(report)


def _said(error: AssayError | OSError) -> str:
    if isinstance(error, OSError):
        return f"cannot be written: {error.strerror or type(error).__name__}"
    return str(error)


def _urls(work: _Work, files: Iterable[DownloadFile]) -> list[str]:
    items = [WantedFile(path=one.path, token=one.token) for one in files]
    made = work.client.download_urls(work.order.run, MakeDownloadUrls(items=items))
    if [one.path for one in made.items] != [one.path for one in items]:
        raise UnexpectedAnswerError("the server made addresses of other files than was asked for")
    return [one.url for one in made.items]


def target_of(file: DownloadFile, folder: Path, order: Order, seen: set[str]) -> Path:
    """Where a file belongs below the folder.

    Raises:
        FileRefusedError: its path is not of the layout, leads elsewhere, or was there before.
    """
    parts = PurePosixPath(file.path).parts
    unfit = any(one in {"..", "."} or "\\" in one or "\0" in one for one in parts)
    if unfit or file.path.startswith("/") or "/".join(parts) != file.path:
        raise FileRefusedError("its path leads elsewhere")
    if file.type not in order.types or not _is_of_layout(file, parts, order):
        raise FileRefusedError("its path is none of what was asked for")
    if file.path in seen:
        raise FileRefusedError("its path is listed twice")
    seen.add(file.path)
    target = folder.joinpath(*parts)
    if not target.parent.resolve().is_relative_to(folder.resolve()) or target.is_symlink():
        raise FileRefusedError("a symbolic link on its way leads elsewhere")
    return target


def _is_of_layout(file: DownloadFile, parts: Sequence[str], order: Order) -> bool:
    if file.type is DownloadType.ARTIFACTS:
        return parts[0] == "artifacts" and len(parts) >= _SLOT_DEPTH
    return file.path == _SINGLE.get(file.type, f"{file.type.value}.{order.table_format.value}")


def _is_there(file: DownloadFile, target: Path, order: Order) -> bool:
    """Whether the file is there as it should be.

    Raises:
        FileRefusedError: something else is there that may not be replaced.
    """
    if not target.exists():
        return False
    if target.is_file() and target.stat().st_size == file.size and _hash(target) == file.sha256:
        return True
    if target.is_dir():
        raise FileRefusedError("a folder of this name is there")
    if not order.overwrite:
        raise FileRefusedError("another file of this name is there; --overwrite replaces it")
    return False


def _hash(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _fetch(work: _Work, file: DownloadFile, target: Path, url: str) -> int:
    """Fetch a file; returns the bytes that were written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(_partial_name(file))
    written = 0
    for attempt in stamina.retry_context(
        on=_may_go_better, attempts=_TRIES, wait_initial=0.5, wait_max=5.0, timeout=None
    ):
        with attempt:
            try:
                written += _go_on(work, file, partial, url)
            except ApiError as error:
                if error.code == ProblemCode.FORBIDDEN:  # the address has expired
                    [url] = _urls(work, [file])
                raise
    partial.replace(target)
    return written


def _partial_name(file: DownloadFile) -> str:
    """Of these bytes at this path alone, so that nothing else is ever continued with them."""
    which = hashlib.sha256(f"{file.path}\0{file.sha256}".encode()).hexdigest()
    return f".{which[:32]}.partial"


def _may_go_better(error: Exception) -> bool | float:
    """Whether to try again, and in how many seconds where the server said so."""
    if isinstance(error, ApiError) and error.code == ProblemCode.RATE_LIMITED:
        return True if error.retry_after is None else float(min(error.retry_after, _LONGEST_WAIT))
    if isinstance(error, ApiError):
        return error.is_temporary or error.code == ProblemCode.FORBIDDEN
    return isinstance(error, (NoAnswerError, DamagedFileError))


def _go_on(work: _Work, file: DownloadFile, partial: Path, url: str) -> int:
    """Fetch what is missing of a partial file and check the whole; returns the bytes written."""
    if partial.is_symlink():
        raise FileRefusedError("a symbolic link on its way leads elsewhere")
    have = partial.stat().st_size if partial.exists() else 0
    written = 0
    if have < file.size or not partial.exists():
        with (
            work.client.fetch(url, first=have, etag=file.sha256) as fetched,
            partial.open("r+b" if partial.exists() else "wb") as opened,
        ):
            opened.truncate(fetched.begins_at)
            opened.seek(fetched.begins_at)
            for piece in fetched.pieces:
                if work.stopping.is_set():
                    raise InterruptedByUserError
                opened.write(piece)
                written += len(piece)
            opened.flush()
            os.fsync(opened.fileno())
    size = partial.stat().st_size
    if size != file.size or _hash(partial) != file.sha256:
        if size >= file.size:
            partial.unlink()
        raise DamagedFileError(f"{size} bytes came that are not the {file.size} that were listed")
    return written
