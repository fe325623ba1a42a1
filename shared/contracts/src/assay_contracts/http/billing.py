"""Billing: what a workspace may spend in a month, and the question that a webhook answers."""

from enum import StrEnum
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool

from assay_contracts.http.base import Request, Resource, with_example
from assay_contracts.values import Money

Hours = Money


class BillingMode(StrEnum):
    """Who decides whether a run may start."""

    OFF = "off"
    """Nobody: every run may."""

    BUDGET = "budget"
    """What is left of the workspace's limits for the month."""

    WEBHOOK = "webhook"
    """An external system."""


class BillingAmount(Resource):
    """One measure of a month: `reserved` is for runs that go on, `left` is null without a limit.

    `left` is below zero where runs spent more than was reserved for them.
    """

    limit: float | None
    spent: float
    reserved: float
    left: float | None


class Billing(Resource):
    """A workspace's month (UTC) so far. Both amounts are null where nothing is counted: only the
    mode `budget` counts. `tries_without_cost` ended this month and reported no cost, so that
    `usd.spent` may be too low.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "mode": "budget",
                    "month": "2026-12",
                    "resets_at": "2027-01-01T00:00:00Z",
                    "usd_limit": 100.0,
                    "sandbox_hours_limit": None,
                    "usd": {"limit": 100.0, "spent": 61.2, "reserved": 20.0, "left": 18.8},
                    "sandbox_hours": {"limit": None, "spent": 7.5, "reserved": 2.0, "left": None},
                    "tries_without_cost": 3,
                    "updated_at": "2026-12-01T08:00:00Z",
                    "updated_by": "admin",
                }
            ]
        }
    )

    mode: BillingMode
    month: str
    resets_at: AwareDatetime
    usd_limit: float | None
    sandbox_hours_limit: float | None
    usd: BillingAmount | None
    sandbox_hours: BillingAmount | None
    tries_without_cost: int | None
    updated_at: AwareDatetime | None
    updated_by: str | None


class SetBilling(Request):
    """`PUT /api/v1/billing`: both limits of a calendar month (UTC); null is no limit."""

    model_config = with_example(usd=100.0, sandbox_hours=200.0)

    usd: Money | None
    sandbox_hours: Hours | None


class BillingEstimate(Resource):
    """What a run is expected to take; `basis` says what each number rests on."""

    usd: float
    sandbox_hours: float
    basis: str


class BillingQuestion(Resource):
    """What the webhook is asked. `id` is the same where the same question is asked again."""

    id: UUID
    workspace: str
    user: str
    benchmark: str
    run: UUID
    retry: bool
    slots: int
    estimate: BillingEstimate


class BillingAnswer(BaseModel):
    """What the webhook answers; more fields than these are left alone."""

    model_config = ConfigDict(extra="ignore")

    allow: StrictBool
    reason: str | None = Field(default=None, max_length=2000)
