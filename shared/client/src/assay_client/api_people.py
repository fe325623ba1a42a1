"""The part of the HTTP API that is about people: sessions, tokens, users, workspaces, audit."""

from uuid import UUID

from assay_client.segments import segment
from assay_client.transport import Transport, parsed
from assay_contracts.http import (
    AuditPage,
    ChangeUser,
    ChangeWorkspace,
    CreatedToken,
    CreatedUser,
    CreateToken,
    CreateUser,
    CreateWorkspace,
    DecideDevice,
    DeviceLogin,
    Invitation,
    MemberEntry,
    Page,
    PendingDevice,
    PollDevice,
    SetMember,
    StartDeviceLogin,
    TokenEntry,
    UserEntry,
    Whoami,
    WorkspaceEntry,
)
from assay_contracts.identity import Role


class PeopleApi:
    """What concerns people; a part of `AssayClient`."""

    _transport: Transport

    # Signing in

    def whoami(self) -> Whoami:
        """Who asks, and what it may do where."""
        return parsed(self._transport.get("session"), Whoami)

    def sign_out(self) -> None:
        """Revoke the token that is asked with."""
        self._transport.send("DELETE", "session")

    def start_device(self, request: StartDeviceLogin) -> DeviceLogin:
        """Ask to be signed in; somebody then lets this device in with the code."""
        return parsed(self._transport.send("POST", "device", request), DeviceLogin)

    def poll_device(self, request: PollDevice) -> CreatedToken:
        """The token, once somebody has let this device in; until then an `ApiError`."""
        return parsed(self._transport.send("POST", "device/token", request), CreatedToken)

    def pending_device(self, user_code: str) -> PendingDevice:
        """The device that shows a code."""
        return parsed(self._transport.get(f"device/{segment(user_code)}"), PendingDevice)

    def decide_device(self, request: DecideDevice) -> PendingDevice:
        """Let a device in, or turn it away."""
        return parsed(self._transport.send("POST", "device/decision", request), PendingDevice)

    # Tokens

    def tokens(
        self, *, user: str | None = None, limit: int | None = None, offset: int | None = None
    ) -> Page[TokenEntry]:
        """Your tokens, or another user's."""
        path = "tokens" if user is None else f"users/{segment(user)}/tokens"
        query = {"limit": limit, "offset": offset}
        return parsed(self._transport.get(path, query), Page[TokenEntry])

    def create_token(self, request: CreateToken) -> CreatedToken:
        """Create a token; it is told now and never again."""
        return parsed(self._transport.send("POST", "tokens", request), CreatedToken)

    def revoke_token(self, token: UUID) -> None:
        """Let a token open nothing any more."""
        self._transport.send("DELETE", f"tokens/{token}")

    # Users

    def users(self, *, limit: int | None = None, offset: int | None = None) -> Page[UserEntry]:
        """Users of the installation."""
        query = {"limit": limit, "offset": offset}
        return parsed(self._transport.get("users", query), Page[UserEntry])

    def create_user(self, request: CreateUser) -> CreatedUser:
        """Create a user; the answer holds the invitation to pass on."""
        return parsed(self._transport.send("POST", "users", request), CreatedUser)

    def change_user(self, name: str, request: ChangeUser) -> UserEntry:
        """Change a user."""
        return parsed(self._transport.send("PATCH", f"users/{segment(name)}", request), UserEntry)

    def invite_user(self, name: str) -> Invitation:
        """A new invitation for a user."""
        path = f"users/{segment(name)}/invitation"
        return parsed(self._transport.send("POST", path), Invitation)

    # Workspaces

    def workspaces(self) -> Page[WorkspaceEntry]:
        """The workspaces that you can name."""
        return parsed(self._transport.get("workspaces"), Page[WorkspaceEntry])

    def create_workspace(self, request: CreateWorkspace) -> WorkspaceEntry:
        """Create a workspace."""
        return parsed(self._transport.send("POST", "workspaces", request), WorkspaceEntry)

    def change_workspace(self, name: str, request: ChangeWorkspace) -> WorkspaceEntry:
        """Connect a workspace to a repository, or to none."""
        path = f"workspaces/{segment(name)}"
        return parsed(self._transport.send("PATCH", path, request), WorkspaceEntry)

    def remove_workspace(self, name: str) -> None:
        """Remove a workspace with its members, tokens and secrets."""
        self._transport.send("DELETE", f"workspaces/{segment(name)}")

    def members(self, workspace: str) -> Page[MemberEntry]:
        """The members of a workspace."""
        path = f"workspaces/{segment(workspace)}/members"
        return parsed(self._transport.get(path), Page[MemberEntry])

    def set_member(self, workspace: str, user: str, role: Role) -> MemberEntry:
        """Give a user a role in a workspace."""
        path = f"workspaces/{segment(workspace)}/members/{segment(user)}"
        return parsed(self._transport.send("PUT", path, SetMember(role=role)), MemberEntry)

    def drop_member(self, workspace: str, user: str) -> None:
        """Take a member out of a workspace."""
        self._transport.send("DELETE", f"workspaces/{segment(workspace)}/members/{segment(user)}")

    # Audit

    def audit(
        self,
        *,
        installation: bool = False,
        actor: str | None = None,
        act: str | None = None,
        target: str | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> AuditPage:
        """Administrative acts of the workspace, or of the whole installation, the newest first."""
        query = {"actor": actor, "act": act, "target": target, "before": before, "limit": limit}
        path = "system/audit" if installation else "audit"
        return parsed(self._transport.get(path, query), AuditPage)
