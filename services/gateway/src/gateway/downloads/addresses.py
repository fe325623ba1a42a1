"""Short-lived addresses of files, signed, and the tokens that pin a file of a manifest.

An address is valid for a quarter of an hour for exactly one file of one run, and needs nothing
else; it carries no secret. A pin says which bytes a path of a run stood for; it opens nothing by
itself. Both are signed with HMAC-SHA256 under a key derived from the installation's master key.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from itsdangerous import BadData, URLSafeSerializer

from assay_contracts.http import DownloadType
from gateway.downloads.files import Place, RunFile
from gateway.vault import Vault

LIFETIME = timedelta(minutes=15)
_PURPOSE = "assay downloads"


class AddressRefusedError(Exception):
    """An address or a pin that opens nothing; the message says why."""


@dataclass(frozen=True)
class Owner:
    """The run that a file belongs to."""

    workspace: str
    run: UUID
    run_name: str


@dataclass(frozen=True)
class Addressed:
    """What an address stands for, and the name that the file is saved under."""

    owner: Owner
    file: RunFile

    @property
    def filename(self) -> str:
        """The file's own name; in front of a rendered one the run's, as there are many of them."""
        name = self.file.path.rpartition("/")[2]
        if self.file.type is DownloadType.ARTIFACTS:
            return name
        return f"{self.owner.run_name}-{name}"


class Signer:
    """Makes and reads addresses and pins."""

    def __init__(self, vault: Vault) -> None:
        """Derive the key.

        Raises:
            NoMasterKeyError: the gateway has none.
        """
        self._key = vault.derived_key(_PURPOSE)

    def pin(self, owner: Owner, file: RunFile) -> str:
        """The token of a file, bound to its run and its path."""
        said = [file.type, file.size, file.sha256, file.media_type, file.place, file.snapshot]
        return str(self._pins(owner, file.path).dumps(said))

    def pinned(self, owner: Owner, path: str, token: str) -> RunFile:
        """The file that a token pins.

        Raises:
            AddressRefusedError: it is none of this run and this path.
        """
        try:
            kind, size, sha256, media_type, place, snapshot = self._pins(owner, path).loads(token)
        except BadData as error:
            raise AddressRefusedError(f"the token of {path} is none of this run's") from error
        return RunFile(
            path=path,
            type=DownloadType(kind),
            size=size,
            sha256=sha256,
            media_type=media_type,
            place=Place(place),
            snapshot=snapshot,
        )

    def address(self, owner: Owner, file: RunFile, now: datetime) -> str:
        """The signed part of an address that is valid from `now` (UTC) on."""
        said = {
            "workspace": owner.workspace,
            "run": str(owner.run),
            "name": owner.run_name,
            "path": file.path,
            "pin": self.pin(owner, file),
            "until": int((now + LIFETIME).timestamp()),
        }
        return str(self._serializer("address").dumps(said))

    def addressed(self, signed: str, now: datetime) -> Addressed:
        """The file that an address stands for, at `now` (UTC).

        Raises:
            AddressRefusedError: it is none of ours, or has expired.
        """
        try:
            said: dict[str, Any] = self._serializer("address").loads(signed)
        except BadData as error:
            raise AddressRefusedError("this address was not made by this server") from error
        if now.timestamp() >= said["until"]:
            raise AddressRefusedError("this address has expired; ask for a new one")
        owner = Owner(said["workspace"], UUID(said["run"]), said["name"])
        return Addressed(owner, self.pinned(owner, said["path"], said["pin"]))

    def _pins(self, owner: Owner, path: str) -> URLSafeSerializer:
        return self._serializer(f"pin\0{owner.workspace}\0{owner.run}\0{path}")

    def _serializer(self, salt: str) -> URLSafeSerializer:
        return URLSafeSerializer(
            self._key,
            salt=salt.encode(),
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )
