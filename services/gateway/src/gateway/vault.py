"""Secrets at rest: envelope encryption, and handing values to the runner that holds a try.

Each record has a data key of its own; value and data key are encrypted with AES-256-GCM, with the
record's identity as associated data, so that a record moved elsewhere cannot be opened. The master
key is derived from a file and is never stored. There is no way to read a value through the API.
"""

import base64
import hmac
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.exceptions import CryptoError
from nacl.public import PublicKey, SealedBox
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.http import SecretEntry
from gateway import own_queries as queries
from gateway.own_queries import RUN, USER, WORKSPACE, Record, Sealed

_NONCE_BYTES = 12
_KEY_BITS = 256
_SHORTEST_MASTER = 32
_ORDER = (WORKSPACE, USER, RUN)
"""A later scope wins over an earlier one."""


class NoMasterKeyError(RuntimeError):
    """The gateway has no usable master key, so it can keep no secrets."""


class SecretUnreadableError(RuntimeError):
    """A record does not open: it was encrypted under another master key, or was tampered with."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the secret {name} does not open with this master key; set it again")


class PublicKeyError(ValueError):
    """What was sent is no public key of 32 bytes in base64."""


class Vault:
    """Keeps secrets, encrypted."""

    def __init__(self, engine: AsyncEngine, master_key_file: Path | None) -> None:
        """Derive the key from the file.

        Raises:
            NoMasterKeyError: the file's content is too short to be a key.
        """
        self._engine = engine
        self._master = None if master_key_file is None else _master_key(master_key_file)

    async def keep(self, record: Record, value: str, by: str) -> None:
        """Keep a value under a record, in place of an earlier one.

        Raises:
            NoMasterKeyError: the gateway has none.
        """
        async with self._engine.begin() as connection:
            await queries.write(connection, self._sealed(record, value), by, datetime.now(UTC))

    async def keep_for_run(
        self,
        connection: AsyncConnection,
        workspace: str,
        run: UUID,
        given: Mapping[str, str],
        by: str,
    ) -> None:
        """Keep what was given for one run alone, in the caller's transaction.

        Raises:
            NoMasterKeyError: the gateway has none.
        """
        for name, value in given.items():
            kept = self._sealed(Record(workspace, RUN, str(run), name), value)
            await queries.write(connection, kept, by, datetime.now(UTC))

    async def drop(self, record: Record) -> bool:
        """Delete a record; False where there is none."""
        async with self._engine.begin() as connection:
            return await queries.drop(connection, record)

    async def drop_run(self, run: UUID) -> None:
        """Delete what was given for one run alone."""
        async with self._engine.begin() as connection:
            await queries.drop_run(connection, run)

    async def runs_with_secrets(self) -> Mapping[UUID, datetime]:
        """The runs that have secrets of their own, and since when (UTC)."""
        async with self._engine.connect() as connection:
            return await queries.runs_with_secrets(connection)

    async def entries(self, workspace: str, user: str) -> list[SecretEntry]:
        """The records of a workspace and of a user in it, without values."""
        async with self._engine.connect() as connection:
            return await queries.entries(connection, workspace, user)

    async def scopes(self, workspace: str, user: str, names: Sequence[str]) -> dict[str, str]:
        """Where each secret that exists comes from; the personal one wins and says so."""
        found: dict[str, set[str]] = {}
        for entry in await self.entries(workspace, user):
            if entry.name in names:
                found.setdefault(entry.name, set()).add(entry.scope)
        return {
            name: "user_override" if len(scopes) > 1 else next(iter(scopes))
            for name, scopes in found.items()
        }

    async def values(
        self, workspace: str, user: str, run: UUID, names: Sequence[str]
    ) -> dict[str, str]:
        """The values for a run: its own first, then the submitter's, then the workspace's.

        Raises:
            NoMasterKeyError: the gateway has none.
            SecretUnreadableError: a record was kept under another one.
        """
        async with self._engine.connect() as connection:
            kept = await queries.read(connection, workspace, user, run, names)
        winning = {one.record.name: one for one in sorted(kept, key=_rank)}
        return {name: self._opened(one) for name, one in winning.items()}

    def fingerprint(self, purpose: str, content: bytes) -> bytes:
        """A digest of `content` that says nothing of it to who does not have the master key.

        Without a master key it is keyed with the purpose alone; then nothing secret can be sent.
        """
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode())
        return hmac.digest(key.derive(self._master or b""), content, "sha256")

    def _sealed(self, record: Record, value: str) -> Sealed:
        key = AESGCM.generate_key(_KEY_BITS)
        return Sealed(
            record,
            wrapped_key=_encrypt(self._key(), key, record.associated),
            sealed=_encrypt(key, value.encode(), record.associated),
        )

    def _opened(self, kept: Sealed) -> str:
        bound = kept.record.associated
        try:
            key = _decrypt(self._key(), kept.wrapped_key, bound)
            return _decrypt(key, kept.sealed, bound).decode()
        except InvalidTag as error:
            raise SecretUnreadableError(kept.record.name) from error

    def _key(self) -> bytes:
        if self._master is None:
            raise NoMasterKeyError(
                "secrets cannot be kept: start the gateway with ASSAY_MASTER_KEY_FILE"
            )
        return self._master


def seal(values: Mapping[str, str], public_key: str) -> str:
    """`values` as a sealed box (base64) that only the holder of the key pair can open.

    Raises:
        PublicKeyError: `public_key` is none.
    """
    try:
        box = SealedBox(PublicKey(base64.b64decode(public_key, validate=True)))
    except (ValueError, TypeError, CryptoError) as error:
        raise PublicKeyError("must be a public key of 32 bytes in base64") from error
    return base64.b64encode(box.encrypt(orjson.dumps(dict(values)))).decode()


def _rank(kept: Sealed) -> int:
    return _ORDER.index(kept.record.scope)


def _master_key(path: Path) -> bytes:
    material = path.read_text().strip().encode()
    if len(material) < _SHORTEST_MASTER:
        raise NoMasterKeyError(f"the master key in {path.name} is shorter than 32 characters")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"assay secrets").derive(material)


def _encrypt(key: bytes, plain: bytes, associated: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, associated)


def _decrypt(key: bytes, sealed: bytes, associated: bytes) -> bytes:
    return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
