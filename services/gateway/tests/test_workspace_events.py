"""The workspace's events: exact over every reconnect, kept apart, ended when a right is lost."""

import asyncio
import os
import random
import sys
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from httpx_sse import aconnect_sse

from assay_contracts.identifiers import new_id
from assay_contracts.run_events import AttemptStarted
from gateway.live import event_stream, feed, tail
from gateway.live.position import Position
from gateway.live.tail import Listener
from gateway.live.wanted import BENCHMARKS, RUNS, Wanted
from gateway.problems import ProblemError, not_found


@asynccontextmanager
async def listening(client, path="/events", **more):
    """Every Server-Sent Event with the id that is known by then, signs of life too."""
    async with aconnect_sse(client, "GET", path, **more) as source:
        assert source.response.status_code == 200, await source.response.aread()
        yield source.aiter_sse()


async def told_until(events, count):
    found = []
    async for event in events:
        if event.data:
            found.append(event)
        if len(found) == count:
            break
    return found


def places(events):
    return [(event.json()["subject"], event.json()["sequence"]) for event in events]


async def everything(stage, workspace="default"):
    """What both streams hold for a workspace and of the catalogue."""
    found = []
    for stream, owners in (("RUNS", [workspace]), ("BENCHMARKS", [workspace, "managed"])):
        async for one in stage.store.read(stream, [f"{stream.lower()}.{it}.>" for it in owners]):
            found.append((one.event.subject, one.sequence))
    return found


def started(run, *, workspace="default", task="fix-roman"):
    return AttemptStarted.model_validate(
        {
            "id": new_id(),
            "workspace": workspace,
            "occurred_at": datetime.now(UTC),
            "actor": "tester",
            "correlation_id": new_id(),
            "run": run,
            "data": {
                "slot": {"agent": 0, "task": task, "attempt": 1},
                "try_number": 1,
                "runner": "stand-in",
                "environment": "none",
            },
        }
    )


async def tell(stage, event):
    await stage.store.tell(event, message_id=str(event.id))


async def test_pages_hold_everything_once_and_go_on_where_they_ended(stage, http):
    await stage.add_benchmark()
    await stage.add_benchmark("catalogued", workspace="managed")
    await stage.add_benchmark("theirs", workspace="other")
    await stage.submit()
    seen, after = [], "0"
    while after is not None:
        answer = await http.get("/events", params={"after": after, "limit": 3})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["items"]) <= 3
        seen += [(one["subject"], one["sequence"]) for one in page["items"]]
        after = page["next_after"]
    assert sorted(seen) == sorted(await everything(stage))
    await stage.add_benchmark("later")
    page = (await http.get("/events", params={"after": page["position"]})).json()
    assert [one["event"]["type"] for one in page["items"]] == [
        "added",
        "sync-started",
        "tasks-synced",
        "synced",
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_who_comes_back_at_any_moment_misses_nothing_and_sees_nothing_twice(
    stage, served, seed, monkeypatch
):
    monkeypatch.setattr(feed, "_PASSAGE", 7)
    dice = random.Random(seed)
    client, _ = served
    await stage.add_benchmark()
    runs = [(await stage.submit())["id"] for _ in range(2)]
    before = set(await everything(stage))
    writing = asyncio.create_task(write(stage, runs, dice.random()))
    seen, headers = [], {"Last-Event-ID": "0"}
    async with asyncio.timeout(60):
        while not (writing.done() and len(seen) >= len(await everything(stage))):
            patience = dice.choice([0.0, 0.01, 0.05, 0.2])
            async with listening(client, headers=headers) as events:
                try:
                    async with asyncio.timeout(0.02 + patience):
                        async for event in events:
                            headers = {"Last-Event-ID": event.id}
                            if event.data:
                                seen.append(event)
                except TimeoutError:
                    pass
    await writing
    assert len(seen) == len(set(places(seen)))
    assert sorted(places(seen)) == sorted(await everything(stage))
    assert before < set(places(seen))
    for stream in ("runs.", "benchmarks."):
        own = [number for subject, number in places(seen) if subject.startswith(stream)]
        assert own == sorted(own)


async def write(stage, runs, seed):
    """Three hundred events in bursts, some of them the neighbours', and a benchmark in between."""
    dice = random.Random(seed)
    for number in range(60):
        burst = [
            started(dice.choice(runs), workspace=dice.choice(["default", "default", "other"]))
            for _ in range(5)
        ]
        await asyncio.gather(*(tell(stage, event) for event in burst))
        if number == 30:
            await stage.add_benchmark("meanwhile")
        await asyncio.sleep(dice.choice([0, 0, 0.03]))


async def test_one_reader_serves_all_and_is_gone_with_the_last(stage, served):
    client, _ = served
    await stage.add_benchmark()
    run = await stage.submit()
    jetstream = stage.store.client.jetstream()

    async def consumers():
        return {
            stream: (await jetstream.stream_info(stream)).state.consumer_count
            for stream in (RUNS, BENCHMARKS)
        }

    before = await consumers()
    async with asyncio.timeout(60):
        async with listening(client) as first, listening(client) as second:
            for events in (first, second):
                assert (await anext(events)).id.startswith("runs:")
            during = await consumers()
            await tell(stage, started(run["id"]))
            for events in (first, second):
                assert [one.event for one in await told_until(events, 1)] == ["attempt-started"]
        while await consumers() != before:
            await asyncio.sleep(0.02)
    assert during == {stream: count + 1 for stream, count in before.items()}


async def test_a_listener_hears_its_workspace_and_the_catalogue_alone(stage, served):
    client, _ = served
    await stage.person("ada", other="viewer")
    headers = {
        "Authorization": f"Bearer {await stage.token_of('ada')}",
        "X-Assay-Workspace": "other",
    }
    await stage.add_benchmark()
    async with asyncio.timeout(60), listening(client, headers=headers) as events:
        await anext(events)
        await stage.submit()
        await stage.add_benchmark("managed-one", workspace="managed")
        await stage.add_benchmark("theirs", workspace="other")
        found = await told_until(events, 8)
    assert {subject.split(".")[1] for subject, _ in places(found)} == {"managed", "other"}


async def test_what_is_asked_for_alone_arrives(stage, served):
    client, _ = served
    toy = await stage.add_benchmark()
    await stage.add_benchmark("second")
    old = await stage.submit()
    other = await stage.submit(experiment={"benchmark": "second"})
    async with asyncio.timeout(60):
        async with (
            listening(client, params={"type": "finished"}) as finished,
            listening(client, params={"benchmark": "toy", "type": "queued"}) as of_toy,
            listening(client, params={"run": other["name"]}) as of_run,
        ):
            for events in (finished, of_toy, of_run):
                await anext(events)
            new = await stage.submit()
            for run in (other, old, new):
                await stage.decide(run["id"], "queued", "started", "finished")
            assert len(await told_until(finished, 3)) == 3
            assert [one.json()["event"]["run"] for one in await told_until(of_toy, 2)] == [
                old["id"],
                new["id"],
            ]
            assert [one.event for one in await told_until(of_run, 3)] == [
                "queued",
                "started",
                "finished",
            ]
        stored = await client.get("/events", params={"benchmark": str(toy), "type": "finished"})
    assert {one["event"]["run"] for one in stored.json()["items"]} == {old["id"], new["id"]}


async def test_signs_of_life_carry_the_position_past_what_is_not_wanted(stage, served, monkeypatch):
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(feed, "SIGN_SECONDS", 0.2)
    client, _ = served
    await stage.add_benchmark()
    run = await stage.submit()
    async with asyncio.timeout(60):
        async with listening(client, params={"type": "failed"}) as events:
            began = await anext(events)
            await tell(stage, started(run["id"]))
            last = await stage.store.last_sequence("RUNS")
            async for event in events:
                assert not event.data
                if event.id != began.id:
                    break
    assert event.id.startswith(f"runs:{last},")


@pytest.mark.parametrize("loss", ["token", "membership", "role"])
async def test_a_stream_ends_when_the_right_to_it_is_lost(stage, http, served, loss, monkeypatch):
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0.2)
    client, _ = served
    await stage.person("ada", other="admin")
    token = await stage.token_of("ada")
    headers = {"Authorization": f"Bearer {token}", "X-Assay-Workspace": "other"}
    params = {"stream": ["runs", "audit"]}
    async with asyncio.timeout(60), listening(client, headers=headers, params=params) as events:
        await anext(events)
        member = "/workspaces/other/members/ada"
        if loss == "token":
            async with stage.client(token, workspace=None) as ada:
                [own] = (await ada.get("/tokens")).json()["items"]
                assert (await ada.delete(f"/tokens/{own['id']}")).status_code == 204
        elif loss == "membership":
            assert (await http.delete(member)).status_code == 204
        else:
            assert (await http.put(member, json={"role": "viewer"})).status_code == 200
        rest = [event async for event in events if event.data]
    assert rest[-1].event == "problem"
    assert rest[-1].json()["status"] == {"token": 401, "membership": 404, "role": 403}[loss]


async def test_the_audit_stream_is_for_administrators(stage, served):
    client, _ = served
    await stage.person("ada", default="member")
    headers = {"Authorization": f"Bearer {await stage.token_of('ada')}"}
    refused = await client.get("/events", params={"stream": "audit"}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    async with asyncio.timeout(60), listening(client, params={"stream": "audit"}) as events:
        await anext(events)
        member = "/workspaces/default/members/ada"
        await client.put(member, json={"role": "viewer"})
        [told] = await told_until(events, 1)
    assert (told.event, told.json()["event"]["data"]["target"]) == ("member-set", "ada")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"after": "runs:x"}, 422),
        ({"after": "elsewhere:1"}, 422),
        ({"after": "runs:99999999999999999"}, 422),
        ({"after": "runs:1"}, 422),
        ({"type": "finnished"}, 422),
        ({"type": "a.b"}, 422),
        ({"type": ">"}, 422),
        ({"stream": "dead"}, 422),
        ({"run": "nobody"}, 404),
        ({"benchmark": "nothing"}, 404),
        ({"run": "a", "benchmark": "b"}, 422),
        ({"stream": "audit", "benchmark": "toy"}, 422),
    ],
)
async def test_what_cannot_be_meant_is_refused(stage, http, asked, status):
    if asked.get("benchmark") == "toy":
        await stage.add_benchmark()
    answer = await http.get("/events", params=asked)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_event_that_cannot_be_read_ends_nobodys_stream(stage, served):
    client, _ = served
    async with asyncio.timeout(60), listening(client) as events:
        await anext(events)
        for payload in (b"no json", b"[1]"):
            await stage.store.client.jetstream().publish("runs.default.x.lifecycle.odd", payload)
        odd = await told_until(events, 2)
    assert [one.json()["event"] for one in odd] == [
        {"type": "odd", "unreadable": "bm8ganNvbg=="},
        {"type": "odd", "unreadable": "WzFd"},
    ]


async def nothing_to_check():
    """Everybody may."""


async def test_one_who_does_not_keep_up_is_let_go_and_can_come_back(stage, monkeypatch):
    monkeypatch.setattr(feed, "Listener", lambda concerns: Listener(concerns, most_waiting=10))
    await stage.add_benchmark()
    run = (await stage.submit())["id"]
    live = stage.app.state.live
    seen = []

    def follow(after):
        wanted = Wanted("default", [RUNS, BENCHMARKS])
        return aclosing(live.follow(wanted, after, still_allowed=nothing_to_check))

    async def tell_many():
        for _ in range(30):
            await tell(stage, started(run))
        last = await stage.store.last_sequence(RUNS)
        while live._tails[RUNS].position < last:
            await asyncio.sleep(0.01)

    async def take(steps, *, pause_at=None):
        """Where everything is told, or the trouble; all stands still at `pause_at` events."""
        async for position, event in steps:
            if event is not None:
                seen.append((event.subject, event.sequence))
                if len(seen) == pause_at:
                    await tell_many()
                if sorted(seen) == sorted(await everything(stage)):
                    return position
        raise AssertionError("the feed ended")

    async with asyncio.timeout(60):
        async with follow(Position.start([RUNS, BENCHMARKS])) as steps:
            position = await take(steps, pause_at=2)  # behind the end, it reads on
        async with follow(position) as steps:
            await anext(steps)
            await tell(stage, started(run))
            position, event = await anext(steps)
            seen.append((event.subject, event.sequence))
            await tell_many()
            with pytest.raises(ProblemError, match="slower than events arrive"):
                await anext(steps)
        async with follow(position) as steps:
            await take(steps)
    assert len(seen) == len(set(seen))


async def test_one_who_takes_nothing_is_let_go(stage, served, monkeypatch):
    monkeypatch.setattr(event_stream, "_SEND_SECONDS", 0.5)
    client, _ = served
    await stage.add_benchmark()
    run = await stage.submit()
    listeners = stage.app.state.live._tails[RUNS]._listeners
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port, limit=1024)
    writer.write(
        b"GET /api/v1/events HTTP/1.1\r\nHost: assay\r\nAccept: text/event-stream\r\n"
        + f"Authorization: Bearer {stage.admin_token}\r\n\r\n".encode()
    )
    async with asyncio.timeout(60):
        await reader.readuntil(b"retry: 1000")
        assert listeners
        while listeners:
            await tell(stage, started(run["id"], task="x" * 50_000))
    writer.close()


async def test_a_listener_keeps_what_concerns_it_up_to_its_bound():
    own = SimpleNamespace(sequence=1)
    listener = Listener(lambda event: event is own, most_waiting=2)
    for event in (own, SimpleNamespace(sequence=2), own):
        listener.offer(event)
    assert list(listener.taken()) == [own, own]
    for _ in range(3):
        listener.offer(own)
    assert (listener.has_lost, list(listener.taken())) == (True, [])
    assert tail.MOST_WAITING > 1000


async def test_positions_are_read_as_they_are_written():
    position = Position({RUNS: 12, BENCHMARKS: 5})
    assert Position.read(str(position), [RUNS, BENCHMARKS], "after") == position
    assert position.at(RUNS, 3) == position
    assert str(position.at(RUNS, 13)) == "runs:13,benchmarks:5"
    assert orjson.dumps(str(Position.read("benchmarks:4", [RUNS, BENCHMARKS], "after")))


async def assay(client, folder, token, *arguments):
    """The real command against the served application, under way."""
    return await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("assay"),
        *arguments,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ASSAY_SERVER": str(client.base_url.copy_with(path="/")),
            "ASSAY_TOKEN": token,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_command_follows_a_workspace(stage, served, tmp_path):
    client, _ = served
    await stage.add_benchmark()
    run = await stage.submit()
    asked = ("events", "--after", "0", "--limit", "7", "--json")
    command = await assay(client, tmp_path, stage.admin_token, *asked)
    async with asyncio.timeout(60):
        first = orjson.loads(await command.stdout.readline())
        await stage.decide(run["id"], "queued", "started")
        rest = [orjson.loads(line) async for line in command.stdout]
        assert await command.wait() == 0
    assert [one["event"]["type"] for one in (first, *rest)] == [
        "added",
        "sync-started",
        "tasks-synced",
        "synced",
        "submitted",
        "queued",
        "started",
    ]
    assert rest[-1]["id"] == "runs:3,benchmarks:4"


async def test_the_command_says_why_it_hears_nothing_more(
    stage, http, served, tmp_path, monkeypatch
):
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0.2)
    client, _ = served
    await stage.person("ada", default="viewer")
    await stage.add_benchmark()
    command = await assay(client, tmp_path, await stage.token_of("ada"), "events", "--after", "0")
    async with asyncio.timeout(60):
        assert b"toy" in await command.stdout.readline()
        await http.delete("/workspaces/default/members/ada")
        _, said = await command.communicate()
    assert command.returncode == 1
    assert b"there is no workspace default that you can see" in said


async def test_who_may_no_longer_listen_is_not_told_what_is_stored_either(stage, monkeypatch):
    monkeypatch.setattr(feed, "_PASSAGE", 1)
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0)
    await stage.add_benchmark()
    told = []

    async def until_two_are_told():
        if len(told) == 2:
            raise not_found("there is no workspace default that you can see")

    async def listen():
        wanted, start = Wanted("default", [BENCHMARKS]), Position.start([BENCHMARKS])
        live = stage.app.state.live
        async for _, event in live.follow(wanted, start, still_allowed=until_two_are_told):
            if event is not None:
                told.append(event.kind)

    with pytest.raises(ProblemError):
        await listen()
    assert told == ["added", "sync-started"]
