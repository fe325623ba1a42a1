"""A run's artifacts as one zip file that is made while it is sent; nothing of it is stored.

It holds the list of one result's files and a piece of one file at a time, and the zip's own
directory, which grows with the number of files and not with their bytes.
"""

import zlib
from collections.abc import Iterator, Sequence

import orjson
from zipstream import ZIP_DEFLATED, ZipStream

from assay_contracts.http import ArtifactEntry
from assay_kernel.blobs import BlobMissingError, BlobStore
from gateway.downloads.names import fit_paths
from gateway.downloads.queries import SlotArtifacts

GONE = "artifacts/MISSING.txt"
"""Lists the files that the blob store has no more; there only where there are any."""


def zip_pieces(slots: Sequence[SlotArtifacts], blobs: BlobStore) -> Iterator[bytes]:
    """The zip file in pieces, read in the caller's thread."""
    made = ZipStream(compress_type=ZIP_DEFLATED, compress_level=zlib.Z_BEST_SPEED)
    gone: list[str] = []
    for slot in slots:
        for path, file in _files(slot, blobs, gone):
            first, rest = _begun(blobs, file)
            if first is None:
                gone.append(path)
                continue
            made.add(_joined(first, rest), path, size=file.size)
            yield from made.file()
    if gone:
        made.add("".join(f"{path}\n" for path in gone), GONE)
    yield from made.finalize()


def _files(
    slot: SlotArtifacts, blobs: BlobStore, gone: list[str]
) -> Iterator[tuple[str, ArtifactEntry]]:
    folder = f"artifacts/{slot.slot}"
    try:
        listed = orjson.loads(b"".join(blobs.pieces(slot.sha256)))
    except BlobMissingError:
        gone.append(folder)
        return
    entries = [ArtifactEntry.model_validate(one) for one in listed["files"]]
    for path, file in fit_paths(entries):
        yield f"{folder}/{path}", file


def _begun(blobs: BlobStore, file: ArtifactEntry) -> tuple[bytes | None, Iterator[bytes]]:
    """The first piece and the others; None first where the blob is gone."""
    rest = blobs.pieces(file.sha256)
    try:
        return next(rest, b""), rest
    except BlobMissingError:
        return None, rest


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
