"""Projections lose nothing, repeat nothing, pass poison by, and can be proven from sequence 0."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import orjson
import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.identifiers import new_id
from assay_kernel.cursor import read_stored
from assay_kernel.event_store import EventStore
from assay_kernel.outbox import Outbox, Outgoing
from assay_kernel.projection import Projection, ProjectionRunner, read_checkpoint
from assay_kernel.rebuild import Rebuild


@pytest.fixture
def running(engine: AsyncEngine, store: EventStore, kernel_tables_of_toy):
    @asynccontextmanager
    async def run(projection: Projection) -> AsyncIterator[ProjectionRunner]:
        runner = ProjectionRunner(
            "toy",
            projection,
            engine=engine,
            store=store,
            checkpoints=kernel_tables_of_toy.checkpoints,
            refold=lambda: Rebuild(
                "toy",
                projection,
                engine=engine,
                store=store,
                checkpoints=kernel_tables_of_toy.checkpoints,
            ).swap(),
        )
        task = asyncio.create_task(runner.run())
        yield runner
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return run


@pytest.fixture
def reached(engine: AsyncEngine, kernel_tables_of_toy) -> Callable[[int], object]:
    async def wait(sequence: int) -> None:
        async with asyncio.timeout(60):
            while True:
                async with engine.connect() as connection:
                    at = await read_checkpoint(
                        connection, kernel_tables_of_toy.checkpoints, "counting"
                    )
                if at >= sequence:
                    return
                await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def rebuild(engine: AsyncEngine, store: EventStore, kernel_tables_of_toy, counting) -> Rebuild:
    return Rebuild(
        "toy",
        counting,
        engine=engine,
        store=store,
        checkpoints=kernel_tables_of_toy.checkpoints,
    )


async def test_events_become_rows_and_the_checkpoint_moves_with_them(
    running, reached, append, added, requested, counting, counted
):
    benchmark = new_id()
    async with running(counting):
        first = await append(added(benchmark))
        last = await append(requested(benchmark), expected=first)
        await reached(last)
    assert await counted() == {str(benchmark): 2}
    assert counting.reacted == [first, last]


async def test_two_replicas_fold_every_event_once(
    running, reached, store, added, counting, counted
):
    benchmarks = [new_id() for _ in range(300)]
    async with running(counting), running(counting):
        await asyncio.gather(*(store.tell(added(b), message_id=str(b)) for b in benchmarks))
        await reached(300)
    assert await counted() == {str(benchmark): 1 for benchmark in benchmarks}
    assert sorted(counting.reacted) == list(range(1, 301))


async def test_a_restarted_projection_goes_on_where_it_stopped(
    running, reached, append, added, counting, counted
):
    first, second = new_id(), new_id()
    async with running(counting):
        await reached(await append(added(first)))
    at = await append(added(second))
    async with running(counting):
        await reached(at)
    assert await counted() == {str(first): 1, str(second): 1}


async def test_an_event_that_cannot_be_folded_is_buried_with_its_reason_and_blocks_nothing(
    running, reached, append, added, counting, counted, store
):
    good, bad, later = added(new_id()), added(new_id()), added(new_id())
    counting.poison = bad.id
    async with running(counting):
        for event in (good, bad, later):
            last = await append(event)
        await reached(last)
    assert set(await counted()) == {str(good.benchmark), str(later.benchmark)}
    letters = [m async for m in read_stored(store.client, "DEAD", ["dead.>"])]
    assert len(letters) == 1
    letter = orjson.loads(letters[0].payload)
    assert letter["sequence"] == 2
    assert "cannot be counted" in letter["reason"]


async def test_bytes_that_are_no_event_are_buried(running, reached, append, added, store, counting):
    await store.tell_bytes("benchmarks.w.x.added", b"no event", message_id="garbage")
    async with running(counting):
        await reached(await append(added(new_id())))
    letters = [m async for m in read_stored(store.client, "DEAD", ["dead.>"])]
    assert orjson.loads(letters[0].payload)["sequence"] == 1


async def test_a_rebuild_finds_identical_rows(running, reached, append, added, counting, rebuild):
    async with running(counting):
        for _ in range(3):
            last = await append(added(new_id()))
        await reached(last)
    report = await rebuild.verify()
    assert (report.identical, report.events, report.rows) == (True, 3, {"counts": 3})
    assert counting.reacted == [1, 2, 3]


async def test_a_row_changed_by_hand_is_named(
    running, reached, append, added, counting, rebuild, falsify
):
    benchmark = new_id()
    async with running(counting):
        await reached(await append(added(benchmark)))
    await falsify(str(benchmark))
    report = await rebuild.verify()
    assert not report.identical
    [difference] = report.differences
    assert (difference.table, difference.key, difference.columns, difference.problem) == (
        "counts",
        {"benchmark": str(benchmark)},
        ["events"],
        "differs",
    )


async def test_a_swap_puts_the_true_rows_in_place_while_the_fold_goes_on(
    running, reached, append, added, counting, counted, rebuild, falsify, requested
):
    benchmark = new_id()
    async with running(counting):
        first = await append(added(benchmark))
        await reached(first)
        await falsify(str(benchmark))
        report = await rebuild.swap()
        assert report.swapped
        await reached(await append(requested(benchmark), expected=first))
    assert await counted() == {str(benchmark): 2}


async def test_the_outbox_sends_what_was_committed_and_nothing_else(
    engine, store, added, kernel_tables_of_toy
):
    outbox = Outbox(kernel_tables_of_toy.outbox, engine, store)
    kept, dropped = added(new_id()), added(new_id())
    async with engine.begin() as connection:
        await outbox.write(connection, [Outgoing.fact(kept, "kept"), Outgoing.fact(kept, "kept")])
    async with engine.connect() as connection:
        await outbox.write(connection, [Outgoing.fact(dropped, "dropped")])
        await connection.rollback()
    relay = asyncio.create_task(outbox.relay())
    async with asyncio.timeout(60):
        while True:
            async with engine.connect() as connection:
                left = await connection.scalar(
                    select(func.count()).select_from(kernel_tables_of_toy.outbox)
                )
            if left == 0:
                break
            await asyncio.sleep(0.01)
    relay.cancel()
    sent = [entry.event.id async for entry in store.read("BENCHMARKS", ["benchmarks.>"])]
    assert sent == [kept.id]
