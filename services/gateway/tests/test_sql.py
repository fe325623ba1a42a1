"""Queries in SQL: what they answer, what they may take, and that they see one workspace alone."""

import asyncio
from pathlib import Path
from uuid import UUID

import httpx
import orjson
import psycopg
import pytest
from pydantic import SecretStr

from assay_contracts.http import SqlAnswer
from assay_contracts.identifiers import Slot
from assay_kernel.database import SQL_ROLE, open_database
from assay_local.embedded import login_address
from assay_local.provision import WITH_SCHEMA, provision_database, role_of
from gateway.access import Tokens
from gateway.app import build_app
from gateway.sql_queries import MAX_COLUMNS, SqlDesk, SqlLimits
from gateway.sql_views import VIEWS, make_views

DOCS = Path(__file__).parents[3] / "docs" / "sql.md"
LIMITS = SqlLimits(seconds=3.0, rows=1000, bytes=200_000, at_once=2)
FOREIGN = "foreign-secret"
"""In every text of the other workspace that a query might see."""


class Sql:
    """The endpoint, asked for one workspace or the other."""

    def __init__(self, stage, files: Path) -> None:
        address = str(stage.settings.database_url.get_secret_value())
        self.as_gateway = login_address(address, role_of("gateway"), "g")
        self.engine = open_database(SecretStr(self.as_gateway), "gateway")
        self.address = SecretStr(login_address(address, SQL_ROLE, "s"))
        self.desk = SqlDesk(self.engine, self.address, LIMITS)
        tokens = Tokens.read(files / "admin", files / "runner")
        self._app = build_app(stage.desk, tokens, stage.closing, sql_desk=self.desk)

    async def ask(
        self, query: str, *parameters: object, workspace: str = "default"
    ) -> httpx.Response:
        """What is answered."""
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app),
            base_url="http://gateway/api/v1",
            headers={
                "Authorization": "Bearer admin-token-of-this-test",
                "X-Assay-Workspace": workspace,
            },
        ) as client:
            body = {"query": query, "parameters": list(parameters)}
            return await client.post("/sql", json=body)

    async def rows(self, query: str, *parameters: object, workspace: str = "default") -> list[list]:
        """The rows of a query that is right."""
        answer = await self.ask(query, *parameters, workspace=workspace)
        assert answer.status_code == 200, answer.text
        return SqlAnswer.model_validate_json(answer.content).rows

    async def refusal(self, query: str, *parameters: object) -> dict:
        """The problem that a query has."""
        answer = await self.ask(query, *parameters)
        assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION"), answer.text
        return answer.json()


@pytest.fixture
async def sql(stage, tmp_path, database_url):
    """The endpoint over a database whose roles are as `assay up` makes them."""
    roles = (*map(role_of, WITH_SCHEMA), SQL_ROLE)
    await asyncio.to_thread(provision_database, database_url, dict.fromkeys(roles, "password"))
    sql = Sql(stage, tmp_path)
    await make_views(sql.engine)
    yield sql
    await sql.engine.dispose()


@pytest.fixture
async def two(stage, sql):
    """A run with results in the workspace `default`, and one in the workspace `foreign`."""
    runs = {}
    for workspace, name in (("default", "toy"), ("foreign", FOREIGN)):
        tasks = [f"{name}-{number}" for number in range(4)]
        await stage.add_benchmark(name, workspace=workspace, tasks=tasks)
        runs[workspace] = await stage.submit(
            workspace=workspace, experiment={"benchmark": name}, agents=[{"harness": "oracle"}]
        )
        run = runs[workspace]["id"]
        await stage.decide(run, "queued", "started", workspace=workspace)
        own = {"workspace": workspace}
        await stage.result(run, tasks[0], "errored", graded={"reason": f"{name} broke"}, **own)
        await stage.result(run, tasks[0], try_number=2, **own)
        await stage.result(run, tasks[1], "failed", **own)
        await stage.result(run, tasks[2], **own)
        await stage.result(run, tasks[3], **own)
        await stage.decide(run, "finished", workspace=workspace)
    return runs


async def test_every_view_shows_what_its_columns_say(sql, two):
    run = two["default"]
    assert await sql.rows("SELECT id, name, status, benchmark, imported FROM runs") == [
        [run["id"], run["name"], "finished", "toy", False]
    ]
    assert await sql.rows("SELECT name, workspace, sync_status, task_count FROM benchmarks") == [
        ["toy", "default", "ready", 4]
    ]
    assert await sql.rows("SELECT benchmark, position, name FROM tasks ORDER BY position") == [
        ["toy", number, f"toy-{number}"] for number in range(4)
    ]
    assert await sql.rows(
        "SELECT task, try_number, outcome, reward, slot_id FROM results ORDER BY task"
    ) == [
        ["toy-0", 2, "passed", 1, str(_slot(run, "toy-0"))],
        ["toy-1", 1, "failed", 0, str(_slot(run, "toy-1"))],
        ["toy-2", 1, "passed", 1, str(_slot(run, "toy-2"))],
        ["toy-3", 1, "passed", 1, str(_slot(run, "toy-3"))],
    ]
    assert await sql.rows("SELECT try_number, counted, reason FROM tries WHERE task = 'toy-0'") == [
        [1, False, "toy broke"],
        [2, True, None],
    ]
    assert await sql.rows(
        "SELECT run_id, agent, harness, model, expected_results, passed, failed, pass_at_1,"
        " pass_at_1_low < pass_at_1, pass_at_1_high > pass_at_1 FROM agents"
    ) == [[run["id"], 0, "oracle", "none", 4, 3, 1, 0.75, True, True]]
    assert await sql.rows(
        "SELECT metric, place, rank, tied, run, harness, pass_at_1, version FROM standings"
        " WHERE metric = 'pass@1'"
    ) == [["pass@1", 0, 1, False, run["name"], "oracle", 0.75, "1"]]


async def test_every_column_is_there_under_its_name_and_type_and_documented(sql, two):
    documented = DOCS.read_text()
    for view in VIEWS:
        answer = (await sql.ask(f"SELECT * FROM {view.name}")).json()
        assert answer["columns"] == [
            {"name": one.name, "type": _displayed(one.type)} for one in view.columns
        ]
        assert answer["rows"] != []
        lines = [f"| `{one.name}` | {one.type} | {one.doc} |" for one in view.columns]
        heading = (
            f"### `{view.name}`\n\n{view.doc}\n\n| column | type | what it tells |\n|---|---|---|\n"
        )
        assert heading + "\n".join(lines) + "\n" in documented


async def test_the_catalogue_is_seen_by_every_workspace(stage, sql):
    await stage.add_benchmark("shared", workspace="managed")
    for workspace in ("default", "foreign"):
        assert await sql.rows(
            "SELECT b.workspace, count(*) FROM benchmarks b JOIN tasks t ON t.benchmark_id = b.id"
            " GROUP BY 1",
            workspace=workspace,
        ) == [["managed", 4]]


async def test_parameters_stand_for_values_of_any_kind(sql, two):
    run = two["default"]["id"]
    counted = "SELECT count(*) FROM results WHERE run_id = $1 AND attempt >= $2 AND reward > $3"
    assert await sql.rows(counted, run, 1, 0.5) == [[3]]
    assert await sql.rows("SELECT $1::text, $2::bool, $3::text", "100% '", True, None) == [
        ["100% '", True, None]
    ]
    missing = await sql.refusal("SELECT $1::text, $2::text", "one")
    assert missing["details"]["sqlstate"] == "08P01"


async def test_values_keep_their_digits_and_columns_their_names(sql):
    answer = await sql.ask(
        "SELECT 12345678901234567890.123456789::numeric AS n, 9007199254740993 AS big, 'x' AS n,"
        " '{\"a\": [1]}'::jsonb, ARRAY[1, 2], 'NaN'::float8, timestamptz '2026-01-02 03:04:05+00',"
        " '\\x00ff'::bytea, NULL -- and a comment"
    )
    assert answer.text.endswith(
        '"rows":[[12345678901234567890.123456789, 9007199254740993, "x", {"a": [1]}, [1,2], "NaN",'
        ' "2026-01-02T03:04:05+00:00", "\\\\x00ff", null]],"truncated":false}'
    )
    columns = orjson.loads(answer.content)["columns"]
    assert [one["name"] for one in columns[:3]] == ["n", "big", "n"]
    assert [one["type"] for one in columns[:5]] == ["numeric", "int8", "text", "jsonb", "int4[]"]


async def test_a_mistake_is_told_in_the_servers_words_with_its_position(sql):
    misspelt = await sql.refusal("SELECT nmae FROM runs")
    assert misspelt["detail"] == 'query: column "nmae" does not exist, at character 8'
    assert misspelt["details"]["position"] == 8
    assert misspelt["details"]["sqlstate"] == "42703"
    assert "runs.name" in misspelt["details"]["hint"]
    divided = await sql.refusal("SELECT 1 / (count(*) - count(*)) FROM runs")
    assert divided["details"] == {"sqlstate": "22012"}
    assert (await sql.refusal("   "))["details"]["sqlstate"] == "42601"
    for query, *parameters in (("SELECT 'a\0b'",), ("SELECT $1::text", "a\0b")):
        assert "NUL" in (await sql.refusal(query, *parameters))["detail"]
    assert (await sql.refusal("SELECT $1::int", "one"))["details"] == {"sqlstate": "22P02"}


async def test_what_is_too_much_is_cut_and_said(sql):
    most = await sql.ask("SELECT generate_series(1, 1000)")
    assert (len(most.json()["rows"]), most.json()["truncated"]) == (1000, False)
    more = await sql.ask("SELECT generate_series(1, 100000000)")
    assert (len(more.json()["rows"]), more.json()["truncated"]) == (1000, True)
    wide = await sql.ask("SELECT repeat('x', 10000) FROM generate_series(1, 900)")
    assert (len(wide.json()["rows"]), wide.json()["truncated"]) == (19, True)
    assert "larger than" in (await sql.refusal("SELECT repeat('x', 5000000)"))["detail"]
    columns = ", ".join(["1"] * (MAX_COLUMNS + 1))
    assert "101 columns" in (await sql.refusal(f"SELECT {columns}"))["detail"]
    assert "0 columns" in (await sql.refusal("SELECT"))["detail"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM (SELECT generate_series(1, 100000000000)) AS s",
        "SELECT g FROM (SELECT generate_series(1, 100000000000) AS g) AS s WHERE g < 0",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT count(*) FROM r",
    ],
)
async def test_what_takes_too_long_is_ended_and_its_place_is_free_again(sql, query):
    async with asyncio.timeout(3 * LIMITS.seconds):
        refused = await asyncio.gather(*(sql.refusal(query) for _ in range(LIMITS.at_once)))
    assert all(one["detail"].startswith("query: it took longer than 3 s") for one in refused)
    assert await sql.rows("SELECT 1") == [[1]]
    with psycopg.connect(sql.as_gateway) as connection:
        assert connection.execute("SELECT count(*) FROM gateway.sql_sessions").fetchone() == (0,)


OTHERS_ROWS = [
    "SELECT * FROM runs WHERE name <> '' OR true",
    "SELECT * FROM benchmarks",
    "SELECT * FROM tasks",
    "SELECT * FROM tries",
    "SELECT * FROM standings",
    "SELECT * FROM runs_rows()",
    "SELECT * FROM assay_sql.tries_rows()",
    "SELECT (runs_rows()).*",
    "SELECT r FROM runs r FULL JOIN tries t ON false",
    f"SELECT * FROM benchmarks WHERE name = '{FOREIGN}' OR workspace = 'foreign'",
    f"SELECT 1 / (CASE WHEN reason LIKE '%{FOREIGN}%' THEN 0 ELSE 1 END) FROM tries",
    "SELECT reason::integer FROM tries WHERE reason IS NOT NULL AND reason LIKE '%for%'",
    "SELECT name::uuid FROM benchmarks WHERE workspace = 'foreign'",
    "SELECT string_agg(t::text, '') FROM tries t",
    "SELECT json_agg(b) FROM benchmarks b, LATERAL (SELECT * FROM tasks) t",
    "SELECT current_setting('assay.workspace', true)",
    "SELECT current_user, session_user, current_database(), current_schemas(true)",
    "SELECT to_regclass('grader.tries'), 'gateway.secrets'::regclass",
    "SELECT has_table_privilege('grader.tries', 'SELECT')",
    "SELECT pg_get_viewdef('runs'::regclass)",
    "SELECT pg_backend_pid(), txid_current()",
]
"""Right queries that give nothing of the other workspace."""

REFUSED = [
    # the tables behind the views, and the one that says whose rows a session sees
    *(f"SELECT * FROM {schema}.checkpoints" for schema in ("grader", "gateway", "leaderboard")),
    "SELECT * FROM grader.tries",
    "SELECT * FROM run_scheduler.runs",
    "SELECT * FROM gateway.secrets",
    "SELECT * FROM gateway.sql_sessions",
    "UPDATE gateway.sql_sessions SET workspace = 'foreign'",
    "WITH moved AS (UPDATE gateway.sql_sessions SET workspace = 'foreign' RETURNING 1) SELECT 1",
    "WITH gone AS (DELETE FROM runs RETURNING *) SELECT * FROM gone",
    "INSERT INTO runs DEFAULT VALUES",
    # other statements, and more than one
    "SELECT 1; SELECT 2",
    "SELECT 1; SET ROLE assay_reader",
    "COMMIT; SELECT 1",
    "SET ROLE assay_reader",
    "SET SESSION AUTHORIZATION postgres",
    "RESET ROLE",
    "RESET SESSION AUTHORIZATION",
    "SET search_path = gateway",
    "SHOW data_directory",
    "EXPLAIN ANALYZE SELECT * FROM runs",
    "DO $$ BEGIN RAISE 'x'; END $$",
    "CALL something()",
    "COPY runs TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY runs TO '/tmp/x'",
    "CREATE TEMP TABLE t (x int)",
    "SELECT * INTO TEMP t FROM runs",
    "CREATE TABLE t AS SELECT 1",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "LISTEN events",
    "NOTIFY events",
    "LOCK TABLE runs",
    "TRUNCATE runs",
    "VACUUM",
    "LOAD 'x'",
    "SELECT * FROM runs FOR UPDATE",
    # out of the parentheses that a query is put into
    "SELECT 1) AS asked(c0), (SELECT 1",
    "SELECT 1) SELECT 2 --",
    "SELECT 1 /*",
    'SELECT 1 AS "',
    "SELECT 1 FROM ((SELECT 1)",
    # settings, sleep, locks, signals, sequences, large objects, files, other servers
    "SELECT set_config('role', 'assay_reader', false)",
    "SELECT set_config('search_path', 'gateway', false)",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT pg_sleep(1)",
    "SELECT pg_advisory_lock(1634956641)",
    "SELECT pg_try_advisory_xact_lock(1)",
    "SELECT pg_cancel_backend(1)",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_reload_conf()",
    "SELECT pg_notify('events', 'x')",
    "SELECT nextval('grader.outbox_id_seq')",
    "SELECT lo_create(0)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT lo_get(1)",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT pg_ls_dir('.')",
    "SELECT pg_stat_file('PG_VERSION')",
    "SELECT * FROM dblink('dbname=assay', 'SELECT 1') AS t(x int)",
    "SELECT pg_export_snapshot()",
    "SELECT pg_logical_emit_message(false, 'x', 'x')",
    # a query inside a text, which runs as whoever asks all the same
    "SELECT query_to_xml('SELECT * FROM grader.tries', true, true, '')",
    "SELECT table_to_xml('grader.tries', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT cursor_to_xml('asked', 1, true, true, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(reason) FROM grader.tries')",
    # the catalogue, statistics, and what other sessions ask
    *(
        f"SELECT * FROM {name}"
        for name in (
            "pg_class",
            "pg_attribute",
            "pg_namespace",
            "pg_proc",
            "pg_stats",
            "pg_statistic",
            "pg_authid",
            "pg_roles",
            "pg_user",
            "pg_database",
            "pg_settings",
            "pg_locks",
            "pg_stat_activity",
            "pg_stat_user_tables",
            "pg_statio_user_tables",
            "pg_prepared_statements",
            "pg_cursors",
            "pg_largeobject",
            "pg_hba_file_rules",
            "information_schema.tables",
            "information_schema.columns",
        )
    ),
    "SELECT * FROM pg_stat_get_activity(NULL)",
    "SELECT pg_stat_get_backend_activity(1)",
    "SELECT pg_stat_get_live_tuples('grader.tries'::regclass)",
    "SELECT pg_relation_size('grader.tries'::regclass)",
    "SELECT pg_database_size(current_database())",
    "SELECT * FROM pg_lock_status()",
    "SELECT * FROM pg_show_all_settings()",
]
"""What PostgreSQL does not do for a query."""


async def test_no_query_does_more_than_read_the_views_or_sees_a_row_of_another_workspace(sql, two):
    run = two["foreign"]
    foreign = {run["id"], run["name"], str(_slot(run, f"{FOREIGN}-0")), FOREIGN}
    for query in OTHERS_ROWS:
        told = (await sql.ask(query)).text
        assert {one for one in foreign if one in told} == set(), query
    for query in REFUSED:
        refused = await sql.ask(query)
        assert refused.status_code == 422, (query, refused.text)
        assert {one for one in foreign if one in refused.text} == set(), query


async def test_every_view_has_rows_of_the_workspace_that_asks_and_no_other(sql, two):
    for view in VIEWS:
        own = await sql.rows(f"SELECT count(*) FROM {view.name}")
        other = await sql.rows(f"SELECT count(*) FROM {view.name}", workspace="foreign")
        assert own == other != [[0]]
        assert await sql.rows(f"SELECT count(*) FROM {view.name}", workspace="empty") == [[0]]


async def test_a_session_that_is_ended_or_refused_is_no_mistake_of_who_asks(sql, postgres_url):
    asking = asyncio.create_task(sql.ask("SELECT count(*) FROM generate_series(1, 100000000000)"))
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'assay-sql' AND query LIKE 'FETCH%'"
    )
    with psycopg.connect(postgres_url, autocommit=True) as superuser:
        async with asyncio.timeout(LIMITS.seconds):
            while not superuser.execute(ended).fetchall():
                await asyncio.sleep(0.01)
        answers = [await asking]
        superuser.execute("ALTER ROLE assay_sql NOLOGIN")
        try:
            answers.append(await sql.ask("SELECT 1"))
        finally:
            superuser.execute("ALTER ROLE assay_sql LOGIN")
    assert [(one.status_code, one.json()["code"]) for one in answers] == [(503, "UNAVAILABLE")] * 2


async def test_a_session_that_the_gateway_has_not_noted_sees_nothing(sql, two):
    with psycopg.connect(sql.address.get_secret_value()) as connection:
        for view in VIEWS:
            rows = connection.execute(f"SELECT * FROM assay_sql.{view.name}".encode()).fetchall()
            assert rows == []


async def test_queries_at_once_each_see_their_own_workspace(sql, two):
    names = {workspace: run["name"] for workspace, run in two.items()}
    asked = [workspace for workspace in names for _ in range(6)]
    told = await asyncio.gather(
        *(sql.rows("SELECT name FROM runs", workspace=workspace) for workspace in asked)
    )
    assert told == [[[names[workspace]]] for workspace in asked]


async def test_a_rebuild_goes_on_under_the_views(stage, sql, two):
    before = await sql.rows("SELECT * FROM results ORDER BY task")
    await stage.hold_read_models()
    for runner in stage.runners:
        await runner._refold_all()
    assert await sql.rows("SELECT * FROM results ORDER BY task") == before


async def test_views_are_made_once_and_anew_where_they_differ(sql, two):
    with psycopg.connect(sql.as_gateway) as connection:
        first = "SELECT 'assay_sql.runs'::regclass::oid"
        made = connection.execute(first).fetchone()
        connection.commit()
        await make_views(sql.engine)
        assert connection.execute(first).fetchone() == made
        connection.execute("COMMENT ON SCHEMA assay_sql IS 'older'")
        connection.commit()
        await make_views(sql.engine)
        assert connection.execute(first).fetchone() != made
    assert len(await sql.rows("SELECT * FROM runs")) == 1


async def test_nothing_is_asked_where_it_is_not_set_up(http):
    answer = await http.post("/sql", json={"query": "SELECT 1"})
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert "ASSAY_SQL_DATABASE_URL" in answer.json()["detail"]


def _slot(run: dict, task: str) -> UUID:
    return Slot(agent=0, task=task, attempt=1).id(UUID(run["id"]))


def _displayed(declared: str) -> str:
    short = {
        "timestamp with time zone": "timestamptz",
        "double precision": "float8",
        "integer": "int4",
        "bigint": "int8",
        "boolean": "bool",
    }
    return short.get(declared, declared)
