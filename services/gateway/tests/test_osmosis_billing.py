"""A workspace without money left, as the real `osmosis` command tells it."""

import asyncio
from decimal import Decimal

import pytest

from assay_local.embedded import free_port
from gateway.billing_budget import BudgetGate
from gateway.billing_estimates import Flat
from gateway.billing_queries import Limits
from gateway.server import serve
from gateway.settings import HttpLimits

RUN = """
[experiment]
benchmark = "toy"
[[agents]]
harness = "terminus-2"
[agents.model]
type = "hosted"
base_model = "base"
lora_model_name = "tuned"
"""


@pytest.fixture
async def cli(stage, osmosis):
    """The command against a gateway whose gate counts: a slot is 1 USD."""
    flat = Flat(usd=Decimal(1), hours=Decimal("0.25"))
    stage.desk.gate = BudgetGate(stage.desk, stage.engine, Limits(None, None), flat)
    port = free_port()
    serving = asyncio.create_task(serve(stage.app, "127.0.0.1", port, stage.closing, HttpLimits()))
    yield osmosis(f"http://127.0.0.1:{port}", stage.admin_token)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_submission_that_the_budget_does_not_cover_is_refused_as_billing(stage, http, cli):
    await stage.add_benchmark()
    budget = {"usd": 7, "sandbox_hours": None}
    assert (await http.put("/billing", json=budget)).status_code == 200
    (cli.folder / "run.toml").write_text(RUN)
    await cli.run("benchmark", "submit", "run.toml", "--yes")
    last = await stage.store.last_sequence("RUNS")
    error = await cli.refusal("benchmark", "submit", "run.toml", "--yes")
    assert error["code"] == "BILLING_REQUIRED"
    told = error["details"]
    assert (told["platform_code"], told["status_code"]) == ("BILLING_REQUIRED", 403)
    assert told["details"]["usd"] == {"limit": 7, "left": 3, "needed": 4, "missing": 1}
    assert "expected to cost 4.00 USD" in error["message"]
    assert await stage.store.last_sequence("RUNS") == last
