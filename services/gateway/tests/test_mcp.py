"""The MCP server, asked by the SDK's own client over HTTP: tools, rights, and refusals."""

import asyncio
from contextlib import asynccontextmanager

import httpx2
import jsonschema
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from gateway.mcp.catalogue import TOOLS, Effect
from gateway.mcp.operations import Operation, WrongArgumentsError


@pytest.fixture
async def agent(stage, served):
    """An MCP client in somebody's name, by default the administrator's."""
    client, _ = served
    address = str(client.base_url.copy_with(path="/mcp"))

    @asynccontextmanager
    async def connect(token=stage.admin_token, workspace="default"):
        headers = {"X-Assay-Workspace": workspace}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with (
            asyncio.timeout(60),
            httpx2.AsyncClient(headers=headers, timeout=20) as http,
            Client(streamable_http_client(address, http_client=http)) as session,
        ):
            yield session

    return connect


def config(**changes):
    return {"experiment": {"benchmark": "toy"}, "agents": [{"harness": "oracle"}]} | changes


async def answered(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    assert result.is_error
    [said] = result.content
    return said.text


async def test_the_tools_are_listed_with_what_they_do_and_take(agent):
    async with agent() as session:
        tools = {one.name: one for one in (await session.list_tools()).tools}
    assert set(tools) == {one.name for one in TOOLS}
    for curated in TOOLS:
        tool = tools[curated.name]
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        hints = tool.annotations
        assert hints.read_only_hint == (curated.method == "get" or tool.name == "validate_run")
        assert hints.destructive_hint == (curated.effect is Effect.ENDS)
    assert tools["stop_run"].annotations.destructive_hint
    assert tools["show_run"].input_schema["required"] == ["ref"]
    assert tools["submit_run"].input_schema["required"] == ["config"]
    taken = tools["list_events"].input_schema["properties"]
    assert {"type", "run", "benchmark", "after", "limit", "stream"} == set(taken)


async def test_an_agent_submits_a_run_follows_it_and_reads_why(stage, agent):
    await stage.add_benchmark()
    async with agent() as session:
        [benchmark] = (await answered(session, "list_benchmarks"))["items"]
        assert benchmark["name"] == "toy"
        run = await answered(session, "submit_run", config=config())
        await stage.decide(run["id"], "queued", "started")
        await stage.result(run["id"], "fix-roman", "failed")
        shown = await answered(session, "show_run", ref=run["name"])
        assert (shown["status"], shown["ingested_results"]) == ("running", 1)
        results = await answered(session, "list_results", ref=run["name"], outcome="failed")
        assert [one["task"] for one in results["items"]] == ["fix-roman"]
        why = await answered(session, "explain_result", ref=run["id"], agent="0", task="fix-roman")
        assert why["task"] == "fix-roman"
        log = await answered(session, "read_run_log", ref=run["name"])
        assert log["items"][0]["step"] == "submitted"
        events = await answered(session, "list_events", run=run["name"], type=["started"])
        assert [one["event"]["type"] for one in events["items"]] == ["started"]
        board = await answered(session, "show_leaderboard", ref="toy", metric="pass@k")
        assert board["metric"] == "pass@k"
        stopping = await answered(session, "stop_run", ref=run["name"], reason="seen enough")
        assert stopping["id"] == run["id"]
    [*_, last] = await stage.events(run["id"])
    assert (last.event.type, last.event.data.reason) == ("stop-requested", "seen enough")


async def test_refusals_are_tool_errors_with_our_own_words(stage, agent):
    await stage.add_benchmark()
    async with agent() as session:
        wrong = config(agents=[{"harness": "orcale"}], experiment={"benchmark": "toys"})
        said = await refused(session, "submit_run", config=wrong)
        assert said.startswith("VALIDATION (422")
        assert "orcale" in said
        said = await refused(session, "show_run", ref="nobody")
        assert said == (
            "NOT_FOUND (404 Not Found): there is no run nobody in this workspace; assay run list "
            "shows them"
        )
        assert "argument ref is missing" in await refused(session, "show_run")
        assert "no argument name" in await refused(session, "show_run", ref="a", name="b")
        assert "is blank" in await refused(session, "show_run", ref="..")
        assert "there is no tool" in await refused(session, "drop_everything")
    assert await stage.nothing_happened()


async def test_who_has_no_valid_token_is_not_let_in(served, stage):
    client, _ = served
    address = str(client.base_url.copy_with(path="/mcp"))
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
        answer = await client.post(address, json=asked, headers=accept | headers)
        assert answer.status_code == 401
        assert answer.json()["code"] == "AUTH_REQUIRED"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await client.get(address)).status_code == 405


async def test_an_agent_can_do_what_its_token_can_and_no_more(stage, agent):
    await stage.add_benchmark()
    run = await stage.submit()
    await stage.person("ada", default="viewer", other="member")
    ada = await stage.token_of("ada")
    async with agent(ada) as session:
        assert (await answered(session, "show_run", ref=run["name"]))["id"] == run["id"]
        for tool, arguments in (
            ("submit_run", {"config": config()}),
            ("stop_run", {"ref": run["name"]}),
            ("retry_run", {"ref": run["name"]}),
            ("add_benchmark", {"source": {"kind": "folder", "path": "/x"}}),
        ):
            assert "FORBIDDEN (403" in await refused(session, tool, **arguments)
    async with agent(ada, workspace="other") as session:
        for ref in (run["name"], run["id"]):
            for tool in ("show_run", "read_run_log", "list_run_events", "stop_run"):
                assert "NOT_FOUND (404" in await refused(session, tool, ref=ref)
        assert (await answered(session, "list_runs"))["items"] == []
    async with agent(ada, workspace="elsewhere") as session:
        assert "NOT_FOUND (404" in await refused(session, "list_runs")


async def test_what_a_tool_does_is_done_in_the_callers_name(stage, agent):
    await stage.add_benchmark()
    await stage.person("ada", default="member")
    async with agent(await stage.token_of("ada")) as session:
        run = await answered(session, "submit_run", config=config())
    assert run["submitted_by"] == "ada"


async def test_a_value_stays_one_segment_of_the_address(stage):
    document = stage.app.openapi()
    stop = Operation.of(document, "post", "/api/v1/runs/{ref}/stop")
    call = stop.call({"ref": "../benchmarks?x#y", "reason": None})
    assert call.path == "/api/v1/runs/..%2Fbenchmarks%3Fx%23y/stop"
    assert (call.query, call.body) == ({}, {})
    with pytest.raises(WrongArgumentsError):
        stop.call({})
    with pytest.raises(LookupError):
        Operation.of(document, "get", "/api/v1/nothing")


async def test_a_name_that_leads_to_a_file_is_refused(stage, agent):
    await stage.add_benchmark()
    run = await stage.submit()
    async with agent() as session:
        said = await refused(session, "show_run", ref=f"{run['name']}/export")
    assert "no answer of a tool" in said
