"""What a local sandbox is to be, as its supervisor is told."""

from dataclasses import dataclass
from typing import Self

PREPARED_FOLDERS = (
    "/app",
    "/logs",
    "/logs/agent",
    "/logs/artifacts",
    "/logs/verifier",
    "/solution",
    "/tests",
)


@dataclass(frozen=True, slots=True)
class Setup:
    """A sandbox.

    `scratch` holds what it writes. `hidden` are paths that are covered where they exist, `private`
    ones that do exist. `rootless` is for a runner that is an ordinary user.
    """

    scratch: str
    workdir: str
    rootless: bool
    public_network: bool
    hidden: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    @property
    def fresh_folders(self) -> tuple[str, ...]:
        """The folders that begin empty and that everyone in the sandbox may write to."""
        return (*PREPARED_FOLDERS, self.workdir)

    def to_fields(self) -> list[str]:
        """The setup as strings."""
        flags = f"{int(self.rootless)}{int(self.public_network)}"
        count = str(len(self.hidden))
        return [self.scratch, self.workdir, flags, count, *self.hidden, *self.private]

    @classmethod
    def from_fields(cls, fields: list[str]) -> Self:
        """The setup that `to_fields` wrote."""
        scratch, workdir, flags, count, *paths = fields
        hidden, private = paths[: int(count)], paths[int(count) :]
        rootless, public = (flag == "1" for flag in flags)
        return cls(scratch, workdir, rootless, public, tuple(hidden), tuple(private))
