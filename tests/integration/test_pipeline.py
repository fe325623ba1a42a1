"""From submission to leaderboard: real scheduler, grader and leaderboard on real NATS and
PostgreSQL, with a stand-in for the sandboxes."""

import asyncio
import importlib.util
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

import grader.app
import leaderboard.app
import run_scheduler.app
from assay_contracts.http import Replay
from grader.tables import agent_metrics, tries
from leaderboard.tables import standings
from run_scheduler.settings import SchedulerSettings
from run_scheduler.tables import runs

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)


@pytest.fixture
def services(serving, own_settings):
    """Scheduler (as many as asked for), grader and leaderboard."""

    @asynccontextmanager
    async def run(schedulers: int = 1):
        scheduler = own_settings(SchedulerSettings, scheduler_retry_base=0.05)
        kernel = own_settings(type(scheduler).__mro__[1])
        parts = [
            ("run-scheduler", scheduler, run_scheduler.app.wire, run_scheduler.app.SCHEMA)
        ] * schedulers
        parts += [
            ("grader", kernel, grader.app.wire, grader.app.SCHEMA),
            ("leaderboard", kernel, leaderboard.app.wire, leaderboard.app.SCHEMA),
        ]
        async with serving(*parts) as running:
            yield dict(zip([part[0] for part in parts], running, strict=True))

    return run


@pytest.fixture
def stand_in(platform):
    @asynccontextmanager
    async def run(answer):
        runner = pipeline.StandInRunner(platform.store, answer)
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


async def rows_of(service, table, at_sequence=None):
    async with service.engine.connect() as connection:
        return [dict(row) for row in (await connection.execute(select(table))).mappings()]


async def caught_up(platform, *running):
    async with asyncio.timeout(60):
        for service in running:
            for projection, runner in zip(service.projections, service.runners, strict=True):
                (subject,) = projection.subjects
                last = await platform.store.last_sequence(projection.stream, subject)
                while runner.sequence < last:
                    await asyncio.sleep(0.02)


async def test_a_run_goes_from_submission_to_the_leaderboard(platform, services, stand_in):
    pin = await platform.add_benchmark(["a", "b", "c", "d"])
    async with (
        services() as running,
        stand_in(
            lambda order: (pipeline.passed if order.slot.agent == 0 else pipeline.failed)(order)
        ) as runner,
    ):
        run = await platform.submit(pin, 4, agents=("oracle", "nop"), attempts=2, concurrent=3)
        assert await platform.ended(run) == "finished"
        await caught_up(platform, *running.values())
        assert runner.most_held[run] <= 3
        assert len(runner.orders) == 16
        board = await rows_of(running["leaderboard"], standings)
        metrics = await rows_of(running["grader"], agent_metrics)
    by_pass_at_1 = {row["agent"]: row for row in board if row["metric"] == "pass@1"}
    # 4 of 4 against 0 of 4 in every task: the difference has no spread, and p = 2^(1-4) = 0.125.
    assert {
        agent: (row["standing"]["rank"], row["standing"]["tied"])
        for agent, row in by_pass_at_1.items()
    } == {
        0: (1, True),
        1: (1, True),
    }
    assert by_pass_at_1[1]["standing"]["comparison"]["p_value"] == 0.125
    assert {row["agent"]: row["pass_at_1"] for row in metrics} == {0: 1.0, 1: 0.0}
    assert all(not row["measures"]["pass_at_1"]["partial"] for row in metrics)
    types = [stored.event.type for stored in await platform.events(run)]
    assert types[:3] == ["submitted", "queued", "started"]
    assert types[-1] == "finished"
    assert types.count("result-graded") == 16
    assert all(stored.event.causation_id for stored in (await platform.events(run))[1:3])


async def test_a_try_without_a_reward_is_retried_and_the_later_score_counts(
    platform, services, stand_in
):
    pin = await platform.add_benchmark(["a", "b"])

    def answer(order):
        if order.slot.task == "a" and order.try_number < 3:
            return pipeline.lost(order)
        return pipeline.passed(order)

    async with services() as running, stand_in(answer):
        run = await platform.submit(pin, 2, retries=2)
        assert await platform.ended(run) == "finished"
        await caught_up(platform, *running.values())
        kept = await rows_of(running["grader"], tries)
        [metrics] = await rows_of(running["grader"], agent_metrics)
    by_try = {row["try_number"]: row for row in kept if row["task"] == "a"}
    assert [by_try[number]["outcome"] for number in (1, 2, 3)] == ["errored", "errored", "passed"]
    assert [by_try[number]["counted"] for number in (1, 2, 3)] == [False, False, True]
    assert by_try[1]["cause"] == "network"
    assert (metrics["measures"]["passed"], metrics["measures"]["errored"]) == (2, 0)
    assert metrics["measures"]["spent"]["tries"] == 4


async def test_a_slot_whose_tries_are_used_up_ends_errored_and_the_run_finishes(
    platform, services, stand_in
):
    pin = await platform.add_benchmark(["a"])
    async with services() as running, stand_in(pipeline.lost) as runner:
        run = await platform.submit(pin, 1, retries=1)
        assert await platform.ended(run) == "finished"
        await caught_up(platform, *running.values())
        [row] = await rows_of(running["run-scheduler"], runs)
    assert (row["errored"], row["passed"], row["failed"]) == (1, 0, 0)
    assert [order.try_number for order in runner.orders] == [1, 2]


async def test_two_schedulers_take_no_decision_twice_and_keep_the_limit(
    platform, services, stand_in
):
    pin = await platform.add_benchmark([f"t{n}" for n in range(20)])
    async with services(schedulers=2), stand_in(pipeline.passed) as runner:
        submitted = [await platform.submit(pin, 20, attempts=2, concurrent=3) for _ in range(3)]
        for run in submitted:
            assert await platform.ended(run) == "finished"
            assert await platform.lifecycle(run) == ["submitted", "queued", "started", "finished"]
        for run in submitted:
            slots = [order.slot for order in runner.orders if order.run == run]
            assert len(slots) == 40
            assert len(set(pipeline.slot_keys(slots))) == 40
            assert runner.most_held[run] <= 3


async def test_a_stop_lets_nothing_new_start_and_waits_for_what_runs(platform, services, stand_in):
    pin = await platform.add_benchmark([f"t{n}" for n in range(50)])
    async with services() as running, stand_in(pipeline.passed) as runner:
        runner.gate.clear()
        run = await platform.submit(pin, 50, concurrent=2)
        async with asyncio.timeout(60):
            while len(runner.orders) < 2:
                await asyncio.sleep(0.02)
        await platform.ask_to_stop(run)
        await caught_up(platform, running["run-scheduler"])
        assert await platform.lifecycle(run) == [
            "submitted",
            "queued",
            "started",
            "stop-requested",
        ]
        runner.gate.set()
        assert await platform.ended(run) == "stopped"
        assert len(runner.orders) == 2


async def test_results_told_twice_or_late_change_no_score(platform, services, stand_in):
    pin = await platform.add_benchmark(["a"])
    async with services() as running, stand_in(pipeline.passed) as runner:
        run = await platform.submit(pin, 1)
        assert await platform.ended(run) == "finished"
        [order] = runner.orders
        late = pipeline.result_event(order, pipeline.failed(order), delivery=2)
        await platform.store.tell(late, message_id="late")
        again = late.model_copy(update={"id": pipeline.new_id()})
        await platform.store.tell(again, message_id="late again")
        async with asyncio.timeout(60):
            while len(await platform.events(run)) < 10:
                await asyncio.sleep(0.02)
        await caught_up(platform, *running.values())
        [metrics] = await rows_of(running["grader"], agent_metrics)
        counted = [row for row in await rows_of(running["grader"], tries) if row["counted"]]
    assert (metrics["measures"]["passed"], metrics["measures"]["failed"]) == (1, 0)
    assert [row["delivery"] for row in counted] == [1]


async def test_every_read_model_equals_a_fold_from_sequence_0_and_a_forged_row_is_named(
    platform, services, stand_in
):
    pin = await platform.add_benchmark(["a", "b", "c"])

    def answer(order):
        if order.slot.task == "a" and order.try_number == 1:
            return pipeline.lost(order)
        return pipeline.passed(order) if order.slot.task != "c" else pipeline.failed(order)

    async with services() as running, stand_in(answer):
        run = await platform.submit(pin, 3, agents=("oracle", "scripted"), attempts=3, retries=1)
        assert await platform.ended(run) == "finished"
        await caught_up(platform, *running.values())
        for service in running.values():
            for report in await service.replay(Replay(verify=True)):
                assert report.identical, report
                assert report.events > 0
        async with running["grader"].engine.begin() as connection:
            await connection.execute(
                update(agent_metrics).where(agent_metrics.c.agent == 1).values(pass_at_1=0.99)
            )
        [report] = await running["grader"].replay(Replay(verify=True))
        [difference] = report.differences
        assert (difference.table, difference.columns) == ("agent_metrics", ["pass_at_1"])
        assert difference.key == {"run": str(run), "agent": 1}
        [repaired] = await running["grader"].replay(Replay(verify=False))
        assert repaired.swapped
        [report] = await running["grader"].replay(Replay(verify=True))
        assert report.identical
        async with running["grader"].engine.connect() as connection:
            total = await connection.scalar(select(func.sum(agent_metrics.c.pass_at_1)))
        assert total == pytest.approx(4 / 3)


async def test_many_runs_whose_every_slot_is_retried_never_finish_too_early(
    platform, services, stand_in
):
    pin = await platform.add_benchmark(["a", "b"])

    def answer(order):
        return pipeline.passed(order) if order.try_number == 3 else pipeline.lost(order)

    async with services(schedulers=2) as running, stand_in(answer):
        submitted = [await platform.submit(pin, 2, retries=2) for _ in range(25)]
        for run in submitted:
            assert await platform.ended(run) == "finished"
        await caught_up(platform, *running.values())
        ended = await rows_of(running["run-scheduler"], runs)
    assert {(row["passed"], row["errored"]) for row in ended} == {(2, 0)}
