"""Signing in through an OpenID Connect provider: a real one, on a port of this machine."""

import asyncio
import base64
import hashlib
import time
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Form, Request
from joserfc import jwt
from joserfc.jwk import RSAKey
from sqlalchemy import insert, select
from starlette.responses import JSONResponse, RedirectResponse

from assay_contracts.identity import Role
from assay_local.embedded import free_port
from gateway.app import build_app
from gateway.people.openid import OpenIdProvider
from gateway.tables import members, users


class Provider:
    """An OpenID provider with one user, whose claims a test can change."""

    def __init__(self, port):
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = RSAKey.generate_key(2048, parameters={"kid": "one"})
        self.signing_key = self.key
        self.claims = {"sub": "42", "email": "Ada@Example.org", "email_verified": True}
        self.overrides = {}
        self.nonsense = {}
        self.codes = {}
        self.app = FastAPI()
        self.app.get("/.well-known/openid-configuration")(self.configuration)
        self.app.get("/keys")(self.keys)
        self.app.get("/authorize")(self.authorize)
        self.app.post("/token")(self.token)

    async def configuration(self):
        return self.nonsense.get("configuration", self._configuration())

    def _configuration(self):
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    async def keys(self):
        return self.nonsense.get("keys", {"keys": [self.key.as_dict(private=False)]})

    async def authorize(self, request: Request):
        asked = dict(request.query_params)
        code = uuid4().hex
        self.codes[code] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?code={code}&state={asked['state']}")

    async def token(
        self,
        request: Request,
        code: str = Form(),
        code_verifier: str = Form(),
        redirect_uri: str = Form(),
    ):
        asked = self.codes.pop(code, None)
        digest = hashlib.sha256(code_verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        basic = base64.b64encode(b"assay:the-secret").decode()
        if (
            asked is None
            or challenge != asked["code_challenge"]
            or redirect_uri != asked["redirect_uri"]
            or request.headers["authorization"] != f"Basic {basic}"
        ):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        claims = {
            "iss": self.issuer,
            "aud": "assay",
            "exp": int(time.time()) + 60,
            "iat": int(time.time()),
            "nonce": asked["nonce"],
            **self.claims,
            **self.overrides,
        }
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signing_key)
        return {"access_token": "x", "token_type": "Bearer", "id_token": signed}


@pytest.fixture
async def provider():
    port = free_port()
    made = Provider(port)
    server = uvicorn.Server(uvicorn.Config(made.app, port=port, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        while not server.started:
            await asyncio.sleep(0.01)
    yield made
    server.should_exit = True
    await serving


def browser_of(stage, provider, tmp_path, **changes):
    """A browser at a gateway that asks the provider."""
    secret = tmp_path / "openid-secret"
    secret.write_text("the-secret\n")
    settings = {
        "name": "Example",
        "issuer": provider.issuer,
        "client_id": "assay",
        "client_secret_file": secret,
        "workspace": "default",
        "role": Role.VIEWER,
    }
    app = build_app(
        stage.desk,
        stage.app.state.tokens,
        stage.closing,
        openid=OpenIdProvider(**(settings | changes)),
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")


async def sign_in(browser, change_return=lambda address: address):
    """What a browser does from the button on."""
    begun = await browser.get("/sign-in/openid", params={"next": "/device"})
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as elsewhere:
        sent_back = await elsewhere.get(begun.headers["location"])
    return await browser.get(change_return(sent_back.headers["location"]))


async def test_a_new_user_becomes_a_member_and_the_same_user_comes_back(stage, provider, tmp_path):
    async with browser_of(stage, provider, tmp_path) as browser:
        assert "Sign in with Example" in (await browser.get("/sign-in")).text
        answer = await sign_in(browser)
        assert (answer.status_code, answer.headers["location"]) == (303, "/device")
        assert "Hello, ada" in (await browser.get("/")).text
    provider.claims["email"] = "ada.new@example.org"
    async with browser_of(stage, provider, tmp_path) as browser:
        assert (await sign_in(browser)).status_code == 303
        assert "Hello, ada" in (await browser.get("/")).text
    async with stage.engine.connect() as connection:
        known = (await connection.execute(select(users).where(users.c.name != "admin"))).one()
        assert (known.name, known.email, known.subject) == ("ada", "ada@example.org", "42")
        member = (await connection.execute(select(members).where(members.c.user == "ada"))).one()
        assert (member.workspace, member.role) == ("default", "viewer")


async def test_a_user_that_an_operator_created_is_linked_by_its_verified_address(
    stage, provider, tmp_path
):
    await stage.person("lovelace", other="admin")
    provider.claims["email"] = "lovelace@example.org"
    async with browser_of(stage, provider, tmp_path, workspace=None) as browser:
        assert (await sign_in(browser)).status_code == 303
        assert "Hello, lovelace" in (await browser.get("/")).text


@pytest.mark.parametrize(
    "overrides",
    [
        {"iss": "http://evil.example"},
        {"aud": "another"},
        {"exp": 1},
        {"nonce": "replayed"},
        {"sub": ""},
        {"email_verified": False},
        {"email": ""},
    ],
)
async def test_a_token_that_proves_nothing_lets_nobody_in(stage, provider, tmp_path, overrides):
    provider.overrides = overrides
    async with browser_of(stage, provider, tmp_path) as browser:
        answer = await sign_in(browser)
        assert answer.status_code == 401, answer.text
        assert "assay-session" not in browser.cookies
    async with stage.engine.connect() as connection:
        assert len((await connection.execute(select(users))).all()) == 1


async def test_a_token_signed_by_somebody_else_lets_nobody_in(stage, provider, tmp_path):
    provider.signing_key = RSAKey.generate_key(2048, parameters={"kid": "one"})
    async with browser_of(stage, provider, tmp_path) as browser:
        assert (await sign_in(browser)).status_code == 401


async def test_only_the_browser_that_began_can_end_it(stage, provider, tmp_path):
    async with browser_of(stage, provider, tmp_path) as browser:
        forged = await sign_in(browser, lambda address: address.replace("state=", "state=x"))
        assert forged.status_code == 401
    async with (
        browser_of(stage, provider, tmp_path) as mine,
        browser_of(stage, provider, tmp_path) as another,
    ):
        begun = await mine.get("/sign-in/openid")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        async with httpx.AsyncClient() as elsewhere:
            back = (await elsewhere.get(begun.headers["location"])).headers["location"]
        assert (await another.get(back)).status_code == 401


async def test_without_a_workspace_for_new_users_an_operator_has_to_create_them(
    stage, provider, tmp_path
):
    async with browser_of(stage, provider, tmp_path, workspace=None) as browser:
        answer = await sign_in(browser)
        assert answer.status_code == 401
        assert "ask an operator" in answer.text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("configuration", {}),
        ("configuration", []),
        ("configuration", {"issuer": 3}),
        ("keys", {}),
        ("keys", {"keys": ["x"]}),
        ("keys", {"keys": [{"kty": "odd"}]}),
        ("keys", {"keys": [{"kty": "RSA", "kid": "one", "n": "%", "e": "AQAB"}]}),
    ],
)
async def test_a_provider_that_says_nonsense_lets_nobody_in(stage, provider, tmp_path, name, told):
    provider.nonsense[name] = told
    async with browser_of(stage, provider, tmp_path) as browser:
        begun = await browser.get("/sign-in/openid")
        if name == "configuration":
            assert begun.status_code == 503
            return
        answer = await sign_in(browser)
        assert answer.status_code in {401, 503}, answer.text
        assert "assay-session" not in browser.cookies


async def test_a_provider_that_is_away_is_said_to_be(stage, provider, tmp_path):
    away = f"http://127.0.0.1:{free_port()}"
    async with browser_of(stage, provider, tmp_path, issuer=away) as browser:
        answer = await browser.get("/sign-in/openid")
        assert answer.status_code == 503
        assert "does not answer" in answer.text


async def test_two_new_users_of_one_name_at_once_are_not_taken_for_each_other(
    stage, provider, tmp_path
):
    async with browser_of(stage, provider, tmp_path) as browser:
        async with stage.engine.begin() as first:
            await first.execute(
                insert(users).values(
                    name="ada",
                    email="ada@elsewhere.example",
                    display_name="another Ada",
                    operator=False,
                    issuer=provider.issuer,
                    subject="41",
                    created_at=datetime.now(UTC),
                    created_by="Example",
                )
            )
            second = asyncio.create_task(sign_in(browser))
            await stage.somebody_waits()
        assert (await second).status_code == 401
        assert "assay-session" not in browser.cookies
        answer = await sign_in(browser)
        assert answer.status_code == 303
        assert "Hello, ada-2" in (await browser.get("/")).text
    async with stage.engine.connect() as connection:
        known = await connection.execute(select(users.c.name, users.c.subject))
        assert dict(tuple(row) for row in known) == {"admin": None, "ada": "41", "ada-2": "42"}
