"""Secrets at rest: envelope encryption, and handing values to the runner that holds a try.

Each record has a data key of its own; value and data key are encrypted with AES-256-GCM, with the
record's identity as associated data, so that a record moved elsewhere cannot be opened. Data keys
are wrapped under the newest master key, and a rotation wraps the older ones anew without opening a
value. There is no way to read a value through the API.
"""

import base64
import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.exceptions import CryptoError
from nacl.public import PublicKey, SealedBox
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.http import RotatedKeys, SecretEntry
from gateway import own_queries as queries
from gateway.master_keys import KeySource, MasterKeys, NoMasterKeyError
from gateway.own_queries import RUN, USER, WORKSPACE, Record, Sealed

_NONCE_BYTES = 12
_KEY_BITS = 256
_BATCH = 500
_MOST_NAMED = 100
_ORDER = (WORKSPACE, USER, RUN)
"""A later scope wins over an earlier one."""


class SecretUnreadableError(RuntimeError):
    """A record does not open: its master key is not there, or it was tampered with."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the secret {name} does not open with the master keys that are there; set it again"
        )


class PublicKeyError(ValueError):
    """What was sent is no public key of 32 bytes in base64."""


class Vault:
    """Keeps secrets, encrypted."""

    def __init__(self, engine: AsyncEngine, source: KeySource) -> None:
        self._engine = engine
        self._source = source
        self._keys: MasterKeys | None = None
        self._unknown: set[str] = set()

    async def load_keys(self) -> MasterKeys:
        """Read the master keys, in place of those that were read before.

        Raises:
            NoMasterKeyError: one is too short, or the command does not give one.
        """
        self._keys = await self._source.read()
        self._unknown.clear()
        return self._keys

    def derived_key(self, purpose: str) -> bytes:
        """A key of 32 bytes for another purpose, which says nothing about the newest master key.

        Raises:
            NoMasterKeyError: the gateway has none, or has not read it yet.
        """
        _, master = (self._keys or MasterKeys()).newest
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode()).derive(master)

    async def keep(self, connection: AsyncConnection, record: Record, value: str, by: str) -> None:
        """Keep a value under a record, in place of an earlier one, in the caller's transaction.

        Raises:
            NoMasterKeyError: the gateway has none.
        """
        kept = _sealed(record, value, await self._known_keys())
        await queries.write(connection, kept, by, datetime.now(UTC))

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
        if not given:
            return
        keys = await self._known_keys()
        for name, value in given.items():
            kept = _sealed(Record(workspace, RUN, str(run), name), value, keys)
            await queries.write(connection, kept, by, datetime.now(UTC))

    async def drop(self, connection: AsyncConnection, record: Record) -> bool:
        """Delete a record in the caller's transaction; False where there is none."""
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
        keys = await self._keys_for(winning.values())
        return {name: _opened(one, keys) for name, one in winning.items()}

    def fingerprint(self, purpose: str, content: bytes) -> bytes:
        """A digest of `content` that says nothing of it to who does not have the master key.

        Without a master key it is keyed with the purpose alone; then nothing secret can be sent.
        """
        with suppress(NoMasterKeyError):
            return hmac.digest(self.derived_key(purpose), content, "sha256")
        return hmac.digest(purpose.encode(), content, "sha256")

    async def rotate(self) -> RotatedKeys:
        """Read the master keys again, and wrap every record's data key under the newest one.

        A batch is a transaction: what was done stays done where this is broken off, and the next
        rotation goes on with the rest. Values stay as they are, and are not opened.

        Raises:
            NoMasterKeyError: the gateway has none.
        """
        keys = await self.load_keys()
        newest, _ = keys.newest
        rewrapped, lost, after = 0, list[Record](), None
        while True:
            async with self._engine.begin() as connection:
                stale = await queries.wrapped_otherwise(
                    connection, newest, after=after, limit=_BATCH
                )
                for record, name, wrapped_key in stale:
                    data_key = _unwrapped(record, wrapped_key, keys.candidates(name))
                    if data_key is None:
                        lost.append(record)
                        continue
                    fresh = _wrapped(record, data_key, keys)
                    await queries.rewrap(connection, record, newest, fresh)
                    rewrapped += 1
            if len(stale) < _BATCH:
                break
            after = stale[-1][0]
        async with self._engine.connect() as connection:
            under = await queries.records_under(connection)
        return RotatedKeys(
            key=newest,
            keys=list(keys.by_id),
            rewrapped=rewrapped,
            records=under.get(newest, 0),
            unreadable=len(lost),
            unreadable_names=sorted({one.name for one in lost})[:_MOST_NAMED],
        )

    async def _known_keys(self) -> MasterKeys:
        return self._keys or await self.load_keys()

    async def _keys_for(self, kept: Iterable[Sealed]) -> MasterKeys:
        """The master keys, read again where a record names one that was not there before.

        Another replica may have rotated meanwhile. A key that is nowhere is looked for once.
        """
        keys = await self._known_keys()
        named = {one.key_id for one in kept if one.key_id is not None}
        if fresh := named - keys.by_id.keys() - self._unknown:
            keys = await self.load_keys()
            self._unknown |= fresh - keys.by_id.keys()
        return keys


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


def _sealed(record: Record, value: str, keys: MasterKeys) -> Sealed:
    data_key = AESGCM.generate_key(_KEY_BITS)
    name, _ = keys.newest
    return Sealed(
        record,
        key_id=name,
        wrapped_key=_wrapped(record, data_key, keys),
        sealed=_encrypt(data_key, value.encode(), record.associated),
    )


def _opened(kept: Sealed, keys: MasterKeys) -> str:
    data_key = _unwrapped(kept.record, kept.wrapped_key, keys.candidates(kept.key_id))
    if data_key is None:
        raise SecretUnreadableError(kept.record.name)
    try:
        return _decrypt(data_key, kept.sealed, kept.record.associated).decode()
    except InvalidTag as error:
        raise SecretUnreadableError(kept.record.name) from error


def _wrapped(record: Record, data_key: bytes, keys: MasterKeys) -> bytes:
    _, master = keys.newest
    return _encrypt(master, data_key, record.associated)


def _unwrapped(record: Record, wrapped_key: bytes, masters: Sequence[bytes]) -> bytes | None:
    """The record's data key; None where none of the master keys opens it."""
    for master in masters:
        with suppress(InvalidTag):
            return _decrypt(master, wrapped_key, record.associated)
    return None


def _encrypt(key: bytes, plain: bytes, associated: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, associated)


def _decrypt(key: bytes, sealed: bytes, associated: bytes) -> bytes:
    return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
