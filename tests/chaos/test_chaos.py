"""Whatever dies, hangs or is delivered twice: each slot has one result, and nothing is left behind.

The short form has one seed and local sandboxes. `make chaos` runs the long one: 300 results a seed,
ASSAY_CHAOS_SEEDS of them. There a second runner takes part, the disk of the blobs is filled where
root may mount one, and where an engine answers, sandboxes are containers for every other seed.
"""

import contextlib
import importlib.util
import json
import os
import time
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

_spec = importlib.util.spec_from_file_location("chaos", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
chaos = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(chaos)

pytestmark = pytest.mark.end_to_end

SEEDS = int(os.environ.get("ASSAY_CHAOS_SEEDS", "0"))
ATTEMPTS = int(os.environ.get("ASSAY_CHAOS_ATTEMPTS", "11"))
"""How often each of the 28 pairs of a task and an agent is run in the long form."""
RUN = """
[experiment]
benchmark = "demo"
[execution]
attempts_per_task = {attempts}
max_concurrent_attempts = 4
max_retries = 2
[[agents]]
harness = "oracle"
[[agents]]
harness = "scripted"
"""
TASKS, AGENTS = 14, 2
SCORES = {"passed", "failed"}


def disturbed(platform, folder, seed, attempts, second_runner=None, **plan):
    """A run during which the whole plan was carried out; its name, and what carried it out."""
    script = chaos.Chaos(platform, seed, platform.nats_url, second_runner)
    name = platform.submit(folder, RUN.format(attempts=attempts))
    with chaos.client_of(platform) as client:
        for disturb in script.plan(**plan):
            disturb()
            time.sleep(script.moment())
        deadline = time.monotonic() + 300 + attempts * 60
        while chaos.asked(lambda: client.run(name)).status != "finished":
            assert time.monotonic() < deadline, platform.run("run", "info", name).stdout
            time.sleep(0.5)
        while not chaos.asked(client.is_ready):
            assert time.monotonic() < deadline, client.system_status()
            time.sleep(0.2)
    return name, script


def check_everything(platform, name, script, attempts):
    """What must hold after a disturbed run, whatever was done to it."""
    events = platform.events(name)
    check_results(platform, name, events, attempts)
    check_tries(events, script.done)
    reports = platform.json("replay", "--verify")
    assert [(one["projection"], one["identical"], one["left_out"]) for one in reports] == [
        (one["projection"], True, []) for one in reports
    ]
    assert platform.json("deadletter", "list", "--redriven")["items"] == []
    assert unexplained_ends(platform, script.done) == []
    wait_until_no_sandbox_is_left(platform)


def check_results(platform, name, events, attempts):
    """Every slot has exactly one counted result: the one that its events say."""
    counted = {}
    for told in events:
        if told["event"]["type"] == "result-graded":
            data = told["event"]["data"]
            key = slot_of(data)
            if counted.get(key) not in SCORES:
                counted[key] = data["outcome"]
    assert len(counted) == TASKS * AGENTS * attempts
    rows = platform.json("run", "results", name, "--limit", "1000")["items"]
    shown = {(row["agent"], row["task"], row["attempt"]): row["outcome"] for row in rows}
    assert len(rows) == len(shown)
    assert shown == counted
    types = [told["event"]["type"] for told in events]
    assert [types.count(kind) for kind in ("queued", "started", "finished")] == [1, 1, 1]


def check_tries(events, done):
    """No try ran twice at once, but where the runner that ran it first was killed or hung."""
    began, ended = defaultdict(dict), {}
    for told in events:
        event = told["event"]
        if event["type"] == "attempt-started":
            key = (*slot_of(event["data"]), event["data"]["try_number"])
            start = (moment(event["occurred_at"]), event["data"]["runner"])
            began[key].setdefault(event["data"]["delivery"], start)
        elif event["type"] == "result-ingested":
            key = (*slot_of(event["data"]), event["data"]["try_number"])
            ended.setdefault((key, event["data"]["delivery"]), moment(event["data"]["finished_at"]))
    for key, deliveries in began.items():
        order = sorted(deliveries)
        for one, following in pairwise(order):
            (start, runner), (next_start, _) = deliveries[one], deliveries[following]
            end = ended.get((key, one))
            if end is None or end > next_start:
                told = f"{key}: {one} on {runner} still ran when {following} began"
                assert was_absent(runner, start, next_start, done), told


def was_absent(runner, start, end, done):
    """Whether a runner was killed or stopped between two moments, or hung at the second one."""
    target = chaos.SECOND_RUNNER if runner.startswith("second") else "sandbox_runner"
    return any(
        one.target == target
        and one.began <= end
        and one.ended >= (end if one.kind == "pause" else start)
        for one in done
    )


def unexplained_ends(platform, done):
    """Ends of programs that nobody killed or told to stop."""
    lines = (platform.data / "logs" / "supervisor.log").read_text().splitlines()
    told = [json.loads(line)["event"] for line in lines]
    ends = [line for line in told if "it is started again" in line and "SIGKILL" not in line]
    for stop in (one for one in done if one.kind == "stop"):
        # A process that has only just begun to start ends by the signal itself.
        clean = tuple(
            f"{stop.target.replace('_', '-')} ended ({how})"
            for how in ("exit code 0", "killed by SIGTERM")
        )
        found = next((line for line in ends if line.startswith(clean)), None)
        if found is not None:  # else it was killed before it had stopped
            ends.remove(found)
    return ends


def wait_until_no_sandbox_is_left(platform):
    """Neither folder, process nor container; those of a killed runner go when it is back."""
    deadline = time.monotonic() + 20
    while left := sandboxes(platform):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def sandboxes(platform):
    scratch = platform.data / "sandboxes"
    kinds = ("local-*", "trials/*")
    found = [str(one) for kind in kinds for one in scratch.rglob(kind)]
    ours = Path("/proc/self/ns/mnt").readlink()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            elsewhere = (entry / "ns" / "mnt").readlink() != ours
            if elsewhere and str(scratch) in (entry / "mountinfo").read_text():
                found.append(f"process {entry.name}")
        except OSError:
            continue  # it ended meanwhile
    return found + containers(platform)


def containers(platform):
    try:
        client = docker.from_env(timeout=20)
    except DockerException:
        return []
    label = f"assay.installation={platform.variable('sandbox_runner', 'ASSAY_INSTALLATION')}"
    try:
        found = client.containers.list(all=True, filters={"label": label})
        return [one.name for one in found]
    finally:
        client.close()


def slot_of(data):
    return data["slot"]["agent"], data["slot"]["task"], data["slot"]["attempt"]


def moment(text):
    return datetime.fromisoformat(text)


def test_a_disturbed_run_ends_as_an_undisturbed_one_does(chaotic_platform, tmp_path):
    attempts = 2
    with chaotic_platform("local") as platform:
        name, script = disturbed(platform, tmp_path, 1, attempts, rounds=1, some=2)
        check_everything(platform, name, script, attempts)


@pytest.mark.skipif(SEEDS == 0, reason="the long form: make chaos")
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_long_run_survives_everything(chaotic_platform, tmp_path, seed):
    environment = "docker" if seed % 2 == 0 and engine_answers() else "local"
    with (
        chaotic_platform(environment, small_disk=os.geteuid() == 0) as platform,
        chaos.second_runner(platform) as second,
    ):
        name, script = disturbed(platform, tmp_path, seed, ATTEMPTS, second, rounds=2, some=8)
        check_everything(platform, name, script, ATTEMPTS)


def engine_answers():
    try:
        with contextlib.closing(docker.from_env(timeout=20)) as client:
            return bool(client.ping())
    except DockerException:
        return False
