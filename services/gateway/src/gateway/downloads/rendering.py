"""Renders a run's tables, log and configuration into files, and keeps them under their hash.

Nothing here holds more than a batch of rows or lines, and what takes the processor long happens in
a thread.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import tomli_w
from sqlalchemy import RowMapping

from assay_contracts.http import LogLine
from assay_contracts.run_events import RunEvent, SubmittedData
from assay_contracts.values import RunStatus
from assay_kernel.blobs import BlobStore
from assay_kernel.cursor import StoredMessage, read_stored
from gateway import run_log, run_queries
from gateway.desk import Desk
from gateway.downloads import queries
from gateway.downloads.columns import RESULTS, SUMMARY, Column, Row, result_row, summary_row
from gateway.downloads.writers import Layout, open_table
from gateway.run_events import Messages, subjects_of

_LOG_BATCH = 1000
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_GOES_ON = "# snapshot: the run goes on, and so does its log\n"


@dataclass(frozen=True)
class Kept:
    """What a file is kept under, and its size in bytes."""

    sha256: str
    size: int


async def summary(run: RowMapping, layout: Layout, desk: Desk, apart: BlobStore) -> Kept:
    """The table of a run's agents."""
    submitted = SubmittedData.model_validate(run["submitted"])
    async with desk.reading() as connection:
        shown = await run_queries.describe_run(connection, run)

    async def rows() -> AsyncIterator[Sequence[Row]]:
        yield [summary_row(shown, agent, submitted) for agent in shown.agents]

    return await _table(SUMMARY, layout, rows(), apart)


async def results(run: RowMapping, layout: Layout, desk: Desk, apart: BlobStore) -> Kept:
    """The table of a run's results."""
    submitted = SubmittedData.model_validate(run["submitted"])

    async def rows() -> AsyncIterator[Sequence[Row]]:
        async with desk.reading() as connection:
            async for batch in queries.result_batches(
                connection, run["id"], submitted.benchmark.sync
            ):
                yield await asyncio.to_thread(_result_rows, run, submitted, batch)

    return await _table(RESULTS, layout, rows(), apart)


def _result_rows(
    run: RowMapping, submitted: SubmittedData, batch: Sequence[RowMapping]
) -> list[Row]:
    return [result_row(run, submitted, found) for found in batch]


async def _table(
    columns: Sequence[Column],
    layout: Layout,
    batches: AsyncIterator[Sequence[Row]],
    apart: BlobStore,
) -> Kept:
    with TemporaryDirectory(prefix="assay-export-") as folder:
        path = Path(folder) / "table"
        table = await asyncio.to_thread(open_table, layout, path, columns)
        try:
            async for rows in batches:
                await asyncio.to_thread(table.write, rows)
        finally:
            await asyncio.to_thread(table.close)
        return Kept(*await apart.keep_file_anew(path))


async def logs(run: RowMapping, desk: Desk, apart: BlobStore) -> Kept:
    """A run's log as text, one line an event; a last line says so where the run goes on."""
    with TemporaryDirectory(prefix="assay-export-") as folder:
        path = Path(folder) / "log"
        file = await asyncio.to_thread(path.open, "w", encoding="utf-8", newline="")
        try:
            async for lines in _log_batches(run, desk):
                await asyncio.to_thread(file.writelines, [_line(one) for one in lines])
            if not RunStatus(run["status"]).is_terminal:
                await asyncio.to_thread(file.write, _GOES_ON)
        finally:
            await asyncio.to_thread(file.close)
        return Kept(*await apart.keep_file_anew(path))


async def _log_batches(run: RowMapping, desk: Desk) -> AsyncIterator[Sequence[LogLine]]:
    submitted = SubmittedData.model_validate(run["submitted"])
    subjects = subjects_of(run["workspace"], run["id"])
    stored = read_stored(desk.store.client, RunEvent.stream, subjects)
    async with aclosing(stored):  # type: ignore[type-var]  # an async generator, typed wider
        batch: list[StoredMessage] = []
        async for message in stored:
            batch.append(message)
            if len(batch) == _LOG_BATCH:
                yield await _log_lines(run, submitted, batch, desk)
                batch = []
        yield await _log_lines(run, submitted, batch, desk)


async def _log_lines(
    run: RowMapping, submitted: SubmittedData, batch: list[StoredMessage], desk: Desk
) -> Sequence[LogLine]:
    told = Messages(run["id"], batch, next_after=None)
    async with desk.reading() as connection:
        seconds = await run_queries.seconds_of(connection, run["id"], run_log.graded_slots(told))
    return (await asyncio.to_thread(run_log.log_page, told, submitted, seconds)).items


def _line(line: LogLine) -> str:
    said = _BREAKS.sub(" ", line.message)
    at = line.timestamp.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return f"{at}Z {line.level.upper():<7} {line.step}: {said}\n"


async def config(run: RowMapping, desk: Desk, apart: BlobStore) -> Kept:
    """A run's configuration as TOML, with every default filled in, fit to be submitted again."""
    async with desk.reading() as connection:
        shown = await run_queries.describe_run(connection, run)
    said = {name: part for name, part in shown.config.items() if part}
    text = f"# What the run {shown.name} ({shown.id}) was asked to do.\n\n{tomli_w.dumps(said)}"
    with TemporaryDirectory(prefix="assay-export-") as folder:
        path = Path(folder) / "config"
        await asyncio.to_thread(path.write_text, text, encoding="utf-8", newline="")
        return Kept(*await apart.keep_file_anew(path))
