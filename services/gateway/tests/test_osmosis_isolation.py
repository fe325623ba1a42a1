"""Every route of the Osmosis client, by every role, in one's own workspace and in others'."""

import httpx
import pytest
from fastapi.routing import APIRoute

from assay_contracts.identity import PERMISSIONS, Permission, Role
from gateway.osmosis import benchmarks, outputs, runs, secrets
from gateway.osmosis.errors import PREFIX

BODIES = {
    "/benchmark-runs": {"experiment_config": {"benchmark": "nowhere"}, "agents": []},
    "/benchmark-runs/nowhere/stop": {},
    "/benchmark-runs/nowhere/outputs/download-urls": {"items": [{"path": "summary.csv"}]},
}
READS_BY_POST = "/benchmark-runs/nowhere/outputs/download-urls"


def doors():
    """Every route that is about a workspace: method, path, and the permission that it needs."""
    for part in (benchmarks, outputs, runs, secrets):
        for route in part.router.routes:
            assert isinstance(route, APIRoute)
            path = route.path.replace("{ref:path}", "nowhere").replace("{ref}", "nowhere")
            for method in sorted(route.methods):
                reads = method == "GET" or path == READS_BY_POST
                yield method, path, Permission.READ if reads else Permission.RUN


DOORS = list(doors())


def body_of(method, path):
    if method == "GET":
        return None
    if path == "/environment-secrets":
        record = {"name": "A_KEY", "scope": "user"}
        return record | ({"value": "v"} if method == "POST" else {})
    return BODIES[path]


@pytest.fixture
async def ask(stage):
    """Asks a route with a token in a workspace; returns the status and the code."""
    transport = httpx.ASGITransport(stage.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:

        async def asked(method, path, token, workspace):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            headers["X-Osmosis-Workspace"] = workspace
            answer = await client.request(
                method, f"{PREFIX}{path}", headers=headers, json=body_of(method, path)
            )
            told = answer.json() if answer.content else {}
            return answer.status_code, told.get("code")

        yield asked


def test_there_are_as_many_routes_as_the_client_asks_for():
    assert len(DOORS) == len(set(DOORS)) == 12


@pytest.mark.parametrize("role", Role)
async def test_each_route_lets_in_who_may_and_nobody_else(stage, ask, role):
    await stage.person("ada", default=role.value)
    token = await stage.token_of("ada")
    for method, path, permission in DOORS:
        status, code = await ask(method, path, token, "default")
        if permission in PERMISSIONS[role]:
            assert status not in {401, 403, 405, 500}, (method, path, status, code)
            assert not (code or "").startswith("WORKSPACE_SCOPE"), (method, path, code)
        else:
            assert (status, code) == (403, "FORBIDDEN"), (method, path)
        for other in ("other", "managed", "no-such", "No Such"):
            refusal = (404, "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED")
            assert await ask(method, path, token, other) == refusal, (method, path, other)


async def test_no_route_lets_in_who_has_no_good_token(stage, ask):
    await stage.person("ada", default="owner")
    narrow = await stage.token_of("ada", workspace="default", scopes=["read"])
    for method, path, permission in DOORS:
        assert await ask(method, path, None, "default") == (401, "AUTH_HEADER_MISSING")
        assert await ask(method, path, "assay_nothing", "default") == (401, "TOKEN_INVALID")
        status, _ = await ask(method, path, narrow, "default")
        assert (status == 403) == (permission is not Permission.READ), (method, path)
