"""The rows of a query in SQL: as a table for a person, and as CSV."""

import csv
import io
import json

from assay_client.render.output import Frame, View, table, text
from assay_contracts.http import SqlAnswer

_NUMBERS = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric"})
_NOTHING = "–"


def sql_rows(answer: SqlAnswer, _: Frame) -> View:
    """A table; numbers are aligned right, and null is a dash."""
    drawn = table(*(f">{one.name}" if one.type in _NUMBERS else one.name for one in answer.columns))
    for row in answer.rows:
        drawn.add_row(*(text(_NOTHING if value is None else _word(value)) for value in row))
    yield drawn
    if answer.truncated:
        yield text(f"only the first {len(answer.rows)} rows: there are more", "yellow")


def sql_csv(answer: SqlAnswer) -> str:
    """A line of names and one for each row; null is an empty field."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(one.name for one in answer.columns)
    writer.writerows(
        ["" if value is None else _word(value) for value in row] for row in answer.rows
    )
    return written.getvalue()


def _word(value: object) -> str:
    """A value as JSON has it, but a text without its quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
