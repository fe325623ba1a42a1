"""Alembic's environment for the schema of leaderboard."""

from assay_kernel.migrations import run_environment

run_environment()
