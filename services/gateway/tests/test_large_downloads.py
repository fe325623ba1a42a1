"""A large file from a gateway of its own: its memory stays flat, one by one and in a zip.

`ASSAY_DOWNLOAD_BYTES` is how large the file is; by default it is small enough for every day.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson
import pytest

from assay_contracts.http import DownloadType
from assay_local.embedded import free_port
from gateway.downloads.addresses import Owner, Signer
from gateway.downloads.files import Place, RunFile

BYTES = int(os.environ.get("ASSAY_DOWNLOAD_BYTES", "200_000_000"))
MOST_GROWTH = 64 * 2**20
SHA256 = "ab" * 32
"""Of nothing: what is served is not hashed, and the content of a sparse file is not looked at."""


@asynccontextmanager
async def gateway_process(settings, tmp_path) -> AsyncIterator[tuple[str, int]]:
    """The address and the process id of a gateway that answers."""
    port, log = free_port(), tmp_path / "gateway.log"
    environment = {
        **os.environ,
        "ASSAY_NATS_URL": settings.nats_url.get_secret_value(),
        "ASSAY_DATABASE_URL": settings.database_url.get_secret_value(),
        "ASSAY_BLOB_URL": settings.blob_url,
        "ASSAY_HTTP_PORT": str(port),
        "ASSAY_ADMIN_TOKEN_FILE": str(tmp_path / "admin"),
        "ASSAY_MASTER_KEY_FILE": str(tmp_path / "master"),
    }
    with log.open("wb") as opened:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway"), env=environment, stderr=opened, stdout=opened
        )
    base = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(60):
            while not await _answers(client, base):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield base, process.pid
    finally:
        process.terminate()
        await process.wait()


async def _answers(client, base):
    try:
        return (await client.get(f"{base}/healthz")).is_success
    except httpx.TransportError:
        return False


def forget_peak(pid):
    """Let the most memory be counted from now on: what a start takes for a moment is more."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def most_memory(pid):
    """The most bytes that a process had resident since its peak was forgotten."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


async def count(client, url, **headers):
    """The status of an answer and how many bytes come; they are not kept."""
    total = 0
    async with client.stream("GET", url, headers=headers, timeout=600) as answer:
        async for piece in answer.aiter_raw():
            total += len(piece)
    return answer.status_code, total


@pytest.fixture
async def large(stage, settings, tmp_path):
    """A run with one result that left a large file."""
    blob = tmp_path / "blobs" / "sha256" / SHA256[:2] / SHA256[2:]
    blob.parent.mkdir(parents=True, exist_ok=True)
    with blob.open("wb") as opened:
        opened.truncate(BYTES)
    await stage.add_benchmark()
    run = await stage.submit()
    await stage.decide(run["id"], "queued", "started")
    listed = {"files": [{"path": "core.bin", "size": BYTES, "sha256": SHA256}]}
    sha256 = await stage.blobs.keep(orjson.dumps(listed))
    artifacts = {"sha256": sha256, "files": 1, "bytes": BYTES}
    await stage.result(run["id"], "fix-roman", artifacts=artifacts)
    return run


def signed_address(stage, run, size):
    """The signed part of an address of the large file, said to be of a size."""
    file = RunFile(
        path="artifacts/x/core.bin",
        type=DownloadType.ARTIFACTS,
        size=size,
        sha256=SHA256,
        media_type="application/octet-stream",
        place=Place.BLOBS,
        snapshot=False,
    )
    owner = Owner("default", run["id"], run["name"])
    return Signer(stage.vault).address(owner, file, datetime.now(UTC))


async def test_a_file_of_another_size_is_not_served_and_its_address_is_in_no_log(
    stage, settings, tmp_path, large
):
    signed = signed_address(stage, large, BYTES + 1)
    async with gateway_process(settings, tmp_path) as (base, _), httpx.AsyncClient() as client:
        answer = await client.get(f"{base}/api/v1/downloads/{signed}")
        assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    log = (tmp_path / "gateway.log").read_text()
    assert f"has {BYTES} bytes and not {BYTES + 1}" in log
    assert signed[:40] not in log


async def test_memory_is_flat_whatever_the_size(stage, settings, tmp_path, large):
    signed = signed_address(stage, large, BYTES)
    admin = {"Authorization": f"Bearer {(tmp_path / 'admin').read_text()}"}
    async with gateway_process(settings, tmp_path) as (base, pid), httpx.AsyncClient() as client:
        address = f"{base}/api/v1/downloads/{signed}"
        archive = f"{base}/api/v1/runs/{large['name']}/downloads/artifacts.zip"
        assert await count(client, address, Range="bytes=0-1048575") == (206, 2**20)
        assert (await client.get(f"{base}/api/v1/runs", headers=admin)).status_code == 200
        forget_peak(pid)
        before = most_memory(pid)
        assert await asyncio.gather(
            count(client, address), count(client, address, Range="bytes=1-")
        ) == [(200, BYTES), (206, BYTES - 1)]
        one_by_one = most_memory(pid) - before
        status, zipped = await count(client, archive, **admin)
        assert (status, 0 < zipped < BYTES) == (200, True)
        zipping = most_memory(pid) - before
    print(f"{BYTES:,} bytes: grew by {one_by_one:,} one by one, {zipping:,} zipping")  # noqa: T201
    assert one_by_one < MOST_GROWTH
    assert zipping < MOST_GROWTH
