"""What no service can read: it waits as a dead letter, and stops nothing but what it belongs to."""

import asyncio
import importlib.util
from pathlib import Path
from uuid import UUID

from assay_contracts.benchmark_events import BenchmarkAdded
from assay_contracts.identifiers import new_id
from assay_contracts.values import FolderSource, SourceType

_spec = importlib.util.spec_from_file_location("pipeline", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
pipeline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pipeline)

CONFIG = {"experiment": {"benchmark": "demo"}, "agents": [{"harness": "nop"}]}


async def submitted(client) -> UUID:
    answer = await client.post("/runs", json={"config": CONFIG})
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["id"])


async def letters(client, count):
    """Wait for so many dead letters; returns them."""
    async with asyncio.timeout(60):
        while True:
            found = (await client.get("/deadletters")).json()["items"]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


async def test_a_run_with_a_decision_that_nobody_can_read_stands_still_and_the_others_go_on(door):
    async with door.client() as client:
        stuck = await submitted(client)
        await door.platform.store.tell_bytes(
            f"runs.default.{stuck}.lifecycle.odd", b"no decision", message_id="odd"
        )
        found = await letters(client, 3)
        async with pipeline.beside(door, pipeline.failed):
            run = await submitted(client)
            assert await door.platform.ended(run) == "finished"
    assert {one["place"] for one in found} == {
        "run-scheduler.runs",
        "grader.grades",
        "leaderboard.standings",
    }
    assert all(one["kind"] == "event" and "no event of RUNS" in one["reason"] for one in found)


async def test_a_benchmark_with_a_decision_that_nobody_can_read_stops_no_other(door, tmp_path):
    stuck = new_id()
    added = BenchmarkAdded.model_validate(
        pipeline.base(
            benchmark=stuck,
            data={
                "name": "stuck",
                "source": FolderSource(path=str(tmp_path)).model_dump(),
                "source_type": SourceType.REGISTRY,
            },
        )
    )
    store = door.platform.store
    subject = f"benchmarks.default.{stuck}.odd"
    await store.tell_bytes(subject, b"no decision", message_id="odd")
    await store.tell(added, message_id="added")
    source = {"kind": "folder", "path": str(tmp_path / "nothing")}
    async with door.client() as client, asyncio.timeout(60):
        answer = await client.post("/benchmarks", json={"source": source, "name": "other"})
        assert answer.status_code < 300, answer.text
        while (await client.get("/benchmarks/other")).json()["sync_status"] != "failed":
            await asyncio.sleep(0.1)


async def test_what_still_cannot_be_folded_is_named_by_replays_and_stays_a_letter(door):
    async with door.client() as client:
        await door.platform.store.tell_bytes(
            "runs.default.x.attempts.odd", b"no fact", message_id="odd"
        )
        found = await letters(client, 2)
        letter = next(one for one in found if one["place"] == "grader.grades")
        refused = await client.post(f"/deadletters/{letter['id']}/redrive")
        assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
        assert "still cannot be folded" in refused.json()["detail"]
        [report] = (await client.post("/system/replay", json={"service": "grader"})).json()
        assert (report["identical"], report["left_out"]) == (True, [letter["sequence"]])
        assert len((await client.get("/deadletters")).json()["items"]) == len(found)
