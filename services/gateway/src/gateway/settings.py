"""The settings of the gateway."""

from pathlib import Path

from pydantic import Field

from assay_contracts.identity import Role
from assay_kernel.settings import KernelSettings


class GatewaySettings(KernelSettings):
    """Where the gateway listens, the files that hold its tokens and its master key, and whom it
    asks to sign people in (see `OpenIdProvider`)."""

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
