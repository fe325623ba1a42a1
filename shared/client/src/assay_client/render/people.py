"""How people look: who one is, tokens, users, workspaces, and what was done by whom."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import RenderableType

from assay_client.render import values
from assay_client.render.output import Frame, facts, table, text
from assay_client.render.paging import more
from assay_contracts.http import (
    AuditPage,
    CreatedToken,
    CreatedUser,
    Invitation,
    MemberEntry,
    Page,
    TokenEntry,
    UserEntry,
    Whoami,
    WorkspaceEntry,
)

View = Iterator[RenderableType]


def who(me: Whoami, server: str) -> View:
    """Who one is, and what one may do where."""
    rows: list[tuple[str, object]] = [
        ("User", f"{me.display_name} ({me.user}, {me.email})"),
        ("Server", server),
    ]
    if me.operator:
        rows.append(("Operator", "yes: may do everything"))
    if me.scopes is not None:
        rows.append(("Scopes", ", ".join(me.scopes)))
    if me.expires_at is not None:
        rows.append(("Until", values.moment(me.expires_at)))
    roles = ", ".join(f"{one.name} ({one.role})" for one in me.workspaces)
    rows.append(("Workspaces", roles or "none yet; ask an admin of one"))
    yield facts(rows)


def token_list(page: Page[TokenEntry], frame: Frame) -> View:
    """Tokens, without what they are."""
    if not page.items:
        yield text("No tokens yet; create one with: assay token create NAME")
        return
    drawn = table("Name", "Id", "Workspace", "Scopes", "Created", "Last used", "Until")
    for token in page.items:
        drawn.add_row(
            text(token.name),
            text(token.id),
            text(token.workspace or "every one"),
            text("all" if token.scopes is None else ", ".join(token.scopes)),
            text(values.age(token.created_at, frame.now)),
            text(values.age(token.last_used_at, frame.now)),
            text(_until(token.expires_at, frame.now)),
        )
    yield drawn
    yield from more(page)


def _until(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "for ever"
    return "expired" if at <= now else values.moment(at)


def new_token(token: CreatedToken, _: Frame) -> View:
    """A token, the one time that it is shown."""
    yield text(token.token, "bold")
    yield text("Keep it now: it is not shown again", "dim")


def user_list(found: Page[UserEntry] | UserEntry, frame: Frame) -> View:
    """Users, or one."""
    users = [found] if isinstance(found, UserEntry) else found.items
    drawn = table("Name", "Display name", "E-mail", "Operator", "State", "Created")
    for user in users:
        drawn.add_row(
            text(user.name),
            text(user.display_name),
            text(user.email),
            text("yes" if user.operator else ""),
            text(_state(user)),
            text(values.age(user.created_at, frame.now)),
        )
    yield drawn
    if isinstance(found, Page):
        yield from more(found)


def _state(user: UserEntry) -> str:
    if user.disabled_at is not None:
        return "disabled"
    return "active" if user.has_password else "no password"


def new_user(user: CreatedUser, frame: Frame) -> View:
    """A user just created."""
    yield text(f"Created {user.name}")
    yield from invitation(user.invitation, frame)


def invitation(invited: Invitation, _: Frame) -> View:
    """An invitation, the one time that it is shown."""
    yield text(f"Pass on to {invited.user}, once and in private:")
    yield facts(
        [
            ("Page", invited.address),
            ("Code", invited.code),
            ("Until", values.moment(invited.expires_at)),
        ]
    )


def workspace_list(found: Page[WorkspaceEntry] | WorkspaceEntry, frame: Frame) -> View:
    """Workspaces, or one."""
    workspaces = [found] if isinstance(found, WorkspaceEntry) else found.items
    if not workspaces:
        yield text("You are a member of no workspace yet; ask an admin of one")
        return
    drawn = table("Name", "You are", "Repository", "Created", "By")
    for one in workspaces:
        drawn.add_row(
            text(one.name),
            text(one.role or values.MISSING),
            text(one.repository or values.MISSING),
            text(values.age(one.created_at, frame.now)),
            text(one.created_by),
        )
    yield drawn


def member_list(found: Page[MemberEntry] | MemberEntry, frame: Frame) -> View:
    """Members of a workspace, or one."""
    members = [found] if isinstance(found, MemberEntry) else found.items
    drawn = table("User", "Display name", "E-mail", "Role", "Since")
    for one in members:
        drawn.add_row(
            text(one.user),
            text(one.display_name),
            text(one.email),
            text(one.role),
            text(values.age(one.since, frame.now)),
        )
    yield drawn


def audit_page(page: AuditPage, frame: Frame) -> View:
    """Acts, the newest first."""
    if not page.items:
        yield text("Nothing of the kind was done")
        return
    drawn = table("When", "Workspace", "Who", "Did", "To", "Details")
    for act in page.items:
        details = ", ".join(f"{name}: {value}" for name, value in act.details.items())
        drawn.add_row(
            text(values.age(act.at, frame.now)),
            text(act.workspace),
            text(act.actor),
            text(act.act),
            text(act.target),
            text(details or values.MISSING),
        )
    yield drawn
    if page.next_before is not None:
        yield text(f"There is more: --before {page.next_before}", "dim")
