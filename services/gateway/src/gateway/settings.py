"""The settings of the gateway."""

from pathlib import Path
from typing import Literal, Self

from limits import parse
from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from assay_contracts.http import BillingMode
from assay_contracts.identity import Role
from assay_contracts.values import Money
from assay_kernel.settings import KernelSettings


class HttpLimits(BaseModel):
    """How much, how long and how often one may ask over HTTP."""

    http_head_seconds: float = Field(default=10, gt=0)
    """Within which a request's line and headers must be there, once its first byte is."""

    http_body_seconds: float = Field(default=30, gt=0)
    """Within which a request's body must be there."""

    http_idle_seconds: int = Field(default=60, ge=1)
    """How long a connection may lie idle between two requests."""

    http_connections: int = Field(default=2000, ge=1)
    """Connections at once; those beyond are answered 503 and closed."""

    rate_limit_caller: str = "6000/minute"
    rate_limit_address: str = "600/minute"
    kept_answers_bytes: int = Field(default=64 * 1024 * 1024, ge=0)

    @field_validator("rate_limit_caller", "rate_limit_address")
    @classmethod
    def _can_be_read(cls, rate: str) -> str:
        parse(rate)
        return rate


class GatewaySettings(KernelSettings, HttpLimits):
    """Where the gateway listens, the files that hold its tokens and its master keys, whom it asks
    to sign people in (see `OpenIdProvider`), and what a person's query in SQL may take; there are
    none without `sql_database_url`."""

    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8400, ge=1, le=65535)
    public_url: str | None = None
    admin_token_file: Path | None = None
    runner_token_file: Path | None = None
    master_key_file: Path | None = None
    openid_issuer: str | None = None
    openid_client_id: str = "assay"
    openid_client_secret_file: Path | None = None
    openid_name: str = "single sign-on"
    openid_workspace: str | None = None
    openid_role: Role = Role.MEMBER
    master_key_command: SecretStr | None = None
    master_key_seconds: float = Field(default=30.0, gt=0)
    billing: BillingMode = BillingMode.OFF
    billing_usd: Money | None = None
    billing_sandbox_hours: Money | None = None
    billing_slot_usd: Money = 1.0
    billing_slot_hours: Money = 0.25
    billing_webhook_url: SecretStr | None = None
    billing_webhook_secret_file: Path | None = None
    billing_webhook_seconds: float = Field(default=3.0, gt=0, le=60)
    billing_webhook_unreachable: Literal["allow", "refuse"] = "refuse"
    sql_database_url: SecretStr | None = None
    sql_seconds: float = Field(default=5.0, gt=0, le=600)
    sql_rows: int = Field(default=10_000, ge=1, le=1_000_000)
    sql_bytes: int = Field(default=10 * 1024 * 1024, ge=1024, le=1024**3)
    sql_at_once: int = Field(default=4, ge=1, le=20)

    @field_validator("billing_webhook_url")
    @classmethod
    def _is_address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("ASSAY_BILLING_WEBHOOK_URL must begin with http:// or https://")
        return url

    @model_validator(mode="after")
    def _whole(self) -> Self:
        asked = (self.billing_webhook_url, self.billing_webhook_secret_file)
        if self.billing is BillingMode.WEBHOOK and None in asked:
            raise ValueError(
                "ASSAY_BILLING=webhook needs ASSAY_BILLING_WEBHOOK_URL and "
                "ASSAY_BILLING_WEBHOOK_SECRET_FILE"
            )
        return self
