"""How often one may ask, and who is counted with whom."""

from datetime import UTC, datetime

import httpx
import pytest

from assay_contracts.http import DownloadType
from assay_contracts.identifiers import new_id
from assay_contracts.identity import PERMISSIONS, Permission, Role
from gateway.app import build_app
from gateway.downloads.addresses import Owner, Signer
from gateway.downloads.files import Place, RunFile
from gateway.rate_limits import network_of
from gateway.settings import HttpLimits


@pytest.fixture
def limited(stage):
    """A client under small limits."""
    limits = HttpLimits(rate_limit_caller="5/minute", rate_limit_address="3/minute")
    app = build_app(stage.desk, stage.app.state.tokens, stage.closing, limits=limits)

    def client(token="nobody", address="192.0.2.1", **headers):
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=(address, 1)),
            base_url="http://gateway/api/v1",
            headers={"Authorization": f"Bearer {token}", **headers},
        )

    return client


async def test_a_caller_is_told_how_much_is_left_and_then_to_wait(stage, limited):
    await stage.person("ada", default="member", other="member")
    await stage.person("bob", default="member")
    token = await stage.token_of("ada")
    async with limited(token) as client, limited(token, "192.0.2.9") as other:
        left = []
        for one in (client, other, client, other, client):
            answer = await one.get("/runs")
            assert answer.status_code == 200
            assert answer.headers["RateLimit-Policy"] == '"caller";q=5;w=60'
            left.append(answer.headers["RateLimit"].split(";")[1])
        assert left == ["r=4", "r=3", "r=2", "r=1", "r=0"]
        refused = await client.get("/runs")
        assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert refused.headers["RateLimit"].startswith('"caller";r=0;t=')
        assert refused.headers["X-Request-ID"]
        elsewhere = await client.get("/runs", headers={"X-Assay-Workspace": "other"})
        assert elsewhere.status_code == 429
        assert (await client.get("http://gateway/device")).status_code == 429
        assert (await client.get("http://gateway/healthz")).status_code == 200
    async with limited(await stage.token_of("bob")) as client:
        assert (await client.get("/runs")).status_code == 200


async def test_who_has_no_valid_token_is_counted_by_address(limited):
    async with limited("one guess") as client, limited("another guess") as same_place:
        told = [(await one.get("/runs")).status_code for one in (client, same_place, client)]
        assert told == [401, 401, 401]
        refused = await same_place.get("/runs")
        assert refused.status_code == 429
        assert refused.headers["RateLimit-Policy"] == '"address";q=3;w=60'
    async with limited("one guess", address="192.0.2.2") as client:
        assert (await client.get("/runs")).status_code == 401


async def test_pages_that_take_passwords_and_codes_are_counted_too(limited):
    async with limited() as client:
        for number in range(3):
            form = {"user": f"user-{number}", "password": "guess"}
            page = await client.post("http://gateway/sign-in", data=form)
            assert page.status_code == 401
        for path in ("/sign-in", "/sign-in/invitation", "/device"):
            assert (await client.post(f"http://gateway{path}", data={})).status_code == 429


async def test_the_files_of_a_run_are_counted_by_run_and_guessed_addresses_by_address(
    stage, limited
):
    signer, sha256 = Signer(stage.desk.vault), "0" * 64
    file = RunFile("logs.txt", DownloadType.LOGS, 1, sha256, "text/plain", Place.EXPORTS, False)

    def fetched_from(run):
        owner = Owner("default", run, "bright-otter")
        return f"/downloads/{signer.address(owner, file, datetime.now(UTC))}"

    one, other = fetched_from(new_id()), fetched_from(new_id())
    async with limited() as client:
        told = [await client.get(one) for _ in range(5)]
        assert [answer.status_code for answer in told] == [404] * 5  # there are no such runs
        assert told[-1].headers["RateLimit-Policy"] == '"run";q=5;w=60'
        assert (await client.get(one)).status_code == 429
        assert (await client.get(other)).status_code == 404
        guessed = [(await client.get(f"{other}x")).status_code for _ in range(4)]
        assert guessed == [403, 403, 403, 429]
        assert (await client.get(other)).status_code == 404


async def test_operators_and_runners_are_not_limited(stage, limited):
    admin, runner = (
        one.headers["Authorization"].removeprefix("Bearer ")
        for one in (stage.client(), stage.client(token="runner-token-of-this-test"))
    )
    assert Permission.OPERATE not in PERMISSIONS[Role.OWNER]
    async with limited(admin) as operator, limited(runner) as runners:
        for _ in range(8):
            answer = await operator.get("/runs")
            assert (answer.status_code, "RateLimit" in answer.headers) == (200, False)
            body = {"run": "01890000-0000-7000-8000-000000000001", "names": [], "public_key": ""}
            claimed = await runners.post("/internal/secrets/claim", json=body)
            assert claimed.status_code != 429


def test_an_ipv6_network_counts_as_one_address():
    assert network_of(("2001:db8::1", 1)) == network_of(("2001:db8::ffff", 2)) == "2001:db8::/64"
    assert network_of(("2001:db8:0:1::1", 1)) != network_of(("2001:db8::1", 1))
    assert network_of(("192.0.2.1", 1)) == "192.0.2.1"
    assert network_of(None) == "none"


@pytest.mark.parametrize("rate", ["", "many", "5 per fortnight"])
def test_a_rate_that_cannot_be_read_is_told_at_the_start(rate):
    with pytest.raises(ValueError, match="rate_limit_caller"):
        HttpLimits(rate_limit_caller=rate)
