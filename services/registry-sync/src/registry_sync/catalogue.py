"""The managed catalogue: benchmarks that are in every workspace, from a TOML file of this package.

An entry has a key, a name, a description, a source, and the rules and task sets that its publisher
fixed. An entry whose source is a folder of this package needs no network.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assay_contracts.values import BenchmarkRules, FolderSource, GitSource, RegistrySource, TaskSet

_FILE = "catalogue.toml"


class BundledSource(BaseModel):
    """A folder of tasks that ships with this package."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["bundled"]
    folder: str = Field(pattern=r"^[a-z0-9-]+$")

    def as_folder(self) -> FolderSource:
        """The same folder by its path on this machine."""
        return FolderSource(path=str(_package_folder() / self.folder))


class CatalogueEntry(BaseModel):
    """One managed benchmark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    name: str
    description: str
    source: Annotated[BundledSource | RegistrySource | GitSource, Field(discriminator="kind")]
    rules: BenchmarkRules = BenchmarkRules()
    task_sets: tuple[TaskSet, ...] = ()


class Catalogue(BaseModel):
    """The file as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmarks: tuple[CatalogueEntry, ...]

    def entry(self, key: str) -> CatalogueEntry | None:
        """The entry with the key, if there is one."""
        return next((entry for entry in self.benchmarks if entry.key == key), None)


class InvalidCatalogueError(ValueError):
    """The catalogue's file has a mistake; the message names the file and the key."""


def load_catalogue(path: Path | None = None) -> Catalogue:
    """Read the catalogue that ships with this package, or another one.

    Raises:
        InvalidCatalogueError: it does not have the right shape.
    """
    path = path or _package_folder() / _FILE
    try:
        return Catalogue.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise InvalidCatalogueError(f"{path.name}: {error}") from error


def _package_folder() -> Path:
    return Path(str(files("registry_sync").joinpath("catalogue_data")))
