"""The settings of the gateway."""

from pathlib import Path

from limits import parse
from pydantic import BaseModel, Field, field_validator

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
    """Where the gateway listens, and the files that hold its tokens and its master key."""

    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8400, ge=1, le=65535)
    public_url: str | None = None
    admin_token_file: Path | None = None
    runner_token_file: Path | None = None
    master_key_file: Path | None = None
