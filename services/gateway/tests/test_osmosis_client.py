"""The real `osmosis` command against the gateway: what it prints, submits, and is refused."""

import asyncio
import json
import re
import subprocess

import orjson
import pytest
from sqlalchemy import select

from assay_local.embedded import free_port
from gateway.server import serve
from gateway.settings import HttpLimits
from gateway.tables import device_logins

ADMIN = "admin-token-of-this-test"
SCOPE = {"workspace": {"name": "default"}}
TASKS = [
    {"name": "a", "category": "math", "difficulty": "hard"},
    {"name": "b", "category": "math"},
    {"name": "c", "category": "words"},
    {"name": "d", "unavailable": "its image is gone"},
]
PROVIDER = """
[[agents]]
harness = "codex"
[agents.model]
type = "provider"
model = "openai/gpt-5.2"
api_key_secret = "MODEL_KEY"
"""
ENDPOINT = """
[[agents]]
harness = "mini-swe-agent"
[agents.model]
type = "endpoint"
base_url = "http://models.example/v1"
model = "own-model"
api_key_secret = "MODEL_KEY"
[agents.model.extra_headers]
X-Team = "blue"
[agents.env]
LEVEL = "2"
"""
HOSTED = """
[[agents]]
harness = "terminus-2"
[agents.model]
type = "hosted"
base_model = "base"
lora_model_name = "tuned"
"""


@pytest.fixture
async def address(stage):
    """The address at which the application is served, by a real HTTP server."""
    port = free_port()
    serving = asyncio.create_task(serve(stage.app, "127.0.0.1", port, stage.closing, HttpLimits()))
    async with asyncio.timeout(60):
        while not await _answers(port):
            await asyncio.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def _answers(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.fixture
def cli(osmosis, address):
    return osmosis(address, ADMIN)


def run_file(cli, *agents, benchmark="toy", more=""):
    path = cli.folder / "run.toml"
    path.write_text(f'[experiment]\nbenchmark = "{benchmark}"\n{more}\n{"".join(agents)}')
    return str(path)


async def keep_secret(cli, name="MODEL_KEY", *options, value="hush-value"):
    return await cli.json("secret", "set", name, "--env", "VALUE", *options, VALUE=value)


async def add_benchmark(stage, **more):
    parity = {"name": "parity", "tasks": ["a"], "recommended": True, "description": "as published"}
    return await stage.add_benchmark(tasks=TASKS, task_sets=[parity], **more)


async def test_benchmarks_are_listed_and_shown(stage, cli):
    benchmark = await add_benchmark(stage)
    await stage.add_benchmark("waiting", status="pending")
    entry = {
        "id": str(benchmark),
        "name": "toy",
        "key": "toy@1",
        "description": None,
        "source_type": "harbor_registry",
        "source_ref": "toy@1",
        "source_url": None,
        "task_count": 4,
        "category_count": 2,
        "task_sets": [
            {"name": "parity", "task_count": 1, "recommended": True, "description": "as published"}
        ],
        "sync_status": "ready",
        "synced_task_count": 4,
        "sync_error": None,
        "platform_url": None,
    }
    listed = await cli.json("benchmark", "list")
    waiting = listed["items"].pop(0)
    assert (waiting["name"], waiting["sync_status"], waiting["task_count"]) == (
        "waiting",
        "pending",
        0,
    )
    assert listed == {
        "schema_version": 1,
        "items": [
            entry
            | {
                "run_count": 0,
                "running_count": 0,
                "last_run_at": None,
                "last_run_status": None,
                "last_run_name": None,
                "creator_name": "tester",
            }
        ],
        "total_count": 2,
        "has_more": False,
        "next_offset": None,
        **SCOPE,
    }
    shown = await cli.json("benchmark", "info", "toy@1")
    assert shown == {
        "schema_version": 1,
        "data": {
            "benchmark": entry
            | {
                "runner_family": "harbor",
                "supports_harness": True,
                "requires_harness": True,
                "default_harness": None,
                "requires_judge_model": False,
                "requires_judge_api_key": False,
                "judge_model_default": None,
                "pass_threshold": 1.0,
                "categories": [
                    {"name": "math", "task_count": 2},
                    {"name": "words", "task_count": 1},
                ],
                "tasks": [
                    {"name": "a", "category": "math", "difficulty": "hard"},
                    {"name": "b", "category": "math", "difficulty": None},
                    {"name": "c", "category": "words", "difficulty": None},
                ],
                "unavailable_tasks": {
                    "reason": "its image is gone",
                    "tasks": [{"name": "d", "category": None, "difficulty": None}],
                },
            },
            "leaderboard": [],
            "runs": [],
            "runs_total_count": 0,
            **SCOPE,
        },
    }
    printed, _ = await cli.run("benchmark", "info", "toy")
    for text in ("toy@1", "math (2), words (1)", "parity (1, recommended)", "No eligible"):
        assert text in printed


async def test_lists_are_walked_page_by_page(stage, cli):
    for number in range(52):
        await stage.add_benchmark(f"toy-{number}", tasks=["a"])
    first = await cli.json("benchmark", "list")
    assert (len(first["items"]), first["total_count"], first["next_offset"]) == (50, 52, 50)
    every = await cli.json("benchmark", "list", "--all")
    assert len({one["id"] for one in every["items"]}) == 52
    some = await cli.json("benchmark", "list", "--limit", "2")
    assert (len(some["items"]), some["has_more"]) == (2, True)


async def test_secrets_are_set_listed_and_deleted(stage, cli):
    kept = await keep_secret(cli)
    record = {
        "id": kept["resource"]["id"],
        "name": "MODEL_KEY",
        "scope": "personal",
        "created_at": kept["resource"]["created_at"],
        "updated_at": kept["resource"]["created_at"],
        "creator_name": "Administrator",
        "updater_name": "Administrator",
    }
    assert kept == {
        "schema_version": 1,
        "status": "success",
        "operation": "secret.set",
        "resource": record | SCOPE,
        "message": 'Secret "MODEL_KEY" saved in personal scope.',
    }
    await keep_secret(cli, "MODEL_KEY", "--scope", "workspace")
    assert await cli.json("secret", "list", "--scope", "personal") == {
        "schema_version": 1,
        "items": [record],
        "total_count": 1,
        "has_more": False,
        "next_offset": None,
        **SCOPE,
    }
    every = await cli.json("secret", "list")
    assert [one["scope"] for one in every["items"]] == ["personal", "workspace"]
    gone = await cli.json("secret", "delete", "MODEL_KEY", "--yes")
    assert gone["resource"] == {"name": "MODEL_KEY", "scope": "personal"} | SCOPE
    error = await cli.refusal("secret", "delete", "MODEL_KEY", "--yes")
    assert error["code"] == "NOT_FOUND"
    assert "--scope workspace" in error["message"]


@pytest.mark.parametrize(
    ("agent", "label", "secrets"),
    [
        (PROVIDER, "openai/gpt-5.2", {"MODEL_KEY": "user_override"}),
        (ENDPOINT, "own-model", {"MODEL_KEY": "user_override"}),
        (HOSTED, "tuned", {}),
    ],
)
async def test_a_run_is_submitted_with_each_kind_of_model(stage, cli, agent, label, secrets):
    await add_benchmark(stage)
    await keep_secret(cli)
    await keep_secret(cli, "MODEL_KEY", "--scope", "workspace")
    done = await cli.json("benchmark", "submit", run_file(cli, agent), "--yes")
    run = done["resource"]
    assert {name: value for name, value in done.items() if name != "resource"} == {
        "schema_version": 1,
        "status": "success",
        "operation": "benchmark.submit",
        "message": f"Benchmark run submitted: {run['name']}",
        "next_steps_structured": [
            {"action": "benchmark_info", "name": run["name"]},
            {"action": "benchmark_list"},
        ],
    }
    assert {name: value for name, value in run.items() if name not in {"config", "created_at"}} == {
        "id": run["id"],
        "name": run["name"],
        "status": "pending",
        "benchmark_name": "toy",
        "workflow_id": f"benchmark-run/{run['id']}",
        "task_count": 3,
        **SCOPE,
    }
    [stored] = await stage.events(run["id"])
    data = stored.event.data
    assert [one.model_dump(mode="json", exclude_none=True) for one in data.agents] == run["config"][
        "agents"
    ]
    assert data.agents[0].model_label == label
    assert data.secret_scopes == secrets


@pytest.mark.parametrize(
    ("selector", "tasks", "filters"),
    [
        ("", 3, {}),
        ('[tasks]\ntask_set = "parity"', 1, {"task_set": "parity"}),
        ('[tasks]\ncategories = ["math"]', 2, {"categories": ["math"]}),
        ('[tasks]\ntask_names = ["c"]', 1, {"task_names": ["c"]}),
        (
            '[tasks]\ncategories = ["words"]\ntask_names = ["a"]',
            2,
            {"categories": ["words"], "task_names": ["a"]},
        ),
    ],
)
async def test_a_run_is_submitted_with_each_kind_of_selector(stage, cli, selector, tasks, filters):
    await add_benchmark(stage)
    done = await cli.json("benchmark", "submit", run_file(cli, HOSTED, more=selector), "--yes")
    assert done["resource"]["task_count"] == tasks
    shown = await cli.json("benchmark", "runs", "info", done["resource"]["name"])
    assert shown["data"]["configuration"]["task_filters"] == filters
    assert shown["data"]["progress"] == {"completed": 0, "total": tasks, "unit": "results"}


async def test_values_for_one_run_alone_come_from_a_file(stage, cli):
    await add_benchmark(stage)
    (cli.folder / "secrets.env").write_text("TOOL_KEY=hush-value\n")
    more = (
        '[secrets]\nrequired = ["TOOL_KEY"]\n[execution]\nattempts_per_task = 2\n[env]\nMODE = "x"'
    )
    path = run_file(cli, HOSTED, more=more)
    arguments = ("benchmark", "submit", path, "--yes", "--secrets-file", "secrets.env")
    run = (await cli.json(*arguments))["resource"]
    shown = (await cli.json("benchmark", "runs", "info", run["id"]))["data"]
    assert shown["configuration"]["resolved_secret_scopes"] == {"TOOL_KEY": "run"}
    assert shown["configuration"]["config"]["attempts_per_task"] == 2
    assert shown["agents"][0]["environment_variables"] == {"MODE": "x"}
    assert shown["benchmark_run"]["expected_results"] == 6
    assert (await cli.json("secret", "list"))["items"] == []


async def test_runs_are_listed_shown_followed_and_stopped(stage, cli):
    benchmark = await add_benchmark(stage)
    path = run_file(cli, HOSTED)
    run = (await cli.json("benchmark", "submit", path, "--yes"))["resource"]
    await stage.decide(run["id"], "queued", "started")
    usage = {"cost_usd": 0.25, "input_tokens": 900, "output_tokens": 100}
    for task, outcome in (("a", "passed"), ("b", "failed")):
        await stage.result(run["id"], task, outcome, seconds=3, usage=usage)
    shown = await cli.json("benchmark", "runs", "info", run["name"])
    data = shown["data"]
    entry = data["benchmark_run"]
    assert entry == {
        "id": run["id"],
        "name": run["name"],
        "status": "running",
        "benchmark_id": str(benchmark),
        "benchmark_name": "toy",
        "agent_count": 1,
        "best_pass_at_1": 0.5,
        "ingested_results": 2,
        "expected_results": 3,
        "creator_name": "Administrator",
        "creator_email": "admin@localhost",
        "created_at": run["created_at"],
        "started_at": entry["started_at"],
        "completed_at": None,
    }
    [agent], [metrics] = data["agents"], data["agent_metrics"]
    assert data["configuration"] == {
        "benchmark_id": str(benchmark),
        "benchmark_name": "toy",
        "source_type": "harbor_registry",
        "source_ref": "toy@1",
        "resolved_version": "1",
        "resolved_digest": "sha256:toy",
        "task_filters": {},
        "config": {
            "attempts_per_task": 1,
            "max_concurrent_attempts": 4,
            "timeout_multiplier": 1.0,
            "max_retries": 0,
            "pass_threshold": 1.0,
        },
        "resolved_secret_scopes": {},
    }
    assert agent == {
        "id": agent["id"],
        "agent_index": 0,
        "harness": "terminus-2",
        "model": "tuned",
        "model_display_name": "tuned",
        "status": "running",
        "environment_variables": {},
        "aggregates": {
            "reported_cost_usd": 0.5,
            "mean_duration_seconds": 3.0,
            "tokens_per_task": 1000.0,
        },
    }
    rate = metrics["pass_at_1"]
    assert metrics == {
        "benchmark_run_agent_id": agent["id"],
        "rank": None,
        "n_tasks": 2,
        "pass_at_1": {"value": 0.5, "ci_low": rate["ci_low"], "ci_high": rate["ci_high"], "n": 2},
        "pass_at_k": [],
    }
    assert rate["ci_low"] < 0.5 < rate["ci_high"]
    assert data["progress"] == {"completed": 2, "total": 3, "unit": "results"}
    assert data["totals"] == {
        "passed": 1,
        "failed": 1,
        "errored": 0,
        "cancelled": 0,
        "total_input_tokens": 1800,
        "total_output_tokens": 200,
        "total_cost_usd": 0.5,
    }
    assert set(data) == {
        "benchmark_run",
        "configuration",
        "agents",
        "progress",
        "totals",
        "agent_metrics",
        "workspace",
    }
    listed = await cli.json("benchmark", "runs", "list")
    assert listed["items"] == [entry | {"progress": data["progress"]}]
    printed, _ = await cli.run("benchmark", "runs", "info", run["name"])
    for text in ("$0.25/task", "3s/task", "1.0k tokens/task", "1 passed, 1 failed", "$0.5000"):
        assert text in printed

    newest = await cli.json("benchmark", "runs", "logs", run["name"], "--limit", "3")
    told = [one.event.type for one in await stage.events(run["id"])]
    assert [one["step"] for one in newest["items"]] == told[-3:]
    assert (newest["has_more"], newest["total_count"]) == (True, 3)
    older = await cli.json(
        "benchmark", "runs", "logs", run["name"], "--cursor", newest["next_cursor"]
    )
    assert [one["step"] for one in older["items"]] == told[:-3]
    assert (older["has_more"], older["next_cursor"]) == (False, None)
    assert set(older["items"][0]) == {"timestamp", "level", "step", "message", "details"}

    stopped = await cli.json("benchmark", "runs", "stop", run["name"], "--yes")
    assert stopped == {
        "schema_version": 1,
        "status": "success",
        "operation": "benchmark.stop",
        "resource": {"name": run["name"], "id": run["id"], "status": "stopped"} | SCOPE,
        "message": f'Benchmark run "{run["name"]}" stopped.',
    }
    last = (await stage.events(run["id"]))[-1].event
    assert (last.type, last.actor) == ("stop-requested", "admin")
    again = await cli.refusal("benchmark", "runs", "stop", run["name"], "--yes")
    assert (again["code"], again["details"]["platform_code"]) == ("CONFLICT", "CONFLICT")
    await stage.decide(run["id"], "stopped")
    late = await cli.refusal("benchmark", "runs", "stop", run["name"], "--yes")
    assert "the run has ended: it is stopped" in late["message"]


async def test_a_leaderboard_and_its_runs_are_shown(stage, cli):
    await stage.add_benchmark(tasks=["a", "b"])
    path = run_file(cli, HOSTED, HOSTED.replace("tuned", "other"))
    run = (await cli.json("benchmark", "submit", path, "--yes"))["resource"]
    await stage.decide(run["id"], "queued", "started")
    for agent, outcome in ((0, "passed"), (1, "failed")):
        for task in ("a", "b"):
            await stage.result(run["id"], task, outcome, agent=agent)
    await stage.decide(run["id"], "finished")
    data = (await cli.json("benchmark", "info", "toy"))["data"]
    assert [(one["rank"], one["model"]) for one in data["leaderboard"]] == [
        (1, "tuned"),
        (1 if data["leaderboard"][1]["tied"] else 2, "other"),
    ]
    first = data["leaderboard"][0]
    assert first == {
        "rank": 1,
        "tied": data["leaderboard"][1]["tied"],
        "harness": "terminus-2",
        "model": "tuned",
        "task_set": "full",
        "pass_at_1": {
            "value": 1.0,
            "ci_low": first["pass_at_1"]["ci_low"],
            "ci_high": 1.0,
            "n": 2,
        },
        "pass_at_k": [],
        "cost_per_task": None,
        "mean_duration_seconds": first["mean_duration_seconds"],
        "tokens_per_task": None,
        "run": {"id": run["id"], "name": run["name"], "platform_url": None},
    }
    assert [one["name"] for one in data["runs"]] == [run["name"]]
    printed, _ = await cli.run("benchmark", "info", "toy")
    assert "tuned (terminus-2)" in printed


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("pending", "wait to be read"),
        ("syncing", "are being read (0 of 4)"),
        ("failed", "the registry does not answer"),
    ],
)
async def test_a_benchmark_that_is_not_ready_is_refused(stage, cli, status, said):
    await stage.add_benchmark(status=status)
    error = await cli.refusal("benchmark", "submit", run_file(cli, HOSTED), "--yes")
    assert (error["code"], error["details"]["platform_code"]) == ("CONFLICT", "BENCHMARK_NOT_READY")
    assert said in error["message"]
    assert await stage.nothing_happened()


async def test_what_is_not_there_is_refused_by_name(stage, cli):
    await stage.add_benchmark("terminal-bench")
    path = run_file(cli, HOSTED, benchmark="terminal-bnch")
    error = await cli.refusal("benchmark", "submit", path, "--yes")
    assert (error["code"], error["details"]["status_code"]) == ("NOT_FOUND", 404)
    assert "did you mean terminal-bench" in error["message"]
    for arguments in (("info", "nowhere"), ("runs", "info", "no-run"), ("runs", "logs", "no-run")):
        error = await cli.refusal("benchmark", *arguments)
        assert error["code"] == "NOT_FOUND"
        assert arguments[-1] in error["message"]


async def test_mistakes_are_told_with_their_keys(stage, cli):
    await add_benchmark(stage)
    more = '[tasks]\ntask_names = ["e"]\n[execution]\nmax_retries = 11'
    path = run_file(cli, HOSTED.replace("terminus-2", "codx"), more=more)
    error = await cli.refusal("benchmark", "submit", path, "--yes")
    assert (error["code"], error["details"]["status_code"]) == ("VALIDATION", 400)
    for text in (
        "There are 3 mistakes",
        "agents[0].harness: no harness is called codx (did you mean 'codex'?)",
        "tasks.task_names[0]: the benchmark has no task e",
        "execution.max_retries",
    ):
        assert text in error["message"]
    assert await stage.nothing_happened()


async def test_missing_secrets_are_told_before_and_after_sending(stage, cli):
    await add_benchmark(stage)
    path = run_file(cli, PROVIDER)
    before = await cli.refusal("benchmark", "submit", path, "--yes")
    assert "osmosis secret set MODEL_KEY" in before["message"]
    # A client that could not look them up sends what it has, and the server says what is missing.
    sends_all_the_same = f"""
import sys
from osmosis_ai.cli.main import main
from osmosis_ai.platform.cli import shared_submit
shared_submit._fetch_secret_scopes = lambda *_, **__: None
sys.exit(main(["--workspace", "default", "--json", "benchmark", "submit", {path!r}, "--yes"]))
"""
    _, told = await cli.start("python", "-c", sends_all_the_same, expect=1)
    error = json.loads(told)["error"]
    assert (error["code"], error["details"]["platform_code"]) == ("NOT_FOUND", "MISSING_SECRETS")
    assert error["message"].startswith("Secret(s) not found: MODEL_KEY")
    assert "osmosis secret set MODEL_KEY" in error["message"]


async def test_a_client_that_is_too_old_is_told_what_to_do(stage, cli):
    older = """
import sys
import osmosis_ai.consts
osmosis_ai.consts.PACKAGE_VERSION = "{}"
from osmosis_ai.cli.main import main
sys.exit(main(["--workspace", "default", "--json", "benchmark", "list"]))
"""
    _, told = await cli.start("python", "-c", older.format("0.2.9"), expect=1)
    error = json.loads(told)["error"]
    assert (error["code"], error["details"]["status"]) == ("UPGRADE_REQUIRED", "unsupported")
    assert "pip install --upgrade osmosis-ai" in error["message"]
    _, told = await cli.start("python", "-c", older.format("0.3.1"))
    assert json.loads(told)["warning"]["code"] == "DEPRECATED"


async def test_scopes_and_tokens_that_are_no_good_are_refused(stage, cli, osmosis):
    error = await cli.refusal("benchmark", "list", workspace="No Such")
    assert error["details"]["platform_code"] == "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED"
    error = await cli.refusal("benchmark", "list", OSMOSIS_TOKEN="not-the-token")
    assert error["code"] == "AUTH_REQUIRED"
    assert "OSMOSIS_TOKEN" in error["message"]
    error = await cli.refusal("auth", "whoami", workspace=None, OSMOSIS_TOKEN="not-the-token")
    assert (error["code"], error["details"]["platform_code"]) == ("AUTH_REQUIRED", "TOKEN_INVALID")
    error = await cli.refusal("dataset", "list")
    assert error["code"] in {"NOT_FOUND", "VALIDATION"}


async def test_a_person_signs_in_by_a_device_and_out_again(stage, osmosis, address):
    await stage.person("ada", default="member")
    await add_benchmark(stage)
    device = osmosis(address, None)
    error = await device.refusal("benchmark", "list")
    assert error["code"] == "AUTH_REQUIRED"
    signing_in = asyncio.create_task(device.run("auth", "login", workspace=None))
    async with stage.client(await stage.token_of("ada")) as ada:
        decision = {"user_code": await shown_code(stage), "approve": True}
        assert (await ada.post("/device/decision", json=decision)).status_code == 200
    printed, _ = await signing_in
    assert decision["user_code"] in printed
    assert "ada@example.org" in printed
    who = (await device.json("auth", "whoami", workspace=None))["data"]
    assert (who["email"], who["source"], who["persistent_login"]) == (
        "ada@example.org",
        "credentials",
        True,
    )
    listed = await device.json("benchmark", "list")
    assert [one["name"] for one in listed["items"]] == ["toy"]
    kept = json.loads((device.folder / ".config/osmosis/credentials.json").read_text())
    out = await device.json("auth", "logout", "--yes", workspace=None)
    assert out["resource"]["revoked"] is True
    assert (await device.refusal("benchmark", "list"))["code"] == "AUTH_REQUIRED"
    error = await osmosis_with(device, token_in(kept)).refusal("auth", "whoami", workspace=None)
    assert error["details"]["platform_code"] == "TOKEN_REVOKED"


async def test_a_device_that_is_turned_away_stays_outside(stage, osmosis, address):
    await stage.person("ada", default="member")
    device = osmosis(address, None)
    signing_in = asyncio.create_task(device.run("auth", "login", workspace=None, expect=1))
    async with stage.client(await stage.token_of("ada")) as ada:
        decision = {"user_code": await shown_code(stage), "approve": False}
        assert (await ada.post("/device/decision", json=decision)).status_code == 200
    _, told = await signing_in
    assert "denied" in told


async def shown_code(stage):
    """The code that a device shows, once it asks."""
    async with asyncio.timeout(60):
        while True:
            async with stage.engine.connect() as connection:
                code = await connection.scalar(select(device_logins.c.user_code))
            if code is not None:
                return code
            await asyncio.sleep(0.05)


def token_in(kept):
    """The token in the client's file of credentials."""
    found = re.search(r"assay_[A-Za-z0-9_-]+", json.dumps(kept))
    assert found is not None
    return found[0]


def osmosis_with(device, token):
    return type(device)(device.programs, device.folder, device.url, token)


async def test_a_token_is_kept_by_name(stage, osmosis, address):
    await stage.person("ada", default="member")
    device = osmosis(address, None)
    token = await stage.token_of("ada")
    done = await device.json("auth", "login", "--token", token, workspace=None)
    assert (done["operation"], done["resource"]["email"]) == ("auth.login", "ada@example.org")
    assert (await device.json("benchmark", "list"))["total_count"] == 0


def make_clone(folder, origin):
    """A git repository that says to be a clone of another."""
    for command in (["git", "init", "--quiet"], ["git", "remote", "add", "origin", origin]):
        subprocess.run(command, cwd=folder, check=True)


async def test_a_clone_of_a_connected_repository_names_its_workspace(stage, http, cli):
    await stage.add_benchmark("theirs", workspace="other", tasks=["a"])
    make_clone(cli.folder, "git@github.com:Team/Evals.git")
    wanted = "from osmosis_ai.templates import catalog; print(*catalog.required_workspace_paths())"
    for path in (await cli.start("python", "-c", wanted))[0].split():
        (cli.folder / path).mkdir(parents=True, exist_ok=True)
    error = await cli.refusal("benchmark", "list", workspace=None)
    assert error["details"]["platform_code"] == "GIT_REPOSITORY_NOT_CONNECTED"
    await http.patch("/workspaces/other", json={"repository": "Team/Evals"})
    listed = await cli.json("benchmark", "list", workspace=None)
    assert [one["name"] for one in listed["items"]] == ["theirs"]
    assert listed["git"]["identity"] == "team/evals"
    who = (await cli.json("auth", "whoami", workspace=None))["data"]
    assert who["workspace"] == {"id": "other", "name": "other", "role": "owner"}


async def test_outputs_of_every_type_are_downloaded_and_gone_on_with(stage, cli):
    await add_benchmark(stage)
    run = (await cli.json("benchmark", "submit", run_file(cli, HOSTED), "--yes"))["resource"]
    download = ("benchmark", "runs", "download", run["name"])
    error = await cli.refusal(*download)
    assert error["code"] == "CONFLICT"
    await stage.decide(run["id"], "queued", "started")
    kept = [{"path": "agent/log.txt", "size": 5, "sha256": await stage.blobs.keep(b"hello")}]
    listed = await stage.blobs.keep(orjson.dumps({"files": kept}))
    artifacts = {"sha256": listed, "files": 1, "bytes": 5}
    slot = await stage.result(run["id"], "a", artifacts=artifacts)
    first = await cli.json(*download, "--type", "all", "--output", "got")
    resource = first["resource"]
    folder = cli.folder / "got"
    paths = {
        str(one.relative_to(folder)): one.stat().st_size
        for one in folder.rglob("*")
        if one.is_file()
    }
    assert set(paths) == {
        "summary.csv",
        "results.csv",
        "logs.txt",
        f"artifacts/{slot}/agent/log.txt",
    }
    assert (folder / f"artifacts/{slot}/agent/log.txt").read_bytes() == b"hello"
    assert {name: value for name, value in resource.items() if name != "breakdown"} == {
        "benchmark_run": {"id": run["id"], "name": run["name"]},
        "status": "running",
        "selected_types": ["summary", "results", "artifacts", "logs"],
        "files_downloaded": 4,
        "files_skipped": 0,
        "files_failed": [],
        "bytes_downloaded": sum(paths.values()),
        "total_files": 4,
        "total_bytes": sum(paths.values()),
        "manifest_totals": resource["breakdown"],
        "output_path": "got",
        **SCOPE,
    }
    (folder / "summary.csv").unlink()
    again = (await cli.json(*download, "--type", "artifacts,summary", "--output", "got"))[
        "resource"
    ]
    assert (again["files_downloaded"], again["files_skipped"]) == (1, 1)
    await stage.decide(run["id"], "finished")
    default = (await cli.json(*download))["resource"]
    assert default["output_path"].endswith(f".osmosis/benchmarks/{run['name']}")
    assert (default["status"], default["selected_types"]) == ("finished", ["summary", "results"])
    assert default["files_downloaded"] == 2


async def test_what_cannot_be_downloaded_is_told_and_the_rest_is_there(stage, cli):
    await add_benchmark(stage)
    run = (await cli.json("benchmark", "submit", run_file(cli, HOSTED), "--yes"))["resource"]
    await stage.decide(run["id"], "queued", "started")
    kept = [{"path": "gone.txt", "size": 5, "sha256": "0" * 64}]
    listed = await stage.blobs.keep(orjson.dumps({"files": kept}))
    slot = await stage.result(run["id"], "a", artifacts={"sha256": listed, "files": 1, "bytes": 5})
    arguments = ("benchmark", "runs", "download", run["name"], "--type", "all", "--output", "got")
    done = await cli.json(*arguments, expect=1)
    assert (done["status"], done["resource"]["files_downloaded"]) == ("partial", 3)
    [failed] = done["resource"]["files_failed"]
    assert failed["path"] == f"artifacts/{slot}/gone.txt"
    assert "404" in failed["error"]
