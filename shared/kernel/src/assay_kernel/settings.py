"""Settings that every service shares, read once from `ASSAY_*` variables."""

import os
import socket

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class KernelSettings(BaseSettings):
    """Where the parts of the platform are, and how this process speaks.

    A service's own settings class derives from this one. Values that may hold a password are
    `SecretStr` and print as asterisks.
    """

    model_config = SettingsConfigDict(
        env_prefix="ASSAY_", frozen=True, extra="ignore", hide_input_in_errors=True
    )

    nats_url: SecretStr = SecretStr("nats://127.0.0.1:4222")
    database_url: SecretStr = SecretStr("postgresql://postgres@127.0.0.1:5432/assay")
    blob_url: str = Field(default="file:///var/lib/assay/blobs", repr=False)
    stream_replicas: int = Field(default=1, ge=1, le=5)
    log_level: str = "info"
    log_format: str = Field(default="json", pattern="^(json|console)$")
    instance: str = Field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
