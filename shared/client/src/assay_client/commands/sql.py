"""`assay sql`: a query over the workspace's benchmarks, runs, results and standings."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from assay_client.commands.options import Json, open_client
from assay_client.errors import InvalidInputError
from assay_client.render.output import answer, make_console, write_line
from assay_client.render.sql import sql_csv, sql_rows
from assay_contracts.http import SqlQuery


def sql(
    context: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="One SELECT, or `-` to read it from stdin.")
    ],
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", metavar="VALUE", help="Value of $1, of $2 and so on."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Query benchmarks, tasks, runs, agents, results, tries and standings with SQL."""
    if as_csv and as_json:
        raise InvalidInputError("--csv and --json do not go together")
    asked = _asked(sys.stdin.read() if query == "-" else query, parameter or ())
    with open_client(context) as client:
        found = client.sql(asked)
    if not as_csv:
        answer(found, as_json, sql_rows)
        return
    write_line(sql_csv(found).removesuffix("\n"))
    if found.truncated:
        make_console(stderr=True).print(f"only the first {len(found.rows)} rows: there are more")


def _asked(query: str, parameters: Sequence[str]) -> SqlQuery:
    try:
        return SqlQuery(query=query, parameters=list(parameters))
    except ValidationError as error:
        found = [f"{one['loc'][0]}: {one['msg']}" for one in error.errors()]
        raise InvalidInputError("; ".join(found)) from error
