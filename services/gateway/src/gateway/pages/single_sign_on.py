"""The two addresses between which a browser signs in through an OpenID provider."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from gateway.desk import DeskNow
from gateway.pages.accounts import local
from gateway.pages.rendering import rendered
from gateway.people import sessions
from gateway.people.addresses import PublicAddress, is_encrypted
from gateway.people.openid import (
    STATE_COOKIE,
    STATE_SECONDS,
    OpenIdNow,
    SignInState,
    authorization_address,
    proven_user,
)
from gateway.problems import ProblemError, not_found

router = APIRouter(prefix="/sign-in/openid", include_in_schema=False)

_SEE_OTHER = 303
_RETURN = "/sign-in/openid/return"


@router.get("")
async def begin(
    request: Request,
    provider: OpenIdNow,
    address: PublicAddress,
    next: str = "/",  # noqa: A002
) -> Response:
    """Send the browser to the provider."""
    if provider is None:
        raise not_found("this installation has no OpenID provider")
    state = SignInState.begin(local(next))
    try:
        there = await authorization_address(provider, state, address + _RETURN)
    except ProblemError as error:
        return _failed(provider.name, error)
    answer = RedirectResponse(there, _SEE_OTHER)
    answer.set_cookie(
        STATE_COOKIE,
        state.as_cookie(),
        max_age=STATE_SECONDS,
        path="/sign-in/openid",
        httponly=True,
        samesite="lax",
        secure=is_encrypted(request),
    )
    return answer


@router.get("/return")
async def come_back(
    request: Request, provider: OpenIdNow, address: PublicAddress, desk: DeskNow
) -> Response:
    """Sign in whom the provider sends back."""
    if provider is None:
        raise not_found("this installation has no OpenID provider")
    try:
        state = SignInState.of_cookie(request.cookies.get(STATE_COOKIE))
        returned = f"{address}{_RETURN}?{request.url.query}"
        user = await proven_user(provider, state, returned, address + _RETURN, desk)
        answer = RedirectResponse(local(state.next), _SEE_OTHER)
        await sessions.begin(user, "signed-in", request, answer, desk)
    except ProblemError as error:
        return _failed(provider.name, error)
    answer.delete_cookie(STATE_COOKIE, path="/sign-in/openid")
    return answer


def _failed(name: str, error: ProblemError) -> Response:
    said = error.problem.detail
    return rendered(
        "sign_in.html",
        error.problem.status,
        openid=name,
        next="/",
        user=None,
        problem=said[:1].upper() + said[1:] + ".",
    )
