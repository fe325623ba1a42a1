"""Decisions are refused on stale state, facts are told once, and readers miss nothing."""

import asyncio
import os
import signal

import pytest
from faststream.nats import NatsBroker
from nats.js.errors import APIError

from assay_contracts.identifiers import new_id
from assay_kernel.cursor import Cursor, read_stored
from assay_kernel.event_store import EventStore, StaleStateError, benchmark_filter
from assay_kernel.streams import ensure_streams
from assay_local.embedded import free_port, nats_program, start_program


async def test_a_decision_on_stale_state_is_refused(store, added, requested, append):
    benchmark = new_id()
    first = await append(added(benchmark), expected=0)
    second = await append(requested(benchmark), expected=first)
    with pytest.raises(StaleStateError):
        await append(requested(benchmark), expected=first)
    with pytest.raises(StaleStateError):
        await append(added(benchmark), expected=0)
    stored = [entry async for entry in store.read("BENCHMARKS", ["benchmarks.>"])]
    assert [entry.sequence for entry in stored] == [first, second]


async def test_of_many_decisions_on_one_state_exactly_one_is_appended(store, requested, append):
    benchmark = new_id()
    outcomes = await asyncio.gather(
        *(append(requested(benchmark)) for _ in range(20)), return_exceptions=True
    )
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, StaleStateError) for outcome in outcomes) == 19


async def test_a_decision_whose_answer_was_lost_is_appended_once(store, added, append):
    event = added(new_id())
    first = await append(event)
    assert await append(event) == first


async def test_a_fact_told_twice_is_stored_once(store, added):
    event = added(new_id())
    first = await store.tell(event, message_id="same")
    again = await store.tell(event, message_id="same")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.sequence == first.sequence


async def test_the_server_refuses_to_forget(store, added, append):
    sequence = await append(added(new_id()))
    jetstream = store.client.jetstream()
    with pytest.raises(APIError):
        await jetstream.delete_msg("BENCHMARKS", sequence)
    with pytest.raises(APIError):
        await jetstream.purge_stream("BENCHMARKS")


async def test_reading_one_aggregate_leaves_out_the_others(store, added, append):
    mine, other = new_id(), new_id()
    await append(added(other))
    sequence = await append(added(mine))
    found = [entry async for entry in store.read("BENCHMARKS", [benchmark_filter("w", mine)])]
    assert [entry.sequence for entry in found] == [sequence]
    none = [entry async for entry in store.read("BENCHMARKS", [benchmark_filter("w", new_id())])]
    assert none == []


async def test_reading_a_long_stream_returns_everything_in_order(store, added):
    await asyncio.gather(*(store.tell(added(new_id()), message_id=f"m{n}") for n in range(3000)))
    messages = [m async for m in read_stored(store.client, "BENCHMARKS", ["benchmarks.>"])]
    assert [message.sequence for message in messages] == list(range(1, 3001))


async def test_a_cursor_outlives_a_crash_of_the_server(added, tmp_path):
    port = free_port()
    program = nats_program(tmp_path / "nats", port)
    process = start_program(program, tmp_path / "log")
    broker = NatsBroker(
        f"nats://127.0.0.1:{port}",
        logger=None,
        max_reconnect_attempts=-1,
        reconnect_time_wait=1,
    )
    async with asyncio.timeout(60):
        while not program.is_ready():
            await asyncio.sleep(0.02)
        store = EventStore(await broker.connect())
        await ensure_streams(store.client.jetstream(), replicas=1)
        await store.tell(added(new_id()), message_id="before")
        async with Cursor(store.client, "BENCHMARKS", ["benchmarks.>"], after=0) as cursor:
            assert [m.sequence for m in await cursor.batch(10)] == [1]
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process = start_program(program, tmp_path / "log")
            for number in range(5):
                await store.tell(added(new_id()), message_id=f"after{number}")
            seen: list[int] = []
            while len(seen) < 5:
                seen += [m.sequence for m in await cursor.batch(10)]
        assert seen == [2, 3, 4, 5, 6]
    await broker.stop()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
