"""What can be wrong with a source, each as one sentence that a person can act on."""

import difflib
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_SHOWN = 10


class SourceError(Exception):
    """The source cannot be read; the message says why and what can be done about it."""


class UnknownDatasetError(SourceError):
    """The registry or the catalogue has no dataset of that name."""


class UnknownVersionError(SourceError):
    """The dataset, or the repository, has no such version."""


class UnreachableError(SourceError):
    """The address does not answer: the one failure that may pass by itself."""


class CredentialsNeededError(SourceError):
    """The source exists, or may exist, and is not open to this server."""


class MalformedRegistryError(SourceError):
    """The registry answers with something that is not a registry."""


def near_names(wanted: str, known: Iterable[str]) -> str:
    """A clause that names the nearest of the `known` names, or the first ten of them."""
    names = sorted(set(known))
    if not names:
        return "it holds none"
    near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    near += [name for name in names if wanted in name and name not in near][:3]
    if near:
        return "did you mean " + " or ".join(near) + "?"
    return f"it holds {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Names in a row, cut after ten."""
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def refuse_secrets(address: str, what: str) -> None:
    """Refuse an address that carries a password or token: addresses are written into events.

    Raises:
        CredentialsNeededError: the address has one.
    """
    parts = urlsplit(address)
    over_http = parts.scheme in {"http", "https"}
    if parts.password or (over_http and parts.username):
        raise CredentialsNeededError(
            f"the address of the {what} carries a password or token, which would be kept and "
            "shown; take it out and give it to the server itself, for example as a git "
            "credential helper"
        )


def without_secrets(text: str) -> str:
    """`text` without what stands before the @ of an address."""
    return re.sub(r"(://)[^/@\s]+@", r"\1", text)
