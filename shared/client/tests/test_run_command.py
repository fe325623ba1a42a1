"""`assay run`: what is checked before it is submitted, how lists are asked for, deletion."""

import json
from uuid import UUID

import pytest

from assay_contracts.http import (
    AgentEstimate,
    Forecast,
    PlannedAgent,
    RunEstimate,
    RunPreview,
    RunWarning,
)
from assay_contracts.values import Selection

COST = Forecast(median=1.5, low=0.5, high=4.0, results=12)
TIME = Forecast(median=120.0, low=60.0, high=240.0, results=12)


def preview(cost=COST, why_not=None):
    agent = AgentEstimate(
        agent=0,
        past_runs=2,
        past_results=12,
        past_tries=13,
        known_tasks=3,
        cost_usd=cost,
        why_no_cost=why_not,
        busy_seconds=TIME,
        why_no_time=None,
    )
    return RunPreview(
        benchmark_id=UUID(int=1),
        benchmark_name="Tiny Bench",
        benchmark_key="acme/tiny@3",
        benchmark_version="3",
        benchmark_digest="sha256:ab",
        selection=Selection(task_set="full", task_count=4),
        agents=[PlannedAgent(index=0, harness="oracle", model="none")],
        attempts_per_task=2,
        max_concurrent_attempts=2,
        slots=8,
        environment=None,
        secret_scopes={"KEY": "workspace"},
        warnings=[RunWarning(code="DOES_NOT_RANK", message="it never ranks")],
        estimate=RunEstimate(
            cost_usd=cost,
            why_no_cost=why_not,
            seconds=TIME,
            why_no_time=None,
            concurrency=1.5,
            measured_runs=2,
            agents=[agent],
        ),
    )


@pytest.fixture
def config(tmp_path):
    """A configuration without mistakes that needs two secrets."""
    file = tmp_path / "run.toml"
    file.write_text(
        '[experiment]\nbenchmark = "tiny"\n[[agents]]\nharness = "oracle"\n'
        '[secrets]\nrequired = ["FIRST", "SECOND"]\n'
    )
    return str(file)


SECRETS = {"FIRST": "1", "SECOND": "2"}


def test_a_dry_run_tells_what_would_run_and_submits_nothing(server, assay, config):
    server.answers("POST", "/api/v1/runs/validate", preview())
    done = assay("run", "submit", config, "--dry-run", **SECRETS)
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    for part in (
        "Results 8 (4 tasks x 1 agent x 2 attempts)",
        "Secrets KEY (workspace)",
        "Cost about $1.50 ($0.50–$4.00), from 12 past results",
        "Time about 2m 00s (1m 00s–4m 00s), 1.5 at a time, from 12 past results",
        "0 oracle 12 13 3/4 $1.50 2m 00s",
        "Warning: it never ranks",
        "Nothing was submitted",
    ):
        assert part in output, output
    assert [(seen.method, seen.path) for seen in server.seen] == [("POST", "/api/v1/runs/validate")]
    assert server.seen[0].body["secrets"] == SECRETS


def test_a_dry_run_says_why_there_is_no_estimate_and_is_one_document(server, assay, config):
    told = preview(cost=None, why_not="the cost of oracle is not known")
    server.answers("POST", "/api/v1/runs/validate", told)
    done = assay("run", "submit", config, "--dry-run", **SECRETS)
    assert "no estimate: the cost of oracle is not known" in done.stdout
    as_json = assay("run", "submit", config, "--dry-run", "--json", **SECRETS)
    assert json.loads(as_json.stdout) == told.model_dump(mode="json")


def test_mistakes_of_a_dry_run_are_exit_code_one(server, assay, make, config):
    server.answers("POST", "/api/v1/runs/validate", make.problem(422, "VALIDATION", "Invalid"))
    assert assay("run", "submit", config, "--dry-run", **SECRETS).returncode == 1


def test_runs_are_asked_for_by_every_filter(server, assay, make):
    server.answers("GET", "/api/v1/runs", make.page())
    done = assay(
        *("run", "list", "--status", "failed", "--status", "stopped", "--submitter", "ann"),
        *("--harness", "codex", "--model", "m", "--since", "2026-12-01", "--search", "otter"),
        *("--until", "2026-12-02T10:00:00+0100"),
    )
    assert done.returncode == 0, done.stderr
    assert server.seen[0].query == {
        "limit": ["50"],
        "offset": ["0"],
        "status": ["failed", "stopped"],
        "submitter": ["ann"],
        "harness": ["codex"],
        "model": ["m"],
        "since": ["2026-12-01T00:00:00+00:00"],
        "until": ["2026-12-02T10:00:00+01:00"],
        "search": ["otter"],
    }


def test_results_are_asked_for_by_every_filter_and_go_on_by_cursor(server, assay, make):
    page = make.page(make.result("acme/parse", "failed", "capability", "no"))
    page.next_cursor, page.total_count = "abc", 9
    server.answers("GET", "/api/v1/runs/r/results", page)
    server.answers("GET", "/api/v1/runs/r/agents", make.run().agents)
    done = assay(
        *("run", "results", "r", "--search", "pars", "--category", "code", "--task", "acme/parse"),
        *("--agent", "0", "--agent", "1", "--outcome", "failed", "--sort", "cost", "--desc"),
        *("--cause", "capability", "--limit", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 9 shown; go on with --cursor abc" in done.stdout
    assert server.seen[0].query == {
        "agent": ["0", "1"],
        "outcome": ["failed"],
        "cause": ["capability"],
        "category": ["code"],
        "task": ["acme/parse"],
        "search": ["pars"],
        "sort": ["cost"],
        "order": ["desc"],
        "limit": ["1"],
        "offset": ["0"],
    }
    wrong = assay("run", "results", "r", "--sort", "beauty")
    assert wrong.returncode == 2


def test_a_run_is_deleted_where_that_is_confirmed(server, assay):
    server.answers("DELETE", "/api/v1/runs/r", None, 204)
    refused = assay("run", "delete", "r")
    assert refused.returncode == 1
    assert "assay run delete r --yes" in refused.stderr
    assert server.seen == []
    done = assay("run", "delete", "r", "--yes", "--reason", "a mistake")
    assert (done.returncode, done.stderr) == (0, "")
    assert "r is deleted" in done.stdout
    assert server.seen[0].query == {"reason": ["a mistake"]}
