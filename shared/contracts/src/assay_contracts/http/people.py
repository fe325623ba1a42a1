"""Workspaces, users, members, tokens, sessions, device logins, and the audit stream."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import EmailStr, Field, StringConstraints

from assay_contracts.http.base import Request, Resource, with_example
from assay_contracts.identifiers import WorkspaceSlug
from assay_contracts.identity import Permission, Role

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Password = Annotated[str, StringConstraints(min_length=12, max_length=200)]
Repository = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$", max_length=200, to_lower=True),
]
"""Small letters: whoever hosts repositories tells their names apart by letters alone."""


class WorkspaceEntry(Resource):
    """A workspace, and what the caller is in it; `repository` is connected for Osmosis clients."""

    name: str
    repository: str | None
    role: Role | None
    created_at: datetime
    created_by: str


class CreateWorkspace(Request):
    """`POST /api/v1/workspaces`; who creates it owns it, or `owner` does."""

    model_config = with_example(name="lab", owner="ada", repository="acme/agents")

    name: WorkspaceSlug
    owner: UserName | None = None
    repository: Repository | None = None


class ChangeWorkspace(Request):
    """`PATCH /api/v1/workspaces/{name}`: connect it to a repository, or to none."""

    model_config = with_example(repository="acme/agents")

    repository: Repository | None


class MemberEntry(Resource):
    """A user in a workspace."""

    user: str
    email: str
    display_name: str
    role: Role
    since: datetime


class SetMember(Request):
    """`PUT /api/v1/workspaces/{name}/members/{user}`."""

    model_config = with_example(role="admin")

    role: Role


class UserEntry(Resource):
    """A user of the installation; `operator` runs it and may do everything everywhere."""

    name: str
    email: str
    display_name: str
    operator: bool
    has_password: bool
    disabled_at: datetime | None
    created_at: datetime
    created_by: str


class CreateUser(Request):
    """`POST /api/v1/users`; a member of `workspace` at once where one is named."""

    model_config = with_example(name="ada", email="ada@example.org", workspace="lab", role="member")

    name: UserName
    email: EmailStr
    display_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    operator: bool = False
    workspace: WorkspaceSlug | None = None
    role: Role = Role.MEMBER


class ChangeUser(Request):
    """`PATCH /api/v1/users/{name}`: what is left out stays."""

    model_config = with_example(disabled=True)

    email: EmailStr | None = None
    display_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    operator: bool | None = None
    disabled: bool | None = None


class Invitation(Resource):
    """A code, told once, with which a user sets a password and signs in; good until then."""

    user: str
    code: str
    address: str
    expires_at: datetime


class CreatedUser(UserEntry):
    """A user just created, with the invitation to pass on."""

    invitation: Invitation


class AcceptInvitation(Request):
    """`POST /api/v1/session/invitation`: set a password with an invitation's code, and sign in."""

    model_config = with_example(
        code="the code that was passed on",
        password="a long passphrase",  # noqa: S106  an example
    )

    code: Annotated[str, Field(max_length=200, repr=False)]
    password: Password = Field(repr=False)


class ChangePassword(Request):
    """`PUT /api/v1/session/password`; it ends every other session of the user."""

    model_config = with_example(current="the old passphrase", new="a longer passphrase")

    current: Annotated[str, Field(max_length=200, repr=False)]
    new: Password = Field(repr=False)


class Whoami(Resource):
    """Who asks, by what, and what may be done where. `scopes` narrow a token; null is all."""

    user: str
    email: str
    display_name: str
    operator: bool
    token_id: UUID | None
    expires_at: datetime | None
    scopes: list[Permission] | None
    workspaces: list[WorkspaceEntry]


class TokenEntry(Resource):
    """An API token; the token itself is told once, when it is created.

    It can do what its user can, within `scopes` (null is all) and, where one is named, in
    `workspace` alone. `last_used_at` is right to a minute.
    """

    id: UUID
    name: str
    user: str
    workspace: str | None
    scopes: list[Permission] | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class CreateToken(Request):
    """`POST /api/v1/tokens`: for oneself; `expires_in_days` null is for ever.

    No token can do more, or live longer, than the one that it is created with.
    """

    model_config = with_example(
        name="ci", scopes=["read", "run"], workspace="lab", expires_in_days=30
    )

    name: Annotated[str, Field(min_length=1, max_length=100)]
    workspace: WorkspaceSlug | None = None
    scopes: Annotated[list[Permission], Field(min_length=1)] | None = None
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = 90


class CreatedToken(TokenEntry):
    """A token just created; `token` is told now and never again."""

    token: str = Field(repr=False)


class SignIn(Request):
    """`POST /api/v1/session`: by user (name or e-mail address) and password, or by a token."""

    model_config = with_example(
        user="ada",
        password="a long passphrase",  # noqa: S106  an example
    )

    user: Annotated[str, Field(max_length=320)] | None = None
    password: Annotated[str, Field(max_length=200)] | None = Field(default=None, repr=False)
    token: Annotated[str, Field(max_length=200)] | None = Field(default=None, repr=False)


class StartDeviceLogin(Request):
    """`POST /api/v1/device`: a device that has no browser asks to be signed in (RFC 8628)."""

    model_config = with_example(device_name="laptop")

    device_name: Annotated[str, Field(min_length=1, max_length=200)] = "a device"


class DeviceLogin(Resource):
    """What the device shows (`user_code` and address) and asks with (`device_code`)."""

    device_code: str = Field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class PollDevice(Request):
    """`POST /api/v1/device/token`."""

    model_config = with_example(device_code="what the device was told")

    device_code: Annotated[str, Field(max_length=200)] = Field(repr=False)


class PendingDevice(Resource):
    """A device that waits to be signed in."""

    user_code: str
    device_name: str
    expires_at: datetime


class DecideDevice(Request):
    """`POST /api/v1/device/decision`: let the device with this code in, or not."""

    model_config = with_example(user_code="BCDF-GHJK", approve=True)

    user_code: Annotated[str, Field(max_length=20)]
    approve: bool


class AuditEntry(Resource):
    """An administrative act; `workspace` is `installation` where it concerns all of it."""

    sequence: int
    workspace: str
    at: datetime
    actor: str
    act: str
    target: str
    details: dict[str, str]
    request_id: UUID


class AuditPage(Resource):
    """Acts, the newest first; `next_before` is the sequence to go on from."""

    items: list[AuditEntry]
    next_before: int | None
