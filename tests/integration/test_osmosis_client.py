"""The real `osmosis` command on the whole pipeline: from a configuration to files on disk."""

import asyncio
import csv
import importlib.util
from pathlib import Path
from uuid import UUID

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)

RUN = """
[experiment]
benchmark = "demo"

[execution]
attempts_per_task = 2

[[agents]]
harness = "terminus-2"
[agents.model]
type = "hosted"
base_model = "base"
lora_model_name = "tuned"
"""


async def test_a_run_from_a_configuration_to_a_leaderboard_and_files(door, osmosis):
    cli = osmosis(door.url, pipeline.ADMIN)
    listed = await cli.json("benchmark", "list", "--all")
    [demo] = [one for one in listed["items"] if one["key"] == "demo"]
    assert (demo["source_type"], demo["sync_status"]) == ("osmosis_managed", "ready")
    (cli.folder / "run.toml").write_text(RUN)
    async with pipeline.beside(door, pipeline.passed):
        done = await cli.json("benchmark", "submit", "run.toml", "--yes")
        run = done["resource"]
        assert run["task_count"] == demo["task_count"]
        assert await door.platform.ended(UUID(run["id"])) == "finished"
    async with asyncio.timeout(60):
        while True:
            shown = (await cli.json("benchmark", "info", "demo"))["data"]
            if shown["leaderboard"]:
                break
    [standing] = shown["leaderboard"]
    assert (standing["rank"], standing["model"], standing["task_set"]) == (1, "tuned", "full")
    assert [one["k"] for one in standing["pass_at_k"]] == [2]
    info = (await cli.json("benchmark", "runs", "info", run["name"]))["data"]
    results = 2 * demo["task_count"]
    assert info["benchmark_run"]["status"] == "finished"
    assert info["progress"] == {"completed": results, "total": results, "unit": "results"}
    assert info["totals"]["passed"] == results
    assert info["agent_metrics"][0]["rank"] == 1
    assert info["agent_metrics"][0]["pass_at_1"] == standing["pass_at_1"]
    logs = await cli.json("benchmark", "runs", "logs", run["name"], "--limit", "1")
    assert [one["step"] for one in logs["items"]] == ["finished"]
    got = await cli.json("benchmark", "runs", "download", run["name"], "--type", "results,logs")
    folder = Path(got["resource"]["output_path"])
    with (folder / "results.csv").open(newline="") as table:
        assert [one["outcome"] for one in csv.DictReader(table)] == ["passed"] * results
    assert (folder / "logs.txt").read_text().splitlines()[-1].count(
        "every slot has its result"
    ) == 1
