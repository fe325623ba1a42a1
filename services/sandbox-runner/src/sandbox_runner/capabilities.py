"""What sandboxes this machine can run, and why not the others."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

import docker
from docker.errors import DockerException


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


def detect() -> Capabilities:
    """Try what is there: a Docker engine that answers, namespaces that can be made."""
    reasons = {"docker": _why_no_docker(), "local": _why_no_local()}
    return Capabilities(
        environments=tuple(name for name, reason in reasons.items() if reason is None),
        missing={name: reason for name, reason in reasons.items() if reason is not None},
    )


def _why_no_docker() -> str | None:
    try:
        client = docker.from_env(timeout=5)
        try:
            client.ping()
        finally:
            client.close()
    except DockerException as error:
        return f"no Docker engine answers ({error})"
    return None


def _why_no_local() -> str | None:
    if os.geteuid() == 0:
        wanted: tuple[str, ...] = ("unshare", "nsenter", "setpriv", "mount", "pivot_root")
        trial = ["unshare", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "true"]
    else:
        wanted = ("bwrap", "nsenter")
        trial = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    missing = [name for name in wanted if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    tried = subprocess.run(trial, capture_output=True, text=True, check=False)  # noqa: S603  fixed commands
    return None if tried.returncode == 0 else f"namespaces are refused: {tried.stderr.strip()}"
