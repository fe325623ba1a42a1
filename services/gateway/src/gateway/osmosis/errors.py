"""Errors as the Osmosis client reads them: every one under `/api/cli`, whoever raised it.

Our problem details are told again on their way out, behind the boundary, so that what the framework
or the boundary itself refuses arrives in the same shape. What only this client knows, such as its
scopes, is raised as an `OsmosisError`.
"""

from typing import Any

import orjson
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.problems import PROBLEM_MEDIA_TYPE, Problem, ProblemCode
from assay_contracts.run_config import ConfigIssue

PREFIX = "/api/cli"

_COMMANDS = {
    "assay login": "osmosis auth login",
    "assay whoami": "osmosis auth whoami",
    "assay secret list": "osmosis secret list",
    "assay secret set": "osmosis secret set",
    "assay run list": "osmosis benchmark runs list",
    "assay run watch": "osmosis benchmark runs info",
}
"""What our messages advise to type, and what does the same in this client."""


class WireError(BaseModel):
    """An error; `status` and `message` are read where the client is too old."""

    model_config = ConfigDict(extra="forbid")

    error: str
    code: str | None = None
    field: str | None = None
    issues: list[ConfigIssue] | None = None
    details: dict[str, Any] | None = None
    platform_url: str | None = None
    status: str | None = None
    message: str | None = None

    def body(self) -> dict[str, Any]:
        """What is sent: the fields that have something to say."""
        return {name: value for name, value in self.model_dump().items() if value is not None}


class OsmosisError(Exception):
    """A refusal that only this interface knows, under one of the client's own codes."""

    def __init__(self, http_status: int, told: WireError) -> None:
        super().__init__(told.error)
        self.http_status = http_status
        self.told = told


def answer_osmosis_errors(app: FastAPI) -> None:
    """Let `OsmosisError`s leave as they are."""

    @app.exception_handler(OsmosisError)
    async def ours(_: Request, error: OsmosisError) -> Response:
        return JSONResponse(error.told.body(), error.http_status)


def wire_error(problem: Problem, *, has_token: bool) -> tuple[int, WireError]:
    """The status and the body that tell a problem to the client.

    The client takes 400 for mistakes in what was sent, and lists `issues` below the message itself.
    """
    told = WireError(
        error=_message(problem),
        code=_code(problem, has_token=has_token),
        field=problem.issues[0].key if len(problem.issues) == 1 else None,
        issues=[_issue(one) for one in problem.issues] or None,
        details=problem.details or None,
    )
    return (400 if problem.status == 422 else problem.status), told


def _code(problem: Problem, *, has_token: bool) -> str:
    if problem.code is ProblemCode.AUTH_REQUIRED:
        return "TOKEN_INVALID" if has_token else "AUTH_HEADER_MISSING"
    return problem.code.value


def _message(problem: Problem) -> str:
    if problem.code is ProblemCode.MISSING_SECRETS:
        # The client looks for these words, and adds what to type below them.
        return f"Secret(s) not found: {', '.join(problem.details['missing'])}"
    if problem.code is ProblemCode.AUTH_REQUIRED:
        return "a valid token is needed; sign in with: osmosis auth login"
    match len(problem.issues):
        case 0:
            return _advice(problem.detail)
        case 1:
            return "There is a mistake in what was sent:"
        case many:
            return f"There are {many} mistakes in what was sent:"


def _issue(issue: ConfigIssue) -> ConfigIssue:
    return issue.model_copy(update={"message": _advice(issue.message)})


def _advice(text: str) -> str:
    for ours, theirs in _COMMANDS.items():
        text = text.replace(ours, theirs)
    return text


def is_ours(path: str) -> bool:
    """Whether a path belongs to this interface."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


class OsmosisAnswers:
    """Tells problems under `/api/cli` in the client's shape (pure ASGI, outside of the boundary).

    Only problems are held back until they are whole; everything else flows through.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and tell what is a problem anew."""
        if scope["type"] != "http" or not is_ours(scope["path"]):
            await self._app(scope, receive, send)
            return
        has_token = "Authorization" in Headers(scope=scope)
        started: Message | None = None
        body = b""

        async def answer(message: Message) -> None:
            nonlocal started, body
            if message["type"] == "http.response.start" and _is_problem(message):
                started = message
                return
            if started is None:
                await send(message)
                return
            body += message.get("body", b"")
            if message.get("more_body", False):
                return
            status, told = wire_error(Problem.model_validate_json(body), has_token=has_token)
            whole = orjson.dumps(told.body())
            await send(_restarted(started, status, len(whole)))
            await send({"type": "http.response.body", "body": whole})

        await self._app(scope, receive, answer)


def _is_problem(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("Content-Type") == PROBLEM_MEDIA_TYPE


def _restarted(start: Message, status: int, length: int) -> Message:
    message = {**start, "status": status, "headers": list(start["headers"])}
    headers = MutableHeaders(raw=message["headers"])
    headers["Content-Type"] = "application/json"
    headers["Content-Length"] = str(length)
    return message
