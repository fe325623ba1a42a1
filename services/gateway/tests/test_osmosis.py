"""The routes of the Osmosis client: shapes, scopes, versions, and errors of one shape alone."""

import csv
import io

import httpx
import orjson
import pytest

from assay_contracts.problems import Problem, ProblemCode
from gateway.latest_events import messages_before
from gateway.osmosis import wire
from gateway.osmosis.errors import wire_error

ADMIN = "admin-token-of-this-test"
IN_DEFAULT = {"X-Osmosis-Workspace": "default"}
MODEL = {"type": "provider", "model": "a/b", "api_key_secret": "MODEL_KEY"}
CODEX = {"harness": "codex", "model": MODEL, "env": {}}
ORACLE = {"harness": "oracle", "env": {}}


def osmosis(stage, *, token=ADMIN, headers=None):
    """A client of the routes in this process; in the workspace `default` if not told otherwise."""
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(stage.app, raise_app_exceptions=False),
        base_url="http://gateway/api/cli",
        headers=bearer | (IN_DEFAULT if headers is None else headers),
    )


@pytest.fixture
async def cli(stage):
    async with osmosis(stage) as client:
        yield client


def submission(**changes):
    return {"experiment_config": {"benchmark": "toy"}, "agents": [ORACLE]} | changes


async def submitted(cli, **changes):
    answer = await cli.post("/benchmark-runs", json=submission(**changes))
    assert answer.status_code == 201, answer.text
    return answer.json()


def refused(answer, status, code):
    """The body of a refusal, which is JSON of the client's own shape."""
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert (answer.status_code, told["code"]) == (status, code), told
    assert set(told) <= {"error", "code", "field", "issues", "details", "status", "message"}
    assert told["error"]
    return told


async def test_a_ready_benchmark_is_shown_with_its_rules_tasks_and_what_cannot_be_run(stage, cli):
    tasks = [
        {"name": "a", "category": "math", "difficulty": "hard"},
        {"name": "b", "category": "math"},
        {"name": "c", "unavailable": "its image is gone"},
    ]
    benchmark = await stage.add_benchmark(
        tasks=tasks,
        task_sets=[{"name": "parity", "tasks": ["a"], "recommended": True}],
        rules={"pass_threshold": 0.5, "requires_judge_api_key": True},
    )
    shown = (await cli.get("/benchmarks/toy%401")).json()
    entry = {
        "id": str(benchmark),
        "name": "toy",
        "description": None,
        "source_type": "harbor_registry",
        "source_ref": "toy@1",
        "source_url": None,
        "task_count": 3,
        "category_count": 1,
        "task_sets": [
            {"name": "parity", "task_count": 1, "recommended": True, "description": None}
        ],
        "sync_status": "ready",
        "synced_task_count": 3,
        "sync_error": None,
        "platform_url": None,
        "run_count": 0,
        "running_count": 0,
        "last_run_at": None,
        "last_run_status": None,
        "last_run_name": None,
        "creator_name": "tester",
    }
    assert shown == {
        "benchmark": entry
        | {
            "runner_family": "harbor",
            "supports_harness": True,
            "requires_harness": True,
            "default_harness": None,
            "requires_judge_model": False,
            "requires_judge_api_key": True,
            "judge_model_default": None,
            "pass_threshold": 0.5,
            "categories": [{"name": "math", "task_count": 2}],
            "tasks": [
                {"name": "a", "category": "math", "difficulty": "hard"},
                {"name": "b", "category": "math", "difficulty": None},
            ],
            "unavailable_tasks": {
                "reason": "its image is gone",
                "tasks": [{"name": "c", "category": None, "difficulty": None}],
            },
        },
        "leaderboard": [],
    }
    listed = (await cli.get("/benchmarks", params={"limit": 1})).json()
    assert listed == {
        "benchmarks": [entry],
        "total_count": 1,
        "has_more": False,
        "next_offset": None,
    }
    for ref in ("toy", str(benchmark)):
        assert (await cli.get(f"/benchmarks/{ref}")).json() == shown


@pytest.mark.parametrize(("status", "known"), [("pending", 0), ("syncing", 4), ("failed", 0)])
async def test_a_benchmark_that_is_not_ready_tells_how_far_it_is(stage, cli, status, known):
    await stage.add_benchmark(status=status)
    [entry] = (await cli.get("/benchmarks")).json()["benchmarks"]
    assert (entry["sync_status"], entry["category_count"]) == (status, 0)
    assert entry["task_count"] >= known
    assert entry["sync_error"] == ("the registry does not answer" if status == "failed" else None)
    answer = await cli.post("/benchmark-runs", json=submission())
    told = refused(answer, 409, "BENCHMARK_NOT_READY")
    assert told["details"]["sync_status"] == status


async def test_a_run_is_submitted_listed_shown_and_stopped(stage, cli):
    await stage.add_benchmark(tasks=[{"name": "a", "category": "x"}, {"name": "b"}, {"name": "c"}])
    await cli.post(
        "/environment-secrets", json={"name": "A_KEY", "value": "v", "scope": "workspace"}
    )
    run = await submitted(
        cli,
        tasks_config={"categories": ["x"], "task_names": ["b"]},
        execution_config={"attempts_per_task": 2, "verifier_secrets": ["A_KEY"]},
        env_config={"LEVEL": "1", "MODE": "fast"},
        agents=[ORACLE | {"env": {"LEVEL": "2"}}],
        secrets={"required": ["B_KEY"], "provided": {"B_KEY": "hush"}},
    )
    assert run == {
        "id": run["id"],
        "name": run["name"],
        "status": "pending",
        "workflow_id": f"benchmark-run/{run['id']}",
        "task_count": 2,
        "created_at": run["created_at"],
        "platform_url": None,
    }
    await stage.decide(run["id"], "queued", "started")
    for task, outcome in (("a", "passed"), ("b", "failed")):
        for attempt in (1, 2):
            usage = {"cost_usd": 0.5, "input_tokens": 10, "output_tokens": 2}
            await stage.result(run["id"], task, outcome, attempt=attempt, seconds=3, usage=usage)
    await stage.decide(run["id"], "finished")
    shown = (await cli.get(f"/benchmark-runs/{run['name']}")).json()
    [listed] = (await cli.get("/benchmark-runs")).json()["benchmark_runs"]
    assert shown["benchmark_run"] == listed
    assert listed == {
        "id": run["id"],
        "name": run["name"],
        "status": "finished",
        "benchmark_id": listed["benchmark_id"],
        "benchmark_name": "toy",
        "agent_count": 1,
        "best_pass_at_1": 0.5,
        "ingested_results": 4,
        "expected_results": 4,
        "creator_name": "Administrator",
        "creator_email": "admin@localhost",
        "created_at": run["created_at"],
        "started_at": listed["started_at"],
        "completed_at": listed["completed_at"],
        "platform_url": None,
    }
    assert shown["configuration"] == {
        "benchmark_id": listed["benchmark_id"],
        "benchmark_name": "toy",
        "source_type": "harbor_registry",
        "source_ref": "toy@1",
        "resolved_version": "1",
        "resolved_digest": "sha256:toy",
        "task_filters": {"categories": ["x"], "task_names": ["b"]},
        "config": {
            "attempts_per_task": 2,
            "max_concurrent_attempts": 4,
            "timeout_multiplier": 1.0,
            "max_retries": 0,
            "pass_threshold": 1.0,
            "verifier_secrets": ["A_KEY"],
        },
        "resolved_secret_scopes": {"A_KEY": "workspace", "B_KEY": "run"},
    }
    [agent], [metrics] = shown["agents"], shown["agent_metrics"]
    assert agent == {
        "id": metrics["benchmark_run_agent_id"],
        "agent_index": 0,
        "harness": "oracle",
        "model": "none",
        "model_display_name": "none",
        "status": "finished",
        "environment_variables": {"LEVEL": "2", "MODE": "fast"},
        "aggregates": {
            "reported_cost_usd": 2.0,
            "mean_duration_seconds": 3.0,
            "tokens_per_task": 24.0,
        },
    }
    assert (metrics["rank"], metrics["n_tasks"]) == (None, 2)
    assert set(metrics["pass_at_1"]) == {"value", "ci_low", "ci_high", "n"}
    assert (metrics["pass_at_1"]["value"], metrics["pass_at_1"]["n"]) == (0.5, 2)
    assert [(one["k"], one["value"]) for one in metrics["pass_at_k"]] == [(2, 0.5)]
    assert shown["progress"] == {"ingested": 4, "expected": 4}
    assert shown["totals"] == {
        "passed": 2,
        "failed": 2,
        "errored": 0,
        "cancelled": 0,
        "total_input_tokens": 40,
        "total_output_tokens": 8,
        "total_cost_usd": 2.0,
    }
    refused(await cli.post(f"/benchmark-runs/{run['id']}/stop", json={}), 409, "CONFLICT")
    other = await submitted(cli)
    stopping = await cli.post(f"/benchmark-runs/{other['id']}/stop", json={})
    assert (stopping.status_code, stopping.json()["id"]) == (200, other["id"])


async def test_what_nobody_reports_is_null_and_never_zero(stage, cli):
    await stage.add_benchmark()
    run = await submitted(cli)
    shown = (await cli.get(f"/benchmark-runs/{run['id']}")).json()
    assert shown["totals"]["total_cost_usd"] is None
    assert shown["totals"]["total_input_tokens"] is None
    assert shown["agent_metrics"][0]["pass_at_1"] is None
    assert shown["agents"][0]["aggregates"]["tokens_per_task"] is None


async def test_a_standing_names_its_run_and_a_run_its_rank(stage, cli):
    await stage.add_benchmark(tasks=["a", "b"])
    run = await submitted(cli)
    await stage.decide(run["id"], "queued", "started")
    for task in ("a", "b"):
        await stage.result(run["id"], task)
    await stage.decide(run["id"], "finished")
    [standing] = (await cli.get("/benchmarks/toy")).json()["leaderboard"]
    assert standing["run"] == {"id": run["id"], "name": run["name"], "platform_url": None}
    assert (standing["rank"], standing["tied"], standing["task_set"]) == (1, False, "full")
    assert (standing["harness"], standing["model"]) == ("oracle", "none")
    assert (standing["pass_at_1"]["value"], standing["pass_at_1"]["n"]) == (1.0, 2)
    assert (standing["pass_at_k"], standing["cost_per_task"]) == ([], None)
    assert standing["mean_duration_seconds"] == pytest.approx(1.2)
    shown = (await cli.get(f"/benchmark-runs/{run['id']}")).json()
    assert shown["agent_metrics"][0]["rank"] == 1


async def test_secrets_are_kept_listed_by_scope_and_deleted_and_never_told(stage, cli):
    for name, scope in (("B_KEY", "user"), ("A_KEY", "workspace"), ("A_KEY", "user")):
        body = {"name": name, "value": "hush-value", "scope": scope}
        answer = await cli.post("/environment-secrets", json=body)
        assert (answer.status_code, answer.json()["name"]) == (200, name)
        assert "hush" not in answer.text
    listed = (await cli.get("/environment-secrets", params={"limit": 2})).json()
    assert (listed["total_count"], listed["has_more"], listed["next_offset"]) == (3, True, 2)
    rest = (await cli.get("/environment-secrets", params={"limit": 2, "offset": 2})).json()
    assert (rest["has_more"], rest["next_offset"]) == (False, None)
    every = listed["environment_secrets"] + rest["environment_secrets"]
    assert len({one["id"] for one in every}) == 3
    assert set(every[0]) == {
        "id",
        "name",
        "scope",
        "created_at",
        "updated_at",
        "creator_name",
        "updater_name",
        "platform_url",
    }
    of_user = (await cli.get("/environment-secrets", params={"scope": "user"})).json()
    assert [one["name"] for one in of_user["environment_secrets"]] == ["A_KEY", "B_KEY"]
    record = {"name": "A_KEY", "scope": "workspace"}
    gone = await cli.request("DELETE", "/environment-secrets", json=record)
    assert (gone.status_code, gone.content) == (204, b"")
    again = await cli.request("DELETE", "/environment-secrets", json=record)
    refused(again, 404, "NOT_FOUND")


async def test_logs_are_paged_from_the_newest_back_and_from_the_oldest_on(stage, cli):
    await stage.add_benchmark()
    other = await submitted(cli)
    run = await submitted(cli)
    await stage.decide(run["id"], "queued", "started")
    for task in ("fix-roman", "fix-greek", "count-words", "sort-lines"):
        await stage.result(run["id"], task)
        await stage.result(other["id"], task)
    await stage.decide(run["id"], "finished")
    told = [one.event for one in await stage.events(run["id"])]
    expected = [one.type for one in told]
    for limit in (1, 3, 4, len(told) - 1, len(told), 50):
        for direction in ("older", "newer"):
            seen, cursor = [], None
            while True:
                asked = {"limit": limit, "direction": direction}
                asked |= {} if cursor is None else {"cursor": cursor}
                page = (await cli.get(f"/benchmark-runs/{run['name']}/logs", params=asked)).json()
                steps = [one["step"] for one in page["logs"]]
                assert 0 < len(steps) <= limit
                seen = steps + seen if direction == "older" else seen + steps
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            assert seen == expected, (limit, direction)
    beyond = {"cursor": 2**50, "limit": 2}
    newest = (await cli.get(f"/benchmark-runs/{run['name']}/logs", params=beyond)).json()
    assert [one["step"] for one in newest["logs"]] == expected[-2:]
    before_all = {"cursor": 0, "limit": 2}
    nothing = (await cli.get(f"/benchmark-runs/{run['name']}/logs", params=before_all)).json()
    assert nothing == {"logs": [], "next_cursor": None}
    line = page["logs"][0]
    assert set(line) == {"timestamp", "level", "step", "message", "details"}
    assert line["message"].startswith("admin asks for 1 agent on 4 tasks of toy")


async def test_a_run_that_is_told_of_far_behind_is_found_in_few_questions(stage, cli, monkeypatch):
    await stage.add_benchmark()
    run = await submitted(cli)
    other = await submitted(cli)
    await stage.hold_read_models()
    for number in range(1, 300):
        await stage.result(other["id"], "fix-roman", None, attempt=number)
    asked = 0
    jetstream = type(stage.store.client.jetstream())
    made = jetstream.add_consumer

    async def counted(*arguments, **more):
        nonlocal asked
        asked += 1
        return await made(*arguments, **more)

    monkeypatch.setattr(jetstream, "add_consumer", counted)
    page, before = await messages_before(stage.store, "default", run["id"], before=None, limit=50)
    assert ([one.sequence for one in page.items], before) == ([1], None)
    assert asked < 25


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"X-Osmosis-CLI-Version": "0.3.8"}, 400, "GIT_SCOPE_HEADER_REQUIRED"),
        (
            {"X-Osmosis-Workspace": "default", "X-Osmosis-Git": "a/b"},
            400,
            "WORKSPACE_SCOPE_HEADER_CONFLICT",
        ),
        ({"X-Osmosis-Git": "no repository"}, 400, "GIT_SCOPE_HEADER_INVALID"),
        ({"X-Osmosis-Git": "someone/something"}, 404, "GIT_REPOSITORY_NOT_CONNECTED"),
        ({"X-Osmosis-Workspace": "No Name"}, 404, "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED"),
        ({"X-Osmosis-Workspace": "managed"}, 404, "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/benchmarks"),
        ("GET", "/benchmarks/toy"),
        ("GET", "/benchmark-runs"),
        ("GET", "/benchmark-runs/some-run"),
        ("GET", "/benchmark-runs/some-run/logs"),
        ("POST", "/benchmark-runs/some-run/stop"),
        ("GET", "/environment-secrets"),
    ],
)
async def test_every_route_wants_exactly_one_scope(stage, headers, status, code, method, path):
    async with osmosis(stage, headers=headers) as client:
        refused(await client.request(method, path), status, code)


async def test_who_asks_is_told_with_the_workspace_where_one_is_named(stage):
    await stage.person("ada", default="member", other="viewer")
    token = await stage.token_of("ada")
    async with osmosis(stage, token=token, headers={}) as client:
        who = (await client.get("/verify")).json()
        assert who == {
            "user": {"id": "ada", "email": "ada@example.org", "name": who["user"]["name"]},
            "expires_at": None,
            "token_id": who["token_id"],
            "workspace": None,
        }
        listed = (await client.get("/workspaces")).json()
        assert listed == {
            "workspaces": [
                {"id": name, "name": name, "connected_repo": None} for name in ("default", "other")
            ]
        }
        in_other = {"X-Osmosis-Workspace": "other"}
        named = (await client.get("/verify", headers=in_other)).json()["workspace"]
        assert named == {"id": "other", "name": "other", "role": "viewer"}


async def test_a_repository_means_the_workspace_that_is_connected_to_it(stage, http):
    await stage.person("ada", other="member")
    await stage.add_benchmark(workspace="other")
    connected = await http.patch("/workspaces/other", json={"repository": "Team/Evals"})
    assert connected.status_code == 200
    scope = {"X-Osmosis-Git": "TEAM/evals"}
    async with osmosis(stage, token=await stage.token_of("ada"), headers=scope) as ada:
        assert (await ada.get("/verify")).json()["workspace"]["name"] == "other"
        [workspace] = (await ada.get("/workspaces")).json()["workspaces"]
        assert workspace["connected_repo"] == {"repo_full_name": "team/evals"}
        run = await submitted(ada)
        assert (await ada.get(f"/benchmark-runs/{run['name']}")).status_code == 200
    await stage.person("eve", default="owner")
    async with osmosis(stage, token=await stage.token_of("eve"), headers=scope) as eve:
        refused(await eve.get("/benchmarks"), 404, "GIT_REPOSITORY_NOT_CONNECTED")
        in_other = {"X-Osmosis-Workspace": "other"}
    async with osmosis(stage, token=await stage.token_of("eve"), headers=in_other) as eve:
        refused(await eve.get("/benchmarks"), 404, "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED")
    async with osmosis(stage, token=await stage.token_of("eve")) as eve:
        for ref in (run["id"], run["name"]):
            for path in ("", "/logs", "/outputs/manifest"):
                refused(await eve.get(f"/benchmark-runs/{ref}{path}"), 404, "NOT_FOUND")
            refused(await eve.post(f"/benchmark-runs/{ref}/stop", json={}), 404, "NOT_FOUND")


async def test_a_viewer_reads_and_changes_nothing(stage):
    await stage.person("eve", default="viewer")
    await stage.add_benchmark()
    async with osmosis(stage, token=await stage.token_of("eve")) as eve:
        assert (await eve.get("/benchmarks")).status_code == 200
        secret = {"name": "A_KEY", "scope": "user"}
        for answer in (
            await eve.post("/benchmark-runs", json=submission()),
            await eve.post("/benchmark-runs/some-run/stop", json={}),
            await eve.post("/environment-secrets", json=secret | {"value": "v"}),
            await eve.request("DELETE", "/environment-secrets", json=secret),
        ):
            assert "`run`" in refused(answer, 403, "FORBIDDEN")["error"]


async def test_secrets_of_the_workspace_are_kept_by_its_admins_alone(stage):
    shared = {"name": "A_KEY", "scope": "workspace"}
    for role, allowed in (("member", False), ("admin", True)):
        await stage.person(f"a-{role}", default=role)
        async with osmosis(stage, token=await stage.token_of(f"a-{role}")) as client:
            kept = await client.post("/environment-secrets", json=shared | {"value": "v"})
            dropped = await client.request("DELETE", "/environment-secrets", json=shared)
        if allowed:
            assert (kept.status_code, dropped.status_code) == (200, 204)
            continue
        for answer in (kept, dropped):
            assert "`secrets`" in refused(answer, 403, "FORBIDDEN")["error"]


async def test_a_device_is_let_in_once_and_its_token_can_be_revoked(stage, http):
    await stage.person("ada", default="member")
    async with osmosis(stage, token=None, headers={}) as device:
        begun = (await device.post("/device/authorize", json={"deviceName": "x" * 300})).json()
        assert begun["verification_uri_complete"].endswith(begun["user_code"])
        asked = {"device_code": begun["device_code"]}
        waiting = await device.post("/device/token", json=asked)
        assert (waiting.status_code, waiting.json()["error"]) == (400, "authorization_pending")
        at_once = await device.post("/device/token", json=asked)
        assert (at_once.status_code, at_once.json()["error"]) == (400, "slow_down")
        decision = {"user_code": begun["user_code"], "approve": True}
        async with stage.client(await stage.token_of("ada")) as ada:
            assert (await ada.post("/device/decision", json=decision)).status_code == 200
        let_in = (await device.post("/device/token", json=asked)).json()
        assert set(let_in) == {"token", "token_id", "expires_at", "user"}
        assert (let_in["user"]["id"], let_in["user"]["email"]) == ("ada", "ada@example.org")
        again = await device.post("/device/token", json=asked)
        assert (again.status_code, again.json()["error"]) == (400, "expired_token")
    async with osmosis(stage, token=let_in["token"]) as client:
        assert (await client.get("/benchmarks")).status_code == 200
        gone = await client.delete(f"/tokens/{let_in['token_id']}")
        assert gone.status_code == 204
        refused(await client.get("/benchmarks"), 401, "TOKEN_REVOKED")


async def test_the_outputs_of_a_run_are_listed_and_served_to_the_byte(stage, cli):
    await stage.add_benchmark(tasks=["-a", "b"])
    run = await submitted(cli)
    path = f"/benchmark-runs/{run['id']}/outputs"
    refused(await cli.get(f"{path}/manifest"), 409, "CONFLICT")
    await stage.decide(run["id"], "queued", "started")
    files = {"agent/log.txt": b"hello", "verifier/reward.txt": b"1"}
    kept = [
        {"path": name, "size": len(content), "sha256": await stage.blobs.keep(content)}
        for name, content in files.items()
    ]
    listed = await stage.blobs.keep(orjson.dumps({"files": kept}))
    artifacts = {"sha256": listed, "files": len(files), "bytes": 6}
    slots = [await stage.result(run["id"], task, artifacts=artifacts) for task in ("-a", "b")]
    every = {"types": "summary,results,artifacts,logs"}
    manifest = (await cli.get(f"{path}/manifest", params=every)).json()
    assert wire.Manifest.model_validate(manifest).model_dump(mode="json") == manifest
    tables = {"summary.csv", "results.csv", "logs.txt"}
    paths = [one["path"] for one in manifest["files"]]
    assert set(paths) == tables | {f"artifacts/{slot}/{name}" for slot in slots for name in files}
    assert manifest["totals"]["artifacts"] == {"files": 4, "bytes": 12}
    await stage.decide(run["id"], "finished")
    items = [{"path": one["path"], "token": one["token"]} for one in manifest["files"]]
    made = (await cli.post(f"{path}/download-urls", json={"items": items})).json()
    assert [one | {"url": ""} for one in made["items"]] == [one | {"url": ""} for one in items]
    assert made["expires_in"] == 900
    contents = {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(stage.app)) as stranger:
        for file, address in zip(manifest["files"], made["items"], strict=True):
            answer = await stranger.get(address["url"])
            assert (answer.status_code, len(answer.content)) == (200, file["size"])
            contents[file["path"]] = answer.content
    assert contents[f"artifacts/{slots[0]}/agent/log.txt"] == b"hello"
    rows = list(csv.DictReader(io.StringIO(contents["results.csv"].decode())))
    assert [(one["task"], one["outcome"]) for one in rows] == [("-a", "passed"), ("b", "passed")]
    assert rows[0]["run_status"] == "running"
    only = (await cli.get(f"{path}/manifest", params={"types": "artifacts"})).json()
    assert [one["path"] for one in only["files"]] == [one for one in paths if "/" in one]
    for types in ("", "config", "summary,other"):
        told = await cli.get(f"{path}/manifest", params={"types": types})
        assert refused(told, 400, "VALIDATION")["field"] == "types"
    items = [{"path": "nothing.csv"}]
    refused(await cli.post(f"{path}/download-urls", json={"items": items}), 404, "NOT_FOUND")
    refused(await cli.post(f"{path}/download-urls", json={"items": []}), 400, "VALIDATION")


@pytest.mark.parametrize(
    ("token", "code"), [(None, "AUTH_HEADER_MISSING"), ("not-the-token", "TOKEN_INVALID")]
)
async def test_without_a_good_token_nothing_is_told(stage, token, code):
    async with osmosis(stage, token=token) as client:
        for path in ("/verify", "/workspaces", "/benchmarks", "/benchmark-runs/x"):
            told = refused(await client.get(path), 401, code)
            assert told["error"] == "a valid token is needed; sign in with: osmosis auth login"


@pytest.mark.parametrize(
    ("version", "status", "standing"),
    [
        ("0.3.8", 200, "current"),
        ("1.0.0", 200, "current"),
        ("0.3.2rc1", 200, "deprecated"),
        ("0.3.0", 200, "deprecated"),
        ("0.2.9", 426, None),
        ("something", 200, None),
    ],
)
async def test_the_version_of_a_client_is_told_how_it_stands(stage, version, status, standing):
    async with osmosis(stage, headers={"X-Osmosis-CLI-Version": version}) as client:
        answer = await client.get("/verify")
    assert answer.status_code == status
    assert answer.headers.get("X-Osmosis-Version-Status") == standing
    assert ("X-Osmosis-Version-Message" in answer.headers) == (standing == "deprecated")
    if status == 426:
        told = refused(answer, 426, "UPGRADE_REQUIRED")
        assert told["status"] == "unsupported"
        assert "pip install --upgrade osmosis-ai" in told["message"]


async def test_every_error_has_the_one_shape_whoever_raised_it(stage, cli, monkeypatch):
    await stage.add_benchmark()
    refused(await cli.get("/benchmarks", params={"limit": 51}), 400, "VALIDATION")
    refused(await cli.get("/benchmarks/tody"), 404, "NOT_FOUND")
    told = refused(await cli.get("/datasets/x"), 404, "NOT_FOUND")
    assert told["error"].startswith("this server has no datasets")
    refused(await cli.post("/benchmark-runs", content=b"{"), 400, "VALIDATION")
    refused(await cli.post("/benchmark-runs", content=b'"' + b"x" * 2**21), 413, "TOO_LARGE")
    refused(await cli.post("/benchmark-runs", json={"agents": [], "more": 1}), 400, "VALIDATION")
    refused(await cli.get("/benchmark-runs/nowhere/logs?cursor=%00"), 400, "VALIDATION")

    async def broken(*_):
        raise RuntimeError("no hands")

    monkeypatch.setattr("gateway.benchmarks.queries.list_benchmarks", broken)
    told = refused(await cli.get("/benchmarks"), 500, "INTERNAL")
    assert "no hands" not in told["error"]
    ours = httpx.AsyncClient(transport=httpx.ASGITransport(stage.app), base_url="http://gateway")
    async with ours as client:
        answer = await client.get("/api/v1/runs")
    assert answer.headers["content-type"] == "application/problem+json"


async def test_mistakes_are_listed_once_with_their_keys_and_leave_nothing_behind(stage, cli):
    await stage.add_benchmark()
    body = submission(
        agents=[CODEX | {"harness": "codx"}],
        tasks_config={"task_names": ["fix-romn"]},
        secrets={"required": ["TOOL_KEY"], "provided": {"OTHER_KEY": "hush"}},
    )
    told = refused(await cli.post("/benchmark-runs", json=body), 400, "VALIDATION")
    assert {one["key"]: one["key_correction"] for one in told["issues"]} == {
        "agents[0].harness": "codex",
        "tasks.task_names[0]": "fix-roman",
        "secrets.OTHER_KEY": None,
        "secrets.MODEL_KEY": None,
        "secrets.TOOL_KEY": None,
    }
    assert told["error"] == "There are 5 mistakes in what was sent:"
    assert "osmosis secret set" in told["issues"][-1]["message"]
    assert "hush" not in str(told)
    one = refused(
        await cli.post("/benchmark-runs", json=submission(execution_config={"max_retries": 11})),
        400,
        "VALIDATION",
    )
    assert one["field"] == "execution.max_retries"
    assert await stage.nothing_happened()


async def test_missing_secrets_are_named_as_the_client_looks_for_them(stage, cli):
    await stage.add_benchmark()
    body = submission(agents=[CODEX], secrets={"required": ["TOOL_KEY"]})
    told = refused(await cli.post("/benchmark-runs", json=body), 404, "MISSING_SECRETS")
    assert told["error"] == "Secret(s) not found: MODEL_KEY, TOOL_KEY"
    assert told["details"] == {"missing": ["MODEL_KEY", "TOOL_KEY"]}


@pytest.mark.parametrize(
    "code", [one for one in ProblemCode if one is not ProblemCode.AUTH_REQUIRED]
)
def test_a_code_of_ours_passes_through(code):
    details = {"missing": ["A_KEY"]}
    problem = Problem(title="No", status=403, detail="because", code=code, details=details)
    status, told = wire_error(problem, has_token=True)
    assert (status, told.code, told.details) == (403, code.value, details)
