"""Alembic's environment for the schema of registry-sync."""

from assay_kernel.migrations import run_environment

run_environment()
