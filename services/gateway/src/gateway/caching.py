"""What JSON answers to GET have in common: an `ETag`, 304 where nothing changed, links of a page.

A route that draws on read models alone can say so with `kept_with`. Its answers are then kept, as
bytes, by workspace and address, and given again while those read models stand where they stood
when the answer was made; such a request never reaches the route. What a route says of the present
moment, of a user, or of anything beside the read models must not be kept.
"""

from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from cachetools import LRUCache
from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.identity import Permission
from gateway.access import Reading
from gateway.admission import admitted
from gateway.desk import DeskNow
from gateway.freshness import Freshness, Mark, Marks, ReadModel, of
from gateway.paging import links

_JSON = b"application/json"
_SHARED = [
    (b"cache-control", b"private, no-cache"),
    (b"vary", b"Authorization, Cookie, X-Assay-Workspace, Accept"),
]
_OVERHEAD_BYTES = 1024
"""About what an answer takes in memory beside its body."""

RawHeaders = list[tuple[bytes, bytes]]
Key = tuple[str, str, bytes]


@dataclass(frozen=True)
class _Keeping:
    """That an answer may be kept: for which workspace, and while which marks stay."""

    workspace: str
    models: Sequence[ReadModel]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer as bytes."""

    etag: bytes
    headers: RawHeaders
    body: bytes

    async def give(self, wanted: bytes | None, send: Send) -> None:
        """Send it, or only that nothing changed where the client has it already."""
        if wanted is not None and _matches(wanted, self.etag):
            same = [one for one in self.headers if not one[0].startswith(b"content-")]
            await send({"type": "http.response.start", "status": 304, "headers": same})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [*self.headers]})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: _Answer
    keeping: _Keeping


def kept_with(*models: ReadModel) -> Callable[..., Awaitable[None]]:
    """A dependency of a route whose answer follows from `models`, workspace and address alone."""

    async def keep(request: Request, asking: Reading, desk: DeskNow) -> None:
        marks: Marks | None = getattr(request.state, "marks", None)
        if marks is None:
            marks = await desk.freshness.now()
        if marks is not None:
            request.state.keeping = _Keeping(asking.workspace, models, of(marks, models))

    return keep


def do_not_keep(request: Request) -> None:
    """Say of one answer of such a route that it is of this moment."""
    request.state.keeping = None


class Caching:
    """Gives kept answers, and tags those that it sees (pure ASGI, so that streams flow through)."""

    def __init__(self, app: ASGIApp, freshness: Freshness, most_bytes: int) -> None:
        self._app = app
        self._freshness = freshness
        self._kept: LRUCache[Key, _Kept] = LRUCache(most_bytes, _size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a GET of the API from what is kept, or let it through and tag its answer."""
        if scope["type"] != "http" or scope["method"] != "GET" or not _is_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        wanted = _wanted(scope)
        kept = await self._fresh(scope)
        if kept is not None:
            await kept.give(wanted, send)
            return
        tagging = _Tagging(scope, wanted, send)
        await self._app(scope, receive, tagging)
        keeping: _Keeping | None = scope["state"].get("keeping")
        if keeping is not None and tagging.answer is not None:
            kept_now = _Kept(tagging.answer, keeping)
            if _size(kept_now) <= self._kept.maxsize:
                self._kept[_key(keeping.workspace, scope)] = kept_now

    async def _fresh(self, scope: Scope) -> _Answer | None:
        """What is kept for the caller, if the read models stand where they stood."""
        caller = (await admitted(scope)).caller
        if caller is None or Permission.READ not in caller.permissions:
            return None
        kept = self._kept.get(_key(caller.workspace, scope))
        if kept is None:
            return None
        marks = await self._freshness.now()
        if marks is None:
            return None
        scope["state"]["marks"] = marks
        return kept.answer if of(marks, kept.keeping.models) == kept.keeping.marks else None


class _Tagging:
    """Holds a JSON answer back until it is whole, and tags it; the rest passes as it comes."""

    def __init__(self, scope: Scope, wanted: bytes | None, send: Send) -> None:
        self._scope = scope
        self._wanted = wanted
        self._send = send
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self.answer: _Answer | None = None

    async def __call__(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start" and _can_be_tagged(message):
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            await self._tag(self._start, b"".join(self._parts))

    async def _tag(self, start: Message, body: bytes) -> None:
        etag = b'"' + urlsafe_b64encode(blake2b(body, digest_size=18).digest()) + b'"'
        headers = [*start["headers"], (b"etag", etag), *_SHARED]
        link = links(self._scope, body)
        if link is not None:
            headers.append((b"link", link.encode("latin-1")))
        self.answer = _Answer(etag, headers, body)
        await self.answer.give(self._wanted, self._send)


def _is_api(path: str) -> bool:
    return path.startswith("/api/v1/")


def _wanted(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            found: bytes = value
            return found
    return None


def _matches(wanted: bytes, etag: bytes) -> bool:
    """Weak comparison (RFC 9110, 13.1.2)."""
    if wanted in (etag, b"*"):
        return True
    return any(one.strip().removeprefix(b"W/") == etag for one in wanted.split(b","))


def _can_be_tagged(start: Message) -> bool:
    if start["status"] != 200:
        return False
    headers = Headers(raw=start["headers"])
    is_json = headers.get("content-type", "").startswith(_JSON.decode())
    return is_json and "etag" not in headers and "set-cookie" not in headers


def _key(workspace: str, scope: Scope) -> Key:
    return workspace, scope["path"], scope["query_string"]


def _size(kept: Any) -> int:
    return len(kept.answer.body) + _OVERHEAD_BYTES
