"""The main path as a person walks it, on a machine without Docker."""

import hashlib
import importlib.util
import json
import os
import signal
import time
from pathlib import Path

import psycopg
import pytest

_plain = Path(__file__).parent.parent / "integration" / "from_events.py"
_spec = importlib.util.spec_from_file_location("from_events", _plain)
assert _spec is not None
assert _spec.loader is not None
from_events = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(from_events)

pytestmark = pytest.mark.end_to_end

DEMO = """
[experiment]
benchmark = "demo"
[execution]
attempts_per_task = {attempts}
max_concurrent_attempts = 4
max_retries = 1
[[agents]]
harness = "oracle"
[[agents]]
harness = "nop"
[[agents]]
harness = "scripted"
"""
SERVICES = (
    "registry_sync",
    "run_scheduler",
    "grader",
    "leaderboard",
    "gateway",
    "sandbox_runner",
)


@pytest.fixture(scope="module")
def demo_run(platform, tmp_path_factory):
    """A run of the demo during which each server and each service was killed once."""
    folder = tmp_path_factory.mktemp("demo")
    name = platform.submit(folder, DEMO.format(attempts=3))
    servers = platform.servers()
    assert len(servers) == 2
    for server in servers:
        os.kill(server, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while server in platform.servers() or len(platform.servers()) < 2:
            assert time.monotonic() < deadline, "a server did not come back"
            time.sleep(0.05)
    killed = {}
    for service in SERVICES:
        deadline = time.monotonic() + 60
        while service not in platform.processes():
            assert time.monotonic() < deadline, f"{service} did not come back"
            time.sleep(0.05)
        killed[service] = platform.processes()[service]
        os.kill(killed[service], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while platform.processes().get(service, killed[service]) == killed[service]:
            assert time.monotonic() < deadline, f"{service} did not come back"
            time.sleep(0.05)
    deadline = time.monotonic() + 90
    while platform.run("status", expect=None).returncode != 0:
        assert time.monotonic() < deadline, "the platform did not become ready again"
    platform.run("run", "watch", name)
    return name


def test_after_every_service_was_killed_each_slot_has_exactly_one_counted_result(
    platform, demo_run
):
    detail = platform.json("run", "info", demo_run)
    assert detail["status"] == "finished"
    assert [
        (agent["harness"], agent["passed"], agent["failed"], agent["errored"])
        for agent in detail["agents"]
    ] == [("oracle", 42, 0, 0), ("nop", 0, 42, 0), ("scripted", 27, 15, 0)]
    results = platform.json("run", "results", demo_run, "--limit", "1000")["items"]
    cells = [(row["agent"], row["task"], row["attempt"]) for row in results]
    assert len(cells) == len(set(cells)) == 126
    assert {row["environment"] for row in results} == {"local"}


def test_the_events_of_a_run_are_in_order_and_each_has_its_cause(platform, demo_run):
    stored = platform.events(demo_run)
    types = [one["event"]["type"] for one in stored]
    assert types[:3] == ["submitted", "queued", "started"]
    assert types[-1] == "finished"
    assert [one["sequence"] for one in stored] == sorted(one["sequence"] for one in stored)
    assert len({one["event"]["correlation_id"] for one in stored}) == 1
    assert all(one["event"]["causation_id"] for one in stored[1:])
    first = {kind: types.index(kind) for kind in set(types)}
    assert (
        first["started"]
        < first["attempt-started"]
        < first["result-ingested"]
        < first["result-graded"]
        < first["finished"]
    )
    assert types.count("attempt-retried") == 3


def test_the_leaderboard_ranks_three_entrants_with_intervals(platform, demo_run):
    board = platform.json("leaderboard", "demo")
    assert [(one["harness"], one["rank"]) for one in board["standings"]] == [
        ("oracle", 1),
        ("scripted", 2),
        ("nop", 3),
    ]
    scripted = board["standings"][1]
    assert scripted["pass_at_1"]["value"] == pytest.approx(27 / 42)
    assert scripted["pass_at_1"]["ci_low"] < 27 / 42 < scripted["pass_at_1"]["ci_high"]
    assert [rate["k"] for rate in scripted["pass_at_k"]] == [1, 2, 3]
    assert scripted["pass_at_k"][2]["value"] == pytest.approx(10 / 14)
    assert scripted["tokens_per_task"]["value"] > 0
    assert board["standings"][0]["tokens_per_task"] is None
    assert board["standings"][0]["cost_per_task"] is None
    printed = platform.run("leaderboard", "demo", "--metric", "time").stdout
    assert "oracle" in printed


@pytest.mark.parametrize("metric", ["pass@1", "pass@k", "pass^k", "cost", "time", "tokens"])
def test_the_leaderboard_follows_from_the_printed_events_alone(platform, demo_run, metric):
    listed = platform.json("run", "list", "--benchmark", "demo")["items"]
    runs = [platform.events(one["name"]) for one in listed]
    board = platform.json("leaderboard", "demo", "--metric", metric)
    computed = from_events.leaderboard(runs, metric)
    assert len(computed) == 3
    assert from_events.differences(board["standings"], computed) == []


def test_a_score_can_be_explained_compared_and_proven(platform, demo_run, tmp_path):
    task = "assay-demo/count-words"
    told = platform.run("run", "explain", demo_run, "--agent", "scripted", "--task", task).stdout
    for part in ("attempts passed", "verifier/", "result-graded at", "Attempt 3"):
        assert part in told
    found = platform.json("leaderboard", "compare", "oracle", "scripted", "--benchmark", "demo")
    assert (found["verdict"], found["n_tasks"]) == ("superior", 14)
    assert found["difference"] == pytest.approx(15 / 42)
    printed = platform.run(
        "leaderboard", "compare", "oracle", "scripted", "--benchmark", "demo"
    ).stdout
    assert "A is better than B" in printed
    proof = tmp_path / "demo.proof.jsonl"
    platform.run("run", "export", demo_run, "-o", str(proof))
    assert "The proof holds" in platform.run("run", "verify", str(proof)).stdout
    proof.write_bytes(proof.read_bytes().replace(b"passed", b"failed", 1))
    assert "The proof is void" in platform.run("run", "verify", str(proof), expect=1).stdout


def test_the_standings_of_a_past_moment_are_those_shown_then(platform, demo_run):
    board = platform.json("leaderboard", "demo")
    past = platform.json("leaderboard", "demo", "--as-of", str(board["sequence"]))
    assert past["standings"] == board["standings"]
    before = platform.events(demo_run)[-1]["sequence"] - 1
    assert platform.json("leaderboard", "demo", "--as-of", str(before))["standings"] == []
    why = platform.run("leaderboard", "demo", "--as-of", str(before), "--why").stdout
    assert "has not ended yet" in why


def test_replay_proves_every_read_model_and_names_a_row_that_was_forged(platform, demo_run):
    printed = platform.run("replay", "--verify").stdout
    assert printed.count("identical") == 6
    address = platform.variable("grader", "ASSAY_DATABASE_URL")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE grader.agent_metrics SET pass_at_1 = 0.5 WHERE agent = 0")
    refused = platform.run("replay", "--verify", expect=1)
    assert "agent_metrics" in refused.stdout + refused.stderr
    assert "pass_at_1" in refused.stdout + refused.stderr
    platform.run("replay", "--swap", "--service", "grader")
    platform.run("replay", "--verify")


def test_a_run_can_be_stopped_and_what_was_scored_stays(platform, tmp_path):
    name = platform.submit(tmp_path, DEMO.format(attempts=20))
    deadline = time.monotonic() + 60
    while platform.json("run", "info", name)["ingested_results"] < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    platform.run("run", "stop", name)
    watched = platform.run("run", "watch", name, expect=1)
    assert "stopped" in watched.stdout + watched.stderr
    detail = platform.json("run", "info", name)
    assert detail["status"] == "stopped"
    assert 3 <= sum(agent["passed"] + agent["failed"] for agent in detail["agents"]) < 840
    again = platform.run("run", "stop", name, expect=1)
    assert "has ended: it is stopped" in again.stdout + again.stderr
    reasons = [one["reason"] for one in platform.json("leaderboard", "demo")["not_ranked"]]
    assert any("stopped before every slot" in reason for reason in reasons)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_secrets_reach_the_agent_and_nothing_else(platform, tmp_path):
    tasks = tmp_path / "tasks" / "use-a-key"
    for part in ("environment", "solution", "tests"):
        (tasks / part).mkdir(parents=True)
    (tasks / "task.toml").write_text(
        'version = "1.0"\n[environment]\ndocker_image = "x"\nworkdir = "/app"\n'
        'network_mode = "no-network"\n'
    )
    (tasks / "instruction.md").write_text("Use the key.\n")
    (tasks / "solution" / "solve.sh").write_text(
        'echo "the hint is $TOOL_HINT, the key $STORED_HINT"\n'
        f'[ "$(printf %s "$TOOL_HINT" | sha256sum)" = "{digest("hush-hush-1")}  -" ] && '
        f'[ "$(printf %s "$STORED_HINT" | sha256sum)" = "{digest("hush-hush-2")}  -" ] && '
        "touch /app/ok\n"
    )
    (tasks / "tests" / "test.sh").write_text(
        'if [ -f /app/ok ] && [ -z "$TOOL_HINT" ]; then echo 1; else echo 0; fi '
        "> /logs/verifier/reward.txt\n"
    )
    platform.run("benchmark", "add", "--folder", str(tasks.parent), "--as", "keys")
    platform.run("secret", "set", "STORED_HINT", "--env", "V", env={"V": "hush-hush-2"})
    config = """
[experiment]
benchmark = "keys"
[secrets]
required = ["TOOL_HINT", "STORED_HINT"]
[[agents]]
harness = "oracle"
"""
    path = tmp_path / "run.toml"
    path.write_text(config)
    done = platform.run(
        "run", "submit", str(path), "--json", "--watch", env={"TOOL_HINT": "hush-hush-1"}
    )
    name = json.loads(done.stdout)["name"]
    detail = platform.json("run", "info", name)
    assert detail["agents"][0]["passed"] == 1, platform.run("run", "logs", name).stdout
    kept = [path for path in platform.data.rglob("*") if path.is_file()]
    assert len(kept) > 100
    for path in kept:
        assert b"hush-hush" not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            '[experiment]\nbenchmrk = "demo"\n[execution]\nattempts_per_task = 0\n'
            '[[agents]]\nharness = "oracl"\n',
            ["benchmrk", "did you mean", "attempts_per_task", "oracl"],
        ),
        (
            '[experiment]\nbenchmark = "dmo"\n[[agents]]\nharness = "oracle"\n',
            ["there is no benchmark dmo", "demo"],
        ),
        (
            '[experiment]\nbenchmark = "demo"\n[tasks]\ntask_names = ["assay-demo/count-wrds"]\n'
            'categories = ["debuging"]\n[[agents]]\nharness = "oracle"\n',
            ["count-wrds", "assay-demo/count-words", "debuging", "debugging"],
        ),
        (
            '[experiment]\nbenchmark = "demo"\n[[agents]]\nharness = "codex"\n[agents.model]\n'
            'type = "provider"\nmodel = "openai/m"\napi_key_secret = "NO_SUCH_KEY"\n',
            ["NO_SUCH_KEY", "assay secret set NO_SUCH_KEY"],
        ),
    ],
)
def test_bad_input_is_told_clearly_and_nothing_is_half_done(platform, tmp_path, config, said):
    before = platform.json("run", "list")["total_count"]
    refused = platform.submit(tmp_path, config, expect=1)
    for text in said:
        assert text in refused
    assert platform.json("run", "list")["total_count"] == before


def test_a_sandbox_that_no_runner_has_is_refused_at_once(platform, tmp_path):
    refused = platform.submit(
        tmp_path, DEMO.format(attempts=1), "--environment", "daytona", expect=1
    )
    assert "no runner here can run daytona" in refused
    assert "local" in refused


def test_a_registry_that_cannot_be_reached_is_said_and_its_benchmark_cannot_be_run(
    platform, tmp_path
):
    address = "http://127.0.0.1:9/registry.json"
    failed = platform.run(
        "benchmark", "add", "far", "--registry", address, "--as", "far-away", expect=1
    )
    assert address in failed.stdout + failed.stderr
    refused = platform.submit(
        tmp_path,
        '[experiment]\nbenchmark = "far-away"\n[[agents]]\nharness = "oracle"\n',
        expect=1,
    )
    assert "could not be read" in refused
    assert "assay benchmark sync" in refused
    platform.run("benchmark", "remove", "far-away")


def test_a_second_up_on_the_same_folder_says_that_it_is_running(platform):
    done = platform.run("up", "--data", str(platform.data), "--detach", expect=1)
    assert "running" in done.stdout + done.stderr
