"""Runs by HTTP: lists, details, results, artifacts, logs, and stopping."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import orjson
import pytest

from assay_contracts.http import LogPage, Page, ResultRow, RunDetail, RunEntry
from assay_contracts.identifiers import new_id
from assay_kernel.event_store import StaleStateError

LOST = {"type": "NetworkConnectionError", "message": "lost", "phase": "agent"}


@pytest.fixture
async def run(stage):
    """A run of two agents on four tasks that has begun."""
    await stage.add_benchmark()
    submitted = await stage.submit(agents=[{"harness": "oracle"}, {"harness": "nop"}])
    await stage.decide(submitted["id"], "queued", "started")
    return submitted


async def test_runs_are_listed_newest_first_by_benchmark_and_status(stage, http):
    for name in ("toy", "other"):
        await stage.add_benchmark(name)
    runs = [await stage.submit(experiment={"benchmark": name}) for name in ("toy", "other", "toy")]
    await stage.decide(runs[0]["id"], "stopped")
    names = [run["name"] for run in runs]
    for query, expected in (
        ({}, [names[2], names[1], names[0]]),
        ({"benchmark": "toy"}, [names[2], names[0]]),
        ({"benchmark": "toy@1", "status": "stopped"}, [names[0]]),
        ({"limit": 1, "offset": 1}, [names[1]]),
    ):
        page = Page[RunEntry].model_validate((await http.get("/runs", params=query)).json())
        assert [one.name for one in page.items] == expected, query
    async with stage.client(workspace="elsewhere") as other:
        assert (await other.get("/runs")).json()["total_count"] == 0
        for path in ("", "/results", "/events", "/logs"):
            assert (await other.get(f"/runs/{names[0]}{path}")).status_code == 404
        assert (await other.post(f"/runs/{names[1]}/stop")).status_code == 404


async def test_an_agent_is_finished_when_all_of_its_results_are_in(stage, http, run):
    for task in ("fix-roman", "fix-greek", "count-words"):
        await stage.result(run["id"], task)
    await stage.result(run["id"], "sort-lines", "failed", graded={"reason": "3 of 4 checks"})
    await stage.result(run["id"], "fix-roman", "cancelled", agent=1)
    detail = RunDetail.model_validate((await http.get(f"/runs/{run['name']}")).json())
    first, second = detail.agents
    assert (first.status, first.passed, first.failed) == ("finished", 3, 1)
    assert first.pass_at_1 is not None
    assert first.pass_at_1.value == 0.75
    assert (second.status, second.cancelled, second.ingested_results) == ("running", 1, 1)
    assert (detail.best_pass_at_1, detail.benchmark_digest) == (0.75, "sha256:toy")
    assert [(one.task, one.reason) for one in detail.problems] == [("sort-lines", "3 of 4 checks")]


async def test_the_counted_try_is_the_result_and_the_latest_one_before_there_is_any(
    stage, http, run
):
    why = {"cause": "network", "reason": "the connection was lost", "retryable": True}
    await stage.result(run["id"], "fix-roman", "errored", exception=LOST, graded=why)
    [only] = (await http.get(f"/runs/{run['id']}/results")).json()["items"]
    assert (only["try_number"], only["outcome"], only["cause"]) == (1, "errored", "network")
    slot = await stage.result(run["id"], "fix-roman", try_number=2)
    await stage.result(run["id"], "fix-roman", "failed", try_number=3)
    await stage.result(run["id"], "fix-greek", None, agent=1)
    page = Page[ResultRow].model_validate((await http.get(f"/runs/{run['id']}/results")).json())
    counted, latest = page.items
    assert (counted.slot_id, counted.try_number, counted.outcome) == (slot, 2, "passed")
    assert (latest.agent, latest.outcome, page.total_count) == (1, None, 2)
    for query, tasks in (
        ({"agent": 1}, ["fix-greek"]),
        ({"outcome": "passed"}, ["fix-roman"]),
        ({"outcome": "failed"}, []),
        ({"limit": 1, "offset": 1}, ["fix-greek"]),
    ):
        found = (await http.get(f"/runs/{run['id']}/results", params=query)).json()
        assert [one["task"] for one in found["items"]] == tasks, query


async def test_artifacts_come_from_the_manifest_alone(stage, http, run):
    sha256 = await stage.blobs.keep(b"what the verifier said")
    listed = [
        {"path": "verifier/out put.txt", "size": 22, "sha256": sha256},
        {"path": "gone.txt", "size": 1, "sha256": "a" * 64},
    ]
    kept = {"sha256": await stage.blobs.keep(orjson.dumps({"files": listed})), "bytes": 23}
    slot = await stage.result(run["id"], "fix-roman", artifacts=kept | {"files": 2})
    bare = await stage.result(run["id"], "fix-greek")
    base = f"/runs/{run['name']}/results/{slot}/artifacts"
    assert (await http.get(base)).json() == listed
    found = await http.get(f"{base}/verifier%2Fout%20put.txt")
    assert (found.content, found.headers["content-length"]) == (b"what the verifier said", "22")
    assert found.headers["content-disposition"] == 'attachment; filename="out put.txt"'
    part = await http.get(f"{base}/verifier%2Fout%20put.txt", headers={"Range": "bytes=5-7"})
    assert (part.status_code, part.content) == (206, b"the")
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert (await http.get(f"/runs/{run['name']}/results/{bare}/artifacts")).json() == []
    for path in ("gone.txt", "no.txt", sha256, "..%2F..%2Fetc%2Fpasswd", "verifier"):
        answer = await http.get(f"{base}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
    unknown = await http.get(f"/runs/{run['name']}/results/{new_id()}/artifacts")
    assert unknown.status_code == 404


async def test_the_log_tells_each_event_in_a_line(stage, http, run):
    why = {"cause": "network", "reason": "the connection was lost"}
    await stage.result(run["id"], "fix-roman", "errored", exception=LOST, graded=why)
    await stage.result(run["id"], "fix-roman", try_number=2, seconds=2.5)
    await http.post(f"/runs/{run['id']}/stop", json={"reason": "enough"})
    await stage.decide(run["id"], "stopped")
    answer = await http.get(f"/runs/{run['name']}/logs", params={"limit": 1000})
    page = LogPage.model_validate(answer.json())
    assert [(one.level, one.message) for one in page.items] == [
        (
            "info",
            "admin asks for 2 agents on 4 tasks of toy, version 1 (sha256:toy), 8 results expected",
        ),
        ("info", "the pinned task list is there; the run waits for capacity"),
        ("info", "attempts are handed out from now on"),
        (
            "warning",
            "attempt 1 of fix-roman by oracle ended after 1.2 s, sandbox removed: "
            "NetworkConnectionError in agent",
        ),
        (
            "error",
            "attempt 1 of fix-roman by oracle errored in 1.2 s: network: the connection was lost",
        ),
        ("info", "attempt 1 of fix-roman by oracle, try 2 ended after 2.5 s, sandbox removed"),
        ("info", "attempt 1 of fix-roman by oracle, try 2 passed (reward 1) in 2.5 s"),
        ("warning", "admin asked to stop: enough"),
        ("warning", "the last sandbox is gone: enough"),
    ]
    assert page.next_after is None
    assert [one.details is None for one in page.items] == [False, False, True, *[False] * 6]
    one_by_one, after = [], 0
    while after is not None:
        params = {"after": after, "limit": 1}
        part = (await http.get(f"/runs/{run['name']}/logs", params=params)).json()
        one_by_one += [one["message"] for one in part["items"]]
        after = part["next_after"]
    assert one_by_one == [one.message for one in page.items]


async def test_of_two_stops_at_once_one_wins_and_the_other_is_told(stage, http, run):
    answers = await asyncio.gather(
        *(http.post(f"/runs/{run['name']}/stop", json={"reason": "x"}) for _ in range(2))
    )
    assert sorted(one.status_code for one in answers) == [200, 409]
    told = next(one for one in answers if one.status_code == 409).json()
    assert told["code"] == "CONFLICT"
    assert "already" in told["detail"]
    kinds = [one.event.type for one in await stage.events(run["id"])]
    assert kinds.count("stop-requested") == 1
    await stage.decide(run["id"], "stopped")
    late = (await http.post(f"/runs/{run['name']}/stop")).json()
    assert late["detail"] == "the run has ended: it is stopped"


async def test_a_stop_that_turned_out_stale_is_decided_again(stage, http, run, monkeypatch):
    append, refusals = stage.store.append, []

    async def overtaken(event, *, aggregate, expected):
        if not refusals:
            refusals.append(event)
            raise StaleStateError("another came first")
        return await append(event, aggregate=aggregate, expected=expected)

    monkeypatch.setattr(stage.store, "append", overtaken)
    request_id = new_id()
    headers = {"X-Request-ID": str(request_id)}
    assert (await http.post(f"/runs/{run['id']}/stop", headers=headers)).status_code == 200
    stored = (await stage.events(run["id"]))[-1].event
    assert (stored.type, stored.correlation_id, stored.causation_id) == (
        "stop-requested",
        request_id,
        None,
    )


async def test_a_reason_too_long_for_an_event_is_refused(http, run):
    answer = await http.post(f"/runs/{run['id']}/stop", json={"reason": "x" * 70_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


async def test_events_are_paged_exactly_as_stored(stage, http, run):
    await stage.result(run["id"], "fix-roman")
    stored = await stage.events(run["id"])
    found, after = [], 0
    while after is not None:
        params = {"after": after, "limit": 2}
        part = (await http.get(f"/runs/{run['id']}/events", params=params)).json()
        found += part["items"]
        after = part["next_after"]
    assert [one["sequence"] for one in found] == [one.sequence for one in stored]
    assert [one["event"] for one in found] == [orjson.loads(one.event.to_bytes()) for one in stored]
    assert {UUID(one["event"]["run"]) for one in found} == {UUID(run["id"])}


async def test_a_run_that_is_under_way_says_how_long_it_will_take_unless_it_is_paused(
    stage, http, run
):
    path = f"/runs/{run['name']}"
    for task in ("fix-roman", "fix-greek"):
        await stage.result(run["id"], task)
    assert (await http.get(path)).json()["seconds_left"] is None
    await stage.result(run["id"], "count-words")
    started = RunDetail.model_validate((await http.get(path)).json())
    assert started.seconds_left is not None
    assert started.started_at is not None
    passed = (datetime.now(UTC) - started.started_at).total_seconds()
    assert 0 < started.seconds_left <= passed * 5 / 3
    await http.post(f"{path}/pause", json={"agent": "nop"})
    assert (await http.get(path)).json()["seconds_left"] is None


async def test_a_pause_is_refused_where_nothing_can_start_any_more(stage, http, run):
    path = f"/runs/{run['name']}"
    assert (await http.post(f"{path}/pause", json={"agent": "codex"})).status_code == 422
    await http.post(f"{path}/stop")
    for verb in ("pause", "resume"):
        answer = await http.post(f"{path}/{verb}")
        assert (answer.status_code, answer.json()["detail"]) == (
            409,
            "the run was asked to stop and is stopping",
        )
    await stage.decide(run["id"], "stopped")
    answer = await http.post(f"{path}/retry")
    assert (answer.status_code, "the run was stopped" in answer.json()["detail"]) == (409, True)
