"""Blobs are kept under their own hash."""

import hashlib
import os
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from assay_kernel.blobs import BlobMissingError, BlobsAwayError, BlobStore


async def test_a_blob_is_found_under_its_hash(tmp_path):
    store = BlobStore(f"file://{tmp_path}/new/blobs")
    sha256 = await store.keep(b"hello")
    assert sha256 == hashlib.sha256(b"hello").hexdigest()
    assert await store.keep(b"hello") == sha256
    assert await store.read(sha256) == b"hello"


async def test_a_file_is_kept_and_streamed(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 3_000_000)
    store = BlobStore(f"file://{tmp_path}/blobs")
    sha256, size = await store.keep_file(path)
    assert size == 3_000_000
    assert b"".join([piece async for piece in store.stream(sha256)]) == path.read_bytes()


@pytest.mark.parametrize("key", ["0" * 64, "../../etc/passwd", ""])
async def test_a_hash_that_is_not_kept_is_an_error(tmp_path, key):
    store = BlobStore(f"file://{tmp_path}/blobs")
    with pytest.raises(BlobMissingError):
        await store.read(key)


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for a megabyte."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "blobs"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


async def test_a_full_disk_is_said_and_leaves_nothing_half_kept(small_disk):
    store = BlobStore(f"file://{small_disk}")
    content = b"x" * 3_000_000
    with pytest.raises(BlobsAwayError, match="No space left"):
        await store.keep(content)
    assert not await store.holds(hashlib.sha256(content).hexdigest())
    assert await store.read(await store.keep(b"small")) == b"small"


async def test_a_part_of_a_blob_is_read_without_the_rest(tmp_path):
    store = BlobStore(f"file://{tmp_path}/blobs")
    whole = bytes(range(256)) * 8_000
    sha256 = await store.keep(whole)
    for first, end in ((0, None), (0, 1), (5, 2_000_000), (2_047_999, 2_048_000), (600_000, None)):
        opened = await store.open(sha256, first=first, end=end)
        assert opened.size == len(whole)
        assert b"".join([piece async for piece in opened.pieces]) == whole[first:end], (first, end)
    assert b"".join(store.pieces(sha256)) == whole
    with pytest.raises(BlobMissingError):
        await store.open("0" * 64)


async def test_blobs_that_lie_apart_are_swept_by_age_and_the_others_never(tmp_path):
    store = BlobStore(f"file://{tmp_path}/blobs")
    exports, path = store.apart("exports"), tmp_path / "file"
    path.write_bytes(b"an export")
    kept = await store.keep(b"an export")
    sha256, size = await exports.keep_file_anew(path)
    assert (sha256, size) == (kept, 9)
    day_ago = datetime.now(UTC) - timedelta(days=1)
    assert await exports.sweep(day_ago) == 0
    (blob,) = (tmp_path / "blobs" / "exports").glob("*/*")
    os.utime(blob, (day_ago.timestamp() - 60,) * 2)
    await exports.keep_file_anew(path)
    assert await exports.sweep(day_ago) == 0
    os.utime(blob, (day_ago.timestamp() - 60,) * 2)
    assert await exports.sweep(day_ago) == 1
    assert not await exports.holds(sha256)
    assert await store.read(kept) == b"an export"
    with pytest.raises(ValueError, match="apart"):
        await store.sweep(datetime.now(UTC))
