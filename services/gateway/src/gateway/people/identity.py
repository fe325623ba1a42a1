"""Who somebody is, and what that allows in a workspace."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from assay_contracts.identity import PERMISSIONS, Permission, Role

DEFAULT_WORKSPACE = "default"


@dataclass(frozen=True)
class Identity:
    """A user who has proven who it is, and how far what it was proven with reaches.

    `roles` are by workspace; an operator owns every one. `workspace` is the only one that a token
    is good for, `scopes` are the permissions that it is cut to; None where it is not cut.
    """

    user: str
    operator: bool
    roles: Mapping[str, Role]
    workspace: str | None = None
    scopes: frozenset[Permission] | None = None
    token_id: UUID | None = None
    expires_at: datetime | None = None
    session: bytes | None = None

    @property
    def visible(self) -> list[str]:
        """The workspaces that can be named, by name."""
        return sorted(name for name in self.roles if self.workspace in {None, name})

    def permissions_in(self, workspace: str) -> frozenset[Permission] | None:
        """What may be done in a workspace; None where it cannot even be seen."""
        role = self.roles.get(workspace)
        if role is None or self.workspace not in {None, workspace}:
            return None
        whole = PERMISSIONS[role] | ({Permission.OPERATE} if self.operator else frozenset())
        return whole if self.scopes is None else whole & self.scopes

    @property
    def operates(self) -> bool:
        """Whether it may run the installation."""
        return self.operator and (self.scopes is None or Permission.OPERATE in self.scopes)

    def meant_workspace(self, named: str | None) -> str | None:
        """The workspace that a request means; None where it has to say so and does not."""
        if named is not None:
            return named
        if self.workspace is not None:
            return self.workspace
        if DEFAULT_WORKSPACE in self.roles:
            return DEFAULT_WORKSPACE
        return next(iter(self.roles)) if len(self.roles) == 1 else None
