"""A query in SQL over the views of one workspace, and its rows."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from assay_contracts.http.base import Request, Resource, with_example

SqlParameter = str | int | float | bool | None


class SqlQuery(Request):
    """One SELECT, and the values of its parameters `$1`, `$2`, …"""

    model_config = with_example(
        query="SELECT outcome, count(*) FROM results WHERE run_name = $1 GROUP BY outcome",
        parameters=["bright-otter"],
    )

    query: Annotated[
        str,
        StringConstraints(min_length=1, max_length=100_000),
        Field(
            examples=["SELECT outcome, count(*) FROM results WHERE run_id = $1 GROUP BY outcome"]
        ),
    ]
    parameters: list[SqlParameter] = Field(default_factory=list, max_length=100)


class SqlColumn(Resource):
    """A column of the answer; `type` in PostgreSQL's words."""

    name: str
    type: str


class SqlAnswer(Resource):
    """The rows, each with one value for each column; `truncated` where there are more.

    Numbers are numbers, however long; times are texts in ISO 8601, and what JSON has no word for
    is a text as PostgreSQL writes it.
    """

    columns: list[SqlColumn]
    rows: list[list[Any]]
    truncated: bool
