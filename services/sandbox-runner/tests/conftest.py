"""Small Harbor tasks, and specs to run them in either sandbox."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_runner.trials import TrialSpec

IMAGE = "python:3.12-slim-bookworm"
TOML = """
version = "1.0"
[metadata]
category = "toy"
difficulty = "easy"
[agent]
timeout_sec = {agent_timeout}
[verifier]
timeout_sec = 60
[environment]
{image}
workdir = "/app"
network_mode = "{network}"
memory_mb = 256
cpus = 1
"""
SOLVED = (
    "test -f /app/done && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"
)


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Path]:
    """Writes a task folder; the verifier passes when /app/done exists, unless told otherwise."""

    def make(
        name: str = "toy",
        *,
        solve: str = "touch /app/done",
        verify: str = SOLVED,
        dockerfile: str | None = None,
        network: str = "no-network",
        agent_timeout: float = 30,
        loose: dict[str, str] | None = None,
        image: str = IMAGE,
    ) -> Path:
        folder = tmp_path / "tasks" / name
        for part in ("environment", "solution", "tests"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        line = "" if dockerfile is not None else f'docker_image = "{image}"'
        toml = TOML.format(image=line, network=network, agent_timeout=agent_timeout)
        (folder / "task.toml").write_text(toml)
        (folder / "instruction.md").write_text("Make the file /app/done.\n")
        (folder / "solution" / "solve.sh").write_text(f"#!/bin/bash\nset -e\n{solve}\n")
        (folder / "tests" / "test.sh").write_text(f"#!/bin/bash\n{verify}\n")
        if dockerfile is not None:
            (folder / "environment" / "Dockerfile").write_text(dockerfile)
        for path, text in (loose or {}).items():
            (folder / "environment" / path).write_text(text)
        return folder

    return make


@pytest.fixture(
    params=["local", pytest.param("docker", marks=pytest.mark.docker)],
)
def environment(request: pytest.FixtureRequest) -> str:
    """Each sandbox of ours in turn."""
    return str(request.param)


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., TrialSpec]:
    """A spec for one try of a task."""

    def make(task: Path, environment: str, harness: str = "oracle", **changes: object) -> TrialSpec:
        fields: dict[str, object] = {
            "task_dir": task,
            "task_name": task.name,
            "harness": harness,
            "environment": environment,
            "trials_dir": tmp_path / "trials",
            "trial_name": f"{task.name}-{harness}",
            "attempt": 1,
            "try_number": 1,
            "labels": {
                "assay.installation": f"test-{tmp_path.name}",
                "assay.runner": "test",
                "assay.run": "r",
                "assay.slot": "s",
                "assay.try": "1",
            },
            "scratch": tmp_path / "scratch",
            "hidden": (tmp_path / "data",),
        }
        return TrialSpec(**(fields | changes))  # type: ignore[arg-type]

    return make


def processes_naming(text: str) -> list[str]:
    """Command lines of running processes that hold `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if text in command:
                found.append(command)
    return found


@pytest.fixture
def running() -> Callable[[str], list[str]]:
    return processes_naming
