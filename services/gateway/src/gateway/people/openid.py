"""Signing in through an OpenID Connect provider: authorization code with PKCE and a nonce.

The state of a sign-in lies in a cookie of the browser that began it, for ten minutes.
"""

import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from fastapi import Depends, Request
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.audit_events import INSTALLATION
from assay_contracts.identity import Role
from assay_contracts.problems import ProblemCode
from gateway.desk import Desk
from gateway.people import queries
from gateway.problems import ProblemError, unavailable

STATE_COOKIE = "assay-openid"
STATE_SECONDS = 600
_TIMEOUT_SECONDS = 10.0
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_LEEWAY_SECONDS = 60
_SCOPE = "openid email profile"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OpenIdProvider:
    """Who is asked, and what becomes of users that it knows and we do not.

    `name` stands on the button. A user that is not known here is created as a member of
    `workspace`; where that is None, an operator has to create it first.
    """

    name: str
    issuer: str
    client_id: str
    client_secret_file: Path | None
    workspace: str | None
    role: Role


@dataclass(frozen=True)
class SignInState:
    """What has to come back, and where to go on to."""

    state: str
    nonce: str
    verifier: str
    next: str

    @classmethod
    def begin(cls, wanted: str) -> "SignInState":
        """A fresh one."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, wanted)

    def as_cookie(self) -> str:
        """As a cookie's value."""
        return urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def of_cookie(cls, cookie: str | None) -> "SignInState":
        """From the cookie.

        Raises:
            ProblemError: there is none, or it is damaged.
        """
        try:
            return cls(**json.loads(urlsafe_b64decode(cookie or "")))
        except (ValueError, TypeError) as error:
            raise _refused("the sign-in took too long, or began elsewhere; try again") from error


def openid_of(request: Request) -> OpenIdProvider | None:
    """The provider of this installation, if it has one."""
    provider: OpenIdProvider | None = request.app.state.openid
    return provider


OpenIdNow = Annotated[OpenIdProvider | None, Depends(openid_of)]


async def authorization_address(
    provider: OpenIdProvider, state: SignInState, return_to: str
) -> str:
    """Where the browser is sent to.

    Raises:
        ProblemError: the provider does not answer.
    """
    async with _http() as http:
        found = await _discovered(provider, http)
    async with _client(provider, return_to) as client:
        address, _ = client.create_authorization_url(
            found.authorization_endpoint,
            state=state.state,
            nonce=state.nonce,
            code_verifier=state.verifier,
        )
    return str(address)


async def proven_user(
    provider: OpenIdProvider, state: SignInState, returned: str, return_to: str, desk: Desk
) -> str:
    """The user that the provider sends back, created or linked where it is new.

    Args:
        provider: who was asked.
        state: what the sign-in began with.
        returned: the whole address that the browser came back to.
        return_to: the address that it was asked to come back to.
        desk: where users are.

    Raises:
        ProblemError: it was refused there, or here.
    """
    claims = await _claims(provider, state, returned, return_to)
    async with desk.acting() as connection:
        user = await _known_user(connection, provider, claims, desk)
    desk.directory.forget()
    return user


async def _claims(
    provider: OpenIdProvider, state: SignInState, returned: str, return_to: str
) -> dict[str, Any]:
    async with _http() as http:
        found = await _discovered(provider, http)
        keys = await _told(provider, http, found.jwks_uri, _Keys)
    try:
        async with _client(provider, return_to) as client:
            tokens = await client.fetch_token(
                found.token_endpoint,
                authorization_response=returned,
                state=state.state,
                code_verifier=state.verifier,
                grant_type="authorization_code",
            )
        token = jwt.decode(
            tokens["id_token"], KeySet.import_key_set({"keys": keys.keys}), algorithms=_ALGORITHMS
        )
        jwt.JWTClaimsRegistry(
            now=int(time.time()),
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": provider.issuer},
            aud={"essential": True, "value": provider.client_id},
            sub={"essential": True, "allow_blank": False},
            exp={"essential": True},
            nonce={"essential": True, "value": state.nonce},
        ).validate(token.claims)
    except (AuthlibBaseError, JoseError, KeyError, ValueError) as error:
        log.warning("openid-refused", error=type(error).__name__)
        raise _refused(f"{provider.name} did not prove who you are; try again") from error
    except httpx.HTTPError as error:
        raise _away(provider) from error
    return dict(token.claims)


async def _known_user(
    connection: AsyncConnection, provider: OpenIdProvider, claims: dict[str, Any], desk: Desk
) -> str:
    known = await queries.find_subject(connection, provider.issuer, claims["sub"])
    if known is None:
        known = await _linked_or_created(connection, provider, claims, desk)
    if known["disabled_at"] is not None:
        raise _refused("the account is disabled; ask an operator")
    return str(known["name"])


async def _linked_or_created(
    connection: AsyncConnection, provider: OpenIdProvider, claims: dict[str, Any], desk: Desk
) -> Any:
    email = str(claims.get("email", "")).lower()
    if not email or claims.get("email_verified") is not True:
        raise _refused(f"{provider.name} has not verified your e-mail address")
    subject = {"issuer": provider.issuer, "subject": claims["sub"]}
    known = await queries.find_email(connection, email)
    if known is not None and known["subject"] is not None:
        raise _refused("the e-mail address belongs to another account; ask an operator")
    if known is None and provider.workspace is None:
        raise _refused("you have no account here yet; ask an operator for one")
    if known is None:
        name = await _free_name(connection, email)
        now = datetime.now(UTC)
        is_added = await queries.add_user(
            connection,
            {
                "name": name,
                "email": email,
                "display_name": str(claims.get("name") or name)[:200],
                "operator": False,
                "created_at": now,
                "created_by": provider.name,
            },
        )
        if not is_added:  # somebody else came first, and may be another person
            raise _refused("another sign-in was under way at the same moment; try again")
        if provider.workspace is not None:
            await queries.set_member(connection, provider.workspace, name, provider.role, now)
    else:
        name = known["name"]
    await queries.change_user(connection, name, subject)
    await desk.audit.tell_of(
        connection,
        name,
        None,
        "user-created" if known is None else "user-linked",
        name,
        {"issuer": provider.issuer},
        INSTALLATION,
    )
    return await queries.find_user(connection, name)


async def _free_name(connection: AsyncConnection, email: str) -> str:
    """A user name from an e-mail address that nobody has."""
    local = email.split("@", 1)[0]
    letters = "".join(one if one.isalnum() or one in "._-" else "-" for one in local)
    base = (letters.encode("ascii", "ignore").decode().lstrip("._-") or "user")[:50]
    name, number = base, 1
    while await queries.find_user(connection, name) is not None:
        number += 1
        name = f"{base}-{number}"
    return name


def _client(provider: OpenIdProvider, return_to: str) -> AsyncOAuth2Client:
    secret_file = provider.client_secret_file
    return AsyncOAuth2Client(
        client_id=provider.client_id,
        client_secret=None if secret_file is None else secret_file.read_text().strip(),
        token_endpoint_auth_method="none" if secret_file is None else "client_secret_basic",
        scope=_SCOPE,
        redirect_uri=return_to,
        code_challenge_method="S256",
        timeout=_TIMEOUT_SECONDS,
    )


def _http() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_TIMEOUT_SECONDS)


class _Discovery(BaseModel):
    """What a provider says of itself, as far as it is needed (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class _Keys(BaseModel):
    """The keys that a provider signs with (RFC 7517)."""

    keys: list[dict[str, Any]]


async def _discovered(provider: OpenIdProvider, http: httpx.AsyncClient) -> _Discovery:
    address = provider.issuer.rstrip("/") + "/.well-known/openid-configuration"
    found = await _told(provider, http, address, _Discovery)
    if found.issuer != provider.issuer:
        raise _refused("the provider's issuer is not the one that was set up; ask an operator")
    return found


async def _told[Shape: BaseModel](
    provider: OpenIdProvider, http: httpx.AsyncClient, address: str, shape: type[Shape]
) -> Shape:
    try:
        return shape.model_validate_json((await http.get(address)).raise_for_status().content)
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
        log.warning("openid-away", address=address, error=type(error).__name__)
        raise _away(provider) from error


def _away(provider: OpenIdProvider) -> ProblemError:
    return unavailable(f"{provider.name} does not answer; try again in a moment")


def _refused(detail: str) -> ProblemError:
    return ProblemError(ProblemCode.AUTH_REQUIRED, 401, detail)
