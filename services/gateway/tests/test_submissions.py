"""Runs submitted by HTTP: what is appended, and that a refusal leaves nothing behind."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import select

import gateway.tables
from assay_contracts.http import RunDetail, RunEntry
from assay_contracts.identifiers import new_id
from assay_contracts.run_events import RunSubmitted
from gateway.master_keys import KeySource
from gateway.vault import Vault

MODEL = {"type": "provider", "model": "a/b", "api_key_secret": "MODEL_KEY"}
CODEX = [{"harness": "codex", "model": MODEL}]


async def refused(stage, http, body, status, code):
    """The problem of a submission that must leave nothing behind."""
    answer = await http.post("/runs", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert await stage.nothing_happened()
    return problem


async def test_a_submission_is_one_event_with_everything_resolved_and_pinned(stage, http, config):
    benchmark = await stage.add_benchmark(rules={"pass_threshold": 0.5, "reward_key": "score"})
    request_id = new_id()
    body = {"config": config(execution={"attempts_per_task": 3}), "environment": "local"}
    answer = await http.post("/runs", json=body, headers={"X-Request-ID": str(request_id)})
    assert answer.status_code == 201, answer.text
    entry = RunEntry.model_validate(answer.json())
    [stored] = await stage.events(str(entry.id))
    event = stored.event
    assert isinstance(event, RunSubmitted)
    assert (event.correlation_id, event.causation_id) == (request_id, None)
    data = event.data
    assert (data.name, data.expected_results, data.environment) == (entry.name, 12, "local")
    assert (data.benchmark.id, data.benchmark.digest) == (benchmark, "sha256:toy")
    assert (data.execution.pass_threshold, data.execution.reward_key) == (0.5, "score")
    assert (entry.status, entry.expected_results, entry.submitted_by) == ("pending", 12, "admin")


async def test_what_a_run_shows_as_its_configuration_can_be_submitted_again(stage, http, config):
    tasks = [{"name": "a", "category": "x"}, {"name": "b", "category": "x"}, {"name": "c"}]
    await stage.add_benchmark(tasks=tasks, task_sets=[{"name": "one", "tasks": ["b"]}])
    for chosen in ({}, {"task_set": "one"}, {"categories": ["x"], "task_names": ["c", "a"]}):
        first = await stage.submit(tasks=chosen, env={"LEVEL": "2"})
        detail = (await http.get(f"/runs/{first['id']}")).json()
        again = await http.post("/runs", json={"config": detail["config"]})
        assert again.status_code == 201, again.text
        same = (await http.get(f"/runs/{again.json()['id']}")).json()
        for part in ("config", "selection", "benchmark_digest", "expected_results"):
            assert same[part] == detail[part]


async def test_mistakes_of_every_kind_are_told_in_one_answer(stage, http, config):
    await stage.add_benchmark()
    body = {
        "config": config(
            agents=[{"harness": "codx", "model": MODEL}],
            tasks={"task_names": ["fix-romn"]},
            execution={"judge_model": "a/b", "max_retry": 1},
            secrets={"required": ["TOOL_KEY"]},
        ),
        "environment": "No Name",
        "secrets": {"OTHER_KEY": "v"},
    }
    problem = await refused(stage, http, body, 422, "VALIDATION")
    told = {one["key"]: one for one in problem["issues"]}
    assert set(told) == {
        "agents[0].harness",
        "execution.max_retry",
        "tasks.task_names[0]",
        "environment",
        "secrets.OTHER_KEY",
        "secrets.MODEL_KEY",
        "secrets.TOOL_KEY",
    }
    assert told["tasks.task_names[0]"]["key_correction"] == "fix-roman"
    assert problem["details"]["missing"] == ["MODEL_KEY", "TOOL_KEY"]
    for key in told:
        assert key in problem["detail"]


async def test_an_unknown_benchmark_is_told_with_near_names(stage, http, config):
    await stage.add_benchmark("terminal-bench")
    body = {"config": config(experiment={"benchmark": "terminal-bnch"})}
    problem = await refused(stage, http, body, 404, "NOT_FOUND")
    assert "did you mean terminal-bench" in problem["detail"]
    with_more = {"config": body["config"] | {"more": 1}}
    problem = await refused(stage, http, with_more, 422, "VALIDATION")
    assert [one["key"] for one in problem["issues"]] == ["more", "experiment.benchmark"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("pending", "wait to be read"),
        ("syncing", "are being read (0 of 4)"),
        ("failed", "the registry does not answer"),
    ],
)
async def test_a_benchmark_that_is_not_ready_says_how_far_it_is(stage, http, config, status, said):
    await stage.add_benchmark(status=status)
    body = {"config": config(agents=CODEX)}
    problem = await refused(stage, http, body, 409, "BENCHMARK_NOT_READY")
    assert f"toy is {status}" in problem["detail"]
    assert said in problem["detail"]
    assert problem["details"]["sync_status"] == status
    assert problem["details"]["missing"] == ["MODEL_KEY"]
    if status == "failed":
        assert "assay benchmark sync toy" in problem["detail"]


async def test_every_missing_secret_is_named_with_what_to_type(stage, http, config):
    await stage.add_benchmark()
    body = {
        "config": config(agents=CODEX, secrets={"required": ["TOOL_KEY", "GIVEN_KEY"]}),
        "secrets": {"GIVEN_KEY": "v"},
    }
    problem = await refused(stage, http, body, 404, "MISSING_SECRETS")
    assert problem["details"] == {"missing": ["MODEL_KEY", "TOOL_KEY"]}
    for name in ("MODEL_KEY", "TOOL_KEY"):
        assert f"assay secret set {name}" in problem["detail"]


async def test_secrets_are_found_in_either_scope_and_the_scopes_are_recorded(stage, http, config):
    await stage.add_benchmark()
    for name, scope in (("MODEL_KEY", "workspace"), ("MODEL_KEY", "user"), ("A_KEY", "workspace")):
        await http.put(f"/secrets/{name}", json={"value": "hush", "scope": scope})
    body = {
        "config": config(agents=CODEX, secrets={"required": ["A_KEY", "B_KEY"]}),
        "secrets": {"B_KEY": "hush"},
    }
    run = (await http.post("/runs", json=body)).json()
    detail = RunDetail.model_validate((await http.get(f"/runs/{run['name']}")).json())
    assert detail.secret_scopes == {
        "MODEL_KEY": "user_override",
        "A_KEY": "workspace",
        "B_KEY": "run",
    }
    async with stage.client(workspace="other") as elsewhere:
        await stage.add_benchmark("toy", workspace="other")
        answer = await elsewhere.post("/runs", json={"config": body["config"]})
        assert answer.json()["details"]["missing"] == ["MODEL_KEY", "A_KEY", "B_KEY"]


async def test_an_event_too_large_is_refused_with_what_to_shorten(stage, http, config):
    await stage.add_benchmark()
    body = {"config": config(env={f"NAME_{n}": "x" * 1000 for n in range(70)})}
    problem = await refused(stage, http, body, 413, "TOO_LARGE")
    assert "shorten env" in problem["detail"]


async def test_text_that_no_read_model_can_hold_never_becomes_an_event(stage, http, config):
    await stage.add_benchmark()
    problem = await refused(
        stage, http, {"config": config(env={"NAME": "a\0b"})}, 422, "VALIDATION"
    )
    assert "NUL" in problem["detail"]
    for text in (r'"\ud800"', "NaN", "[" * 5000 + "]" * 5000):
        content = f'{{"config": {{"env": {text}}}}}'
        answer = await http.post(
            "/runs", content=content, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION"), text[:20]
    assert await stage.nothing_happened()


async def test_names_are_unique_in_a_workspace_also_when_the_same_one_is_drawn(
    stage, config, monkeypatch
):
    await stage.add_benchmark()
    drawn = iter(["bright-otter"] * 6 + ["calm-heron", "dusky-wren", "eager-finch"])
    monkeypatch.setattr("gateway.own_queries.new_run_name", lambda: next(drawn))
    runs = await asyncio.gather(*(stage.submit() for _ in range(3)))
    assert len({run["name"] for run in runs}) == 3
    async with stage.engine.connect() as connection:
        rows = (await connection.execute(select(gateway.tables.run_names))).all()
    assert {(row.name, row.run) for row in rows} == {(run["name"], UUID(run["id"])) for run in runs}


async def test_without_a_master_key_a_run_with_secrets_is_refused_whole(
    stage, http, config, monkeypatch
):
    await stage.add_benchmark()
    monkeypatch.setattr(stage.desk, "vault", Vault(stage.engine, KeySource()))
    body = {"config": config(secrets={"required": ["A_KEY"]}), "secrets": {"A_KEY": "v"}}
    problem = await refused(stage, http, body, 503, "UNAVAILABLE")
    assert "ASSAY_MASTER_KEY_FILE" in problem["detail"]


async def test_where_the_read_model_lags_the_answer_is_made_from_the_event(
    stage, http, config, monkeypatch
):
    await stage.add_benchmark()

    async def never(*_args, **_more):
        return False

    monkeypatch.setattr("gateway.desk.wait_for_sequence", never)
    answer = await http.post("/runs", json={"config": config()})
    entry = RunEntry.model_validate(answer.json())
    [stored] = await stage.events(str(entry.id))
    assert (answer.status_code, entry.name) == (201, stored.event.data.name)


async def test_where_the_read_model_is_not_there_at_all_the_run_is_still_answered(
    stage, http, config
):
    await stage.add_benchmark()
    async with stage.engine.begin() as connection:
        await connection.exec_driver_sql("ALTER SCHEMA run_scheduler RENAME TO not_yet")
    answer = await http.post("/runs", json={"config": config()})
    assert (answer.status_code, answer.json()["status"]) == (201, "pending")
    listed = await http.get("/runs")
    assert (listed.status_code, listed.json()["code"]) == (503, "UNAVAILABLE")
    assert listed.headers["Retry-After"] == "1"
