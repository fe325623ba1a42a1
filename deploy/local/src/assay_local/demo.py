"""`assay demo`: a whole run on the benchmark `demo`, from an empty folder to a leaderboard.

The platform is started in the background on a folder of the demo's own, unless it runs there
already, and goes on running, so that the address that is printed can be visited.
"""

import json
import os
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from assay_client.api import AssayClient
from assay_client.errors import AssayError
from assay_contracts.http import Leaderboard, RunDetail, SubmitRun
from assay_contracts.values import RunStatus, SyncStatus
from assay_local.detached import start_detached
from assay_local.folder import DataFolder

BENCHMARK = "demo"
ENTRANTS = 3

_READY_SECONDS = 90.0
_SYNC_SECONDS = 120.0
_RUN_SECONDS = 1800.0
_RANK_SECONDS = 60.0
_POLL_SECONDS = 0.3
_MOST_CONCURRENT = 8


class DemoError(RuntimeError):
    """The demo did not come to its end; the message says why."""


@dataclass(frozen=True)
class Demonstration:
    """What a demo came to: where, the finished run, and the standings it led to."""

    url: str
    run: RunDetail
    leaderboard: Leaderboard

    def as_json(self) -> str:
        """One JSON document."""
        return json.dumps(
            {
                "server": self.url,
                "run": self.run.model_dump(mode="json"),
                "leaderboard": self.leaderboard.model_dump(mode="json"),
            },
            indent=2,
        )


def run_demo(data: Path, port: int, tell: Callable[[str], None]) -> Demonstration:
    """Start the platform if need be, run the demo, and wait for its leaderboard.

    Raises:
        DemoError: the platform did not start, or the run did not finish with all entrants ranked.
        AssayError: the server refused something, or went away.
        FolderError: the data folder cannot be used.
    """
    folder, url = _running_platform(data, port, tell)
    with AssayClient(url, token=folder.secret("admin-token")) as client:
        _await_ready(client)
        _await_benchmark(client)
        submitted = client.submit_run(SubmitRun(config=demo_config()))
        tell(f"Run {submitted.name}: {submitted.agent_count} agents on {BENCHMARK}")
        run = _watch(client, str(submitted.id), tell)
        return Demonstration(url=url, run=run, leaderboard=_await_standings(client, run))


def demo_config() -> dict[str, Any]:
    """The configuration in `demo.toml`, with as many attempts at once as suits this machine."""
    config = tomllib.loads(files("assay_local").joinpath("demo.toml").read_text())
    at_once = max(2, min(_MOST_CONCURRENT, os.cpu_count() or 1))
    config["execution"]["max_concurrent_attempts"] = at_once
    return config


def _running_platform(data: Path, port: int, tell: Callable[[str], None]) -> tuple[DataFolder, str]:
    folder = DataFolder.prepare(data)
    running = folder.read_running()
    if running is not None and running.supervisor.is_alive():
        tell(f"Assay is already running at {running.url}")
        return folder, running.url
    if start_detached(folder.root, port, tell) != 0:
        raise DemoError("the platform did not start")
    return folder, f"http://127.0.0.1:{port}"


def _await_ready(client: AssayClient) -> None:
    """Another command may have started the platform a moment ago."""
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready(client):
        if time.monotonic() > deadline:
            raise DemoError(f"the platform at {client.server} is not ready")
        time.sleep(_POLL_SECONDS)


def _is_ready(client: AssayClient) -> bool:
    try:
        return client.is_ready()
    except AssayError:
        return False


def _await_benchmark(client: AssayClient) -> None:
    deadline = time.monotonic() + _SYNC_SECONDS
    while True:
        known = [one for one in client.benchmarks().items if one.key == BENCHMARK]
        status = known[0].sync_status if known else None
        if status is SyncStatus.READY:
            return
        if status is SyncStatus.FAILED:
            raise DemoError(f"the benchmark {BENCHMARK} could not be read: {known[0].sync_error}")
        if time.monotonic() > deadline:
            raise DemoError(f"the benchmark {BENCHMARK} is not ready ({status or 'not there'})")
        time.sleep(_POLL_SECONDS)


def _watch(client: AssayClient, ref: str, tell: Callable[[str], None]) -> RunDetail:
    deadline = time.monotonic() + _RUN_SECONDS
    told = ""
    while True:
        run = client.run(ref)
        line = (
            f"  {run.status.value:<9} {run.ingested_results:>3} of {run.expected_results} results"
        )
        if line != told:
            tell(line)
            told = line
        if run.status.is_terminal:
            break
        if time.monotonic() > deadline:
            raise DemoError(f"the run {run.name} has not finished; look at {client.server}")
        time.sleep(_POLL_SECONDS)
    if run.status is not RunStatus.FINISHED:
        raise DemoError(f"the run {run.name} {run.status.value}: {run.reason or 'no reason given'}")
    return run


def _await_standings(client: AssayClient, run: RunDetail) -> Leaderboard:
    deadline = time.monotonic() + _RANK_SECONDS
    while True:
        leaderboard = client.leaderboard(BENCHMARK)
        ranked = [
            one for one in leaderboard.standings if one.run_id == run.id and one.rank is not None
        ]
        if len(ranked) == ENTRANTS:
            return leaderboard
        if time.monotonic() > deadline:
            reasons = [f"{one.harness}: {one.reason}" for one in leaderboard.not_ranked]
            raise DemoError(
                f"{len(ranked)} of {ENTRANTS} entrants are ranked; {'; '.join(reasons)}"
            )
        time.sleep(_POLL_SECONDS)
