"""`Idempotency-Key`: a request that is sent twice is done once, and answered the same.

A success is kept for a day. A refusal did nothing: its key is free again, so that it can be sent
once more when what it lacked is there. After a failure nobody knows how far the work got: the
record stays without an answer, and the repeated request does the work again under the same ids.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from uuid import UUID

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from assay_kernel.database import is_outage
from gateway.admission import Admitted, admitted
from gateway.desk import Desk
from gateway.idempotency_keys import HELD, Answered, Asked, Begun, IdempotencyKeys, Reused, UnderWay
from gateway.identities import Work, working
from gateway.problems import ProblemError, invalid

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_MOST_KEPT_BYTES = 256 * 1024
_SWEEP_SECONDS = 600.0
_UNKNOWN = {408, 425, 429}

log = structlog.get_logger(__name__)


async def answer_not_kept(request: Request) -> None:
    """A dependency of routes whose answer holds a secret: it is told once, and never stored."""
    request.state.answer_not_kept = True


async def changes_nothing(request: Request) -> None:
    """A dependency of routes that only read, although by POST: keys mean nothing to them."""
    request.state.changes_nothing = True


class Idempotency:
    """Holds every POST of the API against the record of its key (pure ASGI)."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app = app
        self._keys = desk.idempotency

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do the work of a request, unless it was done under its key.

        Raises:
            ProblemError: the key is malformed or belongs to another request; or the first request
                under it is not done yet, or its answer is not kept.
        """
        key = Headers(scope=scope).get(HEADER) if _takes_keys(scope) else None
        who = None if key is None else await admitted(scope)
        if key is None or who is None or who.somebody is None:
            await self._app(scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            message = "must be 1 to 255 visible ASCII characters"
            raise invalid([ConfigIssue(key=HEADER, message=message)])
        whole = await receive()
        if whole["type"] != "http.request":
            return  # who asked has gone
        asked = _asked(key, who, scope, whole.get("body", b""))
        match await self._keys.begin(asked):
            case Begun() as begun:
                await self._work(begun, scope, _again(whole, receive), send)
            case Answered() as answered:
                await _replay(answered)(scope, receive, send)
            case Reused():
                raise ProblemError(
                    ProblemCode.IDEMPOTENCY_KEY_REUSED,
                    422,
                    f"this {HEADER} was sent with another request; take a new key for a new "
                    "request",
                )
            case UnderWay():
                raise ProblemError(
                    ProblemCode.IDEMPOTENCY_IN_PROGRESS,
                    409,
                    f"a request with this {HEADER} is being worked on; ask again in a moment",
                    headers={"Retry-After": "1"},
                )

    async def _work(self, begun: Begun, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Capture(send)
        settled = False
        async with _held(self._keys, begun.id):
            try:
                with working(Work(begun.id, begun.repeated)):
                    await self._app(scope, receive, answer)
                await self._settle(begun, answer, scope["state"])
                settled = True
            finally:
                if not settled:
                    await self._release(begun.id)
        await answer.let_go()

    async def _release(self, record: UUID) -> None:
        """Free a record after a failure; in an outage it becomes free when its hold runs out."""
        try:
            await self._keys.release(record)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("idempotency-release-fails", error=type(error).__name__)

    async def _settle(self, begun: Begun, answer: "_Capture", state: dict[str, object]) -> None:
        if state.get("changes_nothing"):
            await self._keys.forget(begun.id)
        elif answer.is_success:
            kept = None if state.get("answer_not_kept") else answer.body
            await self._keys.answer(begun.id, Answered(answer.status, answer.media_type, kept))
        elif answer.is_refusal and not begun.repeated:
            await self._keys.forget(begun.id)
        else:
            await self._keys.release(begun.id)


class _Capture:
    """Keeps an answer back until its record is written; a long one goes out as it comes."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: list[Message] = []
        self._size = 0
        self._flows = False
        self.status = 500
        self.media_type: str | None = None

    async def __call__(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.media_type = Headers(raw=message["headers"]).get("content-type")
        self._size += len(message.get("body", b""))
        self._held.append(message)
        if self._flows or self._size > _MOST_KEPT_BYTES:
            self._flows = True
            await self.let_go()

    async def let_go(self) -> None:
        """Send what was kept back."""
        for message in self._held:
            await self._send(message)
        self._held = []

    @property
    def body(self) -> bytes | None:
        """The whole answer; None where it was too long to keep."""
        return None if self._flows else b"".join(one.get("body", b"") for one in self._held)

    @property
    def is_success(self) -> bool:
        """Whether the work was done."""
        return 200 <= self.status < 300

    @property
    def is_refusal(self) -> bool:
        """Whether nothing was done for sure."""
        return 400 <= self.status < 500 and self.status not in _UNKNOWN


def _takes_keys(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    path = scope["path"]
    is_ours = path.startswith("/api/v1/") and not path.startswith("/api/v1/internal/")
    return is_ours and scope["method"] == "POST"


def _asked(key: str, who: Admitted, scope: Scope, body: bytes) -> Asked:
    """What the key is held against; without a workspace in what concerns none."""
    address = b"\0".join((scope["path"].encode(), scope["query_string"], body))
    caller, user = who.caller, "" if who.somebody is None else who.somebody.user
    permissions = [] if caller is None else [one.value for one in caller.permissions]
    return Asked("" if caller is None else caller.workspace, user, key, address, permissions)


def _again(whole: Message, receive: Receive) -> Receive:
    waiting = [whole]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


def _replay(answered: Answered) -> Response:
    if answered.body is None:
        raise ProblemError(
            ProblemCode.IDEMPOTENCY_ANSWER_GONE,
            409,
            "this was done, and its answer is told only once; look for what it made, or take a "
            "new key to do it again",
        )
    headers = {REPLAYED: "true"}
    if answered.media_type is not None:
        headers["Content-Type"] = answered.media_type
    return Response(answered.body, status_code=answered.status, headers=headers)


@contextlib.asynccontextmanager
async def _held(keys: IdempotencyKeys, record: UUID) -> AsyncIterator[None]:
    """Meanwhile the record is held, however long the work takes."""
    holding = asyncio.create_task(_keep_holding(keys, record))
    try:
        yield
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


async def _keep_holding(keys: IdempotencyKeys, record: UUID) -> None:
    while True:
        await asyncio.sleep(HELD.total_seconds() / 3)
        try:
            await keys.hold(record)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("idempotency-hold-waits", error=type(error).__name__)


async def sweep_idempotency_keys(keys: IdempotencyKeys) -> None:
    """Delete old records again and again until cancelled; an outage is waited out."""
    while True:
        try:
            if swept := await keys.sweep():
                log.info("idempotency-keys-swept", records=swept)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("idempotency-sweep-waits", error=type(error).__name__)
        await asyncio.sleep(_SWEEP_SECONDS)
