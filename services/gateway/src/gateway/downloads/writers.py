"""Writes tables a batch of rows at a time: as CSV, JSON Lines or Parquet.

None of them holds more than a batch, and the same rows give the same bytes.
"""

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import orjson

from gateway.downloads.columns import Column, Kind, Row

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text may begin with that a spreadsheet takes for a formula, or passes over before one."""

_ROW_GROUP = 20_000


class Layout(StrEnum):
    """How a table is written; `plain-csv` writes every text as it is, also one that a spreadsheet
    would take for a formula."""

    CSV = "csv"
    PLAIN_CSV = "plain-csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @property
    def extension(self) -> str:
        """The end of the file's name, without a dot."""
        return "csv" if self is Layout.PLAIN_CSV else self.value

    @property
    def media_type(self) -> str:
        """The file's media type."""
        return _MEDIA_TYPES[self.extension]


_MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8; header=present",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}


class TableWriter(Protocol):
    """A table that is being written to a file."""

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows."""

    def close(self) -> None:
        """Write what is left; nothing can be added any more."""


def open_table(layout: Layout, path: Path, columns: Sequence[Column]) -> TableWriter:
    """Begin a table in a new file."""
    match layout:
        case Layout.CSV:
            return _Csv(path, columns, guarded=True)
        case Layout.PLAIN_CSV:
            return _Csv(path, columns, guarded=False)
        case Layout.JSONL:
            return _JsonLines(path, columns)
        case Layout.PARQUET:
            return _Parquet(path, columns)


class _Csv:
    def __init__(self, path: Path, columns: Sequence[Column], *, guarded: bool) -> None:
        text = _guarded if guarded else None
        cells = {Kind.TEXT: text, Kind.BOOLEAN: _boolean, Kind.MOMENT: _moment, Kind.JSON: _json}
        self._columns = [(one.name, cells.get(one.kind)) for one in columns]
        self._file = path.open("w", encoding="utf-8", newline="")
        self._lines = csv.writer(self._file, lineterminator="\n")
        self._lines.writerow([column.name for column in columns])

    def write(self, rows: Sequence[Row]) -> None:
        self._lines.writerows(
            [
                row[name] if cell is None or row[name] is None else cell(row[name])
                for name, cell in self._columns
            ]
            for row in rows
        )

    def close(self) -> None:
        self._file.close()


def _guarded(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) else value


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


class _JsonLines:
    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self._names = [column.name for column in columns]
        self._file = path.open("wb")

    def write(self, rows: Sequence[Row]) -> None:
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
        for row in rows:
            self._file.write(
                orjson.dumps({name: row[name] for name in self._names}, option=options)
            )

    def close(self) -> None:
        self._file.close()


class _Parquet:
    """JSON is text, as in CSV, since its keys are of no fixed set."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        # Here, since it takes long to import and nothing else needs it.
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415

        types = {
            Kind.TEXT: pyarrow.string(),
            Kind.INTEGER: pyarrow.int64(),
            Kind.NUMBER: pyarrow.float64(),
            Kind.BOOLEAN: pyarrow.bool_(),
            Kind.MOMENT: pyarrow.timestamp("us", tz="UTC"),
            Kind.JSON: pyarrow.string(),
        }
        self._columns = columns
        self._schema = pyarrow.schema([(one.name, types[one.kind]) for one in columns])
        self._file = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._waiting: list[Any] = []
        self._tables = pyarrow

    def write(self, rows: Sequence[Row]) -> None:
        self._waiting.append(
            self._tables.table(
                {one.name: [_stored(one, row[one.name]) for row in rows] for one in self._columns},
                schema=self._schema,
            )
        )
        if sum(table.num_rows for table in self._waiting) >= _ROW_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            group = self._tables.concat_tables(self._waiting).combine_chunks()
            self._file.write_table(group, row_group_size=group.num_rows or None)
            self._waiting = []

    def close(self) -> None:
        self._write_group()
        self._file.close()


def _stored(column: Column, value: Any) -> Any:
    if column.kind is Kind.JSON and value is not None:
        return _json(value)
    return value
