"""Pages of a run's results: of 100,000 as soon as of 1,000, in any order, wherever they are."""

import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import get_args
from uuid import UUID, uuid4

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import event

import grader.tables
import registry_sync.tables
from assay_contracts.http import ResultSort
from assay_kernel.database import open_database
from assay_kernel.migrations import migrate
from assay_local.embedded import create_database
from gateway.result_queries import Wanted, list_results

SMALL, LARGE, PAGE, TIMES = 2_000, 100_000, 100, 9
AGENTS, ATTEMPTS = 4, 5

# Every kind of row: without cost, without a verdict, errored; costs and durations that repeat.
_TRIES = """
INSERT INTO grader.tries (slot, try_number, delivery, run, agent, task, attempt, counted, outcome,
    reward, cause, reason, seconds, cost_usd, input_tokens, output_tokens, environment, runner)
SELECT gen_random_uuid(), 1, 1, %(run)s, n %% %(agents)s,
    'org/task-' || lpad((n / (%(agents)s * %(attempts)s))::text, 6, '0'),
    1 + (n / %(agents)s) %% %(attempts)s, true,
    CASE WHEN n %% 50 = 0 THEN 'errored' WHEN n %% 3 = 0 THEN 'failed' ELSE 'passed' END,
    CASE WHEN n %% 50 = 0 THEN NULL ELSE (n %% 3)::float END,
    CASE WHEN n %% 50 = 0 THEN 'network' END, CASE WHEN n %% 50 = 0 THEN 'lost' END,
    (n * 7919) %% 10007 / 10.0, CASE WHEN n %% 4 = 0 THEN NULL ELSE (n * 104729) %% 997 / 100.0 END,
    n %% 5000, n %% 300, 'local', 'r-1'
FROM generate_series(0, %(rows)s::bigint - 1) AS n
"""
_RESULTS = """
INSERT INTO grader.results (slot, run, agent, task, attempt, try_number, delivery, outcome, cause,
    reason, category, reward, seconds, cost_usd, tokens)
SELECT slot, run, agent, task, attempt, try_number, delivery, outcome, cause, reason,
    'category ' || agent, reward, seconds, cost_usd, input_tokens + output_tokens
FROM grader.tries WHERE run = %(run)s
"""
_SLOTS = """
INSERT INTO grader.agent_metrics (run, agent, expected, slots, sequence, measures)
SELECT run, agent, count(*), count(*), 1, '{}' FROM grader.results WHERE run = %(run)s
GROUP BY run, agent
"""


@pytest.fixture(scope="module")
def filled(postgres_url: str) -> tuple[str, dict[int, UUID]]:
    """A database with two runs that differ in their size alone."""
    address = create_database(postgres_url, f"t{uuid4().hex}")
    for service in (grader, registry_sync):
        migrate(SecretStr(address), service.__name__, service.tables.metadata)
    made = {SMALL: uuid4(), LARGE: uuid4()}
    with psycopg.connect(address, autocommit=True) as connection:
        for rows, run in made.items():
            parts = {"run": run, "rows": rows, "agents": AGENTS, "attempts": ATTEMPTS}
            for statement in (_TRIES, _RESULTS, _SLOTS):
                connection.execute(statement, parts)
        connection.execute("VACUUM ANALYZE grader.results, grader.tries")
    return address, made


@pytest.fixture
async def runs(filled):
    """The engine, and the two runs by their sizes."""
    address, made = filled
    engine = open_database(SecretStr(address), "bench")
    yield engine, made
    await engine.dispose()


def row_of(run: UUID):
    return {"id": run, "submitted": {"benchmark": {"sync": str(UUID(int=9))}}}


async def page_seconds(engine, run, wanted, **at) -> list[float]:
    """Seconds of several times the same page, once its plan is warm."""
    took: list[float] = []
    async with engine.connect() as connection:
        for _ in range(TIMES + 1):
            began = time.perf_counter()
            page = await list_results(connection, row_of(run), wanted, limit=PAGE, **at)
            took.append(time.perf_counter() - began)
            assert len(page.items) == PAGE
    return took[1:]


async def blocks_read(engine, run, wanted, **at) -> tuple[int, list[str]]:
    """How many blocks of the database a page touches, and the nodes of the plans that do it.

    Unlike seconds, they are the same on a machine that others use.
    """
    asked: list[tuple[str, object]] = []

    def note(_connection, _cursor, statement, parameters, _context, _many):
        asked.append((statement, parameters))

    async with engine.connect() as connection:
        event.listen(engine.sync_engine, "before_cursor_execute", note)
        await list_results(connection, row_of(run), wanted, limit=PAGE, **at)
        event.remove(engine.sync_engine, "before_cursor_execute", note)
        blocks, nodes = 0, []
        for statement, parameters in asked:
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
            found = await connection.exec_driver_sql(explain, parameters)
            plan = found.scalar_one()[0]["Plan"]
            blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            nodes += nodes_of(plan)
    return blocks, nodes


def nodes_of(plan) -> list[str]:
    """A plan's nodes on the tables that grow with a run, each with what it reads."""
    place = plan.get("Index Name") or plan.get("Relation Name")
    own = [f"{plan['Node Type']} {place}"] if place else []
    return own + [node for below in plan.get("Plans", []) for node in nodes_of(below)]


async def cursor_near_the_end(engine, run, wanted, rows) -> str:
    async with engine.connect() as connection:
        before = await list_results(
            connection, row_of(run), wanted, limit=PAGE, offset=rows - 3 * PAGE
        )
    assert before.next_cursor is not None
    return before.next_cursor


WANTED: Sequence[tuple[str, Wanted]] = [
    *((f"by {sort}", Wanted(sort=sort)) for sort in get_args(ResultSort)),
    ("by cost, desc", Wanted(sort="cost", descending=True)),
    ("of one category", Wanted(category="category 2", sort="agent")),
]


@pytest.mark.parametrize(("what", "wanted"), WANTED, ids=[what for what, _ in WANTED])
async def test_a_page_of_many_results_takes_as_long_as_one_of_few(runs, report, what, wanted):
    engine, made = runs
    for place in ("first", "late"):
        took, blocks, nodes = {}, {}, {}
        for rows, run in made.items():
            at = {}
            if place == "late":
                shown = rows // AGENTS if wanted.category else rows
                at["cursor"] = await cursor_near_the_end(engine, run, wanted, shown)
            took[rows] = await page_seconds(engine, run, wanted, **at)
            blocks[rows], nodes[rows] = await blocks_read(engine, run, wanted, **at)
        report.line(f"{place} page of {PAGE} of {LARGE:,} results {what}", took[LARGE], took[SMALL])
        sys.stdout.write(f"blocks: {blocks[LARGE]} of {LARGE:,}, {blocks[SMALL]} of {SMALL:,}; ")
        sys.stdout.write(f"{', '.join(nodes[LARGE])}\n")
        if place == "late" or wanted.category is None:  # the first page of a filter counts
            assert blocks[LARGE] < 3 * blocks[SMALL], nodes[LARGE]


async def test_a_search_through_all_results_counts_them_once(runs, report):
    engine, made = runs
    wanted = Wanted(search="42", sort="cost")
    async with engine.connect() as connection:
        began = time.perf_counter()
        page = await list_results(connection, row_of(made[LARGE]), wanted, limit=PAGE)
        first = time.perf_counter() - began
    following = await page_seconds(engine, made[LARGE], wanted, cursor=page.next_cursor)
    report.line("the page after the first of a search", following, [first])
    assert median(following) < first
