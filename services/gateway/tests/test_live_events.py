"""Live events over a real server: nothing missed, nothing twice, and a prompt end."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from httpx_sse import aconnect_sse

from gateway.live import feed


@pytest.fixture
async def run(stage):
    await stage.add_benchmark()
    return await stage.submit()


@asynccontextmanager
async def listening(client, run, **more):
    async with aconnect_sse(client, "GET", f"/runs/{run['id']}/events", **more) as source:
        assert source.response.status_code == 200
        yield (event async for event in source.aiter_sse() if event.data)


async def test_a_listener_that_comes_back_misses_nothing_and_sees_nothing_twice(stage, served, run):
    client, _ = served
    seen = []
    async with asyncio.timeout(60):
        async with listening(client, run) as events:
            seen.append(await anext(events))
            await stage.decide(run["id"], "queued")
            seen.append(await anext(events))
        await stage.decide(run["id"], "started")
        await stage.result(run["id"], "fix-roman")
        headers = {"Last-Event-ID": seen[-1].id}
        async with listening(client, run, headers=headers) as events:
            seen += [await anext(events) for _ in range(2)]
        async with listening(client, run, params={"after": seen[-1].id}) as events:
            seen.append(await anext(events))
            await stage.decide(run["id"], "finished")
            seen += [event async for event in events]
    stored = await stage.events(run["id"])
    assert [int(event.id) for event in seen] == [one.sequence for one in stored]
    assert [event.event for event in seen] == [one.event.type for one in stored]
    page = (await client.get(f"/runs/{run['id']}/events")).json()["items"]
    assert [event.json() for event in seen] == page


async def test_what_is_told_late_does_not_keep_a_stream_open(stage, served, run):
    client, _ = served
    await stage.decide(run["id"], "queued", "started", "stopped")
    await stage.result(run["id"], "fix-roman", "cancelled")
    async with asyncio.timeout(60), listening(client, run) as events:
        kinds = [event.event async for event in events]
    assert kinds[-3:] == ["stopped", "result-ingested", "result-graded"]


async def test_a_listener_who_has_it_all_is_let_go_at_once(stage, served, run):
    client, _ = served
    await stage.decide(run["id"], "queued", "started", "finished")
    last = (await stage.events(run["id"]))[-1].sequence
    async with asyncio.timeout(60), listening(client, run, params={"after": last}) as events:
        assert [event async for event in events] == []


async def test_streams_end_at_once_when_the_server_stops(served, run):
    client, serving = served
    async with listening(client, run) as events:
        await anext(events)
        began = asyncio.get_running_loop().time()
        serving.cancel()
        assert [event async for event in events] == []
    await asyncio.gather(serving, return_exceptions=True)
    assert asyncio.get_running_loop().time() - began < 1.5


async def test_only_those_who_may_see_a_run_can_listen(served, run):
    client, _ = served
    sse = {"Accept": "text/event-stream"}
    for headers, status in (
        (sse | {"Authorization": "Bearer wrong"}, 401),
        (sse | {"X-Assay-Workspace": "other"}, 404),
        (sse | {"Last-Event-ID": "not-a-number"}, 422),
        (sse | {"Last-Event-ID": "9" * 30}, 422),
    ):
        answer = await client.get(f"/runs/{run['id']}/events", headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


async def test_the_stream_of_a_run_ends_with_the_right_to_it(stage, served, run, monkeypatch):
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0.2)
    client, _ = served
    await stage.person("ada", default="viewer")
    headers = {"Authorization": f"Bearer {await stage.token_of('ada')}"}
    async with asyncio.timeout(60), listening(client, run, headers=headers) as events:
        await anext(events)
        await client.delete("/workspaces/default/members/ada")
        rest = [event async for event in events]
    assert [event.event for event in rest] == ["problem"]
    assert rest[0].json()["code"] == "NOT_FOUND"
