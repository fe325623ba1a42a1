"""The demo's tasks: solved by their own solution, failed by doing nothing, and half by a script."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from assay_contracts.values import FolderSource
from assay_kernel.blobs import BlobStore
from registry_sync.catalogue import BundledSource, load_catalogue
from registry_sync.sources import ReadTasks, open_source, read_tasks
from sandbox_runner.locate import TaskShelf
from sandbox_runner.trials import TrialSpec, run_trial

SOLVED = {
    "build-order": [False, True, False],
    "count-words": [True],
    "csv-totals": [True, True, True],
    "find-the-duplicate": [True],
    "fix-cron": [False],
    "fix-lru-cache": [False],
    "fix-pages": [True],
    "fix-roman": [True],
    "invert-index": [True, False, True],
    "json-repair": [True],
    "log-gaps": [False],
    "reconcile-ledgers": [False],
    "redact-emails": [True, True],
    "tidy-permissions": [True],
}
REWARD = """open('/logs/verifier/reward.json', 'w').write('{"reward": 1}')"""
MODULES = {
    "fix-cron": "cron.py",
    "fix-lru-cache": "cache.py",
    "fix-pages": "pages.py",
    "fix-roman": "roman.py",
}
CHEATS = [
    *((task, f"echo 'import os; os._exit(0)' > {module}") for task, module in MODULES.items()),
    *((task, f"cat >> {module} <<'END'\n{REWARD}\nEND") for task, module in MODULES.items()),
    ("build-order", "echo 'app:' > needs.txt; echo app > order.txt"),
    (
        "count-words",
        "yes 'a b c d e' | head -n 9 > essay.txt; printf '%s 9\\n' a b c d e > top.txt",
    ),
    ("csv-totals", "echo date,region,amount > sales.csv; echo region,total > totals.csv"),
    ("find-the-duplicate", "rm -r photos/*; touch duplicates.txt"),
    ("invert-index", 'rm texts/*; echo a > texts/a; echo \'{"a": ["a"]}\' > index.json'),
    (
        "reconcile-ledgers",
        "echo id,date,amount | tee bank.csv > books.csv; "
        'echo \'{"bank": [], "books": []}\' > unmatched.json',
    ),
    ("tidy-permissions", "rm -r project/*"),
]
BREAKS_OFF = {("csv-totals", 2, 1), ("redact-emails", 1, 1)}


def demo_folder() -> Path:
    entry = load_catalogue().entry("demo")
    assert entry is not None
    assert isinstance(entry.source, BundledSource)
    source = entry.source.as_folder()
    assert isinstance(source, FolderSource)
    return Path(source.path)


@pytest.fixture
def attempt(tmp_path):
    """Runs a task of the demo as a runner would: from its archive, in the local sandbox."""
    blobs = BlobStore(f"file://{tmp_path}/blobs")
    shelf = TaskShelf(tmp_path / "shelf", blobs)
    places = asyncio.Semaphore(2)

    async def run(entry, harness, number=1, try_number=1):
        async with places:
            return await run_trial(
                TrialSpec(
                    task_dir=await shelf.folder_of(entry.location),
                    task_name=entry.name,
                    harness=harness,
                    environment="local",
                    trials_dir=tmp_path / "trials",
                    trial_name=f"{entry.name.rsplit('/')[-1]}-{harness}-{number}-{try_number}",
                    attempt=number,
                    try_number=try_number,
                    scratch=tmp_path / "scratch",
                )
            )

    async def entries():
        opened = await open_source(FolderSource(path=str(demo_folder())), tmp_path / "work")
        pages = read_tasks(opened, blobs, tmp_path / "work", ReadTasks())
        return [entry async for page in pages for entry in page]

    run.entries = entries
    return run


async def test_the_demo_spreads_over_categories_and_difficulties(attempt):
    entries = await attempt.entries()
    assert len(entries) >= 12
    assert all(entry.unavailable is None for entry in entries)
    assert len({entry.category for entry in entries}) >= 3
    assert {entry.difficulty for entry in entries} == {"easy", "medium", "hard"}
    assert {entry.name.removeprefix("assay-demo/") for entry in entries} == set(SOLVED)


async def test_each_task_is_solved_by_its_solution_and_failed_by_doing_nothing(attempt):
    entries = await attempt.entries()
    solved = await asyncio.gather(*(attempt(entry, "oracle") for entry in entries))
    idle = await asyncio.gather(*(attempt(entry, "nop") for entry in entries))
    assert {e.name: (r.rewards, r.exception) for e, r in zip(entries, solved, strict=True)} == {
        entry.name: ({"reward": 1.0}, None) for entry in entries
    }
    assert {e.name: (r.rewards, r.exception) for e, r in zip(entries, idle, strict=True)} == {
        entry.name: ({"reward": 0.0}, None) for entry in entries
    }


async def test_the_scripted_agent_solves_a_fixed_part_and_breaks_off_twice(attempt):
    entries = {entry.name.removeprefix("assay-demo/"): entry for entry in await attempt.entries()}
    cells = [(name, n) for name, row in SOLVED.items() for n in range(1, len(row) + 1)]
    outcomes = await asyncio.gather(
        *(
            attempt(entries[name], "scripted", n, 2 if (name, n, 1) in BREAKS_OFF else 1)
            for name, n in cells
        )
    )
    found = {
        cell: out.rewards == {"reward": 1.0} for cell, out in zip(cells, outcomes, strict=True)
    }
    assert found == {(name, n): SOLVED[name][n - 1] for name, n in cells}
    assert all(outcome.input_tokens and outcome.output_tokens for outcome in outcomes)
    assert all(outcome.cost_usd is None for outcome in outcomes)
    for name, n, try_number in sorted(BREAKS_OFF):
        broken = await attempt(entries[name], "scripted", n, try_number)
        assert broken.exception is not None
        assert broken.exception.type == "NetworkConnectionError"
        assert (broken.reward_valid, broken.should_retry) == (False, True)


@pytest.mark.parametrize(("task", "command"), CHEATS)
async def test_emptying_the_task_or_ending_its_checks_earns_nothing(task, command, tmp_path):
    folder = shutil.copytree(demo_folder() / task, tmp_path / "tasks" / task)
    recording = f"commands = [{json.dumps(command)}]\ninput_tokens = 1\noutput_tokens = 1\n"
    (folder / "solution" / "scripted.toml").write_text(
        f"[[attempts]]\n[[attempts.tries]]\n{recording}"
    )
    outcome = await run_trial(
        TrialSpec(
            task_dir=folder,
            task_name=task,
            harness="scripted",
            environment="local",
            trials_dir=tmp_path / "trials",
            trial_name=task,
            attempt=1,
            try_number=1,
            scratch=tmp_path / "scratch",
        )
    )
    assert (outcome.rewards, outcome.exception) == ({"reward": 0.0}, None)
