"""Requests that services answer over NATS: how they are, and to fold their streams again."""

from assay_contracts.http import Replay, ReplayReport, ServiceStatus
from assay_contracts.values import Value

SERVICES = (
    "registry-sync",
    "run-scheduler",
    "sandbox-runner",
    "grader",
    "leaderboard",
    "gateway",
)
"""Every service by name; all must answer before the platform is ready."""


class StatusRequest(Value):
    """Asks every instance of a service how it is; answered with `ServiceStatus`."""


def status_subject(service: str) -> str:
    """Where a service answers `StatusRequest`."""
    return f"commands.{service}.status"


def replay_subject(service: str) -> str:
    """Where a service with projections answers `Replay` with a list of `ReplayReport`."""
    return f"commands.{service}.replay"


__all__ = [
    "SERVICES",
    "Replay",
    "ReplayReport",
    "ServiceStatus",
    "StatusRequest",
    "replay_subject",
    "status_subject",
]
