"""`Idempotency-Key`: what is sent twice is done once, whatever happens in between."""

import asyncio
from datetime import timedelta

import pytest
from fastapi import Depends
from sqlalchemy import func, select, update

from assay_kernel.event_store import EventStore
from gateway.idempotency import answer_not_kept, changes_nothing
from gateway.idempotency_keys import KEPT, Answered, Asked, Begun
from gateway.tables import idempotency_keys
from gateway.vault import Vault

KEY_NAME = "Idempotency-Key"
KEY = {KEY_NAME: "the-first-key"}


async def records(stage):
    async with stage.engine.connect() as connection:
        return (await connection.execute(select(idempotency_keys))).all()


async def shift(stage, **columns):
    """Let time have passed for every record."""
    async with stage.engine.begin() as connection:
        await connection.execute(update(idempotency_keys).values(**columns))


async def test_the_same_request_again_is_answered_the_same_and_done_once(stage, http, config):
    await stage.add_benchmark()
    first = await http.post("/runs", json={"config": config()}, headers=KEY)
    again = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["X-Request-ID"] != first.headers["X-Request-ID"]
    assert (await http.get("/runs")).json()["total_count"] == 1
    other = await http.post("/runs", json={"config": config()}, headers={KEY_NAME: "another"})
    assert other.json()["id"] != first.json()["id"]


async def test_a_key_belongs_to_one_request_of_one_caller_in_one_workspace(stage, http, config):
    await stage.add_benchmark()
    run = (await http.post("/runs", json={"config": config()}, headers=KEY)).json()
    for path, body in (
        ("/runs", {"config": config(execution={"attempts_per_task": 2})}),
        ("/runs?x=1", {"config": config()}),
        (f"/runs/{run['id']}/stop", {"config": config()}),
    ):
        answer = await http.post(path, json=body, headers=KEY)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "IDEMPOTENCY_KEY_REUSED"), path
    await stage.add_benchmark("toy", workspace="other")
    async with stage.client(workspace="other") as elsewhere:
        answer = await elsewhere.post("/runs", json={"config": config()}, headers=KEY)
    assert answer.status_code == 201
    assert answer.json()["id"] != run["id"]


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256])
async def test_a_malformed_key_is_refused(stage, http, config, key):
    await stage.add_benchmark()
    headers = [(b"Idempotency-Key", key.encode("latin-1"))]
    answer = await http.post("/runs", json={"config": config()}, headers=headers)
    assert (answer.status_code, answer.json()["issues"][0]["key"]) == (422, "Idempotency-Key")
    assert await stage.nothing_happened()


async def test_a_refusal_leaves_the_key_free_for_the_request_put_right(stage, http, config):
    await stage.add_benchmark()
    wrong = await http.post("/runs", json={"config": config(tasks={"limit": -1})}, headers=KEY)
    assert wrong.status_code == 422
    right = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert right.status_code == 201


async def test_who_is_not_let_in_uses_no_key(stage, config):
    async with stage.client(token="wrong") as nobody:
        answer = await nobody.post("/runs", json={"config": config()}, headers=KEY)
    assert answer.status_code == 401
    assert await records(stage) == []


async def test_while_the_first_is_under_way_the_second_is_told_to_wait(
    stage, http, config, monkeypatch
):
    await stage.add_benchmark()
    appending, go_on = asyncio.Event(), asyncio.Event()
    append = EventStore.append

    async def slow(self, event, **more):
        appending.set()
        await go_on.wait()
        return await append(self, event, **more)

    monkeypatch.setattr(EventStore, "append", slow)
    first = asyncio.create_task(http.post("/runs", json={"config": config()}, headers=KEY))
    await appending.wait()
    second = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert (second.status_code, second.json()["code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert second.headers["Retry-After"] == "1"
    go_on.set()
    answered = await first
    third = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert (answered.status_code, third.json()) == (201, answered.json())


async def test_many_at_once_make_one_run(stage, http, config):
    await stage.add_benchmark()
    answers = await asyncio.gather(
        *(http.post("/runs", json={"config": config()}, headers=KEY) for _ in range(12))
    )
    made = {one.json()["id"] for one in answers if one.status_code == 201}
    assert {one.status_code for one in answers} <= {201, 409}
    assert len(made) == 1
    assert (await http.get("/runs")).json()["total_count"] == 1


class CutOffError(Exception):
    """The gateway ends here."""


@pytest.fixture
def cut_off_after_append(monkeypatch):
    """The next event is appended, and then nothing more happens: no answer, no record of it."""
    append, kept = EventStore.append, []

    async def cut(self, event, **more):
        sequence = await append(self, event, **more)
        if not kept:
            kept.append(event)
            raise CutOffError
        return sequence

    monkeypatch.setattr(EventStore, "append", cut)
    return kept


async def test_cut_off_between_the_append_and_the_answer_a_repeat_finds_the_run(
    stage, http, config, cut_off_after_append
):
    cut_off_after_append.append("not yet")
    await stage.add_benchmark()
    cut_off_after_append.clear()
    broken = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert broken.status_code == 500
    again = await http.post("/runs", json={"config": config()}, headers=KEY)
    [event] = cut_off_after_append
    assert (again.status_code, again.json()["id"]) == (201, str(event.run))
    assert again.json()["name"] == event.data.name
    assert len(await stage.events(str(event.run))) == 1
    assert (await http.get("/runs")).json()["total_count"] == 1
    third = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert third.headers["Idempotency-Replayed"] == "true"


async def test_cut_off_so_a_benchmark_is_added_once(stage, http, cut_off_after_append):
    body = {"name": "toy", "source": {"kind": "folder", "path": "/toy"}}
    broken = await http.post("/benchmarks", json=body, headers=KEY)
    assert broken.status_code == 500
    await stage.caught_up()
    again = await http.post("/benchmarks", json=body, headers=KEY)
    [event] = cut_off_after_append
    assert (again.status_code, again.json()["id"]) == (201, str(event.benchmark))
    assert await stage.store.last_sequence("BENCHMARKS") == 1


async def test_cut_off_so_a_run_is_stopped_and_retried_once(
    stage, http, config, cut_off_after_append
):
    cut_off_after_append.append("not yet")
    await stage.add_benchmark()
    run = (await stage.submit())["id"]
    await stage.decide(run, "queued", "started")
    cut_off_after_append.clear()
    for status in (500, 200, 200):
        answer = await http.post(f"/runs/{run}/stop", json={"reason": "why"}, headers=KEY)
        assert answer.status_code == status
        assert status == 500 or answer.json()["reason"] == "why"
    assert [one.event.type for one in await stage.events(run)].count("stop-requested") == 1

    other = (await stage.submit())["id"]
    await stage.decide(other, "queued", "started")
    await stage.result(other, "fix-roman", "errored", graded={"cause": "sandbox"})
    await stage.decide(other, "finished")
    cut_off_after_append.clear()
    key = {KEY_NAME: "retry"}
    broken = await http.post(f"/runs/{other}/retry", json={}, headers=key)
    again = await http.post(f"/runs/{other}/retry", json={}, headers=key)
    assert (broken.status_code, again.status_code) == (500, 200)
    assert again.json()["slots"] == 1
    assert [one.event.type for one in await stage.events(other)].count("reopened") == 1


async def test_a_record_whose_process_died_is_taken_over_when_its_hold_runs_out(
    stage, http, config
):
    await stage.add_benchmark()
    answer = await http.post("/runs", json={"config": config()}, headers=KEY)
    [record] = await records(stage)
    await shift(
        stage, status=None, media_type=None, body=None, held_until=func.now() + KEPT
    )  # as it lies there while a process works, or has died at it
    waiting = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert waiting.json()["code"] == "IDEMPOTENCY_IN_PROGRESS"
    await shift(stage, held_until=func.now() - timedelta(seconds=1))
    again = await http.post("/runs", json={"config": config()}, headers=KEY)
    assert (again.status_code, again.json()["id"]) == (201, answer.json()["id"])
    assert [one.id for one in await records(stage)] == [record.id]


async def test_after_a_day_a_key_is_new_and_after_two_it_is_swept(stage, http, config):
    await stage.add_benchmark()
    first = await http.post("/runs", json={"config": config()}, headers=KEY)
    await shift(stage, begun_at=func.now() - KEPT - timedelta(minutes=1))
    other_body = {"config": config(execution={"attempts_per_task": 2})}
    second = await http.post("/runs", json=other_body, headers=KEY)
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]
    assert await stage.desk.idempotency.sweep() == 0
    await shift(stage, begun_at=func.now() - 3 * KEPT)
    assert await stage.desk.idempotency.sweep() == 1
    assert await records(stage) == []


async def test_no_body_is_kept_nor_a_hash_that_tells_of_it(stage, http, config, tmp_path):
    await stage.add_benchmark()
    body = {"config": config(secrets={"required": ["A_KEY"]}), "secrets": {"A_KEY": "hush-hush"}}
    answer = await http.post("/runs", json=body, headers=KEY)
    assert answer.status_code == 201, answer.text
    [record] = await records(stage)
    assert b"hush" not in b"".join(bytes(str(part), "utf8") for part in record)
    (tmp_path / "another").write_text("n" * 40)
    another = Vault(stage.engine, tmp_path / "another")
    under_ours, under_another = (
        vault.fingerprint("assay idempotency", b"the same") for vault in (stage.vault, another)
    )
    assert under_ours != under_another


async def test_an_answer_with_a_secret_is_told_once_and_never_kept(stage, http):
    made = []

    @stage.app.post("/api/v1/made", dependencies=[Depends(answer_not_kept)])
    async def make() -> dict[str, str]:
        made.append("one")
        return {"token": "hush-token"}

    first = await http.post("/made", headers=KEY)
    again = await http.post("/made", headers=KEY)
    assert first.json() == {"token": "hush-token"}
    assert (again.status_code, again.json()["code"]) == (409, "IDEMPOTENCY_ANSWER_GONE")
    assert (made, (await records(stage))[0].body) == (["one"], None)


async def test_what_only_reads_is_done_each_time(stage, http):
    asked = []

    @stage.app.post("/api/v1/asked", dependencies=[Depends(changes_nothing)])
    async def ask() -> int:
        asked.append("one")
        return len(asked)

    answers = [(await http.post("/asked", headers=KEY)).json() for _ in range(2)]
    assert answers == [1, 2]
    assert await records(stage) == []


async def test_a_long_answer_goes_out_whole_and_is_not_kept(stage, http):
    @stage.app.post("/api/v1/long")
    async def long() -> str:
        return "x" * 1_000_000

    first = await http.post("/long", headers=KEY)
    again = await http.post("/long", headers=KEY)
    assert len(first.json()) == 1_000_000
    assert again.json()["code"] == "IDEMPOTENCY_ANSWER_GONE"


async def test_an_answer_is_not_given_again_to_who_may_do_less_by_now(stage):
    keys = stage.desk.idempotency
    may_run = Asked("default", "eve", "k", b"content", ["read", "run"])
    begun = await keys.begin(may_run)
    assert isinstance(begun, Begun)
    await keys.answer(begun.id, Answered(201, "application/json", b"{}"))
    assert await keys.begin(may_run) == Answered(201, "application/json", b"{}")
    may_read = Asked("default", "eve", "k", b"content", ["read"])
    assert await keys.begin(may_read) == Begun(begun.id, repeated=True)


async def test_what_signs_a_device_in_is_not_kept(stage, http):
    login = (await http.post("/device", json={}, headers=KEY)).json()
    decision = {"user_code": login["user_code"], "approve": True}
    assert (await http.post("/device/decision", json=decision)).status_code == 200
    asked = {"device_code": login["device_code"]}
    token = await http.post("/device/token", json=asked, headers={KEY_NAME: "second"})
    assert token.json()["token"].startswith("assay_")
    assert [row.body for row in await records(stage)] == [None, None]
