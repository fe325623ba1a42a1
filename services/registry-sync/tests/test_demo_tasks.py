"""The demo's tasks by themselves: sorted, small, cut off from the network, and fully recorded.

That their solutions solve them, and what the recordings come to, is seen in real sandboxes by the
test of the same name under tests/integration.
"""

import re
import stat
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from harbor.environments.definition import should_upload_environment_dir
from harbor.models.task.config import NetworkMode
from harbor.models.task.task import Task

from assay_contracts.values import FolderSource
from registry_sync.catalogue import BundledSource, load_catalogue


def demo_folder() -> Path:
    entry = load_catalogue().entry("demo")
    assert entry is not None
    assert isinstance(entry.source, BundledSource)
    source = entry.source.as_folder()
    assert isinstance(source, FolderSource)
    return Path(source.path)


FOLDERS = sorted(path for path in demo_folder().iterdir() if path.is_dir())


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    """Each task's folder in turn."""
    assert isinstance(request.param, Path)
    return request.param


def tries_of(folder: Path) -> list[list[dict[str, object]]]:
    recorded = tomllib.loads((folder / "solution" / "scripted.toml").read_text())
    return [attempt["tries"] for attempt in recorded["attempts"]]


def test_fourteen_tasks_spread_over_categories_and_difficulties():
    difficulties = defaultdict(set)
    for folder in FOLDERS:
        metadata = Task(folder).config.metadata
        difficulties[metadata["category"]].add(metadata["difficulty"])
    assert len(FOLDERS) == 14
    assert set(difficulties) == {
        "data-wrangling",
        "debugging",
        "system-administration",
        "text-processing",
    }
    assert all(found == {"easy", "medium", "hard"} for found in difficulties.values())


def test_a_task_is_named_after_its_folder_and_says_what_it_asks(folder):
    task = Task(folder)
    assert task.name == f"assay-demo/{folder.name}"
    assert task.config.task is not None
    assert task.config.task.description
    assert "/app/" in task.instruction


def test_a_task_needs_no_build_no_network_and_little_of_the_machine(folder):
    config = Task(folder).config
    assert config.environment.network_mode is NetworkMode.NO_NETWORK
    assert config.environment.workdir == "/app"
    assert (config.environment.cpus, config.environment.memory_mb) == (1, 512)
    assert (config.agent.timeout_sec, config.verifier.timeout_sec) == (60, 60)
    assert should_upload_environment_dir(
        folder / "environment", docker_image=config.environment.docker_image
    )


def test_nothing_but_the_standard_library_is_used(folder):
    programs = [*folder.glob("tests/*"), *folder.glob("solution/*"), *folder.rglob("*.py")]
    text = "\n".join(path.read_text() for path in programs)
    assert not re.search(r"\b(pytest|pip|apt|apt-get|curl|wget|numpy|pandas)\b", text)
    assert not re.search(r"(/home|/root|/Users|/work)/", text)


def test_scripts_can_be_started(folder):
    for script in (folder / "tests" / "test.sh", folder / "solution" / "solve.sh"):
        assert script.stat().st_mode & stat.S_IXUSR
        assert script.read_text().startswith("#!/bin/bash\n")


def test_every_try_is_recorded_with_commands_and_tokens(folder):
    for tries in tries_of(folder):
        assert all(
            one["commands"] and one["input_tokens"] and one["output_tokens"] for one in tries
        )


def test_only_a_try_that_has_a_later_one_loses_its_connection():
    lost = set()
    for folder in FOLDERS:
        for number, tries in enumerate(tries_of(folder), start=1):
            assert "error" not in tries[-1]
            lost |= {(folder.name, number) for one in tries[:-1] if "error" in one}
    assert lost == {("csv-totals", 2), ("redact-emails", 1)}
