"""The pages as a browser without scripts sees them: signing in and out, letting devices in."""

import re

import httpx
import pytest

from gateway.pages.accounts import local

PASSWORD = "correct horse battery"
OWN = {"origin": "http://gateway"}


@pytest.fixture
async def browser(stage):
    """A browser with nobody signed in."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(stage.app), base_url="http://gateway", headers=OWN
    ) as client:
        yield client


@pytest.fixture
async def ada(stage, http, browser):
    """Ada's browser, in which she has just set her password."""
    await stage.person("ada", default="member")
    code = (await http.post("/users/ada/invitation")).json()["code"]
    answer = await browser.post(
        "/sign-in/invitation", data={"code": f" {code} ", "password": PASSWORD}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return browser


async def test_a_page_for_people_leads_to_the_sign_in_and_back(browser):
    answer = await browser.get("/device", params={"code": "BCDF-GHJK"})
    assert answer.headers["location"] == "/sign-in?next=/device%3Fcode%3DBCDF-GHJK"
    page = await browser.get(answer.headers["location"])
    assert 'name="next" value="/device?code=BCDF-GHJK"' in page.text


async def test_a_page_loads_nothing_but_our_own_style(browser):
    page = await browser.get("/sign-in")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    (style,) = re.findall(r'href="(/assets/[^"]+)"', page.text)
    sheet = await browser.get(style)
    assert sheet.headers["content-type"].startswith("text/css")
    assert "immutable" in sheet.headers["cache-control"]
    assert "<script" not in page.text


async def test_one_signs_in_and_out(ada):
    assert "Hello, ada" in (await ada.get("/")).text
    out = await ada.post("/sign-out")
    assert out.headers["location"] == "/sign-in"
    assert (await ada.get("/")).headers["location"] == "/sign-in?next=/"
    form = {"user": "ada", "password": PASSWORD, "next": "/device"}
    again = await ada.post("/sign-in", data=form)
    assert (again.status_code, again.headers["location"]) == (303, "/device")


@pytest.mark.parametrize(
    "form",
    [
        {"user": "ada", "password": "wrong"},
        {"user": "<b>x</b>", "password": "wrong"},
        {"token": "assay_made-up"},
        {},
        {"user": "x" * 400},
    ],
)
async def test_who_proves_nothing_stays_at_the_form(browser, form):
    answer = await browser.post("/sign-in", data=form)
    assert answer.status_code in {401, 422}
    assert "<b>x</b>" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/sign-out", "/device"])
async def test_another_site_can_do_nothing_with_the_forms(ada, path):
    answer = await ada.post(
        path,
        data={"user_code": "BCDF-GHJK", "decision": "approve"},
        headers={"origin": "http://evil.example"},
    )
    assert answer.status_code == 403
    assert "Hello" in (await ada.get("/")).text


async def test_a_device_is_let_in_on_its_page(stage, ada):
    async with stage.client(None) as device:
        login = (await device.post("/device", json={"device_name": "<i>laptop</i>"})).json()
        asked = await ada.get("/device", params={"code": login["user_code"].lower()})
        assert "&lt;i&gt;laptop&lt;/i&gt;" in asked.text
        form = {"user_code": login["user_code"], "decision": "approve"}
        assert "is let in" in (await ada.post("/device", data=form)).text
        answer = await device.post("/device/token", json={"device_code": login["device_code"]})
        assert answer.json()["user"] == "ada"
    unknown = await ada.get("/device", params={"code": "nothing"})
    assert unknown.status_code == 404
    assert "No device shows this code" in unknown.text


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "//[",
        "javascript:1",
        "evil",
        "",
    ],
)
def test_nobody_is_sent_on_to_another_site(address):
    assert local(address) == "/"


def test_one_is_sent_on_to_our_own_pages():
    assert local("/device?code=A") == "/device?code=A"
