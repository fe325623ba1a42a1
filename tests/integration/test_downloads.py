"""`assay run download` against the gateway over real services."""

import asyncio
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from uuid import UUID

import orjson
import pyarrow.parquet
import pytest

from assay_contracts.run_config import parse_run_config_toml
from assay_kernel.blobs import BlobStore

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)

ASSAY = Path(sys.executable).with_name("assay")
LARGE = os.urandom(3_000_000)
FILES = {"agent/trajectory.json": b"{}", "empty": b"", "out put/größe.bin": LARGE}
SLOTS = 14


@pytest.fixture
async def run(door, settings):
    """A finished run, each result of which left files."""
    blobs = BlobStore(settings.blob_url)
    listed = [
        {"path": path, "size": len(content), "sha256": await blobs.keep(content)}
        for path, content in FILES.items()
    ]
    sha256 = await blobs.keep(orjson.dumps({"files": listed}))
    total = sum(len(one) for one in FILES.values())
    artifacts = {"sha256": sha256, "files": len(FILES), "bytes": total}

    def answer(order):
        return pipeline.passed(order) | {"artifacts": artifacts}

    config = {"experiment": {"benchmark": "demo"}, "agents": [{"harness": "oracle"}]}
    async with door.client() as client, pipeline.beside(door, answer):
        submitted = (await client.post("/runs", json={"config": config})).json()
        assert await door.platform.ended(UUID(submitted["id"])) == "finished"
        async with asyncio.timeout(60):
            path = f"/runs/{submitted['id']}"
            while (await client.get(path)).json()["status"] != "finished":
                await asyncio.sleep(0.05)
            while (await client.get(path)).json()["agents"][0]["passed"] < SLOTS:
                await asyncio.sleep(0.05)
    return submitted["name"]


@pytest.fixture
def download(door, tmp_path):
    """The real command in a folder of its own; returns its exit code and what it printed."""
    folder = tmp_path / "here"
    folder.mkdir()

    async def run(*arguments):
        process = await asyncio.create_subprocess_exec(
            ASSAY,
            *("run", "download", *arguments),
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "ASSAY_SERVER": door.url,
                "ASSAY_TOKEN": pipeline.ADMIN,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, out.decode(), error.decode()

    run.folder = folder
    return run


def written(folder):
    """Every file below a folder by its path, and nothing that is partial."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_everything_is_downloaded_once_and_what_was_cut_off_goes_on(download, run):
    code, out, error = await download(run, "--type", "ALL", "--json")
    assert (code, error) == (0, ""), out
    report = json.loads(out)
    files = written(download.folder / run)
    artifacts = [path for path in files if path.startswith("artifacts/")]
    assert {"summary.csv", "results.csv", "logs.txt", "config.toml"} | set(artifacts) == set(files)
    assert len(artifacts) == SLOTS * len(FILES)
    for path in artifacts:
        assert files[path] == FILES[path.split("/", 2)[2]]
    total = sum(len(one) for one in files.values())
    assert report["files_downloaded"] == report["total_files"] == len(files)
    assert report["bytes_downloaded"] == report["total_bytes"] == total
    assert (report["files_failed"], report["snapshot"]) == ([], False)
    assert report["totals"]["artifacts"]["files"] == len(artifacts)
    config = parse_run_config_toml(files["config.toml"].decode())
    assert config.experiment.benchmark.startswith("demo")

    code, out, _ = await download(run, "--type", "all", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["files_downloaded"], report["files_skipped"]) == (0, len(files))

    cut = next(path for path in artifacts if path.endswith(".bin"))
    (download.folder / run / cut).unlink()
    sha256 = hashlib.sha256(LARGE).hexdigest()
    name = hashlib.sha256(f"{cut}\0{sha256}".encode()).hexdigest()[:32]
    partial = (download.folder / run / cut).with_name(f".{name}.partial")
    partial.write_bytes(LARGE[:2_000_000])
    code, out, _ = await download(run, "--type", "artifacts", "--json")
    report = json.loads(out)
    assert (code, report["files_downloaded"], report["bytes_downloaded"]) == (0, 1, 1_000_000)
    (download.folder / run / cut).unlink()
    partial.write_bytes(b"x" * 2_999_999)
    code, out, _ = await download(run, "--type", "artifacts", "--json")
    assert (code, json.loads(out)["files_downloaded"]) == (0, 1)
    assert written(download.folder / run) == files


async def test_another_file_of_the_same_name_is_kept_unless_it_may_be_replaced(download, run):
    assert (await download(run, "--output", "out"))[0] == 0
    files = written(download.folder / "out")
    assert set(files) == {"summary.csv", "results.csv"}
    mine = download.folder / "out" / "results.csv"
    mine.write_bytes(b"#" * len(files["results.csv"]))
    (download.folder / "out" / "summary.csv").unlink()
    code, out, error = await download(run, "--output", "out")
    assert code == 1
    assert "Downloaded 1 file" in out
    assert "results.csv: another file of this name is there; --overwrite replaces it" in out
    assert error.strip().splitlines()[-1:] != ["Traceback"]
    code, out, _ = await download(run, "--output", "out", "--overwrite")
    assert code == 0
    assert written(download.folder / "out") == files
    code, out, _ = await download(run, "--format", "parquet", "--type", "results", "--json")
    assert code == 0
    table = pyarrow.parquet.read_table(download.folder / run / "results.parquet")
    assert table.num_rows == SLOTS
    assert set(table["outcome"].to_pylist()) == {"passed"}


async def test_what_is_asked_for_wrongly_is_refused(download, run):
    for arguments, said in (
        ((run, "--type", "all,logs"), "all stands alone"),
        ((run, "--type", "log"), "there is no type log"),
        (("nothing-such",), "there is no run nothing-such"),
    ):
        code, out, error = await download(*arguments)
        assert (code, out) == (1, "")
        assert said in error
    assert list(download.folder.iterdir()) == []
