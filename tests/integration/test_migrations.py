"""What the migrations make is what the services' tables declare."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import create_engine

from assay_kernel.database import database_url as sqlalchemy_url
from assay_kernel.migrations import migrate
from gateway.tables import metadata as gateway
from grader.tables import metadata as grader
from leaderboard.tables import metadata as leaderboard
from registry_sync.tables import metadata as registry_sync
from run_scheduler.tables import metadata as run_scheduler

SERVICES = {
    "gateway": gateway,
    "grader": grader,
    "leaderboard": leaderboard,
    "registry_sync": registry_sync,
    "run_scheduler": run_scheduler,
}


@pytest.mark.parametrize("package", SERVICES)
def test_a_migrated_schema_is_the_declared_one_and_migrating_again_changes_nothing(
    package, database_url
):
    metadata = SERVICES[package]
    setting = SecretStr(database_url)
    migrate(setting, package, metadata)
    migrate(setting, package, metadata)
    engine = create_engine(sqlalchemy_url(setting))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "include_name": lambda name, kind, _: kind != "schema" or name == package,
                "include_object": lambda thing, *_: thing.name != "alembic_version",
                "compare_type": True,
            },
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()
