"""Who may do what: roles in a workspace, and the permissions that they and tokens carry."""

from collections.abc import Mapping
from enum import StrEnum


class Permission(StrEnum):
    """What a caller may do; the scopes of an API token are permissions too."""

    READ = "read"
    """See benchmarks, runs, results, leaderboards and events of the workspace."""

    RUN = "run"
    """Submit, import, stop, pause, retry and delete runs; keep personal secrets."""

    BENCHMARKS = "benchmarks"
    """Add benchmarks, read their task lists again, remove them."""

    SECRETS = "secrets"
    """Keep the workspace's secrets."""

    ADMIN = "admin"
    """Members, other people's tokens, billing, webhooks and the audit stream of the workspace."""

    OWN = "own"
    """Make and unmake owners, remove the workspace."""

    OPERATE = "operate"
    """Run the installation: users, workspaces, replays, dead letters, sandboxes, keys."""


class Role(StrEnum):
    """What a user is in a workspace."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"
    OWNER = "owner"


_VIEWER = frozenset({Permission.READ})
_MEMBER = _VIEWER | {Permission.RUN, Permission.BENCHMARKS}
_ADMIN = _MEMBER | {Permission.SECRETS, Permission.ADMIN}
_OWNER = _ADMIN | {Permission.OWN}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.MEMBER: _MEMBER,
    Role.ADMIN: _ADMIN,
    Role.OWNER: _OWNER,
}
"""What each role may do. `operate` belongs to no role: operators are named for the installation."""
