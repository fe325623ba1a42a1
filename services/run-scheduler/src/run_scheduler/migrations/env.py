"""Alembic's environment for the schema of run-scheduler."""

from assay_kernel.migrations import run_environment

run_environment()
