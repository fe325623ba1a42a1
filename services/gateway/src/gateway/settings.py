"""The settings of the gateway."""

from pathlib import Path

from pydantic import Field, SecretStr

from assay_kernel.settings import KernelSettings


class GatewaySettings(KernelSettings):
    """Where the gateway listens, and the files that hold its tokens and its master keys."""

    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8400, ge=1, le=65535)
    public_url: str | None = None
    admin_token_file: Path | None = None
    runner_token_file: Path | None = None
    master_key_file: Path | None = None
    master_key_command: SecretStr | None = None
    master_key_seconds: float = Field(default=30.0, gt=0)
