"""What a source lists before any task is read: names, and where each task lies."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class InGit:
    """A task in a git repository: `path` is its folder at `commit`, `.` the root."""

    url: str
    commit: str
    path: str
    name: str


@dataclass(frozen=True)
class InFolder:
    """A task in a folder of this machine, to be archived."""

    path: Path
    name: str


@dataclass(frozen=True)
class InHub:
    """A task package of the hosted registry, at a content digest (`sha256:…`)."""

    org: str
    package: str
    digest: str

    @property
    def name(self) -> str:
        """`org/name`, as Harbor writes it."""
        return f"{self.org}/{self.package}"


@dataclass(frozen=True)
class Unreachable:
    """A task of which the listing itself shows that it cannot be had, and why."""

    name: str
    reason: str


Reference = InGit | InFolder | InHub | Unreachable


@dataclass(frozen=True)
class Listing:
    """A dataset's tasks in their order; `version` is None where the content decides it."""

    name: str
    version: str | None
    references: tuple[Reference, ...]
    description: str = ""
    source_url: str | None = None
