"""The blob store: bytes under their own SHA-256, in a local folder, S3 or the like by address.

A blob is written once and never changes, so writing it again does nothing and a reader can check
what it got.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import GenericError
from obstore.store import ObjectStore, from_url

if TYPE_CHECKING:
    from obstore import GetOptions

_SHA256_DIGITS = 64
_PIECE_BYTES = 512 * 1024
_FOREVER = "sha256"


class BlobMissingError(LookupError):
    """No blob is kept under the hash."""


class BlobsAwayError(Exception):
    """The store cannot keep anything for the moment: its disk is full, or it does not answer."""


@dataclass(frozen=True, slots=True)
class OpenBlob:
    """A blob that is being read: the size of the whole in bytes, and the pieces asked for."""

    size: int
    pieces: AsyncIterator[bytes]


class BlobStore:
    """Content-addressed blobs; keys are `sha256/ab/cdef…`."""

    def __init__(self, url: str) -> None:
        """Open the store at an address such as `file:///data/blobs` or `s3://bucket/prefix`."""
        parts = urlsplit(url)
        if parts.scheme == "file":
            Path(unquote(parts.path)).mkdir(parents=True, exist_ok=True)
        self._store: ObjectStore = from_url(url)
        self._place = _FOREVER

    def apart(self, place: str) -> "BlobStore":
        """Blobs of the same store that lie apart, under `place`, such as those that are swept."""
        other = BlobStore.__new__(BlobStore)
        other._store, other._place = self._store, place
        return other

    async def keep(self, data: bytes) -> str:
        """Keep `data`; returns its SHA-256 in hex.

        Raises:
            BlobsAwayError: the store cannot, for the moment.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        if not await self.holds(sha256):
            await self._put(sha256, data)
        return sha256

    async def keep_file(self, path: Path) -> tuple[str, int]:
        """Keep a file without reading it whole; returns its SHA-256 in hex and its size.

        Raises:
            BlobsAwayError: the store cannot, for the moment.
        """
        sha256, size = await asyncio.to_thread(_digest_and_size, path)
        if not await self.holds(sha256):
            await self._put(sha256, path)
        return sha256, size

    async def keep_file_anew(self, path: Path) -> tuple[str, int]:
        """Like `keep_file`; where the blob is there already, its age begins anew.

        Raises:
            BlobsAwayError: the store cannot, for the moment.
        """
        sha256, size = await asyncio.to_thread(_digest_and_size, path)
        await self._put(sha256, path)
        return sha256, size

    async def _put(self, sha256: str, content: bytes | Path) -> None:
        try:
            await obstore.put_async(self._store, self._key(sha256), content)
        except GenericError as error:  # the library's word for trouble of the store itself
            raise BlobsAwayError(f"a blob cannot be kept: {str(error).splitlines()[0]}") from error

    async def holds(self, sha256: str) -> bool:
        """Whether a blob is kept under the hash."""
        try:
            await obstore.head_async(self._store, self._key(sha256))
        except FileNotFoundError:
            return False
        return True

    async def read(self, sha256: str) -> bytes:
        """The blob.

        Raises:
            BlobMissingError: there is none under the hash.
        """
        try:
            found = await obstore.get_async(self._store, self._key(sha256))
        except FileNotFoundError as error:
            raise BlobMissingError(sha256) from error
        return bytes(await found.bytes_async())

    async def stream(self, sha256: str) -> AsyncIterator[bytes]:
        """The blob in pieces, for one too large to hold.

        Raises:
            BlobMissingError: there is none under the hash.
        """
        async for piece in (await self.open(sha256)).pieces:
            yield piece

    async def open(self, sha256: str, *, first: int = 0, end: int | None = None) -> OpenBlob:
        """Begin to read the bytes from `first` up to but without `end` (None: to the last).

        Raises:
            BlobMissingError: there is none under the hash.
        """
        try:
            found = await obstore.get_async(
                self._store, self._key(sha256), options=_options(first, end)
            )
        except FileNotFoundError as error:
            raise BlobMissingError(sha256) from error

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in found.stream(min_chunk_size=_PIECE_BYTES):
                yield bytes(piece)

        return OpenBlob(int(found.meta["size"]), pieces())

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """The blob in pieces, read in the caller's thread.

        Raises:
            BlobMissingError: there is none under the hash.
        """
        try:
            found = obstore.get(self._store, self._key(sha256))
        except FileNotFoundError as error:
            raise BlobMissingError(sha256) from error
        for piece in found.stream(min_chunk_size=_PIECE_BYTES):
            yield bytes(piece)

    async def sweep(self, before: datetime) -> int:
        """Delete what was last kept before a moment (UTC); returns how many blobs that were.

        Raises:
            BlobsAwayError: the store does not answer for the moment.
            ValueError: these are the blobs that are kept for good.
        """
        if self._place == _FOREVER:
            raise ValueError("only blobs that lie apart can be swept")
        old: list[str] = []
        try:
            async for batch in obstore.list(self._store, f"{self._place}/"):
                old += [one["path"] for one in batch if one["last_modified"] < before]
            for key in old:
                with suppress(FileNotFoundError):  # another replica sweeps too
                    await obstore.delete_async(self._store, key)
        except GenericError as error:
            raise BlobsAwayError(f"blobs cannot be swept: {str(error).splitlines()[0]}") from error
        return len(old)

    def _key(self, sha256: str) -> str:
        if len(sha256) != _SHA256_DIGITS or not sha256.isalnum():
            raise BlobMissingError(sha256)
        return f"{self._place}/{sha256[:2]}/{sha256[2:]}"


def _options(first: int, end: int | None) -> "GetOptions":
    if end is not None:
        return {"range": (first, end)}
    return {"range": {"offset": first}} if first else {}


def _digest_and_size(path: Path) -> tuple[str, int]:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest(), path.stat().st_size
