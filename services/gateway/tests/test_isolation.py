"""Every route of the API, by every role, in one's own workspace, in another's, and in none."""

import re
from dataclasses import dataclass
from uuid import uuid4

import pytest
from fastapi.routing import APIRoute

from assay_contracts.identity import PERMISSIONS, Permission, Role
from gateway import access

OPEN = {
    ("POST", "/session"),
    ("POST", "/session/invitation"),
    ("POST", "/device"),
    ("POST", "/device/token"),
    ("GET", "/downloads/{signed}"),
}
"""Where nobody has to have proven who it is: there one proves it, or the address is signed."""

ENDS_ITS_OWN_TOKEN = ("DELETE", "/session")


@dataclass(frozen=True)
class Door:
    """A route, and who may pass: a permission, an operator, anybody, a runner, or all."""

    method: str
    path: str
    kind: str
    permission: Permission | None
    names_workspace: bool

    @property
    def id(self):
        return f"{self.method} {self.path}"


def doors(app):
    """Every route of the API with what it asks for."""
    for included in app.routes:
        for path, route in _within(included, ""):
            if path.startswith("/api/v1/"):
                for method in sorted(route.methods):
                    yield _door(method, path, route)


def _within(included, prefix):
    """The routes of a router with their whole paths: they are looked through where included."""
    if isinstance(included, APIRoute):
        yield prefix + included.path, included
    elif hasattr(included, "original_router"):
        for one in included.original_router.routes:
            yield from _within(one, prefix + included.include_context.prefix)


def _door(method, path, route):
    calls = {one.call for one in _flat(route.dependant)}
    calls |= {one.dependency for one in route.dependencies}
    wanted = {one for one in calls if "permission" in getattr(one, "__dict__", {})}
    named = any(one.__qualname__.startswith("needs_in_named") for one in wanted)
    path = path.removeprefix("/api/v1")
    if wanted:
        (one,) = wanted
        return Door(method, path, "permission", one.permission, named)
    for kind, call in (
        ("operator", access.operator),
        ("runner", access.runner),
        ("anybody", access.somebody),
    ):
        if call in calls:
            return Door(method, path, kind, None, False)
    return Door(method, path, "open", None, False)


def _flat(dependant):
    for one in dependant.dependencies:
        yield one
        yield from _flat(one)


@pytest.fixture
async def grounds(stage):
    """People in every role of `default`, one in `other` alone, one nowhere; and what is there."""
    tokens = {}
    for role in Role:
        await stage.person(f"a-{role.value}", default=role.value)
        tokens[role.value] = await stage.token_of(f"a-{role.value}")
    await stage.person("stranger", other="owner")
    await stage.person("nobody")
    for name in ("stranger", "nobody"):
        tokens[name] = await stage.token_of(name)
    benchmark = await stage.add_benchmark()
    run = await stage.submit()
    await stage.decide(run["id"], "queued", "started")
    slot = await stage.result(run["id"], "fix-roman")
    return tokens, {"ref": run["id"], "benchmark": str(benchmark), "slot_id": str(slot)}


def filled(door, things, name="default"):
    """The route's address with real ids of `default` in it."""
    is_benchmark = door.path.startswith("/benchmarks")

    def fill(found):
        part = found.group(1).partition(":")[0]
        if part == "ref":
            return things["benchmark" if is_benchmark else "ref"]
        if part == "name" and door.names_workspace:
            return name
        known = {"slot_id": things["slot_id"], "token": str(uuid4()), "letter": "999"}
        return known.get(part, "nothing")

    return re.sub(r"\{([^}]+)\}", fill, door.path)


async def asked(stage, door, address, token, workspace="default"):
    """The answer's status, of a request with an empty body where it takes one."""
    body = {} if door.method in {"POST", "PUT", "PATCH"} else None
    async with stage.client(token, workspace) as client:
        answer = await client.request(door.method, address, json=body)
        return answer.status_code


async def test_every_route_asks_for_something(stage):
    found = list(doors(stage.app))
    assert len(found) > 50
    assert {(one.method, one.path) for one in found if one.kind == "open"} == OPEN


async def test_without_a_valid_token_nothing_opens(stage, grounds):
    _, things = grounds
    for door in doors(stage.app):
        if door.kind != "open":
            for token in (None, "assay_made-up"):
                status = await asked(stage, door, filled(door, things), token)
                assert status == 401, door.id


async def test_each_role_passes_where_it_may_and_nowhere_else(stage, grounds):
    tokens, things = grounds
    harmless = {"GET", "PUT", "PATCH"}
    for door in doors(stage.app):
        if door.kind not in {"permission", "operator"}:
            continue
        for role in Role:
            may = door.permission in PERMISSIONS[role] and door.kind == "permission"
            if may and door.method not in harmless:
                continue  # done by the tests of what it does
            status = await asked(stage, door, filled(door, things), tokens[role.value])
            assert (status not in {401, 403}) if may else status == 403, (door.id, role, status)


async def test_another_workspace_is_not_there_for_anybody(stage, grounds):
    tokens, things = grounds
    for door in doors(stage.app):
        if door.kind != "permission":
            continue
        for name in ("stranger", "nobody"):
            status = await asked(stage, door, filled(door, things), tokens[name])
            assert status == 404, (door.id, name, status)


async def test_what_belongs_to_another_workspace_is_not_there_in_ones_own(stage, grounds):
    tokens, things = grounds
    for door in doors(stage.app):
        if door.kind == "permission" and "{ref" in door.path:
            status = await asked(stage, door, filled(door, things), tokens["stranger"], "other")
            assert status in {404, 422}, (door.id, status)
            if door.method in {"GET", "DELETE"}:
                assert status == 404 or "explain" in door.path or "compare" in door.path, door.id


async def test_people_and_runners_are_not_taken_for_each_other(stage, grounds):
    tokens, things = grounds
    for door in doors(stage.app):
        if door.kind == "runner":
            status = await asked(stage, door, filled(door, things), tokens["owner"])
            assert status == 401, door.id
        elif door.kind != "open":
            status = await asked(stage, door, filled(door, things), stage.runner_token)
            assert status == 401, door.id
