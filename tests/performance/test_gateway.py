"""How fast the gateway answers what it has, against a bare FastAPI route with the same bytes."""

import asyncio
import contextlib
import importlib.util
import random
import statistics
import sys
from pathlib import Path

import orjson
import pytest
import uvicorn
from fastapi import FastAPI, Response
from sqlalchemy import text

from assay_kernel.database import open_database
from assay_local.embedded import free_port

AGENTS, TASKS, ATTEMPTS, CONNECTIONS = 100, 10, 100, 32

_spec = importlib.util.spec_from_file_location(
    "pipeline", Path(__file__).parent.parent / "integration" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)

own_settings, platform, serving, door = (
    pipeline.own_settings,
    pipeline.platform,
    pipeline.serving,
    pipeline.door,
)

_MORE_ATTEMPTS = text(
    "INSERT INTO grader.tries SELECT (t).* FROM (SELECT jsonb_populate_record(tries, "
    "jsonb_build_object('slot', gen_random_uuid(), 'attempt', more)) AS t "
    "FROM grader.tries, generate_series(2, :attempts) AS more WHERE run = :run) AS made"
)
_THEIR_RESULTS = text(
    "INSERT INTO grader.results SELECT (t).* FROM (SELECT jsonb_populate_record(results, "
    "jsonb_build_object('slot', tries.slot, 'attempt', tries.attempt)) AS t "
    "FROM grader.results JOIN grader.tries USING (run, agent, task) "
    "WHERE run = :run AND tries.attempt > 1) AS made"
)
_THEIR_NUMBER = text("UPDATE grader.agent_metrics SET slots = slots * :attempts WHERE run = :run")


@pytest.fixture
async def ranked(door):
    """A leaderboard of 100 entrants, and a run with 100,000 results: its benchmark and its id."""
    pin = await door.platform.add_benchmark([f"task-{task}" for task in range(TASKS)])
    benchmark, draw = str(pin["id"]), random.Random(7)
    request = {
        "benchmark": benchmark,
        "agents": [{"harness": "codex", "model": f"m{agent}"} for agent in range(AGENTS)],
        "attempts_per_task": 1,
        "source": {"kind": "table", "digest": "ab" * 32},
    }
    sent = [
        {
            "agent": agent,
            "task": f"task-{task}",
            "attempt": 1,
            "rewards": {"reward": float(draw.random() < 0.5)},
            "reward_valid": True,
            "seconds": 100 * draw.random(),
            "usage": {"input_tokens": draw.randrange(90_000), "output_tokens": 9, "cost_usd": 1},
        }
        for agent in range(AGENTS)
        for task in range(TASKS)
    ]
    async with door.client() as client, asyncio.timeout(120):
        while (await client.get(f"/benchmarks/{benchmark}")).json().get("sync_status") != "ready":
            await asyncio.sleep(0.05)
        answer = await client.post("/runs/import", json=request)
        assert answer.status_code == 201, answer.text
        run = answer.json()["id"]
        answer = await client.post(f"/runs/{run}/results", json={"results": sent})
        assert answer.json()["added"] == len(sent)
        while not (await client.get(f"/benchmarks/{benchmark}/leaderboard")).json()["standings"]:
            await asyncio.sleep(0.1)
    engine = open_database(door.services[0].settings.database_url, "bench")
    async with engine.begin() as connection:
        for statement in (_MORE_ATTEMPTS, _THEIR_RESULTS, _THEIR_NUMBER):
            await connection.execute(statement, {"attempts": ATTEMPTS, "run": run})
    await engine.dispose()
    return benchmark, run


@contextlib.asynccontextmanager
async def bare(bodies):
    """A FastAPI application with one route for each body, in memory; gives its port."""
    app, port = FastAPI(), free_port()
    for place, body in enumerate(bodies):

        @app.get(f"/{place}")
        async def told(body: bytes = body) -> Response:
            return Response(body, media_type="application/json")

        del told
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        await task


async def loaded(*targets, seconds=2.0, rounds=5, connections=CONNECTIONS):
    """What the load came to, one for each target."""
    plan = {
        "targets": [
            {"port": port, "request": request, "status": status}
            for port, request, status in targets
        ],
        "seconds": seconds,
        "rounds": rounds,
        "connections": connections,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("http_load.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate(orjson.dumps(plan))
    assert process.returncode == 0
    return orjson.loads(told)


def get(path, *headers):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *headers, "", ""])


async def test_kept_answers(door, ranked):
    """A leaderboard, a page of results, and both once more where the client has them already."""
    benchmark, run = ranked
    paths = (f"/benchmarks/{benchmark}/leaderboard", f"/runs/{run}/results?limit=100")
    async with door.client() as client:
        client.timeout = 60
        answers = [await client.get(path) for path in paths]
        assert len(answers[0].json()["standings"]) == AGENTS
        page = answers[1].json()
        assert (len(page["items"]), page["total_count"]) == (100, AGENTS * TASKS * ATTEMPTS)
        token = f"Authorization: {client.headers['Authorization']}"
    port = int(door.url.rsplit(":", 1)[1])
    tags = [f"If-None-Match: {answer.headers['ETag']}" for answer in answers]
    async with bare([*(answer.content for answer in answers), b""]) as bare_port:
        for place, (what, path) in enumerate(
            zip(
                ("leaderboard of 100 entrants", "page of 100 of 100,000 results"),
                paths,
                strict=True,
            )
        ):
            whole, tagged, reference, nothing = await loaded(
                (port, get(f"/api/v1{path}", token), 200),
                (port, get(f"/api/v1{path}", token, tags[place]), 304),
                (bare_port, get(f"/{place}"), 200),
                (bare_port, get("/2"), 200),
            )
            size = len(answers[place].content)
            tell(f"a {what} ({size // 1024} KiB)", whole, reference)
            tell(f"a {what}, unchanged (304), against the whole bytes", tagged, reference)
            tell(f"a {what}, unchanged (304), against no bytes", tagged, nothing)


def tell(what, ours, reference):
    """One line: rates, their ratio, and how far the slowest are from the middle."""
    mine, theirs = statistics.median(ours["rates"]), statistics.median(reference["rates"])
    ratio = statistics.median(
        one / other for one, other in zip(ours["rates"], reference["rates"], strict=True)
    )
    sys.stdout.write(
        f"\n{what}: {mine:.0f}/s, a bare route {theirs:.0f}/s, ratio {ratio:.2f}; "
        f"p50 {ours['p50'] * 1000:.1f} ms, p99 {ours['p99'] * 1000:.1f} ms "
        f"({ours['p99'] / ours['p50']:.1f} x; bare {reference['p99'] / reference['p50']:.1f} x)\n"
    )
