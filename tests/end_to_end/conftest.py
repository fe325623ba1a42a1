"""The whole platform, as `assay up` starts it, and the `assay` command as a person types it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay_local.embedded import free_port
from assay_local.folder import DataFolder

ASSAY = Path(sys.executable).with_name("assay")


class Platform:
    """A running platform, driven through its command."""

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port

    def run(
        self, *arguments: str, expect: int | None = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Type `assay …`; the exit code must be `expect` unless that is None."""
        done = subprocess.run(
            [str(ASSAY), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**self.environment, **(env or {})},
        )
        if expect is not None:
            assert done.returncode == expect, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done

    @property
    def environment(self) -> dict[str, str]:
        """The environment of whoever looks after the platform on its machine."""
        return {
            **os.environ,
            "ASSAY_DATA": str(self.data),
            "ASSAY_CONFIG": str(self.data / "config"),
            "COLUMNS": "200",
        }

    def json(self, *arguments: str, env: dict[str, str] | None = None) -> Any:
        """What `assay … --json` prints."""
        return json.loads(self.run(*arguments, "--json", env=env).stdout)

    def events(self, run: str) -> list[dict[str, Any]]:
        """Every stored event of a run."""
        printed = self.run("run", "events", run, "--json").stdout
        return [json.loads(line) for line in printed.splitlines()]

    def submit(self, folder: Path, config: str, *options: str, expect: int = 0) -> str:
        """Submit a configuration; returns the run's name, or what was said where refused."""
        path = folder / "run.toml"
        path.write_text(config)
        if expect != 0:
            return self.run("run", "submit", str(path), *options, expect=expect).stderr
        return str(self.json("run", "submit", str(path), *options)["name"])

    def servers(self) -> list[int]:
        """The processes of nats-server and of PostgreSQL's postmaster."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().decode().split("\0")
            except (OSError, UnicodeDecodeError):
                continue
            name = Path(command[0]).name
            ours = any(str(self.data) in word for word in command)
            if entry.name.isdigit() and ours and name in {"nats-server", "postgres"}:
                found.append(int(entry.name))
        return sorted(found)

    @property
    def nats_url(self) -> str:
        """The platform's NATS, as its operator, who may see and say everything."""
        kept = DataFolder(self.data)
        return f"nats://operator:{kept.credential('nats', 'operator')}@127.0.0.1:{kept.nats_port}"

    def variable(self, service: str, name: str) -> str:
        """A variable of a running service's environment."""
        listed = Path(f"/proc/{self.processes()[service]}/environ").read_bytes().decode()
        return dict(one.split("=", 1) for one in listed.split("\0") if "=" in one)[name]

    def processes(self) -> dict[str, int]:
        """The process of each service, by name."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if (
                b"-m" in command
                and f"ASSAY_BLOB_URL=file://{self.data}/blobs".encode() in variables
            ):
                found[command[command.index(b"-m") + 1].decode()] = int(entry.name)
        return found


def start(data: Path, port: int, environment: str) -> Platform:
    """Start a platform whose sandboxes are of one kind."""
    platform = Platform(data, port)
    platform.run(
        "up",
        "--data",
        str(data),
        "--port",
        str(port),
        "--detach",
        env={"ASSAY_SANDBOX_ENVIRONMENT": environment, "ASSAY_RUNNER_CONCURRENCY": "4"},
    )
    return platform


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """A platform with local sandboxes, for the whole session."""
    yield from _kept("local")


@pytest.fixture(scope="session")
def docker_platform() -> Iterator[Platform]:
    """A platform with Docker sandboxes, for the whole session."""
    yield from _kept("docker")


def _kept(environment: str) -> Iterator[Platform]:
    data = Path(tempfile.mkdtemp(prefix="assay-e2e-"))
    try:
        platform = start(data, free_port(), environment)
        yield platform
        platform.run("down", "--data", str(data))
        assert platform.processes() == {}
    finally:
        subprocess.run(
            [str(ASSAY), "down", "--data", str(data)], capture_output=True, check=False, timeout=120
        )
        shutil.rmtree(data, ignore_errors=True)
