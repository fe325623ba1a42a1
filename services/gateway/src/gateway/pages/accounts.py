"""The pages on which people sign in, set a password, and let devices in."""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from pydantic import TypeAdapter, ValidationError
from starlette.responses import RedirectResponse, Response

from assay_contracts.http import AcceptInvitation, PendingDevice, SignIn, Whoami
from gateway.access import SESSION_COOKIE, Somebody, require_own_pages
from gateway.desk import Desk, DeskNow
from gateway.pages.rendering import STYLESHEET, rendered, stylesheet
from gateway.people import devices, sessions
from gateway.people.openid import OpenIdNow
from gateway.problems import ProblemError

router = APIRouter(include_in_schema=False)

_SEE_OTHER = 303
_OWN_ADDRESS = re.compile(r"/(?![/\\])[^\x00-\x20\x7f]*")
"""A path: browsers take `//` and `/\\` for another site, and pass over control characters."""

_INVITATION: TypeAdapter[AcceptInvitation] = TypeAdapter(AcceptInvitation)
Field = Annotated[str, Form(max_length=320)]
MaybeField = Annotated[str | None, Form(max_length=320)]


@router.get(f"/assets/{STYLESHEET}")
async def style() -> Response:
    """The style sheet of every page."""
    return stylesheet()


@router.get("/")
async def home(request: Request, desk: DeskNow) -> Response:
    """Who one is, for who is signed in."""
    me = await _me(request, desk)
    return _sign_in_first("/") if me is None else rendered("home.html", me=me)


@router.get("/sign-in")
async def sign_in_page(openid: OpenIdNow, next: str = "/") -> Response:  # noqa: A002
    """The form to sign in with."""
    return _sign_in(openid.name if openid else None, next)


@router.post("/sign-in")
async def sign_in(
    request: Request,
    desk: DeskNow,
    openid: OpenIdNow,
    user: MaybeField = None,
    password: MaybeField = None,
    token: MaybeField = None,
    next: MaybeField = None,  # noqa: A002
) -> Response:
    """Sign in, and go on to where one wanted to."""
    answer = RedirectResponse(local(next or "/"), _SEE_OTHER)
    try:
        given = SignIn(user=user, password=password, token=token)
        await sessions.sign_in(given, request, answer, desk)
    except (ProblemError, ValidationError) as error:
        name = openid.name if openid else None
        return _sign_in(name, next or "/", user=user, problem=_told(error))
    return answer


@router.get("/sign-in/invitation")
async def invitation_page() -> Response:
    """The form to set a password with."""
    return rendered("invitation.html")


@router.post("/sign-in/invitation")
async def accept(request: Request, desk: DeskNow, code: Field, password: Field) -> Response:
    """Set a password with an invitation's code, and sign in."""
    answer = RedirectResponse("/", _SEE_OTHER)
    try:
        given = _INVITATION.validate_python({"code": code.strip(), "password": password})
        await sessions.accept(given, request, answer, desk)
    except (ProblemError, ValidationError) as error:
        return rendered("invitation.html", 422, problem=_told(error))
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, desk: DeskNow) -> Response:
    """End the session."""
    require_own_pages(request)
    answer = RedirectResponse("/sign-in", _SEE_OTHER)
    asking = await signed_in(request, desk)
    if asking is not None:
        await sessions.sign_out(asking, answer, desk)
    return answer


@router.get("/device")
async def device_page(request: Request, desk: DeskNow, code: str = "") -> Response:
    """Ask for a device's code, or show the device that has it."""
    me = await _me(request, desk)
    if me is None:
        return _sign_in_first(f"/device?code={quote(code)}" if code else "/device")
    if not code:
        return _device(me)
    try:
        found = await devices.pending(code, desk)
    except ProblemError as error:
        return _device(me, problem=_told(error), status=404)
    return _device(me, device=found)


@router.post("/device")
async def decide(request: Request, desk: DeskNow, user_code: Field, decision: Field) -> Response:
    """Let a device in, or turn it away."""
    require_own_pages(request)
    me, asking = await _me(request, desk), await signed_in(request, desk)
    if me is None or asking is None:
        return _sign_in_first(f"/device?code={quote(user_code)}")
    approve = decision == "approve"
    try:
        found = await devices.decide_on(user_code, asking, desk, approve=approve)
    except ProblemError as error:
        return _device(me, problem=_told(error), status=error.problem.status)
    said = "is let in" if approve else "was turned away"
    return _device(me, done=f"{found.device_name} {said}.")


async def signed_in(request: Request, desk: Desk) -> Somebody | None:
    """Whose browser asks; None where it is nobody's."""
    cookie = request.cookies.get(SESSION_COOKIE)
    if cookie is None:
        return None
    try:
        identity = await desk.directory.by_session(cookie)
    except ProblemError:
        return None
    return Somebody(identity, request.state.request_id)


async def _me(request: Request, desk: Desk) -> Whoami | None:
    asking = await signed_in(request, desk)
    return None if asking is None else await sessions.described(asking, desk)


def local(address: str) -> str:
    """An address of our own, whatever was given: nobody is sent on to another site."""
    return address if _OWN_ADDRESS.fullmatch(address) else "/"


def _sign_in_first(wanted: str) -> Response:
    return RedirectResponse(f"/sign-in?next={quote(wanted)}", _SEE_OTHER)


def _sign_in(
    openid: str | None, wanted: str, *, user: str | None = None, problem: str | None = None
) -> Response:
    return rendered(
        "sign_in.html",
        401 if problem else 200,
        openid=openid,
        next=local(wanted),
        user=user,
        problem=problem,
    )


def _device(
    me: Whoami,
    *,
    device: PendingDevice | None = None,
    done: str | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    return rendered("device.html", status, me=me, device=device, done=done, problem=problem)


def _told(error: ProblemError | ValidationError) -> str:
    if isinstance(error, ProblemError):
        said = error.problem.detail
    else:
        first = error.errors(include_input=False, include_url=False)[0]
        said = f"{first['loc'][-1]}: {first['msg']}"
    return said[:1].upper() + said[1:] + "."
