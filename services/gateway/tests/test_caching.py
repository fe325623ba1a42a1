"""ETags, kept answers, and the links of pages: quick, and never older than what is there."""

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import event

from assay_kernel.rebuild import Rebuild
from gateway.app import build_app
from gateway.freshness import Freshness
from gateway.settings import HttpLimits

READS = ("/runs", "/benchmarks", "/benchmarks/toy", "/benchmarks/toy/leaderboard")


def counting(stage):
    """Counts the statements of the reader that ask for more than the marks."""
    asked = []

    @event.listens_for(stage.reader.sync_engine, "before_cursor_execute")
    def note(_connection, _cursor, statement, *_rest):
        if "to_regclass" not in statement:
            asked.append(statement)

    return asked


async def test_what_did_not_change_is_answered_304_without_a_body(stage, http, config):
    await stage.add_benchmark()
    run = await stage.submit()
    own = (f"/runs/{run['id']}", f"/runs/{run['name']}/results", f"/runs/{run['id']}/logs")
    for path in (*READS, *own, "/secrets"):
        first = await http.get(path)
        etag = first.headers["ETag"]
        assert re.fullmatch(r'"[\w-]{24}"', etag), path
        for wanted in (etag, f'"other", W/{etag}', "*"):
            again = await http.get(path, headers={"If-None-Match": wanted})
            assert (again.status_code, again.content) == (304, b""), path
            assert again.headers["ETag"] == etag
            assert again.headers["Cache-Control"] == "private, no-cache"
            assert "Content-Length" not in again.headers
        other = await http.get(path, headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.content) == (200, first.content), path


async def test_a_kept_answer_costs_no_query_until_something_happens(stage, http, config):
    await stage.add_benchmark()
    run = await stage.submit()
    paths = (*READS, f"/runs/{run['id']}", f"/runs/{run['id']}/results")
    first = {path: (await http.get(path)).content for path in paths}
    asked = counting(stage)
    for path in paths:
        assert (await http.get(path)).content == first[path]
    assert asked == []
    await stage.decide(run["id"], "queued", "started")
    assert (await http.get("/runs")).json()["items"][0]["status"] == "running"
    assert asked != []


async def test_nobody_is_shown_less_than_what_they_wrote_whoever_serves_them(stage, http, config):
    """Two gateways over the same database: one writes, the other has an answer kept."""
    await stage.add_benchmark()
    other_app = build_app(
        type(stage.desk)(
            stage.store,
            stage.engine,
            stage.reader,
            stage.blobs,
            stage.vault,
            stage.desk.audit,
        ),
        stage.app.state.tokens,
        stage.closing,
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(other_app), base_url=http.base_url, headers=http.headers
    ) as elsewhere:
        for count in range(1, 8):
            await elsewhere.get("/runs")
            run = await stage.submit()
            seen = (await elsewhere.get("/runs")).json()
            assert (seen["total_count"], seen["items"][0]["id"]) == (count, run["id"])
            await http.post(f"/runs/{run['id']}/stop")
            assert (await elsewhere.get("/runs")).json()["items"][0]["reason"]


async def test_what_a_replay_swaps_in_is_shown_although_no_event_came(stage, http, config):
    await stage.add_benchmark()
    run = await stage.submit()
    async with stage.engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE run_scheduler.runs SET benchmark_name = 'wrong'")
    assert (await http.get("/runs")).json()["items"][0]["benchmark_name"] == "wrong"
    [runner] = [one for one in stage.runners if one._projection.name == "runs"]
    await Rebuild(
        runner._service,
        runner._projection,
        engine=stage.engine,
        store=stage.store,
        checkpoints=runner._checkpoints,
    ).swap()
    assert (await http.get("/runs")).json()["items"][0]["benchmark_name"] == "toy"
    assert run["benchmark_name"] == "toy"


async def test_a_kept_answer_is_its_workspaces_alone_and_needs_a_token(stage, http, config):
    await stage.add_benchmark()
    await stage.submit()
    mine = await http.get("/runs")
    async with stage.client(workspace="other") as other, stage.client(token="no") as nobody:
        for _ in range(2):
            assert (await other.get("/runs")).json()["items"] == []
            refused = await nobody.get("/runs", headers={"If-None-Match": mine.headers["ETag"]})
            assert refused.status_code == 401
    assert (await http.get("/runs")).content == mine.content


async def test_what_says_how_long_a_run_takes_yet_is_of_the_moment(stage, http, config):
    await stage.add_benchmark()
    run = (await stage.submit())["id"]
    await stage.decide(run, "queued", "started")
    for task in ("fix-roman", "fix-greek", "count-words"):
        await stage.result(run, task)
    first = (await http.get(f"/runs/{run}")).json()["seconds_left"]
    second = (await http.get(f"/runs/{run}")).json()["seconds_left"]
    assert first != second


async def test_every_answer_that_is_kept_needs_the_permission_to_read(stage):
    kept = [
        route
        for route in _routes(stage.app)
        if any("kept_with" in _names(one.call) for one in route.dependant.dependencies)
    ]
    assert len(kept) >= 6
    for route in kept:
        assert route.methods == {"GET"}


def _names(call):
    return getattr(call, "__qualname__", "")


def _routes(app):
    found = list(app.routes)
    while found:
        route = found.pop()
        if hasattr(route, "dependant"):
            yield route
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        found.extend(getattr(inner, "routes", []))


async def test_what_is_kept_is_bounded(stage, config):
    await stage.add_benchmark()
    app = build_app(
        stage.desk,
        stage.app.state.tokens,
        stage.closing,
        limits=HttpLimits(kept_answers_bytes=5000),
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://gateway/api/v1"
    ) as http:
        http.headers = stage.client().headers
        for limit in range(1, 60):
            assert (await http.get("/runs", params={"limit": limit})).status_code == 200
    layer = app.middleware_stack
    while type(layer).__name__ != "Caching":
        layer = getattr(layer, "app", None) or layer._app
    assert 0 < layer._kept.currsize <= 5000


async def test_all_that_ask_at_once_share_a_reading_that_began_after_they_asked(stage):
    read = []

    class Counted(Freshness):
        async def _read(self, connection, driver):
            read.append(driver)
            await super()._read(connection, driver)

    freshness = Counted(stage.reader)
    first = await asyncio.gather(*(freshness.now() for _ in range(50)))
    assert len(read) == 1
    assert all(one is first[0] for one in first)
    early = asyncio.create_task(freshness.now())
    while len(read) < 2:  # its reading has begun
        await asyncio.sleep(0)
    late = asyncio.create_task(freshness.now())
    await asyncio.gather(early, late)
    assert len(read) == 3


async def test_a_benchmark_shows_when_a_schema_is_not_there_yet(stage, http):
    await stage.add_benchmark()
    async with stage.engine.begin() as connection:
        await connection.exec_driver_sql("ALTER SCHEMA leaderboard RENAME TO not_yet")
    for _ in range(2):
        answer = await http.get("/benchmarks")
        assert (answer.status_code, answer.json()["total_count"]) == (200, 1)


@pytest.fixture
async def three_runs(stage, config):
    await stage.add_benchmark()
    return [(await stage.submit())["id"] for _ in range(3)]


async def test_a_page_links_to_the_first_the_previous_and_the_next(stage, http):
    added = [str(await stage.add_benchmark(name)) for name in ("one", "two", "three")]
    seen, address = [], "/api/v1/benchmarks?limit=1"
    while address is not None:
        answer = await http.get(f"http://gateway{address}")
        seen += [one["id"] for one in answer.json()["items"]]
        linked = answer.links
        assert linked["first"]["url"] == "/api/v1/benchmarks?limit=1"
        if len(seen) > 1:
            before = parse_qs(urlsplit(linked["prev"]["url"]).query)
            assert before["offset"] == [str(len(seen) - 2)]
        else:
            assert "prev" not in linked
        address = linked.get("next", {}).get("url")
    assert seen == added[::-1]


async def test_a_page_behind_a_cursor_links_on_and_to_the_first(http, three_runs):
    seen, address = [], "/api/v1/runs?benchmark=toy&limit=1"
    while address is not None:
        answer = await http.get(f"http://gateway{address}")
        seen += [one["id"] for one in answer.json()["items"]]
        assert answer.links["first"]["url"] == "/api/v1/runs?benchmark=toy&limit=1"
        assert "prev" not in answer.links
        address = answer.links.get("next", {}).get("url")
    assert seen == three_runs[::-1]


async def test_a_page_of_events_links_to_what_follows(http, three_runs):
    run = three_runs[0]
    answer = await http.get(f"/runs/{run}/events", params={"limit": 1})
    assert "next" not in answer.links
    logs = await http.get(f"/runs/{run}/logs")
    assert logs.links["first"]["url"] == f"/api/v1/runs/{run}/logs"
    assert "link" not in (await http.get(f"/runs/{run}")).headers


async def test_a_previous_page_goes_back_by_what_the_route_gives_by_itself(http, three_runs):
    answer = await http.get("/runs", params={"offset": 70})
    assert parse_qs(urlsplit(answer.links["prev"]["url"]).query)["offset"] == ["20"]


async def test_numbers_are_read_as_the_routes_read_them(stage, http):
    await stage.add_benchmark()
    for asked in ("offset=1.0", "offset=1_0&limit=5.0", "offset=%202%20"):
        answer = await http.get(f"/benchmarks?{asked}")
        assert answer.status_code == 200, answer.text
        assert 'rel="prev"' in answer.headers["link"]
