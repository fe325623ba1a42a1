"""Signing in and out: a browser's session, passwords, and who one is."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from assay_contracts.audit_events import INSTALLATION
from assay_contracts.http import AcceptInvitation, ChangePassword, SignIn, Whoami
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from gateway.access import (
    ADMIN,
    SESSION_COOKIE,
    Somebody,
    SomebodyNow,
    Tokens,
    is_admin_token,
    require_own_pages,
)
from gateway.desk import Desk, DeskNow
from gateway.people import queries
from gateway.people.addresses import is_encrypted
from gateway.people.attempts import Attempts
from gateway.people.credentials import (
    SESSION_LIFETIME,
    hash_password,
    hashed,
    is_password,
    new_code,
)
from gateway.people.tokens import revoke_own
from gateway.problems import ProblemError, conflict, invalid
from gateway.rate_limits import network_of

router = APIRouter(prefix="/session", tags=["session"])


@router.get("", summary="Who am I?")
async def whoami(asking: SomebodyNow, desk: DeskNow) -> Whoami:
    """Who you are, how far what you ask with reaches, and what you are in each workspace."""
    return await described(asking, desk)


@router.post("", summary="Sign in")
async def sign_in(body: SignIn, request: Request, response: Response, desk: DeskNow) -> Whoami:
    """By user and password, or by a token; the answer sets the cookie of a session."""
    _refuse_other_sites(request)
    user = await _proven(body, request, desk)
    return await begin(user, "signed-in", request, response, desk)


@router.post("/invitation", summary="Set a password with an invitation")
async def accept(
    body: AcceptInvitation, request: Request, response: Response, desk: DeskNow
) -> Whoami:
    """An invitation's code is good once; the answer sets the cookie of a session."""
    _refuse_other_sites(request)
    kept, now = await hash_password(body.password), datetime.now(UTC)
    async with desk.acting() as connection:
        user = await queries.take_invitation(connection, hashed(body.code), now)
        if user is None:
            raise ProblemError(
                ProblemCode.AUTH_REQUIRED,
                401,
                "the invitation is not good (any more); ask an operator for another",
            )
        await queries.change_user(connection, user, {"password": kept})
        await queries.end_sessions(connection, user)
    desk.directory.forget()
    return await begin(user, "password-set", request, response, desk)


@router.put("/password", status_code=204, summary="Change your password")
async def change_password(
    body: ChangePassword, asking: SomebodyNow, request: Request, desk: DeskNow
) -> None:
    """Every other session of yours ends. Wrong passwords count as failed attempts to sign in."""
    attempts: Attempts = request.app.state.attempts
    network = network_of(request.scope.get("client"))
    attempts.require_few(asking.user, network)
    async with desk.acting() as connection:
        row = await queries.find_user(connection, asking.user)
    if row is None or not await is_password(body.current, row["password"]):
        attempts.failed(asking.user, network)
        raise invalid([ConfigIssue(key="current", message="is not your password")])
    kept = await hash_password(body.new)
    async with desk.acting() as connection:
        await queries.change_user(connection, asking.user, {"password": kept})
        await queries.end_sessions(connection, asking.user, keep=asking.identity.session)
        await desk.audit.tell(
            connection, asking, "password-changed", asking.user, workspace=INSTALLATION
        )
    desk.directory.forget()


@router.delete("", status_code=204, summary="Sign out")
async def sign_out(asking: SomebodyNow, response: Response, desk: DeskNow) -> None:
    """Ends the session, or revokes the token, that you ask with."""
    if asking.identity.session is None:
        await revoke_own(asking, desk)
        return
    async with desk.acting() as connection:
        await queries.end_session(connection, asking.identity.session)
        await desk.audit.tell(connection, asking, "signed-out", asking.user, workspace=INSTALLATION)
    desk.directory.forget()
    response.delete_cookie(SESSION_COOKIE, path="/")


def _refuse_other_sites(request: Request) -> None:
    """A page of another site must not sign a browser in; programs say nothing of sites."""
    if any(name in request.headers for name in ("origin", "sec-fetch-site")):
        require_own_pages(request)


async def _proven(body: SignIn, request: Request, desk: Desk) -> str:
    """The user that signs in.

    Raises:
        ProblemError: what was given proves nobody, or too much was tried before.
    """
    tokens: Tokens = request.app.state.tokens
    if body.token is not None:
        if is_admin_token(body.token, tokens):
            return ADMIN
        identity = await desk.directory.by_token(body.token)
        if identity.scopes is not None or identity.workspace is not None:
            raise conflict("a token that is cut to scopes or a workspace opens no session")
        return identity.user
    if body.user is None or body.password is None:
        raise invalid([ConfigIssue(key="body", message="needs user and password, or a token")])
    attempts: Attempts = request.app.state.attempts
    network = network_of(request.scope.get("client"))
    async with desk.acting() as connection:
        row = await queries.find_sign_in(connection, body.user)
    # By name or by address, it is the same user whose password is tried.
    name = body.user if row is None else str(row["name"])
    attempts.require_few(name, network)
    if not await is_password(body.password, None if row is None else row["password"]) or not row:
        attempts.failed(name, network)
        raise ProblemError(
            ProblemCode.AUTH_REQUIRED,
            401,
            "the user or the password is not right; after ten failures one has to wait",
        )
    return name


async def begin(user: str, act: str, request: Request, response: Response, desk: Desk) -> Whoami:
    """Begin a session of a user that has proven who it is; its cookie goes into `response`."""
    cookie, now = new_code(), datetime.now(UTC)
    async with desk.acting() as connection:
        await queries.add_session(connection, hashed(cookie), user, now, now + SESSION_LIFETIME)
        await desk.audit.tell_of(
            connection, user, request.state.request_id, act, user, None, INSTALLATION
        )
    response.set_cookie(
        SESSION_COOKIE,
        cookie,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        path="/",
        httponly=True,
        samesite="lax",
        secure=is_encrypted(request),
    )
    identity = await desk.directory.by_session(cookie)
    return await described(Somebody(identity, request.state.request_id), desk)


async def described(asking: Somebody, desk: Desk) -> Whoami:
    """Somebody, as it is told to itself."""
    identity = asking.identity
    async with desk.acting() as connection:
        row = await queries.find_user(connection, asking.user)
        seen = await queries.workspaces_seen(connection, identity)
    if row is None:
        raise RuntimeError("a user that was just found is gone")
    return Whoami(
        user=asking.user,
        email=row["email"],
        display_name=row["display_name"],
        operator=identity.operator,
        token_id=identity.token_id,
        expires_at=identity.expires_at,
        scopes=None if identity.scopes is None else sorted(identity.scopes),
        workspaces=seen,
    )
