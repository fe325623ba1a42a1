"""Users, workspaces and tokens: who gets in, how far, and what is told of it."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import select, update

from assay_contracts.http import AuditPage, CreatedToken, CreatedUser, Page, TokenEntry, Whoami
from assay_contracts.identity import Role
from gateway.people.credentials import hashed
from gateway.tables import invitations, sessions, tokens, users, workspaces


async def code_of(answer):
    return answer.status_code, answer.json()["code"]


async def test_a_user_is_a_member_with_a_role_and_a_token(stage, http):
    created = await http.post("/users", json={"name": "ada", "email": "Ada@Example.org"})
    assert created.status_code == 201
    assert CreatedUser.model_validate(created.json()).email == "ada@example.org"
    member = await http.put("/workspaces/default/members/ada", json={"role": "viewer"})
    assert member.json()["role"] == "viewer"
    ada = await stage.token_of("ada")
    async with stage.client(ada) as client:
        me = Whoami.model_validate((await client.get("/session")).json())
        assert (me.user, me.operator, me.scopes) == ("ada", False, None)
        assert [(one.name, one.role) for one in me.workspaces] == [("default", Role.VIEWER)]
        assert (await client.get("/runs")).status_code == 200
        assert await code_of(await client.post("/benchmarks/toy/sync")) == (403, "FORBIDDEN")


async def test_names_and_addresses_are_taken_once(http):
    assert (await http.post("/users", json={"name": "a", "email": "a@x.org"})).status_code == 201
    for body in ({"name": "a", "email": "b@x.org"}, {"name": "b", "email": "A@X.org"}):
        assert await code_of(await http.post("/users", json=body)) == (409, "CONFLICT")
    assert await code_of(await http.post("/workspaces", json={"name": "default"})) == (
        409,
        "CONFLICT",
    )
    for name in ("managed", "installation"):
        assert (await http.post("/workspaces", json={"name": name})).status_code == 422


async def test_a_workspace_of_others_is_not_there(stage, http):
    await stage.person("ada", default="member")
    run = await stage_run(stage, "other")
    async with stage.client(await stage.token_of("ada")) as ada:
        for path in ("/runs", f"/runs/{run}"):
            answer = await ada.get(path, headers={"X-Assay-Workspace": "other"})
            assert await code_of(answer) == (404, "NOT_FOUND")
        assert await code_of(await ada.get("/workspaces/other")) == (404, "NOT_FOUND")
        assert await code_of(await ada.get(f"/runs/{run}")) == (404, "NOT_FOUND")
        listed = (await ada.get("/workspaces")).json()["items"]
        assert [one["name"] for one in listed] == ["default"]


async def stage_run(stage, workspace):
    await stage.add_benchmark(workspace=workspace)
    return (await stage.submit(workspace=workspace))["id"]


async def test_a_member_of_several_workspaces_has_to_name_one(stage):
    await stage.person("ada", other="viewer", elsewhere="viewer")
    async with stage.client(await stage.token_of("ada"), workspace=None) as ada:
        answer = await ada.get("/runs")
        assert await code_of(answer) == (422, "VALIDATION")
        assert "name the workspace" in answer.json()["issues"][0]["message"]
    await stage.person("bob", other="viewer")
    async with stage.client(await stage.token_of("bob"), workspace=None) as bob:
        assert (await bob.get("/runs")).status_code == 200


async def test_only_an_owner_makes_owners_and_one_has_to_stay(stage):
    for name, role in (("ada", "admin"), ("bob", "owner"), ("eve", "viewer")):
        await stage.person(name, default=role)
    members = "/workspaces/default/members"
    async with stage.client(await stage.token_of("ada")) as ada:
        answer = await ada.put(f"{members}/eve", json={"role": "owner"})
        assert await code_of(answer) == (403, "FORBIDDEN")
        assert (await ada.put(f"{members}/bob", json={"role": "viewer"})).status_code == 403
        assert (await ada.delete(f"{members}/bob")).status_code == 403
        assert (await ada.put(f"{members}/eve", json={"role": "member"})).status_code == 200
        assert (await ada.delete(f"{members}/nobody")).status_code == 404
    async with stage.client(await stage.token_of("bob")) as bob:
        assert (await bob.delete(f"{members}/admin")).status_code == 204
        assert await code_of(await bob.delete(f"{members}/bob")) == (409, "CONFLICT")
        answer = await bob.put(f"{members}/bob", json={"role": "member"})
        assert await code_of(answer) == (409, "CONFLICT")
    async with stage.client(await stage.token_of("eve")) as eve:
        assert (await eve.delete(f"{members}/ada")).status_code == 403
        assert (await eve.delete(f"{members}/eve")).status_code == 204
        assert (await eve.get("/runs")).status_code == 404


async def test_a_token_reaches_as_far_as_it_says_and_no_further(stage):
    await stage.person("ada", default="admin", other="admin")
    async with stage.client(await stage.token_of("ada")) as ada:
        body = {"name": "ci", "scopes": ["read"], "workspace": "other", "expires_in_days": 7}
        answer = await ada.post("/tokens", json=body)
        made = CreatedToken.model_validate(answer.json())
        assert made.token.startswith("assay_")
        listed = Page[TokenEntry].model_validate((await ada.get("/tokens")).json())
        assert made.id in {one.id for one in listed.items}
        assert made.token not in (await ada.get("/tokens")).text
    async with stage.client(made.token, workspace=None) as ci:
        assert (await ci.get("/runs")).status_code == 200
        assert (await ci.get("/runs", headers={"X-Assay-Workspace": "default"})).status_code == 404
        assert (await ci.get("/workspaces/default")).status_code == 404
        assert (await ci.get("/audit")).status_code == 403
        wider = await ci.post("/tokens", json={"name": "more", "scopes": ["read", "run"]})
        assert await code_of(wider) == (403, "FORBIDDEN")
        whole = await ci.post("/tokens", json={"name": "same", "expires_in_days": None})
        child = CreatedToken.model_validate(whole.json())
        assert (child.scopes, child.workspace) == (["read"], "other")
        assert child.expires_at == made.expires_at
        assert (await ci.post("/tokens", json={"name": "x", "workspace": "default"})).status_code


async def test_a_revoked_expired_or_unknown_token_opens_nothing(stage, http):
    await stage.person("ada", default="member")
    token = await stage.token_of("ada")
    async with stage.client(token) as ada:
        assert (await ada.get("/runs")).status_code == 200
        (listed,) = (await ada.get("/tokens")).json()["items"]
        assert (await ada.delete(f"/tokens/{listed['id']}")).status_code == 204
        assert await code_of(await ada.get("/runs")) == (401, "TOKEN_REVOKED")
    expired = await stage.token_of("ada")
    async with stage.engine.begin() as connection:
        row = (
            await connection.execute(select(tokens).where(tokens.c.hash == hashed(expired)))
        ).one()
        await connection.execute(
            update(tokens)
            .where(tokens.c.id == row.id)
            .values(expires_at=row.created_at - timedelta(days=1))
        )
    async with stage.client(expired) as ada:
        assert await code_of(await ada.get("/runs")) == (401, "TOKEN_EXPIRED")
    async with stage.client("assay_made-up") as nobody:
        answer = await nobody.get("/runs")
        assert await code_of(answer) == (401, "AUTH_REQUIRED")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_who_leaves_a_workspace_leaves_its_tokens_there(stage, http):
    await stage.person("ada", default="member", other="member")
    here = await stage.token_of("ada", workspace="other")
    anywhere = await stage.token_of("ada")
    await http.delete("/workspaces/other/members/ada")
    await http.put("/workspaces/other/members/ada", json={"role": "viewer"})
    async with stage.client(here, workspace=None) as old:
        assert await code_of(await old.get("/runs")) == (401, "TOKEN_REVOKED")
    async with stage.client(anywhere, workspace="other") as own:
        assert (await own.get("/runs")).status_code == 200


async def test_a_repository_belongs_to_one_workspace_however_it_is_spelt(http):
    for name in ("lab", "team"):
        assert (await http.post("/workspaces", json={"name": name})).status_code == 201
    mine = await http.patch("/workspaces/lab", json={"repository": "Acme/Agents"})
    assert mine.json()["repository"] == "acme/agents"
    again = await http.patch("/workspaces/team", json={"repository": "ACME/agents"})
    assert await code_of(again) == (409, "CONFLICT")


async def test_the_last_use_of_a_token_is_shown(stage):
    await stage.person("ada", default="member")
    async with stage.client(await stage.token_of("ada")) as ada:
        await ada.get("/runs")
        (listed,) = (await ada.get("/tokens")).json()["items"]
    assert listed["last_used_at"] is not None


async def test_only_hashes_of_tokens_codes_and_passwords_are_kept(stage, http):
    answer = await http.post("/users", json={"name": "ada", "email": "a@x.org"})
    code = answer.json()["invitation"]["code"]
    async with stage.client(None) as nobody:
        session = await nobody.post(
            "/session/invitation", json={"code": code, "password": "correct horse battery"}
        )
        assert session.status_code == 200
        cookie = nobody.cookies["assay-session"]
    token = await stage.token_of("ada")
    async with stage.engine.connect() as connection:
        kept = ""
        for table in (tokens, sessions, invitations, users):
            kept += repr((await connection.execute(select(table))).all())
    assert "$argon2id$" in kept
    for secret in (token, cookie, code, "correct horse battery"):
        assert secret not in kept


async def test_whom_is_disabled_can_do_nothing(stage, http):
    await stage.person("ada", default="member")
    token = await stage.token_of("ada")
    async with stage.client(token) as ada:
        assert (await ada.get("/runs")).status_code == 200
        assert (await http.patch("/users/ada", json={"disabled": True})).status_code == 200
        assert await code_of(await ada.get("/runs")) == (401, "TOKEN_REVOKED")
        await http.patch("/users/ada", json={"disabled": False})
        assert (await ada.get("/runs")).status_code == 200
    assert (await http.patch("/users/admin", json={"operator": False})).status_code == 409


async def test_only_operators_look_after_the_installation(stage):
    await stage.person("ada", default="owner")
    async with stage.client(await stage.token_of("ada")) as ada:
        for method, path in (
            ("GET", "/users"),
            ("POST", "/users"),
            ("POST", "/workspaces"),
            ("GET", "/deadletters"),
            ("GET", "/sandboxes"),
            ("POST", "/system/replay"),
            ("GET", "/system/audit"),
        ):
            body = {"name": "eve", "email": "e@x.org"} if method == "POST" else None
            answer = await ada.request(method, path, json=body)
            assert answer.status_code == 403, (method, path, answer.text)


async def test_a_removed_workspace_is_gone_and_its_name_stays_taken(stage, http):
    await http.post("/workspaces", json={"name": "lab"})
    await stage.person("ada", lab="owner")
    async with stage.client(await stage.token_of("ada"), workspace="lab") as ada:
        await ada.put("/secrets/KEY", json={"value": "x" * 20, "scope": "workspace"})
        assert (await ada.delete("/workspaces/lab")).status_code == 204
        assert (await ada.get("/runs")).status_code == 404
    assert (await http.post("/workspaces", json={"name": "lab"})).status_code == 409
    assert await stage.nothing_happened()


async def test_runs_keep_a_workspace_from_being_removed(stage, http):
    await stage_run(stage, "other")
    assert await code_of(await http.delete("/workspaces/other")) == (409, "CONFLICT")


async def test_every_act_is_told_to_the_audit_stream(stage, http):
    await http.post("/workspaces", json={"name": "lab"})
    await http.post("/users", json={"name": "ada", "email": "a@x.org", "workspace": "lab"})
    await http.put("/workspaces/lab/members/ada", json={"role": "admin"})
    await http.post("/tokens", json={"name": "ci", "workspace": "lab"})
    request = await http.delete("/workspaces/lab/members/ada")
    await stage.audited(6)
    async with stage.client(workspace="lab") as lab:
        page = AuditPage.model_validate((await lab.get("/audit")).json())
    assert [one.act for one in page.items] == [
        "member-removed",
        "token-created",
        "member-set",
        "member-set",
        "workspace-created",
    ]
    assert [one.details["role"] for one in page.items[2:4]] == ["admin", "member"]
    assert page.items[0].request_id == UUID(request.headers["x-request-id"])
    assert {one.actor for one in page.items} == {"admin"}
    everything = AuditPage.model_validate((await http.get("/system/audit")).json())
    assert [one.act for one in everything.items if one.workspace == "installation"] == [
        "user-created"
    ]
    async with stage.client(workspace="lab") as lab:
        some = AuditPage.model_validate((await lab.get("/audit", params={"limit": 3})).json())
        rest = await lab.get("/audit", params={"limit": 3, "before": some.next_before})
        assert [one["act"] for one in rest.json()["items"]] == ["member-set", "workspace-created"]
        one = await lab.get("/audit", params={"act": "member-set", "target": "ada"})
        assert len(one.json()["items"]) == 2


@pytest.mark.parametrize("role", ["viewer", "member"])
async def test_the_audit_is_for_admins(stage, role):
    await stage.person("ada", default=role)
    async with stage.client(await stage.token_of("ada")) as ada:
        assert await code_of(await ada.get("/audit")) == (403, "FORBIDDEN")


async def test_a_token_that_is_cut_to_less_revokes_itself_alone(stage):
    await stage.person("ada", default="owner", other="member")
    async with stage.client(await stage.token_of("ada")) as ada:
        whole = (await ada.post("/tokens", json={"name": "whole"})).json()
        for body in ({"scopes": ["read"]}, {"workspace": "other"}):
            cut = (await ada.post("/tokens", json={"name": "ci"} | body)).json()
            async with stage.client(cut["token"], workspace=None) as ci:
                answer = await ci.delete(f"/tokens/{whole['id']}")
                assert await code_of(answer) == (404, "NOT_FOUND"), body
                assert (await ci.delete(f"/tokens/{cut['id']}")).status_code == 204
        assert (await ada.delete(f"/tokens/{whole['id']}")).status_code == 204


async def test_a_token_without_the_scope_takes_nobody_out_of_a_workspace(stage):
    await stage.person("ada", default="member")
    async with stage.client(await stage.token_of("ada", scopes=["read"])) as cut:
        answer = await cut.delete("/workspaces/default/members/ada")
        assert await code_of(answer) == (403, "FORBIDDEN")
    async with stage.client(await stage.token_of("ada")) as ada:
        assert (await ada.delete("/workspaces/default/members/ada")).status_code == 204


async def test_a_repository_belongs_to_one_workspace_in_any_case(stage, http):
    lab = {"name": "lab", "repository": "Team/Tasks"}
    assert (await http.post("/workspaces", json=lab)).status_code == 201
    same = {"name": "lab-2", "repository": "team/tasks"}
    assert await code_of(await http.post("/workspaces", json=same)) == (409, "CONFLICT")
    answer = await http.patch("/workspaces/other", json={"repository": "TEAM/tasks"})
    assert await code_of(answer) == (409, "CONFLICT")


async def test_two_workspaces_connected_at_once_are_told_apart(stage, http):
    async with stage.engine.begin() as first:
        await first.execute(
            update(workspaces).where(workspaces.c.name == "other").values(repository="team/tasks")
        )
        body = {"repository": "team/tasks"}
        second = asyncio.create_task(http.patch("/workspaces/elsewhere", json=body))
        await stage.somebody_waits()
    assert await code_of(await second) == (409, "CONFLICT")
