"""The settings of the gateway."""

from pathlib import Path

from pydantic import Field, SecretStr

from assay_kernel.settings import KernelSettings


class GatewaySettings(KernelSettings):
    """Where the gateway listens, the files that hold its tokens and its master key, and what a
    person's query in SQL may take; there are none without `sql_database_url`."""

    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8400, ge=1, le=65535)
    public_url: str | None = None
    admin_token_file: Path | None = None
    runner_token_file: Path | None = None
    master_key_file: Path | None = None
    sql_database_url: SecretStr | None = None
    sql_seconds: float = Field(default=5.0, gt=0, le=600)
    sql_rows: int = Field(default=10_000, ge=1, le=1_000_000)
    sql_bytes: int = Field(default=10 * 1024 * 1024, ge=1024, le=1024**3)
    sql_at_once: int = Field(default=4, ge=1, le=20)
