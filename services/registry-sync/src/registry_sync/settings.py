"""The settings of registry-sync."""

from pathlib import Path

from pydantic import Field

from assay_kernel.settings import KernelSettings


class RegistrySettings(KernelSettings):
    """`ASSAY_WORK_DIR`: where sources are downloaded to; times in seconds."""

    work_dir: Path = Path("/var/lib/assay/registry")
    sync_tick: float = Field(default=2.0, gt=0)
    sync_timeout: float = Field(default=3600.0, gt=0)
