"""What cannot be handled waits with its reason, is named by every replay, and can be redriven."""

import asyncio
from datetime import UTC, datetime

import orjson
import pytest
from psycopg.errors import AdminShutdown, ProgramLimitExceeded
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from assay_contracts.commands import Redrive, Redriven, Resend, Resent
from assay_contracts.envelope import MAX_EVENT_BYTES
from assay_contracts.http import Replay
from assay_contracts.identifiers import new_id
from assay_kernel.cursor import StoredMessage
from assay_kernel.database import is_outage
from assay_kernel.dead_letters import (
    bury_event,
    bury_message,
    note_redriven,
    read_letters,
    resend,
)
from assay_kernel.outbox import Outbox, Outgoing
from assay_kernel.projection import read_checkpoint
from assay_kernel.rebuild import Rebuild
from assay_kernel.service import Schema, Service


@pytest.fixture
def service(engine, store, settings, kernel_tables_of_toy, counting):
    """A service that keeps the counting projection; its tasks are run by the test."""
    made = Service(
        name="toy",
        settings=settings,
        broker=None,
        store=store,
        database=engine,
        schema=Schema("toy", kernel_tables_of_toy.checkpoints.metadata, kernel_tables_of_toy),
    )
    made.project(counting)
    return made


@pytest.fixture
def folded(engine, kernel_tables_of_toy, service):
    """Runs the service's projection until its checkpoint has reached a sequence."""

    async def fold(sequence: int) -> None:
        [runner] = service.runners
        task = asyncio.ensure_future(runner.run())
        async with asyncio.timeout(60):
            while True:
                async with engine.connect() as connection:
                    at = await read_checkpoint(
                        connection, kernel_tables_of_toy.checkpoints, "counting"
                    )
                if at >= sequence:
                    break
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    yield fold
    for left in service.tasks.values():
        left.close()


async def test_an_event_left_out_is_named_by_replays_and_folded_in_its_place_by_a_redrive(
    service, folded, append, added, counting, counted, store
):
    good, bad = added(new_id()), added(new_id())
    counting.poison = bad.id
    for event in (good, bad):
        last = await append(event)
    await folded(last)
    [letter] = await read_letters(store.client)
    assert (letter.place, letter.stream, letter.sequence, letter.tries, letter.payload) == (
        "toy.counting",
        "BENCHMARKS",
        2,
        3,
        None,
    )
    assert letter.reason == "ValueError: this event cannot be counted"
    [report] = await service.replay(Replay(verify=True))
    assert (report.identical, report.left_out) == (True, [2])

    refused = await service.redrive(Redrive(projection="counting", sequence=2))
    assert refused.problem is not None
    assert (await counted(), counting.reacted) == ({str(good.benchmark): 1}, [1])

    counting.poison = None
    assert await service.redrive(Redrive(projection="counting", sequence=2)) == Redriven()
    assert await counted() == {str(good.benchmark): 1, str(bad.benchmark): 1}
    assert counting.reacted == [1, 2]
    [report] = await service.replay(Replay(verify=True))
    assert (report.identical, report.left_out) == (True, [])


async def test_a_redrive_of_an_unknown_projection_says_so(service, folded):
    answer = await service.redrive(Redrive(projection="nothing", sequence=1))
    assert answer.problem == "toy has no projection nothing"


async def test_an_outage_in_the_midst_of_a_fold_buries_nothing(
    service, folded, append, added, counting, counted, store
):
    counting.outages = 5
    event = added(new_id())
    await folded(await append(event))
    assert await counted() == {str(event.benchmark): 1}
    assert await read_letters(store.client) == []


async def test_an_outage_in_the_midst_of_a_rebuild_is_no_missing_row(
    engine, store, kernel_tables_of_toy, folded, append, added, counting
):
    await folded(await append(added(new_id())))
    counting.outages = 1
    rebuild = Rebuild(
        "toy", counting, engine=engine, store=store, checkpoints=kernel_tables_of_toy.checkpoints
    )
    with pytest.raises(Exception, match="no servers available"):
        await rebuild.verify()


async def test_rebuilds_that_are_asked_for_at_once_do_not_disturb_each_other(
    service, folded, append, added, store
):
    for _ in range(3):
        last = await append(added(new_id()))
    await folded(last)
    asked = [service.replay(Replay(verify=verify)) for verify in (True, False, True)]
    reports = [report for [report] in await asyncio.gather(*asked)]
    assert [(one.identical, one.rows, one.left_out) for one in reports] == [
        (True, {"counts": 3}, [])
    ] * 3
    assert await read_letters(store.client) == []


async def test_a_fold_made_anew_tells_of_what_it_leaves_out(
    engine, store, kernel_tables_of_toy, folded, append, added, counting, counted
):
    event = added(new_id())
    await folded(await append(event))
    counting.poison = event.id  # a later version of the fold, which cannot read what it could
    await Rebuild(
        "toy", counting, engine=engine, store=store, checkpoints=kernel_tables_of_toy.checkpoints
    ).swap()
    assert await counted() == {}
    [letter] = await read_letters(store.client)
    assert (letter.place, letter.sequence, letter.is_open) == ("toy.counting", 1, True)


async def test_a_message_that_its_stream_refuses_holds_up_none_behind_it(
    engine, store, added, kernel_tables_of_toy
):
    outbox = Outbox(kernel_tables_of_toy.outbox, engine, store)
    later = added(new_id())
    too_large = Outgoing("benchmarks.w.x.added", "large", b"x" * (MAX_EVENT_BYTES * 2))
    async with engine.begin() as connection:
        await outbox.write(connection, [too_large, Outgoing.fact(later, "later")])
    relay = asyncio.ensure_future(outbox.relay())
    async with asyncio.timeout(60):
        while await _waiting(engine, kernel_tables_of_toy):
            await asyncio.sleep(0.01)
    relay.cancel()
    await asyncio.gather(relay, return_exceptions=True)
    sent = [entry.event.id async for entry in store.read("BENCHMARKS", ["benchmarks.>"])]
    assert sent == [later.id]
    [letter] = await read_letters(store.client)
    assert (letter.place, letter.subject, letter.message_id, letter.tries) == (
        "toy.outbox",
        "benchmarks.w.x.added",
        "large",
        3,
    )
    assert letter.payload == too_large.payload
    assert "message size exceeds" in letter.reason
    again = await resend(store, "toy", Resend(letter=letter.id))
    assert "message size exceeds" in (again.problem or "")


async def test_a_buried_message_is_sent_again_once_however_often_it_is_asked_for(store):
    message = StoredMessage("WORK", "work.default", 7, b"an order", datetime.now(UTC), 0)
    await bury_message(store, "sandbox-runner.work", message, ValueError("odd"), tries=1)
    [letter] = await read_letters(store.client)
    assert (letter.payload, letter.service, letter.part) == (b"an order", "sandbox-runner", "work")
    for _ in range(2):
        assert await resend(store, "run-scheduler", Resend(letter=letter.id)) == Resent()
    assert await store.message("WORK", 1) == ("work.default", b"an order")
    assert await store.last_sequence("WORK") == 1


async def test_a_message_is_sent_again_by_nobody_but_who_sent_it_first(store):
    message = StoredMessage("WORK", "work.default", 7, b"an order", datetime.now(UTC), 0)
    await bury_message(store, "sandbox-runner.work", message, ValueError("odd"), tries=1)
    for service in ("sandbox-runner", "grader"):
        refused = await resend(store, service, Resend(letter=1))
        assert refused.problem == f"{service} has sent no message that became the letter 1"
    assert await store.last_sequence("WORK") == 0


async def test_a_letter_is_of_the_service_on_whose_subject_it_was_told(store):
    told = {
        "place": "grader.outbox",
        "stream": "",
        "sequence": None,
        "subject": "runs.w.r.attempts.result-graded",
        "reason": "forged",
        "payload": "",
    }
    await store.tell_bytes("dead.leaderboard.x", orjson.dumps(told), message_id="forged")
    [letter] = await read_letters(store.client)
    assert letter.place == "leaderboard.x"
    assert (await resend(store, "grader", Resend(letter=1))).problem is not None


async def test_what_is_buried_twice_is_one_letter_until_it_is_redriven(store, append, added):
    await append(added(new_id()))
    message = await store.stored_at("BENCHMARKS", 1)
    for reason in ("first", "second"):
        await bury_event(store, "toy.counting", message, ValueError(reason), tries=3)
    [letter] = await read_letters(store.client)
    assert (letter.id, letter.reason) == (1, "ValueError: second")
    await note_redriven(store, letter, "ann")
    [letter] = await read_letters(store.client)
    assert (letter.redriven_by, letter.is_open) == ("ann", False)
    await bury_event(store, "toy.counting", message, ValueError("third"), tries=3)
    letters = await read_letters(store.client)
    assert [(one.is_open, one.reason) for one in letters] == [
        (False, "ValueError: second"),
        (True, "ValueError: third"),
    ]


def test_what_is_too_large_for_postgresql_is_no_outage():
    stopped = OperationalError("insert", {}, AdminShutdown("terminating connection"))
    too_large = OperationalError("insert", {}, ProgramLimitExceeded("index row size exceeds"))
    assert (is_outage(stopped), is_outage(too_large)) == (True, False)
    assert (is_outage(FileNotFoundError()), is_outage(ConnectionResetError())) == (False, True)


async def _waiting(engine, tables) -> int:
    async with engine.connect() as connection:
        return await connection.scalar(select(func.count()).select_from(tables.outbox))
