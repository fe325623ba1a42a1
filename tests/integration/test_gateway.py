"""The gateway over real services, by HTTP: what it answers, refuses, and never tells."""

import asyncio
import base64
import importlib.util
from pathlib import Path
from uuid import UUID

import httpx
import orjson
import pytest
from httpx_sse import aconnect_sse
from nacl.public import PrivateKey, SealedBox
from sqlalchemy import select

from assay_kernel.blobs import BlobStore
from gateway.tables import secrets as secrets_table

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)

ADMIN, RUNNER = pipeline.ADMIN, pipeline.RUNNER
stand_in = pipeline.beside


def config(**changes):
    return {"experiment": {"benchmark": "demo"}, "agents": [{"harness": "oracle"}]} | changes


async def test_a_run_from_submission_to_leaderboard_by_http(door):
    async with door.client() as client, stand_in(door, pipeline.passed):
        submitted = await client.post("/runs", json={"config": config()})
        assert submitted.status_code == 201, submitted.text
        run = submitted.json()
        assert (run["expected_results"], run["submitted_by"]) == (14, "admin")
        assert await door.platform.ended(UUID(run["id"])) == "finished"
        async with asyncio.timeout(60):
            while not (await client.get("/benchmarks/demo/leaderboard")).json()["standings"]:
                await asyncio.sleep(0.05)
        detail = (await client.get(f"/runs/{run['name']}")).json()
        assert detail["agents"][0]["pass_at_1"]["value"] == 1.0
        assert detail["benchmark_digest"].startswith("sha256:")
        results = (await client.get(f"/runs/{run['id']}/results", params={"limit": 5})).json()
        assert (len(results["items"]), results["total_count"], results["next_offset"]) == (5, 14, 5)
        logs = (await client.get(f"/runs/{run['name']}/logs", params={"limit": 1000})).json()
        assert logs["items"][-1]["step"] == "finished"
        assert any("passed (reward 1" in line["message"] for line in logs["items"])
        listed = (await client.get("/runs", params={"benchmark": "demo"})).json()
        assert [one["name"] for one in listed["items"]] == [run["name"]]
        used = (await client.get("/benchmarks/demo")).json()
        assert (used["run_count"], used["last_run_name"]) == (1, run["name"])


async def test_the_request_id_becomes_the_correlation_of_what_it_leads_to(door):
    request_id = "01890000-0000-7000-8000-000000000001"
    async with door.client() as client:
        submitted = await client.post(
            "/runs", json={"config": config()}, headers={"X-Request-ID": request_id}
        )
        assert submitted.headers["X-Request-ID"] == request_id
        page = (await client.get(f"/runs/{submitted.json()['id']}/events")).json()
    assert page["items"][0]["event"]["correlation_id"] == request_id


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        (
            {"config": {"experiment": {}, "agents": [{"harness": "codx"}], "more": 1}},
            422,
            "VALIDATION",
            ["experiment.benchmark", "codex", "more: unknown key"],
        ),
        (
            {"config": config(experiment={"benchmark": "dmo"})},
            404,
            "NOT_FOUND",
            ["there is no benchmark dmo", "demo"],
        ),
        (
            {
                "config": config(
                    tasks={"task_names": ["assay-demo/fix-roma"], "categories": ["debuging"]},
                    execution={"judge_model": "x/y"},
                )
            },
            422,
            "VALIDATION",
            ["assay-demo/fix-roman", "debugging", "the benchmark has no judge"],
        ),
        (
            {"config": config(tasks={"task_set": "parity"})},
            422,
            "VALIDATION",
            ["no set parity"],
        ),
        (
            {"config": config(verifier={"required": ["KEY"]}), "environment": "NOT A NAME"},
            422,
            "VALIDATION",
            ["environment: must be"],
        ),
        (
            {"config": config(secrets={"required": ["KEY_A"]}), "secrets": {"KEY_B": "v"}},
            422,
            "VALIDATION",
            ["secrets.KEY_B"],
        ),
        (
            {"config": config(secrets={"required": ["KEY_A", "KEY_B"]}), "secrets": {"KEY_B": "v"}},
            404,
            "MISSING_SECRETS",
            ["KEY_A", "assay secret set KEY_A"],
        ),
        (
            {"config": config(env={f"NAME_{n}": "x" * 1000 for n in range(70)})},
            413,
            "TOO_LARGE",
            ["shorten env"],
        ),
    ],
)
async def test_a_refused_submission_says_everything_and_leaves_nothing(
    door, body, status, code, said
):
    async with door.client() as client:
        answer = await client.post("/runs", json=body)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code), problem
        for text in said:
            assert text in problem["detail"]
        assert (await client.get("/runs")).json()["total_count"] == 0
    assert await door.platform.store.last_sequence("RUNS") == 0
    async with door.services[-1].engine.connect() as connection:
        assert (await connection.execute(select(secrets_table))).all() == []


async def test_a_selection_of_categories_and_names_is_pinned_by_place(door):
    async with door.client() as client:
        chosen = config(
            tasks={"categories": ["debugging"], "task_names": ["assay-demo/count-words"]}
        )
        run = (await client.post("/runs", json={"config": chosen})).json()
        detail = (await client.get(f"/runs/{run['id']}")).json()
    assert detail["selection"]["task_set"] == "custom"
    assert detail["selection"]["task_count"] == 5
    assert detail["expected_results"] == 5


async def test_benchmarks_are_added_removed_and_never_doubled(door, tmp_path):
    async with door.client() as client:
        source = {"kind": "folder", "path": str(tmp_path / "nowhere")}
        added = await client.post("/benchmarks", json={"source": source, "name": "mine/own"})
        assert added.status_code == 201
        again = await client.post("/benchmarks", json={"source": source, "name": "mine/own"})
        assert (again.status_code, again.json()["code"]) == (409, "CONFLICT")
        async with asyncio.timeout(60):
            while True:
                shown = (await client.get("/benchmarks/mine%2Fown")).json()
                if shown["sync_status"] == "failed":
                    break
                await asyncio.sleep(0.05)
        assert "there is no folder" in shown["sync_error"]
        refused = await client.post(
            "/runs", json={"config": config(experiment={"benchmark": "mine/own"})}
        )
        assert refused.json()["code"] == "BENCHMARK_NOT_READY"
        assert "assay benchmark sync" in refused.json()["detail"]
        assert (await client.post("/benchmarks/mine%2Fown/sync")).status_code == 200
        assert (await client.post("/workspaces", json={"name": "other"})).status_code == 201
        async with door.client(workspace="other") as other:
            assert (await other.get("/benchmarks/mine%2Fown")).status_code == 404
            assert (await other.get("/benchmarks/demo")).status_code == 200
        assert (await client.delete("/benchmarks/mine%2Fown")).status_code == 204
        assert (await client.get("/benchmarks/mine%2Fown")).status_code == 404
        managed = await client.delete("/benchmarks/demo")
        assert managed.status_code == 409
        assert "managed catalogue" in managed.json()["detail"]


async def test_of_two_stops_at_once_one_wins_and_the_other_is_told(door):
    async with door.client() as client, stand_in(door, pipeline.passed) as runner:
        runner.gate.clear()
        run = (await client.post("/runs", json={"config": config()})).json()
        async with asyncio.timeout(60):
            while not runner.orders:
                await asyncio.sleep(0.02)
        answers = await asyncio.gather(
            *(client.post(f"/runs/{run['name']}/stop", json={}) for _ in range(4))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        told = next(answer for answer in answers if answer.status_code == 409)
        assert "is stopping" in told.json()["detail"]
        runner.gate.set()
        assert await door.platform.ended(UUID(run["id"])) == "stopped"
        late = await client.post(f"/runs/{run['name']}/stop", json={})
        assert "has ended: it is stopped" in late.json()["detail"]
    lifecycle = await door.platform.lifecycle(UUID(run["id"]))
    assert lifecycle.count("stop-requested") == 1


async def test_a_listener_that_comes_back_misses_nothing_and_sees_nothing_twice(door):
    async with door.client() as client, stand_in(door, pipeline.passed):
        run = (await client.post("/runs", json={"config": config()})).json()
        seen: list[int] = []

        async def listen(limit):
            headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
            async with aconnect_sse(
                client, "GET", f"/runs/{run['id']}/events", headers=headers
            ) as source:
                async for event in source.aiter_sse():
                    if not event.data:
                        continue  # a sign of life
                    assert event.json()["sequence"] == int(event.id)
                    seen.append(int(event.id))
                    if len(seen) >= limit:
                        return

        async with asyncio.timeout(60):
            for limit in (2, 5, 17, 10_000):
                await listen(limit)
        page = (await client.get(f"/runs/{run['id']}/events", params={"limit": 1000})).json()
    assert seen == [one["sequence"] for one in page["items"]]
    assert page["items"][-1]["event"]["type"] == "finished"


async def test_events_are_paged_by_sequence(door):
    async with door.client() as client, stand_in(door, pipeline.passed):
        run = (await client.post("/runs", json={"config": config()})).json()
        await door.platform.ended(UUID(run["id"]))
        found, after = [], 0
        while after is not None:
            answer = await client.get(
                f"/runs/{run['id']}/events", params={"after": after, "limit": 7}
            )
            found += [one["sequence"] for one in answer.json()["items"]]
            after = answer.json()["next_after"]
    stored = [one.sequence for one in await door.platform.events(UUID(run["id"]))]
    assert found == stored


async def test_a_secret_is_handed_to_a_runner_alone_and_only_while_its_run_goes_on(door):
    key = PrivateKey.generate()
    model = {"type": "provider", "model": "a/b", "api_key_secret": "MODEL_KEY"}
    wanted = config(
        agents=[{"harness": "codex", "model": model}], secrets={"required": ["TOOL_KEY"]}
    )
    async with door.client() as client, door.client(token=RUNNER) as runner:
        for scope, value in (("workspace", "of-all"), ("user", "hush-hush-1")):
            kept = await client.put("/secrets/MODEL_KEY", json={"value": value, "scope": scope})
            assert kept.status_code == 200
            assert value not in kept.text
        submitted = await client.post(
            "/runs", json={"config": wanted, "secrets": {"TOOL_KEY": "hush-hush-2"}}
        )
        run = submitted.json()
        detail = (await client.get(f"/runs/{run['id']}")).json()
        assert detail["secret_scopes"] == {"MODEL_KEY": "user_override", "TOOL_KEY": "run"}
        claim = {
            "workspace": "default",
            "run": run["id"],
            "names": ["MODEL_KEY", "TOOL_KEY"],
            "public_key": base64.b64encode(bytes(key.public_key)).decode(),
        }
        assert (await client.post("/internal/secrets", json=claim)).status_code == 401
        sealed = (await runner.post("/internal/secrets", json=claim)).json()["sealed"]
        opened = orjson.loads(SealedBox(key).decrypt(base64.b64decode(sealed)))
        assert opened == {"MODEL_KEY": "hush-hush-1", "TOOL_KEY": "hush-hush-2"}
        more = await runner.post("/internal/secrets", json=claim | {"names": ["OTHER"]})
        assert more.status_code == 403
        elsewhere = await runner.post("/internal/secrets", json=claim | {"workspace": "other"})
        assert elsewhere.status_code == 404
        async with door.services[-1].engine.connect() as connection:
            rows = (await connection.execute(select(secrets_table))).all()
        assert len(rows) == 3
        assert b"hush" not in b"".join(row.sealed + row.wrapped_key for row in rows)
        async with stand_in(door, pipeline.passed):
            assert await door.platform.ended(UUID(run["id"])) == "finished"
        async with asyncio.timeout(60):
            while (await client.get(f"/runs/{run['id']}")).json()["status"] != "finished":
                await asyncio.sleep(0.05)
        late = await runner.post("/internal/secrets", json=claim)
        assert late.status_code == 409
        async with door.services[-1].engine.connect() as connection:
            left = (await connection.execute(select(secrets_table.c.scope))).scalars().all()
        assert "run" not in left
        assert (await client.delete("/secrets/MODEL_KEY")).status_code == 204
        assert (await client.delete("/secrets/MODEL_KEY")).status_code == 404
    told = b"".join(one.event.to_bytes() for one in await door.platform.events(UUID(run["id"])))
    assert b"hush" not in told


async def test_artifacts_are_listed_and_downloaded_and_no_path_leads_elsewhere(door, settings):
    blobs = BlobStore(settings.blob_url)
    sha256 = await blobs.keep(b"what the verifier said")
    manifest = orjson.dumps({"files": [{"path": "verifier/out.txt", "size": 22, "sha256": sha256}]})
    kept = {"sha256": await blobs.keep(manifest), "files": 1, "bytes": 22}

    def answer(order):
        return pipeline.failed(order) | {"artifacts": kept}

    async with door.client() as client, stand_in(door, answer):
        run = (await client.post("/runs", json={"config": config()})).json()
        await door.platform.ended(UUID(run["id"]))
        async with asyncio.timeout(60):
            while True:
                page = (await client.get(f"/runs/{run['id']}/results")).json()
                if page["total_count"] == 14:
                    break
                await asyncio.sleep(0.05)
        base = f"/runs/{run['id']}/results/{page['items'][0]['slot_id']}/artifacts"
        assert (await client.get(base)).json() == orjson.loads(manifest)["files"]
        found = await client.get(f"{base}/verifier/out.txt")
        assert found.content == b"what the verifier said"
        assert found.headers["content-disposition"] == 'attachment; filename="out.txt"'
        for path in ("verifier/other.txt", "..%2F..%2Fetc%2Fpasswd", sha256):
            assert (await client.get(f"{base}/{path}")).status_code == 404


OPEN = {
    "/healthz",
    "/readyz",
    "/api/v1/downloads/{signed}",
    "/api/v1/session",
    "/api/v1/session/invitation",
    "/api/v1/device",
    "/api/v1/device/token",
}
"""Where nobody has to have proven who it is: there one proves it, or the address itself does."""


async def test_without_a_valid_token_only_health_answers(door):
    async with httpx.AsyncClient(base_url=door.url) as nobody:
        assert (await nobody.get("/healthz")).status_code == 200
        ready = await nobody.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["missing"] == ["sandbox-runner"]
        routes = (await nobody.get("/openapi.json")).json()["paths"]
        assert len(routes) > 15
        for path, methods in routes.items():
            if path in OPEN:
                continue
            address = path.replace("{slot_id}", str(UUID(int=1))).replace("{", "x").replace("}", "")
            for method in methods:
                for token in ({}, {"Authorization": "Bearer wrong"}):
                    answer = await nobody.request(method, address, headers=token)
                    assert answer.status_code == 401, (method, path)
                    assert answer.json()["code"] == "AUTH_REQUIRED"


async def test_what_is_not_there_or_malformed_is_a_problem_too(door):
    async with door.client() as client:
        for answer, status in (
            (await client.get("/nothing"), 404),
            (await client.get("/runs/none"), 404),
            (await client.patch("/runs"), 405),
            (await client.get("/runs", params={"limit": 0}), 422),
            (await client.post("/runs", content=b"{"), 422),
            (await client.put("/secrets/lower", json={"value": "v"}), 422),
            (await client.get("/benchmarks", headers={"X-Assay-Workspace": "Not A Slug"}), 422),
            (await client.get("/benchmarks", headers={"X-Assay-Workspace": "managed"}), 404),
            (await client.post("/runs", content=b"x" * (1024 * 1024 + 1)), 413),
        ):
            assert answer.status_code == status, answer.text
            assert answer.headers["content-type"] == "application/problem+json", answer.text
            assert answer.json()["detail"]


async def test_replay_by_http_proves_every_projection(door):
    async with door.client() as client, stand_in(door, pipeline.passed):
        run = (await client.post("/runs", json={"config": config()})).json()
        await door.platform.ended(UUID(run["id"]))
        reports = (await client.post("/system/replay", json={"verify": True})).json()
        assert {one["projection"] for one in reports} == {
            "catalogue",
            "versions",
            "runs",
            "grades",
            "standings",
            "audit",
        }
        assert all(one["identical"] for one in reports)
        unknown = await client.post("/system/replay", json={"service": "nobody"})
        assert unknown.status_code == 422
        status = (await client.get("/system/status")).json()
        assert status["missing"] == ["sandbox-runner"]


async def test_a_sandbox_that_no_runner_has_is_told_with_every_other_mistake(door):
    client = door.platform.store.client
    status = {
        "service": "sandbox-runner",
        "ready": True,
        "version": "0",
        "instance": "stand-in",
        "details": {"environments": ["local"], "missing": {"docker": "no engine answers"}},
    }

    async def runner(message):
        await client.publish(message.reply, orjson.dumps(status))

    async def stranger(message):
        await client.publish(message.reply, b"not a status")

    for answer in (runner, stranger):
        await client.subscribe("commands.sandbox-runner.status", cb=answer)
    await client.flush()
    async with door.client() as http:
        body = {"config": config(tasks={"task_names": ["fix-nothing"]}), "environment": "docker"}
        refused = await http.post("/runs", json=body)
        assert refused.status_code == 422, refused.text
        keys = {issue["key"] for issue in refused.json()["issues"]}
        assert keys == {"environment", "tasks.task_names[0]"}
        assert "no runner here can run docker (no engine answers)" in refused.json()["detail"]
        taken = await http.post("/runs", json={"config": config(), "environment": "local"})
        assert taken.status_code == 201, taken.text
