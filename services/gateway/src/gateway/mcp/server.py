"""The MCP server: it proves who asks, and makes of each tool call a request to the application.

The request carries the caller's own token and workspace and passes the same doors as any other, so
that a tool can do exactly what the caller could do by HTTP. Nothing is kept between calls.
"""

import importlib.metadata
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
from fastapi import FastAPI
from fastapi.security import HTTPBearer
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.access import somebody
from gateway.boundary import MOST_BODY_BYTES
from gateway.mcp.catalogue import TOOLS, CuratedTool, Effect
from gateway.mcp.operations import Operation, WrongArgumentsError

PATH = "/mcp"
_INSTRUCTIONS = (
    "Assay scores AI agents on benchmarks. A run lets one or more agents (a harness with a model) "
    "try a benchmark's tasks; a leaderboard ranks the agents of finished runs. Begin with "
    "list_benchmarks; submit_run, then show_run until its status is finished; explain_result says "
    "why a score is what it is. Rates come with 95% intervals: agents on the same rank cannot be "
    "told apart. Null means unknown, never zero."
)
_FORWARDED = ("authorization", "x-assay-workspace")
_bearer = HTTPBearer(auto_error=False)


class Toolbox:
    """The tools, and the application that does what they ask for."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._operations: Mapping[str, Operation] = {}
        self._listed: list[Tool] = []

    def _open(self) -> None:
        """Make the tools of the routes, once all of them are there."""
        if not self._listed:
            document = self._app.openapi()
            self._operations = {
                one.name: Operation.of(document, one.method, one.path) for one in TOOLS
            }
            self._listed = [_tool(one, self._operations[one.name].schema) for one in TOOLS]

    async def list_tools(
        self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Every tool; who lacks a permission is told so by the call."""
        self._open()
        return ListToolsResult(tools=self._listed)

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Do what a tool is for, in the caller's name."""
        self._open()
        operation = self._operations.get(params.name)
        if operation is None:
            return _refusal(f"there is no tool {params.name}")
        try:
            call = operation.call(params.arguments or {})
        except WrongArgumentsError as error:
            return _refusal(str(error))
        asking = context.request
        if not isinstance(asking, Request):
            raise TypeError("a tool call arrived without its HTTP request")
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app, raise_app_exceptions=False),
            base_url=str(asking.base_url),
            headers=_forwarded(asking),
            trust_env=False,
        ) as client:
            answer = await client.request(
                call.method, call.path, params=call.query, json=call.body, timeout=None
            )
        return _result(answer)


def _forwarded(asking: Request) -> dict[str, str]:
    """What says who asks, for which workspace, and under which request id."""
    found = {name: asking.headers[name] for name in _FORWARDED if name in asking.headers}
    return found | {"X-Request-ID": str(asking.state.request_id), "Accept": "application/json"}


def _result(answer: httpx.Response) -> CallToolResult:
    try:
        told = orjson.loads(answer.content) if answer.content else {}
    except orjson.JSONDecodeError:  # a name with a slash can lead to a file
        return _refusal("an argument leads to a file, which is no answer of a tool")
    if not answer.is_success:
        text = f"{told['code']} ({told['status']} {told['title']}): {told['detail']}"
        return _refusal(text, told)
    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)],
        structured_content=told if isinstance(told, dict) else {"items": told},
    )


def _refusal(text: str, problem: dict[str, Any] | None = None) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=problem, is_error=True
    )


def _tool(curated: CuratedTool, schema: dict[str, Any]) -> Tool:
    effect = curated.effect
    return Tool(
        name=curated.name,
        title=curated.title,
        description=curated.about,
        input_schema=schema,
        annotations=ToolAnnotations(
            title=curated.title,
            read_only_hint=effect is Effect.READS,
            destructive_hint=effect is Effect.ENDS,
            idempotent_hint=effect is not Effect.ADDS,
            open_world_hint=effect is Effect.ADDS,
        ),
    )


class McpEndpoint:
    """`POST /mcp`, for who has a valid bearer token; a browser's cookie is none."""

    def __init__(self, app: FastAPI) -> None:
        tools = Toolbox(app)
        self._manager = StreamableHTTPSessionManager(
            Server(
                "assay",
                version=importlib.metadata.version("assay-gateway"),
                title="Assay",
                instructions=_INSTRUCTIONS,
                on_list_tools=tools.list_tools,
                on_call_tool=tools.call_tool,
            ),
            json_response=True,
            stateless=True,
            max_request_body_size=MOST_BODY_BYTES,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in who is known."""
        request = Request(scope)
        await somebody(request, await _bearer(request), None)
        await self._manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the application serves."""
        async with self._manager.run():
            yield


def serve_mcp(app: FastAPI) -> None:
    """Add the MCP server to an application that has all of its routes."""
    endpoint = McpEndpoint(app)
    app.router.routes.append(Route(PATH, endpoint, methods=["POST"]))
    whole = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[Any]:
        async with whole(served) as state, endpoint.running():
            yield state

    app.router.lifespan_context = lifespan
