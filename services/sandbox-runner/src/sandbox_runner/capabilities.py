"""What sandboxes this machine can run, and why not the others."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException

from sandbox_runner.environments.local_namespace import why_refused


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The environments that work here, the default first, and the reasons against the others."""

    environments: tuple[str, ...]
    missing: Mapping[str, str]

    def chosen(self, setting: str) -> str:
        """The environment for work that names none.

        Raises:
            NoSandboxError: nothing here can run a sandbox.
        """
        if setting != "auto":
            return setting
        if not self.environments:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.missing.items())
            raise NoSandboxError(f"no sandbox can be run on this machine ({reasons})")
        return self.environments[0]


class NoSandboxError(RuntimeError):
    """Neither Docker nor namespaces are to be had."""


def detect(scratch: Path) -> Capabilities:
    """Try what is there: a Docker engine that answers, a local sandbox in `scratch`; blocks."""
    reasons = {"docker": _why_no_docker(), "local": why_refused(scratch)}
    return Capabilities(
        environments=tuple(name for name, reason in reasons.items() if reason is None),
        missing={name: reason for name, reason in reasons.items() if reason is not None},
    )


def _why_no_docker() -> str | None:
    try:
        with contextlib.closing(docker.from_env(timeout=5)) as client:
            client.ping()
    except DockerException as error:
        return f"no Docker engine answers ({error})"
    return None
