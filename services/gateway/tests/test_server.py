"""The server itself, by raw sockets: slow, huge, malformed, half-closed and too many requests."""

import asyncio
import contextlib
import os
import time

import h11
import orjson
import psutil
import pytest
import uvicorn

from assay_local.embedded import free_port
from gateway.app import build_app
from gateway.boundary import MOST_HEAD_BYTES
from gateway.server import server_config
from gateway.settings import HttpLimits
from gateway.system import healthz

QUICK = HttpLimits(
    http_head_seconds=1.5,
    http_body_seconds=1.5,
    http_idle_seconds=2,
    http_connections=4,
)
PATIENT = HttpLimits(http_connections=4)
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(stage, limits):
    """The application behind a real server; gives its port."""
    app = build_app(stage.desk, stage.app.state.tokens, stage.closing, limits=limits)
    port = free_port()
    server = uvicorn.Server(server_config(app, "127.0.0.1", port, limits))
    server.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        await task


@pytest.fixture
async def port(stage):
    async with serving(stage, QUICK) as port:
        yield port


class Raw:
    """A connection on which anything can be said."""

    def __init__(self, port):
        self._port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def say(self, *parts, every=0.0):
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(every)

    async def answer(self):
        """Status, headers and body of one answer; None where the connection ends without one."""
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
        client.send(h11.EndOfMessage())
        status, headers, body = None, {}, b""
        async with asyncio.timeout(60):
            while True:
                event = client.next_event()
                if event is h11.NEED_DATA:
                    read = await self.reader.read(65536)
                    if not read and status is None:
                        return None
                    client.receive_data(read)
                elif isinstance(event, h11.Response):
                    status, headers = event.status_code, dict(event.headers)
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    return status, headers, body

    async def ends(self):
        """Seconds until the server ends the connection."""
        began = time.monotonic()
        async with asyncio.timeout(60):
            while await self.reader.read(65536):
                pass
        return time.monotonic() - began


def code_of(answer):
    status, headers, body = answer
    assert headers[b"content-type"] == b"application/problem+json"
    return status, orjson.loads(body)["code"]


def post(body=b"", *headers, path="/api/v1/runs"):
    sent = [f"POST {path} HTTP/1.1", "Host: a", "Content-Type: application/json", *headers]
    return "\r\n".join([*sent, "", ""]).encode("latin-1") + body


async def alive(port):
    async with Raw(port) as raw:
        await raw.say(ALIVE)
        status, _, body = await raw.answer()
    return status == 200 and orjson.loads(body) == await healthz()


async def test_a_head_that_trickles_is_cut_off(port):
    async with Raw(port) as raw:
        telling = asyncio.create_task(raw.say(*(bytes([one]) for one in ALIVE), every=0.2))
        assert code_of(await raw.answer()) == (408, "REQUEST_TIMEOUT")
        assert await raw.ends() < 10
        telling.cancel()
    assert await alive(port)


async def test_a_connection_that_says_nothing_is_ended(port):
    async with Raw(port) as raw:
        assert code_of(await raw.answer()) == (408, "REQUEST_TIMEOUT")
        assert await raw.ends() < 10


async def test_a_second_head_that_trickles_is_cut_off_too(port):
    async with Raw(port) as raw:
        await raw.say(ALIVE)
        assert (await raw.answer())[0] == 200
        telling = asyncio.create_task(raw.say(*(bytes([one]) for one in ALIVE), every=0.2))
        assert code_of(await raw.answer()) == (408, "REQUEST_TIMEOUT")
        telling.cancel()


async def test_an_idle_connection_is_ended_and_one_in_use_is_not(port):
    async with Raw(port) as raw:
        for _ in range(4):
            await raw.say(ALIVE)
            assert (await raw.answer())[0] == 200
            await asyncio.sleep(0.4)  # idle for less than it may
        assert 0 < await raw.ends() < 10


async def test_a_body_that_trickles_is_cut_off(port):
    async with Raw(port) as raw:
        await raw.say(post(b"", "Content-Length: 1000"))
        telling = asyncio.create_task(raw.say(*([b" "] * 100), every=0.1))
        assert code_of(await raw.answer()) == (408, "REQUEST_TIMEOUT")
        assert await raw.ends() < 10
        telling.cancel()
    assert await alive(port)


async def test_a_body_that_is_said_to_be_too_large_is_refused_before_it_is_sent(port):
    async with Raw(port) as raw:
        await raw.say(post(b"", "Content-Length: 9999999999999", "Expect: 100-continue"))
        assert code_of(await raw.answer()) == (413, "TOO_LARGE")  # and nobody said: continue
        assert await raw.ends() < 10


async def test_a_client_that_sends_too_much_is_told_so_and_can_go_on(port):
    async with Raw(port) as raw:
        size = 5 * 1024 * 1024
        sending = asyncio.create_task(
            raw.say(post(b"", f"Content-Length: {size}"), *([b"x" * 65536] * (size // 65536)))
        )
        assert code_of(await raw.answer()) == (413, "TOO_LARGE")
        await sending
        await raw.say(ALIVE)
        assert (await raw.answer())[0] == 200


async def test_an_endless_body_in_chunks_is_refused_and_memory_stays_flat(port):
    process = psutil.Process(os.getpid())
    async with Raw(port) as raw:
        await raw.say(post(b"", "Transfer-Encoding: chunked"))
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        before, sent = process.memory_info().rss, 0
        answering = asyncio.create_task(raw.answer())
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                while sent < 2_000_000_000:
                    await raw.say(piece)
                    sent += len(piece)
        assert code_of(await answering) == (413, "TOO_LARGE")
        assert 1024 * 1024 < sent < 2_000_000_000  # it was read on for a while, and then ended
        assert process.memory_info().rss - before < 32 * 1024 * 1024
    assert await alive(port)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: "
        + b"x" * (2 * MOST_HEAD_BYTES)
        + b"\r\n\r\n",
        b"GET /" + b"a" * (2 * MOST_HEAD_BYTES) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 101 + b"\r\n",
    ],
)
async def test_too_many_or_too_long_headers_are_refused(port, head):
    async with Raw(port) as raw:
        with contextlib.suppress(ConnectionError):
            await raw.say(head)
        assert code_of(await raw.answer()) == (431, "TOO_LARGE")
    assert await alive(port)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200),
        b"\r\n\r\nHELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_as_a_problem(port, garbage):
    async with Raw(port) as raw:
        await raw.say(garbage)
        status, code = code_of(await raw.answer())
        assert (status, code) in {(400, "MALFORMED"), (501, "MALFORMED")}
        assert await raw.ends() < 10
    assert await alive(port)


async def test_a_broken_chunk_ends_the_request(port):
    async with Raw(port) as raw:
        await raw.say(post(b"zz\r\nnonsense\r\n", "Transfer-Encoding: chunked"))
        assert code_of(await raw.answer()) == (400, "MALFORMED")
        assert await raw.ends() < 10
    assert await alive(port)


async def test_requests_in_a_pipeline_are_answered_in_turn_and_garbage_behind_them_refused(port):
    async with Raw(port) as raw:
        await raw.say(ALIVE * 20 + b"\x00garbage\r\n\r\n")
        read = b""
        async with asyncio.timeout(60):
            while part := await raw.reader.read(65536):
                read += part
        assert read.count(b"HTTP/1.1 200") == 20
        assert read.rindex(b"HTTP/1.1 400") > read.rindex(b"HTTP/1.1 200")
    assert await alive(port)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"config": "\xff\xfe"}', "is not JSON"),
        (b'{"config": "\xed\xa0\x80"}', "is not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "is not JSON"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"config": 1e999999}', "is not JSON"),
    ],
)
async def test_bodies_that_no_reader_should_have_to_read(stage, port, body, said):
    token = stage.client().headers["Authorization"]
    async with Raw(port) as raw:
        await raw.say(post(body, f"Content-Length: {len(body)}", f"Authorization: {token}"))
        answer = await raw.answer()
        assert code_of(answer) == (422, "VALIDATION")
        assert said in orjson.loads(answer[2])["detail"]


@pytest.mark.parametrize("host", ["[", "[::1", "gateway:port", "gateway:99999999"])
async def test_a_host_that_is_none_is_refused(port, host):
    async with Raw(port) as raw:
        await raw.say(f"GET /api/v1/runs/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert code_of(await raw.answer()) == (400, "MALFORMED")


async def test_addresses_and_headers_of_any_bytes_never_break_anything(stage, port):
    token = stage.client().headers["Authorization"]
    for target in (
        "/api/v1/runs/%FF%FE",
        "/api/v1/runs?benchmark=%ED%A0%80",
        "/api/v1/runs/%2E%2E",
    ):
        for more in ("X-Assay-Workspace: \xff", "X-Request-ID: \xe9", "If-None-Match: \xff,,"):
            async with Raw(port) as raw:
                head = (
                    f"GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: {token}\r\n{more}\r\n\r\n"
                )
                await raw.say(head.encode("latin-1"))
                assert (await raw.answer())[0] in {200, 404, 422}, (target, more)


async def test_who_leaves_in_the_middle_harms_nobody(stage, port):
    token = stage.client().headers["Authorization"]
    live = f"GET /api/v1/runs HTTP/1.1\r\nHost: a\r\nAuthorization: {token}\r\n\r\n".encode()
    for said in (ALIVE[:10], post(b"{", "Content-Length: 100"), live, ALIVE * 3):
        for half in (True, False):
            async with Raw(port) as raw:
                await raw.say(said)
                if half:
                    raw.writer.write_eof()
                    await raw.ends()
                else:
                    raw.writer.transport.abort()
    assert await alive(port)


async def test_a_connection_too_many_is_told_to_come_again(stage):
    async with serving(stage, PATIENT) as port, contextlib.AsyncExitStack() as open_ones:
        held = [await open_ones.enter_async_context(Raw(port)) for _ in range(4)]
        for raw in held:
            await raw.say(ALIVE)
            assert (await raw.answer())[0] == 200
        async with Raw(port) as raw:
            await raw.say(ALIVE)
            answer = await raw.answer()
            assert code_of(answer) == (503, "UNAVAILABLE")
            assert answer[1][b"retry-after"] == b"1"
            assert await raw.ends() < 10
        await open_ones.aclose()
        async with asyncio.timeout(60):
            while not await _is_let_in(port):
                await asyncio.sleep(0.02)


async def _is_let_in(port):
    async with Raw(port) as raw:
        await raw.say(ALIVE)
        return (await raw.answer())[0] == 200


async def test_many_slow_connections_leave_room_for_the_quick(stage):
    """Slowloris: as many as there may be; all are gone after the time for a head."""
    limits = QUICK.model_copy(update={"http_connections": 200})
    async with serving(stage, limits) as port, contextlib.AsyncExitStack() as open_ones:
        slow = [await open_ones.enter_async_context(Raw(port)) for _ in range(199)]
        for raw in slow:
            await raw.say(ALIVE[:-3])
        assert await alive(port)
        ended = await asyncio.gather(*(raw.ends() for raw in slow))
        assert max(ended) < 5
