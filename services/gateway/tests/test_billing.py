"""The billing gate: budgets that two submissions at once cannot overdraw, and the webhook."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson
import pytest
import uvicorn
from pydantic import ValidationError
from sqlalchemy import func, select, update
from standardwebhooks.webhooks import Webhook
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import gateway.tables
from assay_contracts.http import BillingQuestion
from assay_kernel.rebuild import Rebuild
from assay_local.embedded import free_port
from gateway.billing_budget import BudgetGate
from gateway.billing_estimates import Flat
from gateway.billing_queries import Limits, next_month
from gateway.billing_webhook import NoWebhookSecretError, WebhookGate, read_secret
from gateway.imports import ENVIRONMENT
from gateway.settings import GatewaySettings
from gateway.spending_projection import SpendingProjection, month_of

FLAT = Flat(usd=Decimal(1), hours=Decimal("0.25"))
MODEL = {"type": "provider", "model": "a/b", "api_key_secret": "MODEL_KEY"}
CODEX = [{"harness": "codex", "model": MODEL}]
reservations = gateway.tables.billing_reservations


@pytest.fixture
async def budget(stage, http):
    """A benchmark of four tasks and a gate that counts; a run with a model is 4 USD and 1 hour."""
    stage.desk.gate = BudgetGate(stage.desk, stage.engine, Limits(None, None), FLAT)
    await stage.add_benchmark()
    await http.put("/secrets/MODEL_KEY", json={"value": "hush-of-all", "scope": "workspace"})
    return stage.desk.gate


async def limit(http, usd=None, hours=None):
    answer = await http.put("/billing", json={"usd": usd, "sandbox_hours": hours})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ask(http, config, **changes):
    return await http.post("/runs", json={"config": config(**({"agents": CODEX} | changes))})


async def month(http):
    """USD spent, reserved and left, and hours spent, reserved and left."""
    found = (await http.get("/billing")).json()
    return tuple(
        found[measure][name]
        for measure in ("usd", "sandbox_hours")
        for name in ("spent", "reserved", "left")
    )


async def reserved(stage):
    async with stage.engine.connect() as connection:
        return await connection.scalar(select(func.count()).select_from(reservations))


async def test_a_submission_reserves_and_the_next_is_refused_with_what_is_missing(
    http, budget, config
):
    await limit(http, usd=7)
    assert (await ask(http, config)).status_code == 201
    assert await month(http) == (0, 4, 3, 0, 1, None)
    refused = await ask(http, config)
    assert (refused.status_code, refused.json()["code"]) == (403, "BILLING_REQUIRED")
    detail, details = refused.json()["detail"], refused.json()["details"]
    assert "expected to cost 4.00 USD, and 3.00 of the 7.00 USD for the month are left" in detail
    resets = next_month(datetime.now(UTC))
    assert f"{resets:%Y-%m-%d} at 00:00 UTC" in detail
    assert details == {
        "usd": {"limit": 7, "left": 3, "needed": 4, "missing": 1},
        "resets_at": resets.isoformat(),
        "basis": "a flat amount for each slot",
    }


async def test_both_measures_that_are_missing_are_told_and_nothing_was_done(
    stage, http, budget, config
):
    await limit(http, usd=1, hours=0.5)
    refused = await ask(http, config)
    assert refused.status_code == 403
    assert set(refused.json()["details"]) == {"usd", "sandbox_hours", "resets_at", "basis"}
    assert refused.json()["details"]["sandbox_hours"]["missing"] == 0.5
    assert await stage.store.last_sequence("RUNS") == 0
    async with stage.engine.connect() as connection:
        names = select(func.count()).select_from(gateway.tables.run_names)
        assert await connection.scalar(names) == 0
    assert await reserved(stage) == 0


async def test_of_submissions_at_once_only_as_many_pass_as_the_budget_covers(
    stage, http, budget, config
):
    await limit(http, usd=12)
    answers = await asyncio.gather(*(ask(http, config) for _ in range(10)))
    assert sorted(one.status_code for one in answers) == [201] * 3 + [403] * 7
    assert await month(http) == (0, 12, 0, 0, 3, None)
    async with stage.client(workspace="other") as other:
        await limit(other, usd=0)
    assert (await month(http))[:3] == (0, 12, 0)


async def test_what_takes_no_money_passes_an_empty_budget(http, budget, config):
    await limit(http, usd=0)
    assert (await ask(http, config, agents=[{"harness": "oracle"}])).status_code == 201
    assert (await ask(http, config)).status_code == 403


async def test_a_run_with_a_budget_and_a_deadline_reserves_those(http, budget, config):
    execution = {"budget_usd": 2.5, "deadline": "6m", "max_concurrent_attempts": 2}
    assert (await ask(http, config, execution=execution)).status_code == 201
    assert await month(http) == (0, 2.5, None, 0, 0.2, None)


async def test_a_reservation_shrinks_by_what_is_spent_and_closes_when_the_run_ends(
    stage, http, budget, config
):
    await limit(http, usd=10)
    run = (await ask(http, config)).json()["id"]
    await stage.decide(run, "queued", "started")
    usage = {"cost_usd": 0.5}
    await stage.result(run, "fix-roman", seconds=360, usage=usage)
    assert await month(http) == (0.5, 3.5, 6, 0.1, 0.9, None)
    await stage.result(run, "fix-greek", "errored", seconds=360, usage={"cost_usd": 0.25})
    again = {"try_number": 2, "seconds": 360}
    await stage.result(run, "fix-greek", usage={"cost_usd": 5}, **again)
    assert await month(http) == (5.75, 0, 4.25, 0.3, 0.7, None)
    await stage.decide(run, "finished")
    assert await month(http) == (5.75, 0, 4.25, 0.3, 0, None)
    assert (await ask(http, config)).status_code == 403
    assert await reserved(stage) == 0  # what is closed is cleared away


async def test_a_result_that_is_told_twice_is_spent_once_and_so_it_is_after_a_replay(
    stage, http, budget, config
):
    run = (await ask(http, config)).json()["id"]
    await stage.result(run, "fix-roman", seconds=360, usage={"cost_usd": 0.5})
    told = [one async for one in stage.store.read("RUNS", [f"runs.*.{run}.attempts.>"])]
    for one in told:
        await stage.store.tell(one.event, message_id=f"again {one.event.id}")
    await stage.caught_up()
    judge = {"model": "m", "requests": 1, "usage": {"cost_usd": 0.125}}
    await stage.result(run, "fix-greek", seconds=0, graded={"judge": judge})
    await stage.decide(run, "stopped")
    assert await month(http) == (0.625, 0, None, 0.1, 0, None)
    assert (await http.get("/billing")).json()["tries_without_cost"] == 1
    checkpoints = gateway.tables.kernel.checkpoints
    verifying, swapping = (
        Rebuild(
            "gateway",
            SpendingProjection(),
            engine=stage.engine,
            store=stage.store,
            checkpoints=checkpoints,
        )
        for _ in range(2)
    )
    report = await verifying.verify()
    assert (report.identical, report.rows["spending_tries"]) == (True, 3)
    assert (await swapping.swap()).identical
    assert await month(http) == (0.625, 0, None, 0.1, 0, None)


async def test_what_imported_runs_took_is_not_spent_here(stage, http, budget, config):
    run = (await ask(http, config)).json()["id"]
    usage = {"cost_usd": 0.5}
    await stage.result(run, "fix-roman", seconds=360, usage=usage, environment=ENVIRONMENT)
    assert (await month(http))[0] == 0


async def test_a_try_counts_in_the_month_in_which_it_ended(stage, http, budget, config):
    run = (await ask(http, config)).json()["id"]
    before = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0) - timedelta(seconds=1)
    usage = {"cost_usd": 0.5}
    await stage.result(run, "fix-roman", usage=usage, started_at=before, finished_at=before)
    assert (await month(http))[:2] == (0, 3.5)
    later = BudgetGate(stage.desk, stage.engine, Limits(None, None), FLAT, now=lambda: before)
    stage.desk.gate = later
    shown = (await http.get("/billing")).json()
    assert (shown["month"], shown["usd"]["spent"]) == (month_of(before), 0.5)


async def test_a_retry_reserves_for_its_slots_anew_and_only_once(stage, http, budget, config):
    await limit(http, usd=6)
    run = (await ask(http, config)).json()["id"]
    await stage.decide(run, "queued", "started")
    for task in ("fix-roman", "fix-greek"):
        await stage.result(run, task, "errored", usage={"cost_usd": 0.5}, seconds=0)
    for task in ("count-words", "sort-lines"):
        await stage.result(run, task, usage={"cost_usd": 0.5}, seconds=0)
    await stage.decide(run, "finished")
    assert (await month(http))[:3] == (2, 0, 4)
    answers = await asyncio.gather(*(http.post(f"/runs/{run}/retry", json={}) for _ in range(3)))
    assert sorted(one.status_code for one in answers) == [200, 409, 409], answers[0].text
    await stage.caught_up()
    # Results of this agent took half a dollar each so far.
    assert (await month(http))[:3] == (2, 1, 3)
    assert await reserved(stage) == 1
    await stage.result(run, "fix-roman", try_number=2, usage={"cost_usd": 0.75}, seconds=0)
    assert (await month(http))[:3] == (2.75, 0.25, 3)
    await stage.decide(run, "stopped")
    assert (await month(http))[:3] == (2.75, 0, 3.25)


async def test_a_retry_that_the_budget_does_not_cover_is_refused_and_the_run_stays_ended(
    stage, http, budget, config
):
    run = (await ask(http, config)).json()["id"]
    await stage.decide(run, "queued", "started")
    for task in ("fix-roman", "fix-greek", "count-words", "sort-lines"):
        await stage.result(run, task, "errored", usage={"cost_usd": 0.5})
    await stage.decide(run, "finished")
    await limit(http, usd=3.9)
    refused = await http.post(f"/runs/{run}/retry", json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "BILLING_REQUIRED")
    assert refused.json()["details"]["basis"] == "4 past results of its agents"
    assert (await http.get(f"/runs/{run}")).json()["status"] == "finished"


async def test_deleting_a_run_gives_back_nothing_that_was_spent(stage, http, budget, config):
    run = (await ask(http, config)).json()["id"]
    await stage.decide(run, "queued", "started")
    await stage.result(run, "fix-roman", usage={"cost_usd": 0.5}, seconds=360)
    await stage.decide(run, "finished")
    assert (await http.delete(f"/runs/{run}")).status_code == 204
    await stage.caught_up()
    assert (await http.get(f"/runs/{run}")).status_code == 404
    assert await month(http) == (0.5, 0, None, 0.1, 0, None)


async def test_a_reservation_whose_run_never_came_lapses_after_an_hour(
    stage, http, budget, config, monkeypatch
):
    async def broken(*_):
        raise RuntimeError("the stream is gone")

    await limit(http, usd=4)
    with monkeypatch.context() as patched:
        patched.setattr(stage.desk, "decide_on_run", broken)
        assert (await ask(http, config)).status_code == 500
    assert (await month(http))[:3] == (0, 4, 0)
    assert (await ask(http, config)).status_code == 403
    long_ago = datetime.now(UTC) - timedelta(minutes=61)
    async with stage.engine.begin() as connection:
        await connection.execute(update(reservations).values(reserved_at=long_ago))
    assert (await month(http))[:3] == (0, 0, 4)
    run = await ask(http, config)
    assert run.status_code == 201
    async with stage.engine.begin() as connection:  # the run is there: nothing lapses
        await connection.execute(update(reservations).values(reserved_at=long_ago))
    assert (await month(http))[:3] == (0, 4, 0)


async def test_a_submission_that_is_refused_later_gives_back_what_it_had_reserved(
    stage, http, budget, config, monkeypatch
):
    from gateway.problems import conflict

    async def refused(*_):
        raise conflict("no")

    monkeypatch.setattr(stage.desk, "begin_run", refused)
    assert (await ask(http, config)).status_code == 409
    assert await reserved(stage) == 0


async def test_while_what_was_spent_is_not_counted_nothing_starts(
    stage, http, budget, config, monkeypatch
):
    await limit(http, usd=100)
    run = (await ask(http, config)).json()["id"]
    await stage.hold_read_models()
    monkeypatch.setattr("gateway.desk._CATCH_UP_SECONDS", 0.2)
    await stage.result(run, "fix-roman")
    answer = await ask(http, config)
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")


async def test_members_read_the_budget_and_operators_set_it(stage, http, budget):
    await stage.person("ann", default="owner")
    ann = {"headers": {"Authorization": f"Bearer {await stage.token_of('ann')}"}}
    body = {"usd": 5, "sandbox_hours": None}
    assert (await http.put("/billing", json=body, **ann)).status_code == 403
    kept = await limit(http, usd=5)
    seen = await http.get("/billing", **ann)
    assert seen.json() == kept
    assert (kept["usd_limit"], kept["updated_by"]) == (5, "admin")
    for wrong in ({"usd": -1, "sandbox_hours": None}, {"usd": 1}, {"usd": "x"}):
        assert (await http.put("/billing", json=wrong)).status_code == 422
    await stage.audited(3)
    [told, *_] = (await http.get("/audit", params={"act": "budget-set"})).json()["items"]
    assert (told["target"], told["details"]) == ("default", {"usd": "5"})


async def test_a_workspace_without_limits_has_those_of_the_installation(
    stage, http, budget, config
):
    stage.desk.gate = BudgetGate(stage.desk, stage.engine, Limits.of(3, None), FLAT)
    assert (await ask(http, config)).status_code == 403
    await limit(http)
    assert (await ask(http, config)).status_code == 201


async def test_without_a_gate_everything_passes_and_limits_are_kept_all_the_same(
    stage, http, config
):
    await stage.add_benchmark()
    await limit(http, usd=0, hours=0)
    assert (await ask(http, config, agents=[{"harness": "oracle"}])).status_code == 201
    shown = (await http.get("/billing")).json()
    assert (shown["mode"], shown["usd"], shown["usd_limit"]) == ("off", None, 0)


def test_months_end_in_utc():
    zone = timedelta(hours=5)
    late = datetime.fromisoformat("2026-12-31T23:30:00-05:00")
    assert late.utcoffset() == -zone
    assert month_of(late) == "2027-01"
    assert next_month(late) == datetime(2027, 2, 1, tzinfo=UTC)
    assert next_month(datetime(2028, 2, 29, tzinfo=UTC)) == datetime(2028, 3, 1, tzinfo=UTC)


@pytest.fixture
async def hook(stage, http, tmp_path):
    """A real server that answers as it is told, and a gate that asks it."""
    hook = Hook()
    (tmp_path / "hook").write_text(hook.secret)
    server = uvicorn.Server(
        uvicorn.Config(hook.app, port=(port := free_port()), log_config=None, lifespan="off")
    )
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        while not server.started:
            await asyncio.sleep(0.01)
    hook.gate_of = lambda **more: WebhookGate(
        stage.desk,
        f"http://127.0.0.1:{port}/hook",
        read_secret(tmp_path / "hook"),
        **({"seconds": 1.0, "unreachable": "refuse", "flat": FLAT} | more),
    )
    stage.desk.gate = hook.gate_of()
    await stage.add_benchmark()
    await http.put("/secrets/MODEL_KEY", json={"value": "hush-of-all", "scope": "workspace"})
    yield hook
    hook.done.set()
    server.should_exit = True
    await serving


class Hook:
    """The external system."""

    def __init__(self):
        self.secret = "whsec_" + base64.b64encode(b"a secret of the webhook!").decode()
        self.asked = []
        self.answer = lambda: Response('{"allow": true}')
        self.done = asyncio.Event()
        self.app = Starlette(routes=[Route("/{path:path}", self.take, methods=["GET", "POST"])])

    async def take(self, request: Request) -> Response:
        body = await request.body()
        self.asked.append((request.url.path, dict(request.headers), body))
        made = self.answer()
        return await made if asyncio.iscoroutine(made) else made

    async def silent(self) -> Response:
        await self.done.wait()
        return Response('{"allow": true}')


async def test_the_webhook_is_asked_with_a_signature_and_says_yes(stage, http, hook, config):
    run = await ask(http, config)
    assert run.status_code == 201, run.text
    [(path, headers, body)] = hook.asked
    assert path == "/hook"
    verified = Webhook(hook.secret).verify(body, headers)
    question = BillingQuestion.model_validate(verified)
    assert headers["webhook-id"] == str(question.id)
    assert verified == {
        "id": str(question.id),
        "workspace": "default",
        "user": "admin",
        "benchmark": "toy",
        "run": run.json()["id"],
        "retry": False,
        "slots": 4,
        "estimate": {"usd": 4, "sandbox_hours": 1, "basis": "a flat amount for each slot"},
    }
    with pytest.raises(Exception, match="signature"):
        Webhook(hook.secret).verify(body.replace(b"default", b"another"), headers)


async def test_the_webhook_says_no_with_a_reason_and_nothing_was_done(stage, http, hook, config):
    hook.answer = lambda: Response('{"allow": false, "reason": "the invoice is open", "more": 1}')
    refused = await ask(http, config)
    assert (refused.status_code, refused.json()["code"]) == (403, "BILLING_REQUIRED")
    assert refused.json()["detail"] == "the run was not allowed: the invoice is open"
    assert await stage.store.last_sequence("RUNS") == 0


async def test_a_retry_is_asked_about_too(stage, http, hook, config):
    run = (await ask(http, config)).json()["id"]
    await stage.decide(run, "queued", "started")
    await stage.result(run, "fix-roman", "errored", usage={"cost_usd": 0.5}, seconds=36)
    await stage.decide(run, "finished")
    hook.answer = lambda: Response('{"allow": false}')
    refused = await http.post(f"/runs/{run}/retry", json={})
    assert (refused.status_code, refused.json()["detail"]) == (403, "the run was not allowed")
    told = orjson.loads(hook.asked[-1][2])
    assert (told["run"], told["retry"], told["slots"]) == (run, True, 1)
    # From one result nobody can tell.
    assert told["estimate"] == {
        "usd": 1,
        "sandbox_hours": 0.25,
        "basis": "a flat amount for each slot",
    }


NO_ANSWERS = {
    "an error": lambda hook: Response("{}", status_code=500),
    "another success": lambda hook: Response('{"allow": true}', status_code=202),
    "a redirect": lambda hook: RedirectResponse("/elsewhere", status_code=307),
    "no JSON": lambda hook: Response("yes"),
    "no boolean": lambda hook: Response('{"allow": "true"}'),
    "nothing": lambda hook: Response("{}"),
    "too much": lambda hook: Response(b'{"allow": true, "more": "' + b"x" * 70_000 + b'"}'),
    "silence": lambda hook: hook.silent(),
}


@pytest.mark.parametrize("kind", NO_ANSWERS)
async def test_no_answer_is_refused_or_allowed_as_the_operator_chose(
    stage, http, hook, config, kind
):
    hook.answer = lambda: NO_ANSWERS[kind](hook)
    refused = await ask(http, config)
    assert (refused.status_code, refused.json()["code"]) == (403, "BILLING_REQUIRED")
    assert "there was no answer" in refused.json()["detail"]
    assert await stage.store.last_sequence("RUNS") == 0
    stage.desk.gate = hook.gate_of(unreachable="allow")
    assert (await ask(http, config)).status_code == 201
    assert {path for path, _, _ in hook.asked} == {"/hook"}


async def test_a_webhook_that_cannot_be_reached_is_no_answer_either(
    stage, http, hook, config, tmp_path
):
    gate = hook.gate_of()
    gate._url = f"http://127.0.0.1:{free_port()}/hook"
    stage.desk.gate = gate
    assert (await ask(http, config)).status_code == 403


@pytest.mark.parametrize("content", ["", "whsec_", "not base64 at all: ü"])
def test_a_secret_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "hook").write_text(content)
    with pytest.raises(NoWebhookSecretError):
        read_secret(tmp_path / "hook")


def test_a_webhook_without_address_or_secret_is_refused_at_start(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_BILLING", "webhook")
    monkeypatch.setenv("ASSAY_NATS_URL", "nats://hush@127.0.0.1")
    with pytest.raises(ValidationError, match="ASSAY_BILLING_WEBHOOK_URL") as caught:
        GatewaySettings()
    assert "hush" not in str(caught.value)
    monkeypatch.setenv("ASSAY_BILLING_WEBHOOK_URL", "http://127.0.0.1:1/hook")
    monkeypatch.setenv("ASSAY_BILLING_WEBHOOK_SECRET_FILE", str(tmp_path / "hook"))
    assert GatewaySettings().billing == "webhook"
    assert "/hook" not in str(GatewaySettings().model_dump(mode="json")["billing_webhook_url"])
    monkeypatch.setenv("ASSAY_BILLING_WEBHOOK_URL", "ftp://127.0.0.1/hook")
    with pytest.raises(ValidationError, match="http://"):
        GatewaySettings()
