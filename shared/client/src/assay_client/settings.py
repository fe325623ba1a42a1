"""Where the server is, which workspace is meant, and with which token: read once, from the
options, the environment, what `assay login` kept, and the data folder of `assay up`.

The administrator's token in the data folder is used for servers on this machine alone, so that it
never travels to another one.
"""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs
from pydantic import TypeAdapter, ValidationError

from assay_client.errors import InvalidInputError
from assay_client.logins import logins_file, read_logins
from assay_contracts.identifiers import WorkspaceSlug

DEFAULT_SERVER = "http://127.0.0.1:8400"

_WORKSPACE: TypeAdapter[str] = TypeAdapter(WorkspaceSlug)


@dataclass(frozen=True)
class ClientSettings:
    """What a client needs to know. Without a `workspace` the server takes the caller's own.

    `data` is the data folder of this machine's installation.
    """

    server: str
    workspace: str | None
    data: Path
    token: str | None = field(default=None, repr=False)

    @classmethod
    def resolve(
        cls, environment: Mapping[str, str], server: str | None = None, workspace: str | None = None
    ) -> "ClientSettings":
        """Options first, then the environment, then `assay login`, then what `assay up` wrote down.

        A data folder that the environment names means the server that was started on it.

        Raises:
            InvalidInputError: the server's address is none, or what was kept cannot be read.
        """
        data = data_folder(environment)
        announced = _announced_server(data)
        logins = read_logins(logins_file(environment))
        named = server or environment.get("ASSAY_SERVER")
        meant = announced if environment.get("ASSAY_DATA") else None
        chosen = checked_address(named or meant or logins.usual or announced or DEFAULT_SERVER)
        known = logins.of(chosen)
        token = environment.get("ASSAY_TOKEN", "").strip() or known.token
        if token is None and (chosen == announced or is_loopback(chosen)):
            token = _local_admin_token(data)
        return cls(
            server=chosen,
            workspace=workspace or environment.get("ASSAY_WORKSPACE") or known.workspace,
            data=data,
            token=token,
        )

    @property
    def is_of_data_folder(self) -> bool:
        """Whether the server is the one that `assay up` started on the data folder."""
        return self.server == _announced_server(self.data)


def data_folder(environment: Mapping[str, str]) -> Path:
    """The data folder of the installation on this machine: ASSAY_DATA, or the user's own."""
    chosen = environment.get("ASSAY_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("assay")


def checked_address(address: str) -> str:
    """A server's address without a slash at its end; http is meant where no scheme stands.

    Raises:
        InvalidInputError: it is no http or https address, or carries a password.
    """
    text = address.strip()
    text = (text if "://" in text else f"http://{text}").rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInputError(
            "the server's address is not usable",
            "give one such as http://127.0.0.1:8400 with --server or ASSAY_SERVER",
        )
    if parts.username or parts.password:
        raise InvalidInputError(
            "the server's address must not carry a password", "give the token as ASSAY_TOKEN"
        )
    return text


def checked_workspace(name: str) -> str:
    """A workspace's name.

    Raises:
        InvalidInputError: no workspace can have that name.
    """
    try:
        return _WORKSPACE.validate_python(name)
    except ValidationError:
        raise InvalidInputError(
            "no workspace can have that name",
            "it is small letters, digits and hyphens; give it with --workspace or ASSAY_WORKSPACE",
        ) from None


def checked_token(token: str) -> str:
    """A token that can stand in a header.

    Raises:
        InvalidInputError: it holds characters that no token has.
    """
    if token.isascii() and token.isprintable() and " " not in token:
        return token
    raise InvalidInputError("the token holds characters that no token has")


def is_loopback(address: str) -> bool:
    """True where an address stays on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _announced_server(data: Path) -> str | None:
    try:
        found = json.loads((data / "server.json").read_text())
        return checked_address(found["url"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidInputError):
        return None


def _local_admin_token(data: Path) -> str | None:
    try:
        return (data / "admin-token").read_text().strip() or None
    except (OSError, ValueError):
        return None
