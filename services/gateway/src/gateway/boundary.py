"""What every request passes before the application sees it, and every answer on its way out.

A request gets an id, its body is read whole, in time and held against a limit, and text that no
read model can hold is refused here, before it can become an event that a projection chokes on.
Every answer gets the id and the security headers, also the ones that say that something broke.
"""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from gateway.access import request_id_of
from gateway.problems import ProblemError, invalid, problem_response, translated
from gateway.settings import HttpLimits

MOST_BODY_BYTES = 1024 * 1024
MOST_HEADERS = 100
MOST_HEAD_BYTES = 32 * 1024

_VERSIONS = {"1.0", "1.1", "2"}
_LONGEST_NUMBER = 18
"""Digits of a number that is far too large already; the rest of them need not be read."""

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_API_HEADERS = [
    *_HEADERS,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
]


class Boundary:
    """The outermost part of the application (pure ASGI, so that streams flow through it)."""

    def __init__(self, app: ASGIApp, limits: HttpLimits) -> None:
        self._app = app
        self._body_seconds = limits.http_body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, and see its answer out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = dict(scope["headers"])
        request_id = request_id_of(sent.get(b"x-request-id", b"").decode("latin-1"))
        scope.setdefault("state", {})["request_id"] = request_id
        ours = _API_HEADERS if scope["path"].startswith("/api/") else _HEADERS
        ours = [*ours, (b"x-request-id", str(request_id).encode())]
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                there = {name for name, _ in message["headers"]}
                more = [one for one in ours if one[0] not in there]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(correlation_id=str(request_id))
        try:
            _check_head(scope, sent)
            await self._app(scope, await self._checked(scope, receive, sent), answer)
        except Exception as error:
            if started:
                raise
            await problem_response(translated(error, Request(scope)))(scope, receive, answer)

    async def _checked(self, scope: Scope, receive: Receive, sent: dict[bytes, bytes]) -> Receive:
        """A `receive` that hands on the whole body, once it was found fit.

        Raises:
            ProblemError: the body is too large, too slow or no JSON, or a text holds a NUL
                character.
        """
        has_body = b"content-length" in sent or b"transfer-encoding" in sent
        try:
            if has_body:
                async with asyncio.timeout(self._body_seconds):
                    message = await _whole(receive)
            else:
                message = await receive()
        except TimeoutError as error:
            raise ProblemError(
                ProblemCode.REQUEST_TIMEOUT,
                408,
                f"the body was not there within {self._body_seconds:g} s",
                headers={"Connection": "close"},
            ) from error
        if message.get("body") and not _is_form(scope, sent):
            _check_json(message["body"])
        left = [message]

        async def replayed() -> Message:
            return left.pop() if left else await receive()

        return replayed


async def _whole(receive: Receive) -> Message:
    """The request's body in one message; or the message that the client has gone.

    Raises:
        ProblemError: it is too large.
    """
    parts: list[bytes] = []
    size = 0
    message: Message = {"more_body": True}
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            return message
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        _check_size(size)
    return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _check_head(scope: Scope, sent: dict[bytes, bytes]) -> None:
    """Refuse what can be refused before the body is read.

    Raises:
        ProblemError: the address holds a NUL character or its host is none, there are too many
            headers, or the body is said to be too large.
    """
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise invalid([ConfigIssue(key="address", message="must not hold a NUL character")])
    if scope["http_version"] not in _VERSIONS:
        raise ProblemError(
            ProblemCode.MALFORMED,
            400,
            "this version of HTTP is not spoken here",
            headers={"Connection": "close"},
        )
    _check_host(sent.get(b"host", b""))
    headers = scope["headers"]
    size = len(scope["path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MOST_HEADERS or size > MOST_HEAD_BYTES:
        raise ProblemError(
            ProblemCode.TOO_LARGE,
            431,
            f"at most {MOST_HEADERS} headers and {MOST_HEAD_BYTES} bytes of them can be sent",
        )
    length = sent.get(b"content-length", b"")
    if length.isdigit():
        _check_size(int(length[:_LONGEST_NUMBER]))


def _check_host(host: bytes) -> None:
    """Refuse a host of which no address of our own can be made."""
    try:
        _ = urlsplit(f"//{host.decode('latin-1')}").port
    except ValueError as error:
        raise ProblemError(
            ProblemCode.MALFORMED, 400, "the header Host must be a host, and perhaps a port"
        ) from error


def _check_size(size: int) -> None:
    if size > MOST_BODY_BYTES:
        raise ProblemError(
            ProblemCode.TOO_LARGE, 413, f"at most {MOST_BODY_BYTES} bytes can be sent"
        )


def _is_form(scope: Scope, sent: dict[bytes, bytes]) -> bool:
    """Whether a page's form was sent; the API takes JSON alone."""
    kind = sent.get(b"content-type", b"").partition(b";")[0].strip()
    is_api = scope["path"].startswith("/api/")
    return not is_api and kind == b"application/x-www-form-urlencoded"


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
