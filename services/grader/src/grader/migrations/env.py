"""Alembic's environment for the schema of grader."""

from assay_kernel.migrations import run_environment

run_environment()
