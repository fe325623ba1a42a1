"""What every request passes before the application sees it, and every answer on its way out.

A request gets an id, its body is read whole and held against a limit, and text that no read model
can hold is refused here, before it can become an event that a projection chokes on. Every answer
gets the id and the security headers, also the ones that say that something broke.
"""

from collections.abc import Iterator

import orjson
import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from gateway.access import request_id_of
from gateway.problems import ProblemError, invalid, problem_response, translated

MOST_BODY_BYTES = 1024 * 1024
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_API_HEADERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox"}


class Boundary:
    """The outermost part of the application (pure ASGI, so that streams flow through it)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, and see its answer out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        request_id = request_id_of(Headers(scope=scope).get("X-Request-ID"))
        request.state.request_id = request_id
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = str(request_id)
                more = _API_HEADERS if scope["path"].startswith("/api/") else {}
                for name, value in (_HEADERS | more).items():
                    headers.setdefault(name, value)
            await send(message)

        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(correlation_id=str(request_id))
        try:
            await self._app(scope, await _checked(scope, receive), answer)
        except Exception as error:
            if started:
                raise
            await problem_response(translated(error, request))(scope, receive, answer)


async def _checked(scope: Scope, receive: Receive) -> Receive:
    """A `receive` that hands on the whole body, once it was found fit.

    Raises:
        ProblemError: the body is too large or no JSON, or a text holds a NUL character.
    """
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise invalid([ConfigIssue(key="address", message="must not hold a NUL character")])
    body = b""
    message: Message = {"more_body": True}
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            raise ProblemError(
                ProblemCode.TOO_LARGE, 413, f"at most {MOST_BODY_BYTES} bytes can be sent"
            )
    gone = message["type"] == "http.disconnect"
    if body and not gone and not _is_form(scope):
        _check_json(body)
    whole: list[Message] = [
        message if gone else {"type": "http.request", "body": body, "more_body": False}
    ]

    async def replayed() -> Message:
        return whole.pop() if whole else await receive()

    return replayed


def _is_form(scope: Scope) -> bool:
    """Whether a page's form was sent; the API takes JSON alone."""
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip()
    is_api = scope["path"].startswith("/api/")
    return not is_api and kind == "application/x-www-form-urlencoded"


def _check_json(body: bytes) -> None:
    """Stricter than the framework's own reading: no lone surrogates, NaN, or endless nesting."""
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid([ConfigIssue(key="body", message=f"is not JSON: {error}")]) from error
    if b"\\u0000" in body and any("\0" in text for text in _texts(sent)):
        raise invalid([ConfigIssue(key="body", message="must not hold a NUL character (\\u0000)")])


def _texts(sent: object) -> Iterator[str]:
    left = [sent]
    while left:
        match left.pop():
            case str(text):
                yield text
            case dict(table):
                left.extend(table.keys())
                left.extend(table.values())
            case list(entries):
                left.extend(entries)
            case _:
                pass
