"""Runs deleted by HTTP: what vanishes, what stays, and what takes their place."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select

import gateway.tables
import grader.tables
import leaderboard.queries
import run_scheduler.tables
from assay_contracts.identifiers import new_id
from assay_kernel.rebuild import Rebuild
from gateway.secret_sweep import sweep_once

TASKS = ("fix-roman", "fix-greek", "count-words", "sort-lines")
PROBLEM = "application/problem+json"


async def finished(stage, *outcomes, **changes):
    """A finished run on the four tasks of `toy`."""
    run = await stage.submit(**changes)
    await stage.decide(run["id"], "queued", "started")
    for task, outcome in zip(TASKS, outcomes, strict=False):
        await stage.result(run["id"], task, outcome)
    await stage.decide(run["id"], "finished")
    return run


@pytest.fixture
async def toy(stage):
    return await stage.add_benchmark()


async def standing(http):
    board = (await http.get("/benchmarks/toy/leaderboard")).json()
    return [(one["run_name"], one["pass_at_1"]["value"]) for one in board["standings"]]


async def test_a_deleted_run_vanishes_everywhere_and_its_events_stay(stage, http, toy):
    run = await finished(stage, "passed", "passed", "failed", "failed")
    slot = await stage.result(run["id"], "fix-roman")
    before = len(await stage.events(run["id"]))
    answer = await http.delete(f"/runs/{run['name']}", params={"reason": "a mistake"})
    assert (answer.status_code, answer.content) == (204, b"")
    await stage.caught_up()
    assert (await http.get("/runs")).json()["items"] == []
    assert (await http.get("/benchmarks/toy")).json()["run_count"] == 0
    assert await standing(http) == []
    assert (await http.get("/benchmarks/toy/leaderboard")).json()["not_ranked"] == []
    shown = ("", "/results", f"/results/{slot}", f"/results/{slot}/artifacts", "/agents")
    for path in (*shown, "/events", "/logs", "/export", "/explain?agent=0&task=fix-roman"):
        for ref in (run["name"], run["id"]):
            gone = await http.get(f"/runs/{ref}{path}")
            assert (gone.status_code, gone.headers["content-type"]) == (404, PROBLEM), path
    for path in ("/stop", "/pause", "/resume", "/retry"):
        assert (await http.post(f"/runs/{run['id']}{path}")).status_code == 404
    assert (await http.delete(f"/runs/{run['name']}")).status_code == 404
    events = [stored.event for stored in await stage.events(run["id"])]
    assert len(events) == before + 1
    assert (events[-1].type, events[-1].actor, events[-1].data.reason) == (
        "deleted",
        "admin",
        "a mistake",
    )


async def test_only_a_run_that_has_ended_can_be_deleted(stage, http, toy):
    run = await stage.submit()
    answer = await http.delete(f"/runs/{run['id']}")
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert f"assay run stop {run['name']}" in answer.json()["detail"]
    await stage.decide(run["id"], "stopped")
    assert (await http.delete(f"/runs/{run['id']}")).status_code == 204
    assert (await http.delete(f"/runs/{new_id()}")).status_code == 404
    async with stage.client(workspace="elsewhere") as other:
        mine = await finished(stage)
        assert (await other.delete(f"/runs/{mine['id']}")).status_code == 404


async def test_the_entrants_latest_run_that_is_left_takes_the_place_of_a_deleted_one(
    stage, http, toy
):
    old = await finished(stage, "passed", "failed", "failed", "failed")
    new = await finished(stage, "passed", "passed", "passed", "failed")
    assert await standing(http) == [(new["name"], 0.75)]
    before = (await http.get("/benchmarks/toy/leaderboard")).json()["sequence"]
    await http.delete(f"/runs/{new['id']}")
    await stage.caught_up()
    assert await standing(http) == [(old["name"], 0.25)]
    async with stage.engine.connect() as connection:
        past = await leaderboard.queries.candidates(connection, "default", toy, before)
    assert {one.run_name for one in past} == {old["name"], new["name"]}


async def test_what_is_told_late_of_a_deleted_run_leaves_no_row(stage, http, toy):
    run = await finished(stage, "passed", "passed", "failed", "failed")
    await http.delete(f"/runs/{run['id']}")
    await stage.result(run["id"], "fix-roman", "failed", try_number=2)
    left = {}
    async with stage.engine.connect() as connection:
        for table in (
            *(run_scheduler.tables.runs, run_scheduler.tables.slots),
            *(run_scheduler.tables.spendings, grader.tables.tries, grader.tables.results),
            grader.tables.agent_metrics,
        ):
            count = select(func.count()).select_from(table)
            left[f"{table.schema}.{table.name}"] = await connection.scalar(count)
    assert set(left.values()) == {0}, left
    letters = (await http.get("/deadletters")).json()
    assert letters["items"] == []


async def test_every_read_model_equals_a_fold_from_the_first_event(stage, http, toy):
    kept = await finished(stage, "passed", "passed", "failed", "failed")
    gone = await finished(stage, "passed", "failed", "failed", "failed")
    await http.delete(f"/runs/{gone['id']}")
    await stage.result(gone["id"], "fix-roman", "failed", try_number=2)
    for runner in stage.runners:
        projection = runner._projection
        report = await Rebuild(
            runner._service,
            projection,
            engine=stage.engine,
            store=stage.store,
            checkpoints=runner._checkpoints,
        ).verify()
        assert report.identical, report
    assert await standing(http) == [(kept["name"], 0.5)]


async def test_a_deleted_runs_name_stays_taken_and_its_own_secrets_go(stage, http, toy):
    body = {"config": {"experiment": {"benchmark": "toy"}, "agents": [{"harness": "oracle"}]}}
    body["config"]["secrets"] = {"required": ["OWN"]}
    run = (await http.post("/runs", json=body | {"secrets": {"OWN": "value"}})).json()
    await stage.decide(run["id"], "stopped")
    await http.delete(f"/runs/{run['id']}")
    assert await stage.vault.runs_with_secrets() == {}
    await sweep_once(stage.desk, datetime.now(UTC))
    async with stage.engine.connect() as connection:
        names = await connection.scalars(select(gateway.tables.run_names.c.name))
        assert list(names) == [run["name"]]


async def test_an_import_that_was_deleted_can_be_made_again(stage, http, toy):
    request = {
        "benchmark": "toy",
        "agents": [{"harness": "codex", "model": "m"}],
        "attempts_per_task": 1,
        "source": {"kind": "table", "digest": "ab" * 32},
    }
    first = (await http.post("/runs/import", json=request)).json()
    await stage.decide(first["id"], "queued", "started", "stopped")
    assert (await http.delete(f"/runs/{first['id']}")).status_code == 204
    second = (await http.post("/runs/import", json=request)).json()
    again = (await http.post("/runs/import", json=request)).json()
    assert second["id"] == again["id"] != first["id"]
