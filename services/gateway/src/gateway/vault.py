"""Secrets at rest: envelope encryption, and handing values to the runner that holds a try.

Each record has a data key of its own; value and data key are encrypted with AES-256-GCM, with the
record's identity as associated data, so that a record moved elsewhere cannot be opened. The master
key is derived from a file and is never stored. There is no way to read a value through the API.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import orjson
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.public import PublicKey, SealedBox
from sqlalchemy import ColumnElement, and_, delete, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.http import SecretEntry
from gateway.tables import secrets

WORKSPACE, USER, RUN = "workspace", "user", "run"
_NONCE_BYTES = 12
_KEY_BITS = 256
_SHORTEST_MASTER = 32


class NoMasterKeyError(RuntimeError):
    """The gateway was started without a master key, so it keeps no secrets."""


@dataclass(frozen=True)
class Record:
    """A secret's identity: `owner` is a user, a run, or empty for the workspace."""

    workspace: str
    scope: str
    owner: str
    name: str

    @property
    def associated(self) -> bytes:
        """What the encryption binds the record to."""
        return "\0".join((self.workspace, self.scope, self.owner, self.name)).encode()


class Vault:
    """Keeps secrets, encrypted."""

    def __init__(self, engine: AsyncEngine, master_key_file: Path | None) -> None:
        self._engine = engine
        self._master = None if master_key_file is None else _master_key(master_key_file)

    async def keep(self, record: Record, value: str, by: str) -> None:
        """Keep a value under a record, in place of an earlier one."""
        key = AESGCM.generate_key(_KEY_BITS)
        now = datetime.now(UTC)
        fields = {
            "wrapped_key": _encrypt(self._key(), key, record.associated),
            "sealed": _encrypt(key, value.encode(), record.associated),
            "updated_at": now,
            "updated_by": by,
        }
        async with self._engine.begin() as connection:
            await connection.execute(
                insert(secrets)
                .values(
                    workspace=record.workspace,
                    scope=record.scope,
                    owner=record.owner,
                    name=record.name,
                    created_at=now,
                    **fields,
                )
                .on_conflict_do_update(
                    index_elements=["workspace", "scope", "owner", "name"], set_=fields
                )
            )

    async def drop(self, record: Record) -> bool:
        """Delete a record; False where there is none."""
        async with self._engine.begin() as connection:
            gone = await connection.execute(delete(secrets).where(_is(record)))
        return gone.rowcount > 0

    async def drop_run(self, run: UUID) -> None:
        """Delete what was given for one run alone."""
        async with self._engine.begin() as connection:
            await connection.execute(
                delete(secrets).where(secrets.c.scope == RUN, secrets.c.owner == str(run))
            )

    async def runs_with_secrets(self) -> list[UUID]:
        """The runs that have secrets of their own."""
        async with self._engine.connect() as connection:
            found = await connection.scalars(
                select(secrets.c.owner).where(secrets.c.scope == RUN).distinct()
            )
            return [UUID(owner) for owner in found]

    async def entries(self, workspace: str, user: str) -> list[SecretEntry]:
        """The records of a workspace and of a user in it, without values."""
        async with self._engine.connect() as connection:
            found = await connection.execute(
                select(secrets)
                .where(secrets.c.workspace == workspace, _seen_by(user))
                .order_by(secrets.c.name, secrets.c.scope)
            )
            return [
                SecretEntry(
                    name=row["name"],
                    scope=row["scope"],
                    created_at=row["created_at"],
                    updated_at=row["updated_at"],
                    updated_by=row["updated_by"],
                )
                for row in found.mappings()
            ]

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
        """The values for a run: its own first, then the submitter's, then the workspace's."""
        async with self._engine.connect() as connection:
            rows = (
                await connection.execute(
                    select(secrets).where(
                        secrets.c.workspace == workspace,
                        secrets.c.name.in_(names),
                        or_(
                            _seen_by(user),
                            and_(secrets.c.scope == RUN, secrets.c.owner == str(run)),
                        ),
                    )
                )
            ).mappings()
            order = (WORKSPACE, USER, RUN)
            ranked = sorted(rows, key=lambda row: order.index(row["scope"]))
        opened: dict[str, str] = {}
        for row in ranked:
            record = Record(row["workspace"], row["scope"], row["owner"], row["name"])
            key = _decrypt(self._key(), row["wrapped_key"], record.associated)
            opened[row["name"]] = _decrypt(key, row["sealed"], record.associated).decode()
        return opened

    def _key(self) -> bytes:
        if self._master is None:
            raise NoMasterKeyError("no master key: start the gateway with ASSAY_MASTER_KEY_FILE")
        return self._master


def seal(values: Mapping[str, str], public_key: str) -> str:
    """`values` as a sealed box (base64) that only the holder of the key pair can open."""
    box = SealedBox(PublicKey(base64.b64decode(public_key)))
    return base64.b64encode(box.encrypt(orjson.dumps(dict(values)))).decode()


def _is(record: Record) -> ColumnElement[bool]:
    return and_(
        secrets.c.workspace == record.workspace,
        secrets.c.scope == record.scope,
        secrets.c.owner == record.owner,
        secrets.c.name == record.name,
    )


def _seen_by(user: str) -> ColumnElement[bool]:
    return or_(secrets.c.scope == WORKSPACE, and_(secrets.c.scope == USER, secrets.c.owner == user))


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
