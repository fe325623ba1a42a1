"""A benchmark that declares a judge, from its manifest to the verdicts: real services and
sandboxes, and a model that answers on a real port."""

import asyncio
import hashlib
import importlib.util
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import orjson
import psycopg
import pytest
from sqlalchemy import select

import gateway.app
import grader.app
import registry_sync.app
import run_scheduler.app
import sandbox_runner.app
from assay_contracts.http import Replay, SubmitRun, TaskRow
from assay_contracts.values import (
    BenchmarkRules,
    FolderSource,
    GitSource,
    JudgeRules,
    RegistrySource,
    SourceType,
)
from assay_kernel.blobs import BlobStore
from assay_local.embedded import create_database, free_port
from gateway.drafts import read_draft
from gateway.selections import JUDGE_PROVIDERS, Offer, resolve
from gateway.settings import GatewaySettings
from grader.judge_address import PROVIDERS
from grader.settings import GraderSettings
from grader.tables import agent_metrics, judgements, tries
from registry_sync.catalogue import InvalidManifestError
from registry_sync.settings import RegistrySettings
from registry_sync.sources import ReadTasks, open_source, read_tasks
from run_scheduler.settings import SchedulerSettings
from sandbox_runner.settings import RunnerSettings


def _beside(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROOT = Path(__file__).parents[2]
pipeline = _beside("pipeline", Path(__file__).with_name("conftest.py"))
says = _beside("model_server", ROOT / "services/grader/tests/model_server.py")

ADMIN, RUNNER = "admin-token-of-this-test", "runner-token-of-this-test"
KEY = "sk-hush-hush-0123456789abcdef"
ANSWER = "artifacts/logs/artifacts/answer.txt"
USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "cost": 0.5}
SCHEMA = """
[judge.output_schema]
type = "object"
required = ["score"]
[judge.output_schema.properties.score]
type = "number"
"""


def write_task(folder, *, solve="true", verify="true", reference="It is 42.", verifier_toml=""):
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text(
        f'version = "1.0"\n{verifier_toml}\n[environment]\ndocker_image = "x"\nworkdir = "/app"\n'
        'network_mode = "no-network"\n'
    )
    (folder / "instruction.md").write_text("What is it?\n")
    (folder / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{solve}\n")
    (folder / "tests" / "test.sh").write_text(f"#!/bin/bash\n{verify}\n")
    (folder / "tests" / "reference.md").write_text(reference)
    return folder


def judge_toml(base_url, **changes):
    fields = {
        "prompt": "{task}: {instruction} The answer <{answer}> is to mean <{reference}>.",
        "answer": ANSWER,
        "reference": "tests/reference.md",
        "reward": "score",
        "base_url": base_url,
        "model_default": "a/judge",
    } | changes
    lines = [f"{key} = {orjson.dumps(value).decode()}" for key, value in fields.items() if value]
    return "[judge]\n" + "\n".join(lines) + SCHEMA


@pytest.fixture
def model():
    """The judge's model: 1 where the answer is 42, else 0, for half a dollar each."""

    def judged(body):
        score = 1.0 if "<42>" in body["messages"][-1]["content"] else 0.0
        return says.completion({"score": score}, usage=USAGE)

    with says.model_server() as server:
        server.says(judged)
        yield server


class Door:
    """The gateway's address, and what a test does through it."""

    def __init__(self, url, platform, services):
        self.url = url
        self.platform = platform
        self.services = services

    def client(self):
        return httpx.AsyncClient(
            base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20
        )

    async def add(self, folder):
        """Add a benchmark by its folder, with a key for its judge; returns it once it is ready."""
        async with self.client() as client, asyncio.timeout(60):
            source = {"kind": "folder", "path": str(folder)}
            body = {"source": source, "name": "judged"}
            while (await self._added(client, body)).status_code != 201:
                await asyncio.sleep(0.05)
            await client.put("/secrets/JUDGE_KEY", json={"value": KEY})
            while True:
                found = (await client.get("/benchmarks/judged")).json()
                if found.get("sync_status") in {"ready", "failed"}:
                    return found
                await asyncio.sleep(0.05)

    async def _added(self, client, body):
        try:
            return await client.post("/benchmarks", json=body)
        except httpx.TransportError:  # it is not listening yet
            return httpx.Response(503)

    async def submit(self, **execution):
        execution = {"judge_api_key_secret": "JUDGE_KEY"} | execution
        asked = {
            "experiment": {"benchmark": "judged"},
            "agents": [{"harness": "oracle"}],
            "execution": execution,
        }
        async with self.client() as client:
            answer = await client.post("/runs", json={"config": asked})
        assert answer.status_code == 201, answer.text
        return UUID(answer.json()["id"])

    async def verdicts(self, run):
        """The run's verdicts by task, once it has ended."""
        await self.platform.ended(run)
        return {
            stored.event.data.slot.task: stored.event.data
            for stored in await self.platform.events(run)
            if stored.event.type == "result-graded"
        }


@pytest.fixture
def installed(serving, own_settings, platform, tmp_path):
    """Gateway, registry-sync, scheduler, and on demand grader and runner."""
    for name, text in (("admin", ADMIN), ("runner", RUNNER), ("master", "m" * 40)):
        (tmp_path / name).write_text(text)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    own = own_settings(
        GatewaySettings,
        http_port=port,
        admin_token_file=tmp_path / "admin",
        runner_token_file=tmp_path / "runner",
        master_key_file=tmp_path / "master",
    )

    @asynccontextmanager
    async def run(*, grading=True, running=False, **judge):
        grading_by = own_settings(
            GraderSettings,
            **{
                "gateway_url": url,
                "runner_token_file": tmp_path / "runner",
                "judge_retry_wait": 0.0,
                "judge_attempts": 2,
                "judge_tick": 0.2,
                **judge,
            },
        )
        reading = own_settings(RegistrySettings, work_dir=tmp_path / "registry")
        planning = own_settings(SchedulerSettings, scheduler_retry_base=0.05)
        running_in = own_settings(
            RunnerSettings,
            sandbox_environment="local",
            scratch_dir=tmp_path / "scratch",
            gateway_url=url,
            runner_token_file=tmp_path / "runner",
        )
        parts = [
            ("gateway", own, gateway.app.wire, gateway.app.SCHEMA),
            ("registry-sync", reading, registry_sync.app.wire, registry_sync.app.SCHEMA),
            ("run-scheduler", planning, run_scheduler.app.wire, run_scheduler.app.SCHEMA),
        ]
        if grading:
            parts.append(("grader", grading_by, grader.app.wire, grader.app.SCHEMA))
        if running:
            parts.append(("sandbox-runner", running_in, sandbox_runner.app.wire, None))
        async with serving(*parts) as services:
            yield Door(url, platform, {service.name: service for service in services})

    return run


@pytest.fixture
def benchmark(tmp_path, model):
    """A folder of tasks with a manifest; returns the folder."""

    def make(*names, manifest=None, **task):
        for name in names:
            write_task(tmp_path / "tasks" / name, **task)
        text = judge_toml(model.base_url) if manifest is None else manifest
        (tmp_path / "tasks" / "assay.toml").write_text(text)
        return tmp_path / "tasks"

    return make


@pytest.fixture
def stand_in(platform, settings):
    """A stand-in for the sandboxes, whose tries leave the answer that the task's name asks for."""
    blobs = BlobStore(settings.blob_url)

    async def left(text):
        sha256 = await blobs.keep(text.encode())
        listed = {"files": [{"path": ANSWER, "size": len(text.encode()), "sha256": sha256}]}
        return {"sha256": await blobs.keep(orjson.dumps(listed)), "files": 1, "bytes": len(text)}

    @asynccontextmanager
    async def run(answers):
        kept = {task: await left(text) for task, text in answers.items() if text is not None}

        def answer(order):
            return {
                "reward_valid": False,
                "retryable": False,
                "artifacts": kept.get(order.slot.task),
                "usage": {"input_tokens": 7, "cost_usd": 0.25},
                "exception": {
                    "type": "RewardFileNotFoundError",
                    "message": "no reward",
                    "phase": "verifier",
                },
            }

        runner = pipeline.StandInRunner(platform.store, answer)
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


def everything_in(database_url):
    """Every value of every table of a database, as text."""
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert len(tables) > 10
        return "".join(
            str(connection.execute(f"SELECT * FROM {name}").fetchall()) for (name,) in tables
        )


def reads_as(folder, *, exclude=()):
    return b"".join(
        path.read_bytes() for path in folder.rglob("*") if path.is_file() and path not in exclude
    )


async def test_a_judged_run_from_the_manifest_to_its_verdicts_and_the_key_is_nowhere(
    installed, benchmark, stand_in, model, tmp_path, database_url, capfd
):
    folder = benchmark("right", "wrong", "silent", "blank")
    answers = {"right": "42", "wrong": "{reference} {answer} It is 42.", "blank": " \n"}
    async with installed() as door, stand_in(answers):
        found = await door.add(folder)
        assert found["sync_status"] == "ready", found
        assert found["rules"]["judge"]["reward"] == "score"
        assert found["rules"]["requires_judge_model"]
        assert found["rules"]["requires_judge_api_key"]
        run = await door.submit()
        verdicts = await door.verdicts(run)
        service = door.services["grader"]
        last = await door.platform.store.last_sequence("RUNS")
        async with asyncio.timeout(60):
            while service.runners[0].sequence < last:
                await asyncio.sleep(0.02)
        [report] = await service.replay(Replay(verify=True))
        assert report.identical, report
        async with service.engine.connect() as connection:
            [metrics] = (await connection.execute(select(agent_metrics))).mappings().all()
            assert (await connection.execute(select(judgements))).all() == []
        streams = [
            stored.event.to_bytes()
            for stream in ("RUNS", "BENCHMARKS")
            async for stored in door.platform.store.read(stream, [f"{stream.lower()}.>"])
        ]
    assert {task: (one.outcome, one.reward) for task, one in verdicts.items()} == {
        "right": ("passed", 1.0),
        "wrong": ("failed", 0.0),
        "silent": ("failed", 0.0),
        "blank": ("failed", 0.0),
    }
    assert verdicts["right"].reward_rule == "the judge's score"
    assert f"left no {ANSWER}" in verdicts["silent"].reason
    assert "blank" in verdicts["blank"].reason
    assert [verdicts[task].judge for task in ("silent", "blank")] == [None, None]
    record = verdicts["wrong"].judge
    assert (record.model, record.requests) == ("a/judge", 1)
    assert (record.usage.input_tokens, record.usage.cost_usd) == (100, 0.5)
    # The agent's own cost knows nothing of the judge's.
    measures = metrics["measures"]
    assert (measures["cost_usd"], measures["input_tokens"]) == (1.0, 28)
    assert measures["spent"]["judge_cost_usd"] == 1.0
    exchange = orjson.loads((tmp_path / blob_path(record.exchange)).read_bytes())
    assert exchange["verdict"] == {"score": 0.0}
    [request] = exchange["requests"]
    assert request["request"]["messages"][1]["content"] == (
        "wrong: What is it?\n The answer <{reference} {answer} It is 42.> is to mean <It is 42.>."
    )
    assert len(model.asked) == 2
    assert {one.authorization for one in model.asked} == {f"Bearer {KEY}"}
    hush = KEY[3:12].encode()
    assert hush not in b"".join(streams)
    assert hush not in reads_as(tmp_path / "blobs")
    assert hush not in reads_as(tmp_path / "nats")
    assert hush.decode() not in everything_in(database_url)
    out, err = capfd.readouterr()
    assert "judged" in out + err
    assert hush.decode() not in out + err


def blob_path(sha256):
    return Path("blobs", "sha256", sha256[:2], sha256[2:])


async def test_a_grader_killed_between_the_reply_and_its_commit_tells_one_verdict(
    installed, benchmark, stand_in, model, settings, tmp_path, database_url
):
    folder = benchmark("right")
    async with installed(grading=False) as door, stand_in({"right": "42"}):
        environment = os.environ | {
            "ASSAY_NATS_URL": settings.nats_url.get_secret_value(),
            "ASSAY_DATABASE_URL": database_url,
            "ASSAY_BLOB_URL": settings.blob_url,
            "ASSAY_GATEWAY_URL": door.url,
            "ASSAY_RUNNER_TOKEN_FILE": str(tmp_path / "runner"),
            "ASSAY_JUDGE_LEASE": "1",
            "ASSAY_JUDGE_TICK": "0.2",
        }

        def start():
            with (tmp_path / "grader.log").open("ab") as log:
                return subprocess.Popen(
                    [sys.executable, "-m", "grader"], env=environment, stdout=log, stderr=log
                )

        killed = start()
        try:
            await door.add(folder)
            await migrated(database_url)
            with psycopg.connect(database_url) as holding:
                # Nothing can be written into the outbox: the verdict is known and not committed.
                holding.execute("LOCK TABLE grader.outbox IN SHARE ROW EXCLUSIVE MODE")
                run = await door.submit()
                async with asyncio.timeout(60):
                    while not (len(model.asked) == 1 and await blocked(database_url)):
                        await asyncio.sleep(0.05)
                killed.kill()
                killed.wait()
        finally:
            killed.kill()
            killed.wait()
        second = start()
        try:
            verdicts = await door.verdicts(run)
            async with asyncio.timeout(60):
                while await left_to_judge(database_url):
                    await asyncio.sleep(0.05)
        finally:
            second.terminate()
            second.wait()
        told = [one.event.type for one in await door.platform.events(run)]
    assert verdicts["right"].outcome == "passed"
    assert told.count("result-graded") == 1
    assert len(model.asked) == 2
    assert KEY.encode() not in (tmp_path / "grader.log").read_bytes()


async def migrated(database_url):
    async with asyncio.timeout(60):
        while True:
            with psycopg.connect(database_url) as connection:
                [there] = connection.execute("SELECT to_regclass('grader.judgements')").fetchone()
            if there is not None:
                return
            await asyncio.sleep(0.05)


async def blocked(database_url):
    with psycopg.connect(database_url) as connection:
        [count] = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted "
            "AND relation = 'grader.outbox'::regclass"
        ).fetchone()
    return count > 0


async def left_to_judge(database_url):
    with psycopg.connect(database_url) as connection:
        [count] = connection.execute("SELECT count(*) FROM grader.judgements").fetchone()
    return count


async def test_a_grader_on_an_empty_database_pays_for_no_verdict_again(
    installed, benchmark, stand_in, model, serving, own_settings, postgres_url
):
    async with installed() as door, stand_in({"a": "42", "b": "no"}):
        await door.add(benchmark("a", "b"))
        run = await door.submit()
        await door.verdicts(run)
    assert len(model.asked) == 2
    empty = create_database(postgres_url, f"t{uuid4().hex}")
    anew = own_settings(GraderSettings, database_url=empty, judge_tick=0.05)
    last = await door.platform.store.last_sequence("RUNS")
    async with serving(("grader", anew, grader.app.wire, grader.app.SCHEMA)) as [service]:
        async with asyncio.timeout(60):
            while service.runners[0].sequence < last:
                await asyncio.sleep(0.02)
        async with service.engine.connect() as connection:
            assert (await connection.execute(select(judgements))).all() == []
            rows = (await connection.execute(select(tries.c.task, tries.c.outcome))).all()
    assert sorted(map(tuple, rows)) == [("a", "passed"), ("b", "failed")]
    told = [one.event.type for one in await door.platform.events(run)]
    assert told.count("result-graded") == 2
    assert len(model.asked) == 2


async def test_a_gateway_that_is_away_delays_a_judgement_and_costs_no_verdict(
    installed, benchmark, stand_in, model, database_url
):
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with installed(gateway_url=nowhere) as door, stand_in({"right": "42"}):
        await door.add(benchmark("right"))
        run = await door.submit()
        query = "SELECT 1 FROM grader.judgements WHERE claim IS NULL AND not_before > now()"
        async with asyncio.timeout(60):
            while True:
                with psycopg.connect(database_url) as connection:
                    if connection.execute(query).fetchall():
                        break
                await asyncio.sleep(0.05)
        told = [one.event.type for one in await door.platform.events(run)]
    assert "result-graded" not in told
    assert model.asked == []


async def test_a_key_that_was_deleted_ends_the_slot_errored_without_asking(
    installed, benchmark, stand_in, model
):
    async with installed() as door, stand_in({"right": "42"}) as runner:
        await door.add(benchmark("right"))
        runner.gate.clear()
        run = await door.submit()
        async with door.client() as client:
            assert (await client.delete("/secrets/JUDGE_KEY")).status_code == 204
        runner.gate.set()
        verdict = (await door.verdicts(run))["right"]
    assert (verdict.outcome, verdict.cause, verdict.retryable) == ("errored", "provider", False)
    assert "secrets are missing: JUDGE_KEY" in verdict.reason
    assert verdict.judge is None
    assert model.asked == []


async def test_a_model_that_never_replies_as_asked_ends_the_slot_errored_with_its_record(
    installed, benchmark, stand_in, model
):
    model.says(says.completion("well", usage={"prompt_tokens": 1, "completion_tokens": 1}))
    async with installed() as door, stand_in({"right": "42"}):
        await door.add(benchmark("right"))
        verdict = (await door.verdicts(await door.submit(judge_model="b/other")))["right"]
    assert (verdict.outcome, verdict.cause, verdict.retryable) == ("errored", "verifier", True)
    assert "the judge's reply cannot be used: it is not JSON" in verdict.reason
    assert (verdict.judge.model, verdict.judge.requests) == ("b/other", 3)
    assert (verdict.judge.usage.input_tokens, verdict.judge.usage.cost_usd) == (3, None)


async def test_a_stop_lets_the_judge_ask_nothing_new(installed, benchmark, stand_in, model):
    model.says(says.Says(b"", hanging=True))
    settings = {"judge_concurrency": 1, "judge_timeout": 2.0, "judge_attempts": 1}
    async with installed(**settings) as door, stand_in({"a": "42", "b": "42"}):
        await door.add(benchmark("a", "b"))
        run = await door.submit()
        async with asyncio.timeout(60):
            while (
                len(model.asked) < 1
                or [one.event.type for one in await door.platform.events(run)].count(
                    "result-ingested"
                )
                < 2
            ):
                await asyncio.sleep(0.02)
        await door.platform.ask_to_stop(run)
        verdicts = await door.verdicts(run)
        assert (await door.platform.lifecycle(run))[-1] == "stopped"
    assert sorted(one.outcome for one in verdicts.values()) == ["cancelled", "errored"]
    assert len(model.asked) == 1


async def test_the_whole_platform_judges_what_a_real_sandbox_left(installed, benchmark, model):
    folder = benchmark(
        "right", solve="mkdir -p /logs/artifacts; printf 42 > /logs/artifacts/answer.txt"
    )
    async with installed(running=True) as door:
        await door.add(folder)
        verdict = (await door.verdicts(await door.submit()))["right"]
    assert (verdict.outcome, verdict.reward, verdict.reason) == ("passed", 1.0, None)
    assert verdict.judge.requests == 1


async def test_a_verifier_that_judges_by_itself_gets_model_and_key_and_the_agent_does_not(
    installed, benchmark, model
):
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    manifest = (
        "[rules]\nrequires_judge_model = true\nrequires_judge_api_key = true\n"
        'judge_model_default = "a/judge"\n'
    )
    folder = benchmark(
        "own",
        manifest=manifest,
        solve='env | grep -c JUDGE_ > /app/seen; test -z "$JUDGE_KEY" && touch /app/clean',
        verify="had() { printf %s \"$1\" | sha256sum | cut -d' ' -f1; }\n"
        f'if [ "$JUDGE_MODEL" = a/judge ] && [ "$(had "$JUDGE_KEY")" = {digest} ]'
        " && [ -f /app/clean ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
        'echo "$JUDGE_KEY" > /logs/verifier/said.txt',
    )
    async with installed(running=True) as door:
        await door.add(folder)
        run = await door.submit()
        verdict = (await door.verdicts(run))["own"]
        [result] = [
            one.event.data
            for one in await door.platform.events(run)
            if one.event.type == "result-ingested"
        ]
        blobs = BlobStore(door.platform.settings.blob_url)
        listed = orjson.loads(await blobs.read(result.artifacts.sha256))["files"]
        [said] = [one["sha256"] for one in listed if one["path"] == "verifier/said.txt"]
        written = await blobs.read(said)
        assert written.strip()
        assert KEY.encode() not in written
    assert (verdict.outcome, verdict.reward, verdict.judge) == ("passed", 1.0, None)
    assert model.asked == []


# What a submission must say.

RULES = JudgeRules(prompt="{answer}", answer="a", output_schema={})


def resolved(judge=RULES, **execution):
    offer = Offer(
        tasks=[TaskRow(name="t", category=None, difficulty=None, unavailable=None)],
        task_sets=[],
        rules=BenchmarkRules(judge=judge, judge_model_default="openai/gpt-5"),
        source_type=SourceType.REGISTRY,
    )
    config = {
        "experiment": {"benchmark": "judged"},
        "agents": [{"harness": "oracle"}],
        "execution": execution,
    }
    return resolve(read_draft(SubmitRun(config=config)), offer)


def test_the_judge_and_its_default_model_go_with_the_run():
    found = resolved(judge_api_key_secret="JUDGE_KEY")
    assert found.issues == ()
    assert (found.judge, found.execution.judge_model) == (RULES, "openai/gpt-5")


def test_a_judge_needs_a_key():
    assert [one.key for one in resolved().issues] == ["execution.judge_api_key_secret"]


def test_a_model_that_the_grader_could_not_find_is_refused_before_anything_runs():
    key = {"judge_api_key_secret": "JUDGE_KEY"}
    [issue] = resolved(judge_model="opnai/gpt-5", **key).issues
    assert (issue.key, issue.key_correction) == ("execution.judge_model", "openai/gpt-5")
    [issue] = resolved(judge_model="gpt-5", **key).issues
    assert "must be named as provider/model" in issue.message
    own = RULES.model_copy(update={"base_url": "http://h/v1"})
    assert resolved(own, judge_model="gpt-5", **key).issues == ()


def test_gateway_and_grader_know_the_same_providers():
    assert tuple(PROVIDERS) == JUDGE_PROVIDERS


# What a manifest may say.


@pytest.fixture
def read(tmp_path):
    """Opens a source and reads it whole; returns its rules and its digest."""
    blobs = BlobStore(f"file://{tmp_path}/blobs")

    async def run(source):
        work = tmp_path / f"work-{len(list(tmp_path.glob('work-*')))}"
        work.mkdir()
        opened = await open_source(source, work)
        total = ReadTasks()
        async for _ in read_tasks(opened, blobs, work, total):
            pass
        return opened.rules, total.digest

    return run


def manifest_in(folder, text, **files):
    write_task(folder / "one")
    write_task(folder / "two")
    (folder / "assay.toml").write_text(text)
    for name, content in files.items():
        (folder / f"{name}.txt").write_text(content)
    return folder


FILES = '[rules]\npass_threshold = 0.5\n[judge]\nprompt_file = "prompt.txt"\nanswer = "a.txt"\n' + (
    'output_schema_file = "schema.txt"\nreward = "verdict.score"\nmodel_default = "openai/gpt-5"\n'
)
EXPECTED = BenchmarkRules(
    pass_threshold=0.5,
    requires_judge_model=True,
    requires_judge_api_key=True,
    judge_model_default="openai/gpt-5",
    judge=JudgeRules(
        prompt='Is {answer} right? {"verdict": {"score": 1}}',
        answer="a.txt",
        output_schema={"type": "object"},
        reward="verdict.score",
    ),
)
HELD = {"prompt": EXPECTED.judge.prompt, "schema": '{"type": "object"}'}


async def test_a_manifest_in_a_folder_gives_the_rules_and_pins_them(tmp_path, read):
    folder = manifest_in(tmp_path / "bench", FILES, **HELD)
    source = FolderSource(path=str(folder))
    rules, digest = await read(source)
    assert rules == EXPECTED
    assert await read(source) == (rules, digest)
    (folder / "prompt.txt").write_text("Is {answer} good?")
    assert (await read(source))[1] != digest
    (folder / "assay.toml").unlink()
    rules, without = await read(source)
    assert (rules, without != digest) == (BenchmarkRules(), True)


@pytest.mark.parametrize("below", [None, "datasets/x"])
async def test_a_manifest_in_a_repository_is_read_at_the_commit(tmp_path, read, below):
    repository = tmp_path / "repository"
    manifest_in(repository / (below or "."), FILES, **HELD)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        git = ["git", "-C", str(repository), *identity, *command]
        await asyncio.to_thread(subprocess.run, git, check=True)
    rules, _ = await read(GitSource(url=f"file://{repository}", path=below))
    assert rules == EXPECTED
    listed = [
        {"name": task, "git_url": f"file://{repository}", "path": str(Path(below or ".", task))}
        for task in ("one", "two")
    ]
    dataset = {"name": "d", "version": "1", "description": "", "tasks": listed}
    (tmp_path / "registry.json").write_bytes(orjson.dumps([dataset]))
    registry = RegistrySource(dataset="d", registry=str(tmp_path / "registry.json"))
    assert (await read(registry))[0] == EXPECTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[judge", "not TOML"),
        ("[jugde]", "jugde is no key that it may hold; did you mean judge?"),
        (
            "[rules]\npass_treshold = 1",
            "rules.pass_treshold is no key.*did you mean pass_threshold",
        ),
        ("[rules]\npass_threshold = 2", "rules.pass_threshold: input should be less"),
        ("[rules]\njudge = {}", "rules.judge is no key"),
        (judge_toml(None, promt="x"), "judge.promt is no key.*did you mean prompt"),
        (judge_toml(None, prompt=None), "needs one of prompt and prompt_file"),
        (judge_toml(None, prompt_file="prompt.txt"), "needs one of prompt and prompt_file"),
        (judge_toml(None, output_schema_file="s.txt"), "needs one of output_schema"),
        (judge_toml(None, answer=None), "judge.answer: field required"),
        (judge_toml(None, answer="../a.txt"), "judge.answer must be a relative path"),
        (judge_toml(None, reference="environment/r.md"), "where the agent can see it"),
        (judge_toml(None, reference=None), "exactly where judge.reference is given"),
        (judge_toml(None, prompt="{anwser}", reference=None), "did you mean answer"),
        (judge_toml(None, prompt="Is it?", reference=None), "does not name {answer}"),
        (judge_toml(None, prompt="{answer}" * 3000, reference=None), "longer than 16 KiB"),
        (judge_toml(None, reward="a..b"), "judge.reward"),
        (judge_toml("ftp://h"), "judge.base_url"),
        (judge_toml("https://u:p@h/v1"), "carries a password or token"),
        (judge_toml(None) + "maximum = 'x'", "no JSON Schema at properties.score.maximum"),
        (judge_toml(None) + '"$ref" = "http://h/s.json"', "refers to http://h/s.json"),
        (judge_toml(None) + "default = 2020-01-01", "is no JSON"),
        ("[rules]\nrequires_judge_model = false\n" + judge_toml(None), "cannot be false"),
        ('[rules]\njudge_model_default = "a/b"\n' + judge_toml(None), "judge.model_default"),
        ('[rules]\nreward_key = "a"\n' + judge_toml(None), "judge.reward"),
        (FILES.replace("prompt.txt", "none.txt"), "no file none.txt beside it"),
        (FILES.replace("prompt.txt", "/etc/hostname"), "prompt_file must be a relative path"),
        (FILES.replace("schema.txt", "prompt.txt"), "prompt.txt is not JSON"),
    ],
)
async def test_a_manifest_with_a_mistake_is_refused_with_what_to_do(tmp_path, read, text, said):
    folder = manifest_in(tmp_path / "bench", text, **HELD)
    with pytest.raises(InvalidManifestError, match=said):
        await read(FolderSource(path=str(folder)))


async def test_a_link_in_place_of_a_prompt_leads_nowhere(tmp_path, read):
    folder = manifest_in(tmp_path / "bench", FILES, **HELD)
    (tmp_path / "outside.txt").write_text("{answer}")
    (folder / "prompt.txt").unlink()
    (folder / "prompt.txt").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(InvalidManifestError, match=r"no file prompt\.txt beside it"):
        await read(FolderSource(path=str(folder)))


async def test_a_failed_manifest_fails_the_sync_with_the_mistake(installed, benchmark, model):
    folder = benchmark("one", manifest="[jugde]")
    async with installed() as door:
        found = await door.add(folder)
    assert found["sync_status"] == "failed"
    assert "did you mean judge?" in found["sync_error"]
