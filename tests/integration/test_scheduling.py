"""What people ask of the scheduler, by HTTP, over real services and a stand-in for sandboxes."""

import asyncio
import importlib.util
from datetime import datetime
from pathlib import Path
from uuid import UUID

from assay_contracts.http import Replay

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)

stand_in = pipeline.beside
ROMAN = "assay-demo/fix-roman"


async def submit(client, *agents, **execution):
    config = {
        "experiment": {"benchmark": "demo"},
        "agents": [{"harness": name} for name in agents or ("oracle",)],
        "execution": execution,
    }
    answer = await client.post("/runs", json={"config": config})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def detail_when(client, run, condition):
    """The run's page as soon as it is as expected."""
    async with asyncio.timeout(60):
        while not condition(detail := (await client.get(f"/runs/{run['id']}")).json()):
            await asyncio.sleep(0.05)
    return detail


def is_finished(detail):
    return detail["status"] == "finished" and all(
        sum(agent[outcome] for outcome in ("passed", "failed", "errored")) == 14
        for agent in detail["agents"]
    )


async def results_of(client, run):
    page = (await client.get(f"/runs/{run['id']}/results", params={"limit": 1000})).json()
    return {(one["agent"], one["task"]): one for one in page["items"]}


class Network:
    """An answer that loses the results of some cells for as long as the network is down."""

    def __init__(self, *cells):
        self.cells = set(cells)
        self.is_down = True

    def __call__(self, order):
        if self.is_down and (order.slot.agent, order.slot.task) in self.cells:
            return pipeline.lost(order)
        return pipeline.passed(order)


async def test_errored_slots_run_again_on_the_same_run_and_what_was_scored_stays(door):
    async with door.client() as client:
        listed = (await client.get("/benchmarks/demo")).json()["tasks"]
        other = next(task["name"] for task in listed if task["name"] != ROMAN)
        network = Network((0, ROMAN), (1, ROMAN), (1, other))
        async with stand_in(door, network) as runner:
            run = await submit(client, "oracle", "nop", max_retries=1)
            detail = await detail_when(client, run, is_finished)
            assert [agent["errored"] for agent in detail["agents"]] == [1, 2]
            before, first_start = await results_of(client, run), detail["started_at"]
            network.is_down = False
            done = len(runner.orders)
            answer = await client.post(f"/runs/{run['name']}/retry", json={"reason": "it is back"})
            assert (answer.status_code, answer.json()["slots"]) == (200, 3)
            detail = await detail_when(
                client, run, lambda one: is_finished(one) and not any(map(_errored, one["agents"]))
            )
            after = await results_of(client, run)
        again = runner.orders[done:]
        assert sorted((o.slot.agent, o.slot.task, o.try_number) for o in again) == sorted(
            (agent, task, 3) for agent, task in network.cells
        )
        assert detail["agents"][1]["pass_at_1"]["value"] == 1.0
        assert not detail["agents"][1]["pass_at_1"]["partial"]
        assert detail["started_at"] == first_start
        for cell, result in before.items():
            if cell not in network.cells:
                assert after[cell] == result
        decisions = await door.platform.lifecycle(UUID(run["id"]))
        assert decisions[2:] == ["started", "finished", "reopened", "started", "finished"]
        log = (await client.get(f"/runs/{run['id']}/logs", params={"limit": 1000})).json()["items"]
        assert "3 results to run again: it is back" in [line["message"] for line in log]
        board = (await client.get("/benchmarks/demo/leaderboard")).json()
        assert {one["run_id"] for one in board["standings"]} == {run["id"]}
    for service in door.services:
        for report in await service.replay(Replay(verify=True)):
            assert report.identical, report


def _errored(agent):
    return agent["errored"]


async def test_a_reopened_slot_has_its_retries_anew_and_its_tries_go_on_counting(door):
    network = Network((0, ROMAN))
    async with door.client() as client, stand_in(door, network) as runner:
        run = await submit(client, max_retries=1)
        await detail_when(client, run, is_finished)
        for last in (4, 6):
            answer = await client.post(f"/runs/{run['name']}/retry", json={"tasks": [ROMAN]})
            assert answer.status_code == 200, answer.text
            await detail_when(client, run, is_finished)
            tries = [o.try_number for o in runner.orders if o.slot.task == ROMAN]
            assert tries == list(range(1, last + 1))


async def test_while_slots_run_again_the_run_is_short_of_them_and_its_rates_are_partial(door):
    network = Network((0, ROMAN))
    async with door.client() as client, stand_in(door, network) as runner:
        run = await submit(client)
        await detail_when(client, run, is_finished)
        runner.gate.clear()
        await client.post(f"/runs/{run['name']}/retry", json={})
        detail = await detail_when(client, run, lambda one: one["status"] == "running")
        [agent] = detail["agents"]
        assert (detail["ingested_results"], detail["reopened_results"]) == (13, 1)
        assert (agent["status"], agent["ingested_results"]) == ("running", 13)
        assert agent["pass_at_1"]["partial"]
        refused = await client.post(f"/runs/{run['name']}/retry", json={})
        assert refused.status_code == 409
        assert "is running; what errored can run again once it has ended" in refused.text
        runner.gate.set()
        detail = await detail_when(client, run, is_finished)
        assert (detail["ingested_results"], detail["reopened_results"]) == (14, 0)


async def test_what_cannot_run_again_is_refused_with_the_reason(door):
    network = Network((0, ROMAN))
    async with door.client() as client, stand_in(door, network):
        run = await submit(client, "oracle", "nop")
        await detail_when(client, run, is_finished)
        events = len(await door.platform.events(UUID(run["id"])))
        listed = (await client.get("/benchmarks/demo")).json()["tasks"]
        other = next(task["name"] for task in listed if task["name"] != ROMAN)
        for chosen, status, said in (
            (
                {"tasks": [other]},
                409,
                f"no result of the task {other} is errored; a score is final",
            ),
            ({"agents": ["nop"]}, 409, "no result of the agent nop is errored"),
            (
                {"agents": ["1"], "tasks": [ROMAN]},
                409,
                f"the agent nop, the task {ROMAN} is errored",
            ),
            ({"tasks": ["assay-demo/fix-roma"]}, 404, f"did you mean {ROMAN}"),
            ({"agents": ["codex"]}, 422, "no agent is called codex; the run has 0: oracle, 1: nop"),
            ({"secrets": {"KEY": "v"}}, 422, "secrets.KEY: is not in the run's secrets.required"),
        ):
            answer = await client.post(f"/runs/{run['name']}/retry", json=chosen)
            assert (answer.status_code, said in answer.json()["detail"]) == (status, True), (
                answer.text
            )
        assert len(await door.platform.events(UUID(run["id"]))) == events
        network.is_down = False
        whole = await submit(client)
        await detail_when(client, whole, is_finished)
        answer = await client.post(f"/runs/{whole['name']}/retry", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
        assert "no result of the run is errored" in answer.json()["detail"]


async def test_a_retry_needs_the_secrets_that_ended_with_the_run(door):
    network = Network((0, ROMAN))
    async with door.client() as client, stand_in(door, network):
        config = {
            "experiment": {"benchmark": "demo"},
            "agents": [{"harness": "oracle"}],
            "secrets": {"required": ["TOOL_KEY"]},
        }
        body = {"config": config, "secrets": {"TOOL_KEY": "hush"}}
        run = (await client.post("/runs", json=body)).json()
        await detail_when(client, run, is_finished)
        answer = await client.post(f"/runs/{run['name']}/retry", json={})
        assert (answer.status_code, answer.json()["code"]) == (404, "MISSING_SECRETS")
        network.is_down = False
        answer = await client.post(
            f"/runs/{run['name']}/retry", json={"secrets": {"TOOL_KEY": "hush"}}
        )
        assert answer.status_code == 200, answer.text
        detail = await detail_when(
            client, run, lambda one: is_finished(one) and not _errored(one["agents"][0])
        )
        assert detail["agents"][0]["passed"] == 14


def started(runner, agent):
    return sum(order.slot.agent == agent for order in runner.orders)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_paused_agent_starts_nothing_new_while_the_others_go_on(door):
    async with door.client() as client, stand_in(door, pipeline.passed) as runner:
        runner.gate.clear()
        run = await submit(client, "oracle", "nop", max_concurrent_attempts=2)
        await until(lambda: len(runner.orders) == 2)
        path = f"/runs/{run['name']}"
        answer = await client.post(f"{path}/pause", json={"agent": "nop", "reason": "look first"})
        assert answer.status_code == 200, answer.text
        [pause] = answer.json()["pauses"]
        assert (pause["agent"], pause["reason"], pause["paused_by"], pause["until"]) == (
            1,
            "look first",
            "admin",
            None,
        )
        again = await client.post(f"{path}/pause", json={"agent": "1"})
        assert (again.status_code, again.json()["detail"]) == (409, "agent 1 is paused: look first")
        runner.gate.set()
        detail = await detail_when(
            client, run, lambda one: one["agents"][0]["status"] == "finished"
        )
        assert (started(runner, 0), started(runner, 1)) == (14, 1)
        assert (detail["status"], detail["agents"][1]["passed"]) == ("running", 1)
        resumed = await client.post(f"{path}/resume", json={"agent": "nop"})
        assert (resumed.status_code, resumed.json()["pauses"]) == (200, [])
        await detail_when(client, run, is_finished)
        assert started(runner, 1) == 14
        late = await client.post(f"{path}/pause", json={})
        assert (late.status_code, late.json()["detail"]) == (
            409,
            "the run has ended: it is finished",
        )
        log = (await client.get(f"{path}/logs", params={"limit": 1000})).json()["items"]
        said = [line["message"] for line in log if line["step"] in {"paused", "resumed"}]
        assert said == ["nop is paused until resumed: look first", "nop goes on: resumed by a user"]
    for service in door.services:
        for report in await service.replay(Replay(verify=True)):
            assert report.identical, report


async def test_a_paused_run_waits_lets_what_runs_end_and_can_be_stopped(door):
    async with door.client() as client, stand_in(door, pipeline.passed) as runner:
        runner.gate.clear()
        run = await submit(client, "oracle", max_concurrent_attempts=3)
        await until(lambda: len(runner.orders) == 3)
        path = f"/runs/{run['name']}"
        assert (await client.post(f"{path}/resume")).json()["detail"] == "the run is not paused"
        assert (await client.post(f"{path}/pause")).status_code == 200
        runner.gate.set()
        detail = await detail_when(client, run, lambda one: one["ingested_results"] == 3)
        assert detail["seconds_left"] is None
        one_agent = await client.post(f"{path}/resume", json={"agent": "0"})
        assert "resume it without naming an agent" in one_agent.json()["detail"]
        assert (await client.post(f"{path}/resume")).json()["pauses"] == []
        await until(lambda: len(runner.orders) > 3)
        assert (await client.post(f"{path}/pause")).status_code == 200
        assert (await client.post(f"{path}/stop")).status_code == 200
        assert await door.platform.ended(UUID(run["id"])) == "stopped"
        detail = await detail_when(client, run, lambda one: one["status"] == "stopped")
        assert detail["pauses"] == []


class Provider:
    """An answer that fails an agent's tries for as long as its provider refuses."""

    def __init__(self, kind, message, agent=1):
        self.exception = {"type": kind, "message": message, "phase": "agent"}
        self.agent = agent
        self.refuses = True

    def __call__(self, order):
        if self.refuses and order.slot.agent == self.agent:
            return {"reward_valid": False, "retryable": False, "exception": self.exception}
        return pipeline.passed(order)


async def test_an_agent_whose_key_is_refused_pauses_says_why_and_goes_on_when_asked(door):
    provider = Provider("AuthenticationError", "invalid x-api-key")
    async with door.client() as client, stand_in(door, provider) as runner:
        run = await submit(client, "oracle", "nop", max_concurrent_attempts=2)
        detail = await detail_when(
            client,
            run,
            lambda one: one["pauses"] and one["agents"][0]["status"] == "finished",
        )
        [pause] = detail["pauses"]
        said = "the provider refuses the key (3 results in a row): AuthenticationError: invalid"
        assert pause["reason"].startswith(said)
        assert (pause["agent"], pause["paused_by"], pause["until"]) == (1, "run-scheduler", None)
        spent = started(runner, 1)
        assert spent < 8  # three in a row, and what was out meanwhile
        assert (detail["status"], started(runner, 0)) == ("running", 14)
        provider.refuses = False
        await client.post(f"/runs/{run['name']}/resume", json={"agent": "nop"})
        detail = await detail_when(client, run, is_finished)
        assert (detail["agents"][1]["errored"], started(runner, 1)) == (spent, 14)
        again = await client.post(f"/runs/{run['name']}/retry", json={})
        assert again.json()["slots"] == spent
        await detail_when(client, run, lambda one: one["agents"][1]["passed"] == 14)


async def test_an_agent_whose_provider_is_busy_goes_on_by_itself(door):
    provider = Provider("RateLimitError", "429; please try again in 300ms")
    async with door.client() as client, stand_in(door, provider) as runner:
        run = await submit(client, "oracle", "nop", max_concurrent_attempts=1)
        detail = await detail_when(client, run, lambda one: one["pauses"])
        assert detail["pauses"][0]["until"] is not None
        provider.refuses = False
        detail = await detail_when(client, run, is_finished)
        assert detail["agents"][1]["errored"] >= 3
        assert started(runner, 1) == 14
        decisions = await door.platform.events(UUID(run["id"]))
        told = [one.event for one in decisions if one.event.type in {"paused", "resumed"}]
        assert [one.type for one in told[:2]] == ["paused", "resumed"]
        place = [one.event for one in decisions].index(told[0])
        met = [one.event for one in decisions[:place] if one.event.type == "result-ingested"]
        assert (told[0].data.until - met[-1].data.finished_at).total_seconds() >= 0.3
        assert told[1].occurred_at >= told[0].data.until
        assert {one.actor for one in told} == {"run-scheduler"}


async def test_a_run_that_has_spent_its_budget_lets_what_runs_end_and_stops_by_itself(door):
    def answer(order):
        return pipeline.passed(order) | {"usage": {"cost_usd": 0.1, "input_tokens": 100}}

    async with door.client() as client, stand_in(door, answer) as runner:
        run = await submit(client, max_concurrent_attempts=1, budget_usd=0.3)
        assert await door.platform.ended(UUID(run["id"])) == "stopped"
        detail = await detail_when(
            client, run, lambda one: one["status"] == "stopped" and one["agents"][0]["passed"] == 3
        )
        assert len(runner.orders) == 3
        assert detail["reason"] == "the budget is spent: 0.30 of 0.30 USD"
        assert detail["limits"] == {
            "deadline_at": None,
            "budget_usd": 0.3,
            "spent_usd": 0.3,
            "budget_tokens": None,
            "spent_tokens": None,
        }
        decisions = await door.platform.lifecycle(UUID(run["id"]))
        assert decisions[-2:] == ["stop-requested", "stopped"]
        refused = await client.post(f"/runs/{run['name']}/retry")
        assert "the run was stopped" in refused.json()["detail"]
        enough = await submit(client, budget_tokens=1400)
        await detail_when(client, enough, is_finished)
        [first, *_] = [
            one
            async for one in door.platform.store.read("RUNS", ["runs.*.*.attempts.result-ingested"])
        ]
        again = first.event.model_copy(update={"id": pipeline.new_id()})
        await door.platform.store.tell(again, message_id="told long after")
    for service in door.services:
        for report in await service.replay(Replay(verify=True)):
            assert report.identical, report


async def test_a_run_stops_when_its_deadline_is_over_and_keeps_what_it_has(door):
    async with door.client() as client, stand_in(door, pipeline.passed) as runner:
        run = await submit(client, max_concurrent_attempts=1, deadline="3s")
        await until(lambda: len(runner.orders) > 0)
        runner.gate.clear()
        detail = await detail_when(client, run, lambda one: one["reason"] is not None)
        assert detail["reason"] == "the deadline is over: 0:00:03 after the start"
        begun = len(runner.orders)
        runner.gate.set()
        assert await door.platform.ended(UUID(run["id"])) == "stopped"
        assert len(runner.orders) == begun
        detail = await detail_when(
            client,
            run,
            lambda one: one["status"] == "stopped" and one["agents"][0]["passed"] == begun,
        )
        ended, late = datetime.fromisoformat(detail["ended_at"]), detail["limits"]["deadline_at"]
        assert ended >= datetime.fromisoformat(late)
