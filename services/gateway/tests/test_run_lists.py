"""Lists of runs and of results by HTTP: filters, orders, and cursors while rows arrive."""

from datetime import datetime, timedelta

import pytest

from assay_contracts.http import AgentRow, Page, ResultDetail, ResultRow, RunEntry

TASKS = [
    {"name": "fix-roman", "category": "text", "difficulty": "easy"},
    {"name": "fix-greek", "category": "text", "difficulty": "hard"},
    {"name": "count-words", "category": "numbers"},
    {"name": "sort-lines"},
]
LOST = {"type": "NetworkConnectionError", "message": "lost", "phase": "agent"}
NAMED = {"type": "provider", "model": "openai/m", "api_key_secret": "KEY"}


async def listed(http, path, kind, **query):
    """Every page of a list, by its cursors, each of which must belong to the same listing."""
    pages = []
    while True:
        answer = await http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        pages.append(Page[kind].model_validate(answer.json()))
        if pages[-1].next_cursor is None:
            return pages
        query["cursor"] = pages[-1].next_cursor


def rows_of(pages):
    return [one for page in pages for one in page.items]


@pytest.fixture
async def run(stage):
    """A run of two agents on four tasks with a result of every kind."""
    await stage.add_benchmark(tasks=TASKS)
    submitted = await stage.submit(agents=[{"harness": "oracle"}, {"harness": "nop"}])
    await stage.decide(submitted["id"], "queued", "started")
    ref, why = submitted["id"], {"cause": "network", "reason": "the connection was lost"}
    paid = {"cost_usd": 0.5, "input_tokens": 10, "output_tokens": 5}
    await stage.result(ref, "fix-roman", "passed", seconds=3.0, usage=paid)
    await stage.result(ref, "fix-greek", "failed", seconds=1.0, usage={"cost_usd": 0.1})
    await stage.result(ref, "count-words", "errored", seconds=2.0, exception=LOST, graded=why)
    await stage.result(ref, "sort-lines", None, seconds=9.0)
    await stage.result(ref, "fix-roman", "failed", agent=1, seconds=5.0, usage={"total_tokens": 7})
    await stage.result(ref, "count-words", "passed", agent=1, seconds=4.0, usage=paid)
    return submitted


def place(row):
    return (row.agent, row.task)


async def test_results_are_filtered_by_whatever_they_show(http, run):
    path = f"/runs/{run['id']}/results"
    for query, expected in (
        ({"agent": [1]}, [(1, "count-words"), (1, "fix-roman")]),
        ({"agent": [0, 1], "outcome": ["passed"]}, [(0, "fix-roman"), (1, "count-words")]),
        ({"outcome": ["errored", "failed"], "agent": [0]}, [(0, "count-words"), (0, "fix-greek")]),
        ({"cause": ["network", "provider"]}, [(0, "count-words")]),
        ({"category": "text"}, [(0, "fix-greek"), (0, "fix-roman"), (1, "fix-roman")]),
        ({"task": "fix-roman"}, [(0, "fix-roman"), (1, "fix-roman")]),
        ({"task": "fix"}, []),
        ({"search": "FIX-R"}, [(0, "fix-roman"), (1, "fix-roman")]),
        ({"search": "%"}, []),
    ):
        pages = await listed(http, path, ResultRow, limit=1, **query)
        found = rows_of(pages)
        assert [place(row) for row in found] == expected, query
        assert {page.total_count for page in pages} == {len(expected)}, query


async def test_results_tell_the_category_and_difficulty_of_their_task(http, run):
    found = rows_of(await listed(http, f"/runs/{run['id']}/results", ResultRow, agent=0))
    assert {row.task: (row.category, row.difficulty) for row in found} == {
        "fix-roman": ("text", "easy"),
        "fix-greek": ("text", "hard"),
        "count-words": ("numbers", None),
        "sort-lines": (None, None),
    }


VALUES = {
    "agent": lambda row: row.agent,
    "task": lambda row: row.task,
    "attempt": lambda row: row.attempt,
    "outcome": lambda row: row.outcome,
    "reward": lambda row: row.reward,
    "seconds": lambda row: row.seconds,
    "cost": lambda row: row.usage.cost_usd,
    "tokens": lambda row: row.usage.tokens,
}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", VALUES)
async def test_every_order_holds_over_all_pages_and_ends_with_what_is_unknown(
    http, run, sort, order
):
    path = f"/runs/{run['id']}/results"
    whole = rows_of(await listed(http, path, ResultRow, sort=sort, order=order))
    assert len({row.slot_id for row in whole}) == 6
    shown = [VALUES[sort](row) for row in whole]
    known = [value for value in shown if value is not None]
    assert known == sorted(known, reverse=order == "desc")
    assert shown == known + [None] * (6 - len(known))
    for limit in (1, 4):
        pages = await listed(http, path, ResultRow, sort=sort, order=order, limit=limit)
        assert rows_of(pages) == whole
        by_offset = await http.get(
            path, params={"sort": sort, "order": order, "limit": limit, "offset": limit}
        )
        there = Page[ResultRow].model_validate(by_offset.json()).items
        assert there == whole[limit : 2 * limit]


async def test_a_cursor_neither_skips_nor_repeats_what_stays_while_rows_arrive(stage, http, run):
    path = f"/runs/{run['id']}/results"
    query = {"sort": "task", "limit": 2}
    first = Page[ResultRow].model_validate((await http.get(path, params=query)).json())
    assert [place(row) for row in first.items] == [(0, "count-words"), (1, "count-words")]
    await stage.result(run["id"], "count-words", attempt=1, try_number=2)
    await stage.result(run["id"], "sort-lines", agent=1)
    rest = await listed(http, path, ResultRow, cursor=first.next_cursor, **query)
    assert [place(row) for row in rows_of(rest)] == [
        (0, "fix-greek"),
        (0, "fix-roman"),
        (1, "fix-roman"),
        (0, "sort-lines"),
        (1, "sort-lines"),
    ]
    assert {page.total_count for page in rest} == {first.total_count} == {6}


async def test_a_cursor_of_another_question_or_of_nobody_is_refused(http, run):
    path = f"/runs/{run['id']}/results"
    page = (await http.get(path, params={"limit": 1})).json()
    runs = (await http.get("/runs", params={"limit": 1})).json()
    assert runs["next_cursor"] is None
    cursor = page["next_cursor"]
    for query in (
        {"cursor": cursor, "sort": "cost"},
        {"cursor": cursor, "outcome": "passed"},
        {"cursor": cursor, "offset": 1},
        {"cursor": cursor[:-3]},
        {"cursor": "%%%"},
        {"cursor": "bm90aGluZw"},
    ):
        answer = await http.get(path, params=query)
        assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION"), query
        assert answer.json()["issues"][0]["key"] == "cursor"


async def test_a_result_is_shown_with_every_try_behind_it(stage, http, run):
    sha256 = await stage.blobs.keep(b'{"files": []}')
    kept = {"sha256": sha256, "files": 0, "bytes": 0}
    slot = await stage.result(run["id"], "count-words", try_number=2, artifacts=kept)
    answer = await http.get(f"/runs/{run['name']}/results/{slot}")
    found = ResultDetail.model_validate(answer.json())
    assert (found.run_name, found.harness, found.model) == (run["name"], "oracle", "none")
    assert (found.outcome, found.try_number, found.category) == ("passed", 2, "numbers")
    told = [(one.try_number, one.outcome, one.counted, len(one.events)) for one in found.tries]
    assert told == [(1, "errored", False, 2), (2, "passed", True, 2)]
    assert found.tries[0].exception.message == "lost"
    other = await stage.submit()
    assert (await http.get(f"/runs/{other['id']}/results/{slot}")).status_code == 404


async def test_the_agents_of_a_run_are_those_that_it_shows(http, run):
    answer = await http.get(f"/runs/{run['name']}/agents")
    found = [AgentRow.model_validate(one) for one in answer.json()]
    assert [(one.harness, one.passed, one.failed) for one in found] == [
        ("oracle", 1, 1),
        ("nop", 1, 1),
    ]
    assert answer.json() == (await http.get(f"/runs/{run['name']}")).json()["agents"]


async def test_runs_are_filtered_by_what_was_asked_for_and_when(stage, http):
    await stage.add_benchmark()
    await http.put("/secrets/KEY", json={"value": "v", "scope": "workspace"})
    asked = (
        [{"harness": "oracle"}],
        [{"harness": "nop"}, {"harness": "codex", "model": NAMED}],
        [{"harness": "claude-code", "model": NAMED}],
    )
    first, second, third = [await stage.submit(agents=agents) for agents in asked]
    await stage.decide(first["id"], "stopped")
    at = datetime.fromisoformat(second["submitted_at"])
    for query, expected in (
        ({}, [third, second, first]),
        ({"status": ["stopped", "failed"]}, [first]),
        ({"status": ["stopped", "pending"]}, [third, second, first]),
        ({"harness": "codex"}, [second]),
        ({"model": "openai/m"}, [third, second]),
        ({"model": "none"}, [second, first]),
        ({"harness": "nop", "model": "openai/m"}, []),
        ({"submitter": "admin"}, [third, second, first]),
        ({"submitter": "somebody"}, []),
        ({"since": at.isoformat()}, [third, second]),
        ({"until": at.isoformat()}, [first]),
        ({"since": (at + timedelta(days=1)).isoformat()}, []),
        ({"search": second["name"][2:-2].upper()}, [second]),
    ):
        pages = await listed(http, "/runs", RunEntry, limit=1, **query)
        assert [one.name for one in rows_of(pages)] == [one["name"] for one in expected], query
        assert {page.total_count for page in pages} == {len(expected)}
    assert (await http.get("/runs", params={"since": "yesterday"})).status_code == 422


async def test_runs_that_are_submitted_meanwhile_shift_no_page(stage, http):
    await stage.add_benchmark()
    names = [(await stage.submit())["name"] for _ in range(3)]
    first = Page[RunEntry].model_validate((await http.get("/runs", params={"limit": 1})).json())
    await stage.submit()
    rest = await listed(http, "/runs", RunEntry, limit=1, cursor=first.next_cursor)
    assert [one.name for one in first.items + rows_of(rest)] == names[::-1]
