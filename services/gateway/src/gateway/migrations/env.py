"""Alembic's environment for the schema of gateway."""

from assay_kernel.migrations import run_environment

run_environment()
