"""Where `assay login` keeps what it got: one file of the user's, which nobody else can read.

For each server the token and the workspace that is meant, and which server is the usual one.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import platformdirs

from assay_client.errors import InvalidInputError

_FILE = "logins.json"


@dataclass(frozen=True)
class Login:
    """What is known of one server."""

    token: str | None = field(default=None, repr=False)
    user: str | None = None
    workspace: str | None = None


@dataclass(frozen=True)
class Logins:
    """Every server that is known, and the usual one."""

    usual: str | None = None
    servers: Mapping[str, Login] = field(default_factory=dict)

    def of(self, server: str) -> Login:
        """What is known of a server; nothing where it is not known."""
        return self.servers.get(server, Login())

    def having(self, server: str, login: Login) -> "Logins":
        """The same with a server, which becomes the usual one."""
        return replace(self.remembering(server, login), usual=server)

    def remembering(self, server: str, login: Login) -> "Logins":
        """The same with what is known of a server; the usual one stays."""
        return replace(self, servers={**self.servers, server: login})

    def without_token(self, server: str) -> "Logins":
        """The same, signed out of a server."""
        return self.remembering(server, replace(self.of(server), token=None, user=None))


def logins_file(environment: Mapping[str, str]) -> Path:
    """Where the file is: in ASSAY_CONFIG, or in the user's own folder for settings."""
    chosen = environment.get("ASSAY_CONFIG")
    folder = Path(chosen).expanduser() if chosen else platformdirs.user_config_path("assay")
    return folder / _FILE


def read_logins(path: Path) -> Logins:
    """What the file says; nothing where there is none.

    Raises:
        InvalidInputError: it is damaged.
    """
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return Logins()
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    try:
        servers = {name: Login(**known) for name, known in found["servers"].items()}
        return Logins(found["usual"], servers)
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{path} cannot be read", "remove it and sign in with: assay login")


def write_logins(path: Path, logins: Logins) -> None:
    """Replace the file at once, readable by its owner alone.

    Raises:
        InvalidInputError: it cannot be written.
    """
    content = {
        "usual": logins.usual,
        "servers": {name: asdict(login) for name, login in logins.servers.items()},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=path.parent, prefix=f".{_FILE}")  # mode 0600
        with os.fdopen(handle, "w") as file:
            json.dump(content, file, indent=1)
        Path(written).replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written", error.strerror or "") from error
