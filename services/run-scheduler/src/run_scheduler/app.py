"""Wiring of the scheduler: two projections, the outbox and the planner."""

from assay_kernel.service import Schema, Service, run_service
from run_scheduler.lifecycle import Lifecycles
from run_scheduler.planner import Planner
from run_scheduler.runs_projection import RunsProjection
from run_scheduler.settings import SchedulerSettings
from run_scheduler.tables import kernel, metadata
from run_scheduler.versions_projection import VersionsProjection

SCHEMA = Schema(package="run_scheduler", metadata=metadata, kernel=kernel)


async def wire(service: Service) -> None:
    """Build the scheduler's parts."""
    settings = service.settings
    if not isinstance(settings, SchedulerSettings):
        raise TypeError("the scheduler needs its own settings")
    planner = Planner(service.engine, service.outbox(), Lifecycles(service.store), settings)
    service.project(VersionsProjection(), committed=planner.wake)
    service.project(RunsProjection(), committed=planner.wake)
    service.tasks["planner"] = planner.run()


def main() -> None:
    """Run the scheduler until it is told to stop."""
    run_service("run-scheduler", SchedulerSettings(), wire, schema=SCHEMA)
