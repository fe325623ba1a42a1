"""The real `osmosis` command on the whole platform, with real sandboxes and real files."""

import asyncio
import csv
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

RUN = """
[experiment]
benchmark = "demo"

[tasks]
task_names = ["assay-demo/fix-roman", "assay-demo/count-words"]

[[agents]]
harness = "oracle"
[agents.model]
type = "provider"
model = "nobody/nothing"
api_key_secret = "UNUSED_KEY"
"""
"""The oracle calls no model, but the client wants one; a selection of one's own does not rank."""


def files_in(folder):
    return [one for one in folder.rglob("*") if one.is_file()]


async def test_a_person_of_osmosis_is_at_home(platform, osmosis):
    token = (platform.data / "admin-token").read_text().strip()
    cli = osmosis(f"http://127.0.0.1:{platform.port}", token)
    who = (await cli.json("auth", "whoami", workspace=None))["data"]
    assert who["name"] == "Administrator"
    await cli.json("secret", "set", "UNUSED_KEY", "--env", "VALUE", VALUE="hush-value")
    (cli.folder / "run.toml").write_text(RUN)
    name = (await cli.json("benchmark", "submit", "run.toml", "--yes"))["resource"]["name"]
    async with asyncio.timeout(180):
        while True:
            shown = (await cli.json("benchmark", "runs", "info", name))["data"]
            if shown["benchmark_run"]["status"] not in {"pending", "queued", "running"}:
                break
    assert shown["benchmark_run"]["status"] == "finished"
    assert shown["totals"]["passed"] == 2
    assert shown["configuration"]["resolved_secret_scopes"] == {"UNUSED_KEY": "user"}
    logs = await cli.json("benchmark", "runs", "logs", name, "--limit", "2")
    assert logs["items"][-1]["step"] == "finished"
    cursor = logs["next_cursor"]
    older = await cli.json("benchmark", "runs", "logs", name, "--cursor", cursor)
    assert older["items"][0]["step"] == "submitted"
    assert older["next_cursor"] is None
    done = await cli.json("benchmark", "runs", "download", name, "--type", "all")
    assert done["status"] == "success"
    folder = Path(done["resource"]["output_path"])
    with (folder / "results.csv").open(newline="") as table:
        slots = {one["slot_id"]: one["outcome"] for one in csv.DictReader(table)}
    assert list(slots.values()) == ["passed", "passed"]
    assert {one.name for one in (folder / "artifacts").iterdir()} == set(slots)
    files = files_in(folder)
    assert len(files) == done["resource"]["files_downloaded"]
    assert not [one for one in files if b"hush-value" in one.read_bytes()]
    again = await cli.json("benchmark", "runs", "download", name, "--type", "artifacts")
    assert again["resource"]["files_downloaded"] == 0
    assert again["resource"]["files_skipped"] == len(files) - 3
    await cli.json("secret", "delete", "UNUSED_KEY", "--yes")
