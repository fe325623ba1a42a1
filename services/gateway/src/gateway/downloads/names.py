"""Names of files that a sandbox chose, made fit for other people's disks and for headers."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from assay_contracts.http import ArtifactEntry

_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\\\\:\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Controls, what parts folders or drives elsewhere, and marks that turn the direction of writing"""
_PLAIN = re.compile(r"[^A-Za-z0-9._ ()-]")
_MOST_NAME = 200


def fit_path(path: str) -> str:
    """A relative path of the same shape that leads nowhere else; fit ones stay as they are."""
    parts = [_UNFIT.sub("_", part) for part in path.split("/") if part not in {"", "."}]
    return "/".join("_" if part == ".." else part for part in parts) or "_"


def fit_paths(files: Iterable[ArtifactEntry]) -> Iterator[tuple[str, ArtifactEntry]]:
    """Each file with its fit path, no two the same, also where small and capital letters are one.

    The same list always gets the same paths.
    """
    taken: set[str] = set()
    for file in files:
        path = unique = fit_path(file.path)
        number = 1
        while unique.casefold() in taken:
            number += 1
            unique = f"{path}~{number}"
        taken.add(unique.casefold())
        yield unique, file


def attachment(name: str) -> str:
    """The `Content-Disposition` (RFC 6266) of a download under a name."""
    last = fit_path(name).rpartition("/")[2][-_MOST_NAME:]
    plain = _PLAIN.sub("_", last)
    if plain == last:
        return f'attachment; filename="{plain}"'
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"
