"""Signing in: by password, invitation, token and device; sessions, and what other sites may not."""

import re
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import update

from assay_contracts.http import CreatedToken, DeviceLogin, Whoami
from gateway.app import build_app
from gateway.people.credentials import hashed
from gateway.tables import device_logins

PASSWORD = "correct horse battery"
OWN = {"origin": "http://gateway"}


@pytest.fixture
async def ada(stage, http):
    """A member with a password; her browser, signed in."""
    await stage.person("ada", default="member")
    invitation = (await http.post("/users/ada/invitation")).json()
    async with stage.client(None) as browser:
        body = {"code": invitation["code"], "password": PASSWORD}
        assert (await browser.post("/session/invitation", json=body)).status_code == 200
        yield browser


async def test_a_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(stage, ada):
    answer = await ada.post("/session", json={"user": "ada", "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert re.search(r"HttpOnly", cookie)
    assert re.search(r"SameSite=lax", cookie)
    assert Whoami.model_validate((await ada.get("/session")).json()).user == "ada"
    assert (await ada.get("/runs")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://gateway"},
    ],
)
async def test_another_site_cannot_change_anything_with_the_cookie(stage, ada, headers):
    await stage.add_benchmark()
    refused = await ada.post("/benchmarks/toy/sync", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    done = await ada.post("/benchmarks/toy/sync", headers=OWN)
    assert done.status_code == 200, done.text


async def test_another_site_cannot_sign_a_browser_in(stage, ada):
    body = {"user": "ada", "password": PASSWORD}
    answer = await ada.post("/session", json=body, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


async def test_another_site_cannot_sign_a_browser_in_by_an_invitation(stage, http, ada):
    code = (await http.post("/users/ada/invitation")).json()["code"]
    given = {"code": code, "password": PASSWORD}
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        async with stage.client(None) as browser:
            sent = await browser.post("/session/invitation", json=given, headers=headers)
            page = await browser.post(
                "http://gateway/sign-in/invitation", data=given, headers=headers
            )
            assert (sent.status_code, page.status_code) == (403, 422)
            assert not browser.cookies
    async with stage.client(None) as browser:
        answer = await browser.post("/session/invitation", json=given, headers=OWN)
        assert answer.status_code == 200  # it was not used up


async def test_a_cookie_is_for_https_alone_where_people_come_by_it(stage):
    app = build_app(
        stage.desk, stage.app.state.tokens, stage.closing, public_url="https://assay.example.org"
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://behind-a-proxy"
    ) as browser:
        answer = await browser.post("/api/v1/session", json={"token": stage.admin_token})
        assert re.search(r"; Secure", answer.headers["set-cookie"])


@pytest.mark.parametrize(
    "body",
    [
        {"user": "ada", "password": "wrong"},
        {"user": "nobody", "password": PASSWORD},
        {"user": "admin", "password": ""},
        {"token": "assay_made-up"},
    ],
)
async def test_who_proves_nothing_does_not_get_in(ada, body):
    answer = await ada.post("/session", json=body)
    assert (answer.status_code, answer.json()["code"]) == (401, "AUTH_REQUIRED")
    assert "set-cookie" not in answer.headers


async def test_who_tries_passwords_is_held_up(ada):
    for _ in range(10):
        answer = await ada.post("/session", json={"user": "ada", "password": "wrong"})
        assert answer.status_code == 401
    right = {"user": "Ada@example.org", "password": PASSWORD}
    answer = await ada.post("/session", json=right)
    assert (answer.status_code, answer.json()["code"]) == (429, "RATE_LIMITED")
    assert 0 < int(answer.headers["retry-after"]) <= 300
    other = await ada.post("/session", json={"user": "bob", "password": "wrong"})
    assert other.status_code == 401


async def test_who_has_a_session_or_a_token_cannot_try_passwords_either(stage, ada):
    async with stage.client(await stage.token_of("ada", scopes=["read"])) as client:
        for _ in range(10):
            body = {"current": "wrong", "new": "x" * 12}
            assert (await client.put("/session/password", json=body)).status_code == 422
        body = {"current": PASSWORD, "new": "x" * 12}
        held_up = await client.put("/session/password", json=body)
        assert (held_up.status_code, held_up.json()["code"]) == (429, "RATE_LIMITED")


async def test_signing_out_ends_the_session_for_good(stage, ada):
    cookie = ada.cookies["assay-session"]
    assert (await ada.delete("/session", headers=OWN)).status_code == 204
    async with stage.client(None, cookies={"assay-session": cookie}) as again:
        assert (await again.get("/session")).status_code == 401


async def test_a_new_password_ends_other_sessions(stage, ada):
    async with stage.client(None) as phone:
        signed = await phone.post(
            "/session", json={"user": "ADA@example.org", "password": PASSWORD}
        )
        assert signed.status_code == 200
        wrong = await ada.put(
            "/session/password", json={"current": "no", "new": "x" * 12}, headers=OWN
        )
        assert wrong.status_code == 422
        changed = {"current": PASSWORD, "new": "another long one"}
        assert (await ada.put("/session/password", json=changed, headers=OWN)).status_code == 204
        assert (await ada.get("/session")).status_code == 200
        assert (await phone.get("/session")).status_code == 401
    body = {"user": "ada", "password": PASSWORD}
    assert (await ada.post("/session", json=body)).status_code == 401


async def test_an_invitation_is_good_once_and_a_new_one_voids_it(stage, http):
    await stage.person("ada", default="member")
    first = (await http.post("/users/ada/invitation")).json()["code"]
    second = (await http.post("/users/ada/invitation")).json()["code"]
    async with stage.client(None) as browser:
        for code, status in ((first, 401), (second, 200), (second, 401)):
            body = {"code": code, "password": PASSWORD}
            answer = await browser.post("/session/invitation", json=body)
            assert answer.status_code == status
    short = {"code": second, "password": "short"}
    async with stage.client(None) as browser:
        assert (await browser.post("/session/invitation", json=short)).status_code == 422


async def test_the_administrators_token_opens_a_session(stage):
    async with stage.client(None) as browser:
        answer = await browser.post("/session", json={"token": stage.admin_token})
        assert Whoami.model_validate(answer.json()).operator
        assert (await browser.get("/users")).status_code == 200


async def test_a_token_cut_to_scopes_opens_no_session(stage):
    await stage.person("ada", default="member")
    async with stage.client(await stage.token_of("ada")) as ada:
        cut = await ada.post("/tokens", json={"name": "ci", "scopes": ["read"]})
    async with stage.client(None) as browser:
        answer = await browser.post("/session", json={"token": cut.json()["token"]})
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")


async def test_a_device_is_let_in_by_its_code(stage, ada):
    async with stage.client(None) as device:
        started = await device.post("/device", json={"device_name": "laptop"})
        login = DeviceLogin.model_validate(started.json())
        assert login.verification_uri_complete.endswith(login.user_code)
        body = {"device_code": login.device_code}
        pending = await device.post("/device/token", json=body)
        assert (pending.status_code, pending.json()["code"]) == (400, "AUTHORIZATION_PENDING")
        hasty = await device.post("/device/token", json=body)
        assert hasty.json()["code"] == "SLOW_DOWN"
        typed = login.user_code.lower().replace("-", " ")
        seen = await ada.get(f"/device/{typed}")
        assert seen.json()["device_name"] == "laptop"
        decision = {"user_code": typed, "approve": True}
        assert (await ada.post("/device/decision", json=decision)).status_code == 403
        assert (await ada.post("/device/decision", json=decision, headers=OWN)).status_code == 200
        token = CreatedToken.model_validate((await device.post("/device/token", json=body)).json())
        assert (token.user, token.name) == ("ada", "laptop")
        again = await device.post("/device/token", json=body)
        assert again.json()["code"] == "EXPIRED_TOKEN"
    async with stage.client(token.token) as signed_in:
        assert (await signed_in.get("/session")).json()["user"] == "ada"
        assert (await signed_in.delete("/session")).status_code == 204
        assert (await signed_in.get("/session")).json()["code"] == "TOKEN_REVOKED"


async def test_a_device_is_turned_away_or_comes_too_late(stage, ada):
    async with stage.client(None) as device:
        first = DeviceLogin.model_validate((await device.post("/device", json={})).json())
        await ada.post(
            "/device/decision",
            json={"user_code": first.user_code, "approve": False},
            headers=OWN,
        )
        answer = await device.post("/device/token", json={"device_code": first.device_code})
        assert answer.json()["code"] == "ACCESS_DENIED"
        late = DeviceLogin.model_validate((await device.post("/device", json={})).json())
        async with stage.engine.begin() as connection:
            await connection.execute(
                update(device_logins)
                .where(device_logins.c.hash == hashed(late.device_code))
                .values(expires_at=device_logins.c.expires_at - timedelta(hours=1))
            )
        assert (await ada.get(f"/device/{late.user_code}")).status_code == 404
        answer = await device.post("/device/token", json={"device_code": late.device_code})
        assert answer.json()["code"] == "EXPIRED_TOKEN"
