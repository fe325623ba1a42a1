"""Scores over real services: ranked, compared, explained, proven; and as they once were."""

import asyncio
import importlib.util
import io
import random
from pathlib import Path
from uuid import UUID

import orjson
import pytest

from assay_contracts.identifiers import Slot
from assay_contracts.proofs import Claims, EventLine, Head, link
from assay_contracts.work import WorkOrder
from assay_scoring.proofs import verify


def _beside(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pipeline, from_events = _beside("conftest"), _beside("from_events")

METRICS = ("pass@1", "pass@k", "pass^k", "cost", "time", "tokens")
KINDS = {"proof": Head, "event": EventLine, "claims": Claims}
SOURCE = {"kind": "table", "digest": "ab" * 32}


def asked(*models, attempts=3, **changes):
    """The request for an imported run of some models over the whole demo."""
    agents = [{"harness": "codex", "model": model} for model in models]
    return {
        "benchmark": "demo",
        "agents": agents,
        "attempts_per_task": attempts,
        "source": SOURCE,
    } | changes


async def task_names(client):
    return [one["name"] for one in (await client.get("/benchmarks/demo")).json()["tasks"]]


def results(tasks, skills, attempts=3, seed=1, **changes):
    """A result for each slot; agent n passes with the chance `skills[n]`, at a price."""
    draw = random.Random(seed)
    return [
        {
            "agent": agent,
            "task": task,
            "attempt": attempt,
            "rewards": {"reward": float(draw.random() < skill)},
            "reward_valid": True,
            "seconds": round(draw.lognormvariate(3, 1), 3),
            "usage": {
                "input_tokens": draw.randrange(1000, 90_000),
                "output_tokens": draw.randrange(100, 9000),
                "cost_usd": draw.random(),
            },
            **changes,
        }
        for agent, skill in enumerate(skills)
        for task in tasks
        for attempt in range(1, attempts + 1)
    ]


async def imported(door, client, request, sent):
    """Import a run and wait for its place; returns the run."""
    run = await begun(client, request)
    receipt = await client.post(f"/runs/{run['id']}/results", json={"results": sent})
    assert receipt.status_code == 200, receipt.text
    assert receipt.json() == {"received": len(sent), "added": len(sent)}
    assert await door.platform.ended(UUID(run["id"])) == "finished"
    await shown(client, run["name"])
    return run


async def begun(client, request):
    answer = await client.post("/runs/import", json=request)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


async def shown(client, name):
    """Wait until a leaderboard knows a finished run, whether it ranks or not."""
    async with asyncio.timeout(60):
        while True:
            board = (await client.get("/benchmarks/demo/leaderboard")).json()
            left_out = {
                one["run_name"] for one in board["not_ranked"] if "ended" not in one["reason"]
            }
            if name in left_out | {one["run_name"] for one in board["standings"]}:
                return board
            await asyncio.sleep(0.05)


async def synced(door, client, *, times):
    """Wait until the demo was read so often, and can be run."""
    async with asyncio.timeout(60):
        while True:
            told = [one async for one in door.platform.store.read("BENCHMARKS", ["benchmarks.>"])]
            often = [one.event.type for one in told].count("synced")
            ready = (await client.get("/benchmarks/demo")).json()["sync_status"] == "ready"
            if often == times and ready:
                return
            await asyncio.sleep(0.05)


async def events_of(client, ref):
    found, after = [], 0
    while after is not None:
        page = (await client.get(f"/runs/{ref}/events", params={"after": after})).json()
        found += page["items"]
        after = page["next_after"]
    return found


async def board_by(client, metric, **more):
    answer = await client.get("/benchmarks/demo/leaderboard", params={"metric": metric, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def now_and_then_errored(order: WorkOrder):
    """A runner on which one task's first try of an attempt is lost, and another's every try."""
    if order.slot.task.endswith("count-words") and order.try_number == 1:
        return pipeline.lost(order)
    if order.slot.task.endswith("fix-roman"):
        return pipeline.lost(order) | {"usage": {"cost_usd": 0.5}}
    return pipeline.failed(order) if order.slot.attempt == 1 else pipeline.passed(order)


async def test_every_leaderboard_follows_from_the_printed_events_alone(door):
    async with door.client() as client:
        tasks = await task_names(client)
        await imported(door, client, asked("a", "b", "c"), results(tasks, (0.9, 0.8, 0.3)))
        await imported(
            door,
            client,
            asked("a", "d", attempts=2, pass_threshold=0.5),
            [
                one | {"usage": {"cost_usd": 0.01, "total_tokens": 77}, "seconds": 2.0}
                for one in results(tasks, (0.7, 0.6), attempts=2, seed=2)
            ],
        )
        unpriced = results(tasks, (1.0, 0.97), seed=3, usage={}, seconds=None)
        await imported(door, client, asked("perfect", "near"), unpriced)
        chosen = {"task_names": tasks[:3]}
        await imported(door, client, asked("e", tasks=chosen), results(tasks[:3], (1.0,), seed=4))
        async with pipeline.beside(door, now_and_then_errored):
            config = {
                "experiment": {"benchmark": "demo"},
                "execution": {"attempts_per_task": 3, "max_retries": 1},
                "agents": [{"harness": "oracle"}, {"harness": "nop"}],
            }
            own = (await client.post("/runs", json={"config": config})).json()
            assert await door.platform.ended(UUID(own["id"])) == "finished"
        await shown(client, own["name"])
        listed = (await client.get("/runs", params={"limit": 100})).json()["items"]
        runs = [await events_of(client, one["id"]) for one in listed]
        for metric in METRICS:
            board = await board_by(client, metric)
            computed = from_events.leaderboard(runs, metric)
            assert from_events.differences(board["standings"], computed) == [], metric
            assert len(board["standings"]) == 8
        by_rate = await board_by(client, "pass@1")
        assert [one["rank"] for one in by_rate["standings"]].count(1) > 1
        assert any(one["comparison"] for one in by_rate["standings"])
        reasons = {(one["run_name"], one["agent"]): one["reason"] for one in by_rate["not_ranked"]}
        assert any("stands for this harness and model" in one for one in reasons.values())
        assert any("chosen tasks" in one for one in reasons.values())


async def test_a_deleted_run_leaves_its_entrants_their_latest_run_that_is_left(door):
    async with door.client() as client:
        tasks = await task_names(client)
        old = await imported(door, client, asked("a", "b"), results(tasks, (0.9, 0.3)))
        new = await imported(door, client, asked("a", "c"), results(tasks, (0.5, 0.4), seed=2))
        before = await board_by(client, "pass@1")
        assert {one["run_name"] for one in before["standings"]} == {old["name"], new["name"]}
        assert (await client.delete(f"/runs/{new['id']}")).status_code == 204
        ids = (UUID(old["id"]), UUID(new["id"]))
        runs = [
            [
                {"sequence": one.sequence, "event": one.event.model_dump(mode="json")}
                for one in await door.platform.events(run)
            ]
            for run in ids
        ]
        assert runs[1][-1]["event"]["type"] == "deleted"
        async with asyncio.timeout(60):
            while len((board := await board_by(client, "pass@1"))["standings"]) != 2:
                await asyncio.sleep(0.05)
        assert {one["run_name"] for one in board["standings"]} == {old["name"]}
        assert board["not_ranked"] == []
        for metric in METRICS:
            shown_now = (await board_by(client, metric))["standings"]
            computed = from_events.leaderboard(runs, metric)
            assert from_events.differences(shown_now, computed) == [], metric
        past = await board_by(client, "pass@1", as_of=str(before["sequence"]))
        assert past["standings"] == before["standings"]
        replayed = (await client.post("/system/replay", json={"verify": True})).json()
        assert [one["projection"] for one in replayed if not one["identical"]] == []


async def test_an_import_sent_again_is_the_same_run_and_adds_nothing(door):
    async with door.client() as client:
        tasks = await task_names(client)
        sent = results(tasks, (0.5,))
        first = await begun(client, asked("a"))
        half = (
            await client.post(f"/runs/{first['id']}/results", json={"results": sent[:20]})
        ).json()
        assert half == {"received": 20, "added": 20}
        again = await begun(client, asked("a"))
        assert again["id"] == first["id"]
        answers = await asyncio.gather(
            *(client.post(f"/runs/{first['id']}/results", json={"results": sent}) for _ in range(3))
        )
        assert [one.status_code for one in answers] == [200] * 3
        assert await door.platform.ended(UUID(first["id"])) == "finished"
        await shown(client, first["name"])
        once_more = await client.post(f"/runs/{first['id']}/results", json={"results": sent})
        assert once_more.json() == {"received": len(sent), "added": 0}
        assert (await client.post("/benchmarks/demo/sync")).status_code in {200, 202}
        await synced(door, client, times=2)
        assert (await begun(client, asked("a")))["id"] == first["id"]
        kinds = [one["event"]["type"] for one in await events_of(client, first["id"])]
        assert kinds.count("submitted") == kinds.count("finished") == 1
        assert kinds.count("result-graded") == len(sent)
        row = (await board_by(client, "pass@1"))["standings"][0]
        won = sum(one["rewards"]["reward"] for one in sent)
        assert row["pass_at_1"]["value"] == pytest.approx(won / len(sent), abs=1e-12)
        assert row["imported"] is True
        detail = (await client.get(f"/runs/{first['name']}")).json()
        assert detail["imported"] == SOURCE
        other = await begun(client, asked("a", source=SOURCE | {"digest": "cd" * 32}))
        assert other["id"] != first["id"]


async def test_an_import_with_mistakes_is_refused_whole_and_says_all_of_them(door):
    async with door.client() as client:
        refused = await client.post(
            "/runs/import", json=asked("a", tasks={"task_names": ["assay-demo/fix-romn"]})
        )
        assert (refused.status_code, "assay-demo/fix-roman" in refused.text) == (422, True)
        unknown = await client.post("/runs/import", json=asked("a", benchmark="dmo"))
        assert (unknown.status_code, "demo" in unknown.text) == (404, True)
        tasks = await task_names(client)
        run = await begun(client, asked("a"))
        [one] = results(tasks[:1], (1.0,), attempts=1)
        bad = [one, one, one | {"agent": 4}, one | {"task": "nope"}, one | {"attempt": 9}]
        answer = await client.post(f"/runs/{run['id']}/results", json={"results": bad})
        keys = [issue["key"] for issue in answer.json()["issues"]]
        assert answer.status_code == 422
        assert keys == ["results[1]", "results[2].agent", "results[3].task", "results[4].attempt"]
        assert [one["event"]["type"] for one in await events_of(client, run["id"])][:1] == [
            "submitted"
        ]
        assert (await client.get(f"/runs/{run['id']}")).json()["ingested_results"] == 0
        await client.post(f"/runs/{run['id']}/stop", json={})
        assert await door.platform.ended(UUID(run["id"])) == "stopped"
        late = await client.post(f"/runs/{run['id']}/results", json={"results": [one]})
        assert (late.status_code, "takes no more results" in late.text) == (409, True)
        own = await client.post(
            "/runs",
            json={"config": {"experiment": {"benchmark": "demo"}, "agents": [{"harness": "nop"}]}},
        )
        foreign = await client.post(f"/runs/{own.json()['id']}/results", json={"results": [one]})
        assert (foreign.status_code, "not an imported one" in foreign.text) == (409, True)


async def test_the_standings_of_a_past_sequence_or_moment_are_those_shown_then(door):
    seen = []
    async with door.client() as client:
        tasks = await task_names(client)
        for number, models in enumerate((("a", "b"), ("b", "c"), ("a",))):
            sent = results(tasks, [0.4 + 0.2 * number] * len(models), seed=number)
            await imported(door, client, asked(*models), sent)
            boards = {metric: await board_by(client, metric) for metric in METRICS}
            seen.append(boards)
        for boards in seen:
            for metric, then in boards.items():
                past = await board_by(client, metric, as_of=str(then["sequence"]))
                assert past["as_of"] == then["sequence"]
                for part in ("standings", "not_ranked"):
                    assert past[part] == then[part], metric
        assert seen[0]["pass@1"]["standings"] != seen[-1]["pass@1"]["standings"]
        early = await board_by(client, "pass@1", as_of="2020-01-01T00:00:00Z")
        assert (early["standings"], early["not_ranked"]) == ([], [])
        for as_of in ("yesterday", "-5", "999999999", "2990-01-01T00:00:00Z"):
            answer = await client.get("/benchmarks/demo/leaderboard", params={"as_of": as_of})
            assert answer.status_code == 422, as_of


async def test_two_entrants_are_compared_by_name_and_the_answer_turns_with_them(door):
    async with door.client() as client:
        tasks = await task_names(client)
        await imported(door, client, asked("strong", "weak"), results(tasks, (1.0, 0.0)))
        ask = "/benchmarks/demo/compare"
        found = await client.get(ask, params={"first": "strong", "second": "weak (codex)"})
        assert found.status_code == 200, found.text
        pair = found.json()
        assert (pair["difference"], pair["verdict"]) == (1.0, "superior")
        assert (len(pair["tasks_won"]), pair["tasks_lost"]) == (14, [])
        turned = (await client.get(ask, params={"first": "weak", "second": "strong"})).json()
        assert (turned["difference"], turned["verdict"]) == (-1.0, "inferior")
        assert turned["tasks_lost"] == pair["tasks_won"]
        wrong = await client.get(ask, params={"first": "strng", "second": "weak"})
        assert (wrong.status_code, "did you mean strong" in wrong.text) == (422, True)
        both = await client.get(ask, params={"first": "codex", "second": "weak"})
        assert (both.status_code, "2 entrants are called codex" in both.text) == (422, True)
        low = asked("low", pass_threshold=0)
        other = await imported(door, client, low, results(tasks, (0.0,)))
        apart = await client.get(ask, params={"first": other["name"], "second": "strong"})
        assert (apart.status_code, "different thresholds: 0 and 1" in apart.text) == (422, True)
        [row] = [
            one
            for one in (await board_by(client, "pass@1"))["standings"]
            if one["run_name"] == other["name"]
        ]
        assert (row["pass_threshold"], row["tied"], row["comparison"]) == (0.0, False, None)


async def test_a_score_is_explained_down_to_the_events_behind_it(door):
    async with door.client() as client, pipeline.beside(door, now_and_then_errored):
        config = {
            "experiment": {"benchmark": "demo"},
            "execution": {"attempts_per_task": 2, "max_retries": 1},
            "agents": [{"harness": "oracle"}],
        }
        run = (await client.post("/runs", json={"config": config})).json()
        assert await door.platform.ended(UUID(run["id"])) == "finished"
        await shown(client, run["name"])
        stored = {one["sequence"]: one for one in await events_of(client, run["id"])}
        answer = await client.get(
            f"/runs/{run['name']}/explain", params={"agent": "oracle", "task": "count-words"}
        )
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["passes"], found["attempts_counted"]) == (1, 2)
        assert [len(one["tries"]) for one in found["attempts"]] == [2, 2]
        for attempt in found["attempts"]:
            lost, scored = attempt["tries"]
            assert (lost["outcome"], lost["cause"], lost["counted"]) == (
                "errored",
                "network",
                False,
            )
            assert (scored["counted"], scored["outcome"]) == (True, attempt["outcome"])
            for one in (lost, scored):
                assert [event["event"]["type"] for event in one["events"]] == [
                    "result-ingested",
                    "result-graded",
                ]
                assert all(stored[event["sequence"]] == event for event in one["events"])
        wrong = await client.get(
            f"/runs/{run['name']}/explain", params={"agent": "oracle", "task": "count-wrds"}
        )
        assert (wrong.status_code, "count-words" in wrong.text) == (404, True)


async def proof_of(client, ref):
    answer = await client.get(f"/runs/{ref}/export")
    assert answer.status_code == 200, answer.text
    return answer.content


def chained(lines):
    """The lines with hashes made anew, as by somebody who knows how they are made."""
    before, made = "", []
    for line in lines:
        content = orjson.loads(line)
        parsed = KINDS[content["kind"]].model_validate(content)
        before = link(before, parsed)
        made.append(parsed.model_copy(update={"hash": before}).model_dump_json().encode() + b"\n")
    return made


async def test_a_proof_holds_offline_and_a_change_anywhere_voids_it(door):
    async with door.client() as client:
        tasks = await task_names(client)
        run = await imported(door, client, asked("a", "b"), results(tasks, (0.8, 0.2)))
        proof = await proof_of(client, run["name"])
    lines = proof.splitlines(keepends=True)
    found = verify(io.BytesIO(proof))
    assert found.holds, found.summary().problems
    board_rate = found.summary().agents[0].pass_at_1.value
    won = [one["rewards"]["reward"] for one in results(tasks, (0.8, 0.2)) if one["agent"] == 0]
    assert board_rate == pytest.approx(sum(won) / len(won), abs=1e-12)

    def with_line(place, old, new):
        changed = list(lines)
        assert old in changed[place], changed[place]
        changed[place] = changed[place].replace(old, new, 1)
        return changed

    graded = next(n for n, line in enumerate(lines) if b'"outcome\\":\\"failed' in line)
    ingested = next(
        n for n, line in enumerate(lines) if b'\\"rewards\\":{\\"reward\\":0.0}' in line
    )
    forged = {
        "a verdict": with_line(graded, b'outcome\\":\\"failed', b'outcome\\":\\"passed'),
        "a reward": with_line(ingested, b'\\"reward\\":0.0}', b'\\"reward\\":1.0}'),
        "a claim": with_line(-1, b'"passed":', b'"passed":9'),
        "a missing event": [*lines[:graded], *lines[graded + 1 :]],
        "another order": [*lines[:-2], lines[-1], lines[-2]],
        "no claims": lines[:-1],
    }
    for what, changed in forged.items():
        assert not verify(io.BytesIO(b"".join(changed))).holds, what
    # Even with hashes made anew, what is told no longer follows from what is there.
    for what in ("a verdict", "a reward", "a claim", "a missing event"):
        assert not verify(io.BytesIO(b"".join(chained(forged[what])))).holds, what
    assert verify(io.BytesIO(b"".join(chained(lines)))).holds
    assert not verify(io.BytesIO(b"not a proof\n")).holds


async def test_results_told_twice_late_or_in_any_order_change_no_measure(door):
    """A property test of `assay_scoring` shows it of folds; this is the way through the tables."""
    broken = {
        "reward_valid": False,
        "rewards": None,
        "exception": {"type": "NetworkConnectionError", "message": "lost", "phase": "agent"},
    }
    async with door.client() as client:
        tasks = await task_names(client)
        sent = results(tasks, (0.5,))
        sent[3] |= broken  # the first attempt at the second task
        run = await imported(door, client, asked("a"), sent)
        before = (await client.get(f"/runs/{run['id']}")).json()["agents"]
        assert before[0]["errored"] == 1
        boards = [await board_by(client, metric) for metric in METRICS]
        told = [
            one
            for one in await door.platform.events(UUID(run["id"]))
            if ".attempts." in one.event.subject
        ]
        random.Random(5).shuffle(told)
        for number, stored in enumerate(told[:30]):
            await door.platform.store.tell(stored.event, message_id=f"again-{number}")
        for task in tasks[:2]:
            slot = Slot(agent=0, task=task, attempt=1)
            order = WorkOrder.model_construct(run=UUID(run["id"]), slot=slot, try_number=7)
            late = pipeline.result_event(order, pipeline.passed(order))
            await door.platform.store.tell(late, message_id=f"late {task}")
        for task in tasks[:2]:
            assert await late_try(client, run["id"], task) == ("passed", False)
        after = (await client.get(f"/runs/{run['id']}")).json()["agents"]
        for row in (*before, *after):
            for part in (row, *row["categories"]):
                part.pop("spent")
        assert after == before
        for metric, board in zip(METRICS, boards, strict=True):
            assert (await board_by(client, metric))["standings"] == board["standings"]


async def late_try(client, run, task):
    """Outcome of a task's late try, once it is judged, and whether it counts."""
    async with asyncio.timeout(60):
        while True:
            params = {"agent": "a", "task": task}
            told = (await client.get(f"/runs/{run}/explain", params=params)).json()
            tries = told["attempts"][0]["tries"]
            if len(tries) == 2 and tries[1]["outcome"] is not None:
                return tries[1]["outcome"], tries[1]["counted"]
            await asyncio.sleep(0.05)
