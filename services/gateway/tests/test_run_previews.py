"""Submissions that are only checked: what they resolve to, what they may take, what they leave."""

import pytest

from assay_contracts.http import RunPreview

PAID = {"cost_usd": 0.5, "input_tokens": 10, "output_tokens": 5}
NAMED = {"type": "provider", "model": "a/b", "api_key_secret": "KEY"}
TASKS = ("fix-roman", "fix-greek", "count-words", "sort-lines")


async def previewed(http, config, **body):
    answer = await http.post("/runs/validate", json={"config": config} | body)
    assert answer.status_code == 200, answer.text
    return RunPreview.model_validate(answer.json())


async def test_a_preview_resolves_everything_and_does_nothing(stage, http, config):
    benchmark = await stage.add_benchmark()
    asked = config(
        agents=[{"harness": "oracle"}, {"harness": "nop"}], execution={"attempts_per_task": 3}
    )
    found = await previewed(http, asked, environment="local")
    assert (found.benchmark_id, found.benchmark_version) == (benchmark, "1")
    assert (found.benchmark_key, found.benchmark_digest) == ("toy@1", "sha256:toy")
    assert (found.selection.task_set, found.selection.task_count) == ("full", 4)
    assert (found.attempts_per_task, found.slots, found.environment) == (3, 24, "local")
    assert [(one.index, one.harness, one.model) for one in found.agents] == [
        (0, "oracle", "none"),
        (1, "nop", "none"),
    ]
    assert (found.warnings, found.secret_scopes) == ([], {})
    assert await stage.nothing_happened()
    submitted = await stage.submit(**{key: asked[key] for key in ("agents", "execution")})
    assert submitted["expected_results"] == found.slots


async def test_a_preview_tells_the_same_mistakes_as_a_submission(stage, http, config):
    await stage.add_benchmark()
    wrong = config(
        agents=[{"harness": "oracle", "model": NAMED}],
        tasks={"task_names": ["fix-romn"]},
        execution={"attempts_per_task": 0},
    )
    for asked, status in ((wrong, 422), (config(experiment={"benchmark": "tou"}), 404)):
        told = await http.post("/runs/validate", json={"config": asked})
        refused = await http.post("/runs", json={"config": asked})
        assert told.status_code == refused.status_code == status
        assert told.json() == refused.json()
    issues = (await http.post("/runs/validate", json={"config": wrong})).json()["issues"]
    keys = [one["key"] for one in issues]
    assert "tasks.task_names[0]" in keys
    assert "secrets.KEY" in keys


async def test_a_preview_says_which_secret_is_taken(stage, http, config):
    await stage.add_benchmark()
    await http.put("/secrets/KEY", json={"value": "v", "scope": "workspace"})
    asked = config(agents=[{"harness": "codex", "model": NAMED}], secrets={"required": ["OWN"]})
    found = await previewed(http, asked, secrets={"OWN": "value"})
    assert found.secret_scopes == {"KEY": "workspace", "OWN": "run"}


async def test_a_preview_warns_of_what_is_allowed_and_may_not_be_meant(stage, http, config):
    tasks = [{"name": "a"}, {"name": "b"}, {"name": "c", "unavailable": "its image is gone"}]
    parity = {"name": "parity", "tasks": ["a"], "recommended": True}
    await stage.add_benchmark(tasks=tasks, task_sets=[parity])
    for chosen, codes in (
        ({}, ["TASK_SET_RECOMMENDED", "TASKS_UNAVAILABLE"]),
        ({"task_set": "parity"}, []),
        ({"task_names": ["b"]}, ["TASK_SET_RECOMMENDED", "DOES_NOT_RANK"]),
    ):
        found = await previewed(http, config(tasks=chosen))
        assert [one.code for one in found.warnings] == codes, chosen


async def test_without_past_results_nothing_is_estimated_and_the_reason_is_told(
    stage, http, config
):
    await stage.add_benchmark()
    estimate = (await previewed(http, config())).estimate
    assert (estimate.cost_usd, estimate.seconds) == (None, None)
    [agent] = estimate.agents
    assert (agent.past_runs, agent.past_results, agent.past_tries) == (0, 0, 0)
    assert agent.why_no_cost == agent.why_no_time == "oracle has no result on this benchmark yet"
    assert estimate.why_no_cost == "the cost of oracle is not known"
    assert estimate.why_no_time == "the duration of oracle is not known"


@pytest.fixture
async def past(stage):
    """A stopped run of the entrant on three of four tasks, one of them after a lost try."""
    await stage.add_benchmark()
    run = await stage.submit(execution={"attempts_per_task": 2})
    await stage.decide(run["id"], "queued", "started")
    for task in TASKS[:2]:
        for attempt in (1, 2):
            await stage.result(run["id"], task, attempt=attempt, seconds=10.0, usage=PAID)
    await stage.result(run["id"], TASKS[2], "errored", seconds=4.0, usage=PAID)
    await stage.result(run["id"], TASKS[2], "failed", try_number=2, seconds=6.0, usage=PAID)
    await stage.result(run["id"], TASKS[3], "cancelled", seconds=1.0, cancelled=True)
    await stage.decide(run["id"], "stopped")
    return run


async def test_an_estimate_rests_on_whole_slots_of_the_same_entrant(stage, http, config, past):
    await stage.submit(agents=[{"harness": "nop"}])
    asked = config(
        tasks={"task_names": list(TASKS[:2])},
        execution={"attempts_per_task": 3, "max_concurrent_attempts": 2},
    )
    estimate = (await previewed(http, asked)).estimate
    [agent] = estimate.agents
    assert (agent.past_runs, agent.past_results, agent.past_tries) == (1, 5, 6)
    assert (agent.known_tasks, agent.cost_usd.results) == (2, 5)
    for found, expected in (
        (agent.cost_usd, 3.0),
        (agent.busy_seconds, 60.0),
        (estimate.cost_usd, 3.0),
        (estimate.seconds, 30.0),
    ):
        assert found.median == pytest.approx(expected)
        assert found.low == pytest.approx(expected)
        assert found.high == pytest.approx(expected)
    assert (estimate.concurrency, estimate.measured_runs) == (2.0, 0)


async def test_what_differs_or_was_not_seen_widens_the_interval(http, config, past):
    estimate = (await previewed(http, config())).estimate
    [agent] = estimate.agents
    assert agent.known_tasks == 3
    assert agent.cost_usd.low < agent.cost_usd.median < agent.cost_usd.high
    assert agent.cost_usd.low < 2 * 0.5 + 1.0 + 0.6 < agent.cost_usd.high


async def test_an_agent_without_a_past_leaves_the_whole_without_an_estimate(http, config, past):
    asked = config(agents=[{"harness": "oracle"}, {"harness": "nop"}])
    estimate = (await previewed(http, asked)).estimate
    assert [one.cost_usd is None for one in estimate.agents] == [False, True]
    assert (estimate.cost_usd, estimate.why_no_cost) == (None, "the cost of nop is not known")


async def test_unreported_costs_are_unknown_and_not_nothing(stage, http, config):
    await stage.add_benchmark()
    run = await stage.submit()
    await stage.decide(run["id"], "queued", "started")
    await stage.result(run["id"], TASKS[0])
    await stage.result(run["id"], TASKS[1], usage=PAID)
    [agent] = (await previewed(http, config())).estimate.agents
    assert agent.cost_usd is None
    assert agent.why_no_cost == (
        "1 of the 2 past results of oracle report a cost, and two are needed"
    )
    assert agent.busy_seconds is not None


async def test_the_concurrency_is_what_past_runs_kept_busy(stage, http, config):
    await stage.add_benchmark()
    run = await stage.submit(execution={"max_concurrent_attempts": 2})
    await stage.decide(run["id"], "queued", "started")
    for task in TASKS:
        await stage.result(run["id"], task, seconds=0.001)
    await stage.decide(run["id"], "finished")
    asked = config(execution={"max_concurrent_attempts": 2})
    estimate = (await previewed(http, asked)).estimate
    assert estimate.measured_runs == 1
    assert estimate.concurrency == 1.0


async def test_a_deleted_run_is_in_no_estimate(http, config, past):
    assert (await http.delete(f"/runs/{past['id']}")).status_code == 204
    [agent] = (await previewed(http, config())).estimate.agents
    assert (agent.past_runs, agent.past_results) == (0, 0)
