"""Secrets: encrypted at rest, never read back, and handed to a run's own runner alone."""

import base64
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from nacl.public import PrivateKey, SealedBox
from sqlalchemy import select, text, update

import gateway.tables
from assay_contracts.identifiers import new_id
from gateway.master_keys import KeySource
from gateway.secret_sweep import sweep_once
from gateway.vault import Vault

MODEL = {"type": "provider", "model": "a/b", "api_key_secret": "MODEL_KEY"}
table = gateway.tables.secrets


@pytest.fixture
def key():
    return PrivateKey.generate()


@pytest.fixture
async def claim(stage, http, config, key):
    """A run that refers to three secrets, and the claim of a runner for them."""
    await stage.add_benchmark()
    for name, scope, value in (
        ("MODEL_KEY", "workspace", "hush-of-all"),
        ("MODEL_KEY", "user", "hush-of-admin"),
        ("A_KEY", "workspace", "hush-a"),
        ("UNRELATED", "workspace", "hush-unrelated"),
    ):
        await http.put(f"/secrets/{name}", json={"value": value, "scope": scope})
    asked = config(
        agents=[{"harness": "codex", "model": MODEL}], secrets={"required": ["A_KEY", "B_KEY"]}
    )
    run = await http.post("/runs", json={"config": asked, "secrets": {"B_KEY": "hush-b"}})
    assert run.status_code == 201, run.text
    return {
        "workspace": "default",
        "run": run.json()["id"],
        "names": ["MODEL_KEY", "A_KEY", "B_KEY"],
        "public_key": base64.b64encode(bytes(key.public_key)).decode(),
    }


async def scopes_kept(stage):
    async with stage.engine.connect() as connection:
        return sorted((await connection.scalars(select(table.c.scope))).all())


async def test_a_secret_is_set_listed_replaced_and_deleted_but_never_read_back(http):
    first = await http.put("/secrets/API_KEY", json={"value": "hush-1"})
    assert (first.status_code, first.json()["scope"]) == (200, "user")
    second = await http.put("/secrets/API_KEY", json={"value": "hush-2"})
    assert second.json()["created_at"] == first.json()["created_at"]
    assert second.json()["updated_at"] > first.json()["updated_at"]
    await http.put("/secrets/API_KEY", json={"value": "hush-3", "scope": "workspace"})
    listed = await http.get("/secrets")
    assert [(one["name"], one["scope"]) for one in listed.json()["items"]] == [
        ("API_KEY", "user"),
        ("API_KEY", "workspace"),
    ]
    assert "hush" not in first.text + second.text + listed.text
    assert (await http.get("/secrets/API_KEY")).status_code == 405
    assert (await http.delete("/secrets/API_KEY")).status_code == 204
    assert (await http.delete("/secrets/API_KEY")).status_code == 404
    gone = await http.delete("/secrets/API_KEY", params={"scope": "workspace"})
    assert gone.status_code == 204


@pytest.mark.parametrize("name", ["lower", "1KEY", "A-KEY", "KEY%0A", "K" * 256])
async def test_a_name_that_is_none_is_refused(stage, http, name):
    answer = await http.put(f"/secrets/{name}", json={"value": "v"})
    assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION")
    assert await scopes_kept(stage) == []


async def test_no_refusal_repeats_the_value(http):
    for body in (
        {"value": "hush-1", "scope": "everybody"},
        {"value": "hush-1" * 20_000},
        {"value": "hush-1", "more": "hush-1"},
        {"value": ["hush-1"]},
    ):
        answer = await http.put("/secrets/API_KEY", json=body)
        assert answer.status_code == 422
        assert "hush" not in answer.text


async def test_another_workspace_sees_and_deletes_nothing(stage, http):
    await http.put("/secrets/API_KEY", json={"value": "hush", "scope": "workspace"})
    async with stage.client(workspace="other") as other:
        assert (await other.get("/secrets")).json()["items"] == []
        for scope in ("user", "workspace"):
            gone = await other.delete("/secrets/API_KEY", params={"scope": scope})
            assert gone.status_code == 404
    assert await scopes_kept(stage) == ["workspace"]


async def test_a_runner_gets_the_values_sealed_to_its_key_the_nearest_scope_first(
    runner_http, claim, key
):
    answer = await runner_http.post("/internal/secrets", json=claim)
    assert "hush" not in answer.text
    opened = SealedBox(key).decrypt(base64.b64decode(answer.json()["sealed"]))
    assert orjson.loads(opened) == {
        "MODEL_KEY": "hush-of-admin",
        "A_KEY": "hush-a",
        "B_KEY": "hush-b",
    }


async def test_no_value_lies_anywhere_in_the_database_or_the_stream(stage, claim):
    async with stage.engine.connect() as connection:
        tables = await connection.execute(
            text(
                "SELECT schemaname, tablename FROM pg_tables "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            )
        )
        for schema, name in tables.all():
            rows = await connection.execute(text(f'SELECT t.*::text FROM "{schema}"."{name}" t'))
            for row in rows:
                assert "hush" not in str(row)
        for row in (await connection.execute(select(table))).all():
            assert b"hush" not in row.sealed + row.wrapped_key
    told = b"".join(one.event.to_bytes() for one in await stage.events(claim["run"]))
    assert b"hush" not in told
    assert b"B_KEY" in told


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"names": ["UNRELATED"]}, 403, "FORBIDDEN"),
        ({"workspace": "other"}, 404, "NOT_FOUND"),
        ({"run": str(new_id())}, 404, "NOT_FOUND"),
        ({"public_key": "not base64"}, 422, "VALIDATION"),
        ({"public_key": "c2hvcnQ="}, 422, "VALIDATION"),
    ],
)
async def test_a_claim_beyond_the_run_is_refused(runner_http, claim, changes, status, code):
    answer = await runner_http.post("/internal/secrets", json=claim | changes)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_each_token_opens_its_own_door_alone(http, runner_http, claim):
    assert (await http.post("/internal/secrets", json=claim)).status_code == 401
    assert (await runner_http.get("/secrets")).status_code == 401
    assert (await runner_http.post("/runs", json={})).status_code == 401


async def test_a_secret_that_was_deleted_meanwhile_is_named(http, runner_http, claim):
    await http.delete("/secrets/A_KEY", params={"scope": "workspace"})
    answer = await runner_http.post("/internal/secrets", json=claim)
    assert (answer.status_code, answer.json()["code"]) == (404, "MISSING_SECRETS")
    assert answer.json()["details"]["missing"] == ["A_KEY"]


async def test_a_run_that_has_ended_gets_nothing_even_before_the_read_model_knows(
    stage, http, runner_http, claim
):
    await stage.hold_read_models()
    await stage.decide(claim["run"], "stopped")
    assert (await http.get(f"/runs/{claim['run']}")).json()["status"] == "pending"
    answer = await runner_http.post("/internal/secrets", json=claim)
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert "run" not in await scopes_kept(stage)


async def test_what_was_given_for_a_run_is_swept_once_it_has_ended(stage, claim):
    now = datetime.now(UTC)
    await sweep_once(stage.desk, now + timedelta(days=1))
    assert "run" in await scopes_kept(stage)
    await stage.decide(claim["run"], "stopped")
    await sweep_once(stage.desk, now)
    assert await scopes_kept(stage) == ["user", "workspace", "workspace", "workspace"]


async def test_what_was_given_for_a_run_that_never_came_is_swept_after_an_hour(stage):
    async with stage.engine.begin() as connection:
        given = {"A_KEY": "hush"}
        await stage.vault.keep_for_run(connection, "default", new_id(), given, "admin")
    now = datetime.now(UTC)
    await sweep_once(stage.desk, now + timedelta(minutes=50))
    assert await scopes_kept(stage) == ["run"]
    await sweep_once(stage.desk, now + timedelta(minutes=70))
    assert await scopes_kept(stage) == []


async def test_a_record_moved_elsewhere_or_under_another_master_key_does_not_open(
    stage, runner_http, claim, tmp_path
):
    (tmp_path / "other").write_text("n" * 40)
    stage.desk.vault = Vault(stage.engine, KeySource(tmp_path / "other"))
    answer = await runner_http.post("/internal/secrets", json=claim)
    assert answer.status_code == 409
    assert "set it again" in answer.json()["detail"]
    stage.desk.vault = stage.vault
    async with stage.engine.begin() as connection:
        await connection.execute(
            update(table).where(table.c.name == "UNRELATED").values(name="TAKEN")
        )
        await connection.execute(table.delete().where(table.c.name == "A_KEY"))
        await connection.execute(update(table).where(table.c.name == "TAKEN").values(name="A_KEY"))
    answer = await runner_http.post("/internal/secrets", json=claim)
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")


async def test_without_a_master_key_nothing_is_kept(stage, http, tmp_path):
    stage.desk.vault = Vault(stage.engine, KeySource())
    answer = await http.put("/secrets/API_KEY", json={"value": "hush"})
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert "ASSAY_MASTER_KEY_FILE" in answer.json()["detail"]
