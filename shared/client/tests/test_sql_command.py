"""`assay sql`: what it asks the server for, and how it shows the rows."""

import json

import pytest

from assay_contracts.http import SqlAnswer, SqlColumn
from assay_contracts.problems import Problem
from assay_contracts.run_config import ConfigIssue

COLUMNS = [
    SqlColumn(name="task", type="text"),
    SqlColumn(name="reward", type="float8"),
    SqlColumn(name="counted", type="bool"),
    SqlColumn(name="rewards", type="jsonb"),
]
ROWS = [["fix, it", 0.5, True, {"a": [1]}], ["b\x1b[31m", None, False, None]]


@pytest.fixture
def told(server):
    """A server that answers two rows, of more."""
    server.answers("POST", "/api/v1/sql", SqlAnswer(columns=COLUMNS, rows=ROWS, truncated=True))


def test_the_query_and_its_parameters_are_sent_and_the_rows_are_a_table(server, assay, told):
    done = assay("sql", "SELECT $1, $2", "--parameter", "x", "--parameter", "2")
    assert done.returncode == 0, done.stderr
    heading, _, first, second, note = (line.rstrip() for line in done.stdout.splitlines())
    assert heading.split() == ["task", "reward", "counted", "rewards"]
    assert first.split() == ["fix,", "it", "0.5", "true", '{"a":', "[1]}"]
    assert second.split()[1:] == ["–", "false", "–"]
    assert "\x1b" not in second
    assert note == "only the first 2 rows: there are more"
    [seen] = server.requests("POST", "/api/v1/sql")
    assert seen.body == {"query": "SELECT $1, $2", "parameters": ["x", "2"]}


def test_rows_as_csv_and_as_json(assay, told):
    done = assay("sql", "SELECT 1", "--csv")
    assert done.stdout == (
        'task,reward,counted,rewards\n"fix, it",0.5,true,"{""a"": [1]}"\nb\x1b[31m,,false,\n'
    )
    assert done.stderr.strip() == "only the first 2 rows: there are more"
    assert json.loads(assay("sql", "SELECT 1", "--json").stdout)["rows"] == ROWS
    both = assay("sql", "SELECT 1", "--json", "--csv")
    assert both.returncode != 0
    assert "do not go together" in both.stderr


def test_a_mistake_is_told_in_the_servers_words(server, assay):
    issue = ConfigIssue(key="query", message='column "nmae" does not exist')
    problem = Problem(
        title="Unprocessable Content",
        status=422,
        detail=str(issue),
        code="VALIDATION",
        issues=[issue],
        details={"position": 8},
    )
    server.answers("POST", "/api/v1/sql", problem)
    done = assay("sql", "SELECT nmae FROM runs")
    assert done.returncode == 1
    assert 'column "nmae" does not exist' in done.stderr
    assert "query: String should have at least 1 character" in assay("sql", "").stderr
