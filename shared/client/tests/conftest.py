"""A small real HTTP server to answer the client, the real `assay` command, and example answers."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid5

import pytest
from pydantic import BaseModel

from assay_contracts.http import (
    AgentRow,
    Amount,
    BenchmarkDetail,
    BenchmarkEntry,
    CategoryMeasures,
    Leaderboard,
    NotRanked,
    Page,
    Rate,
    RateAtK,
    ResultRow,
    RunDetail,
    RunEntry,
    Spend,
    Standing,
    StoredEvent,
)
from assay_contracts.problems import PROBLEM_MEDIA_TYPE, Problem
from assay_contracts.run_events import Durations, Usage
from assay_contracts.values import BenchmarkRules, ImportSource, RegistrySource, Selection

ASSAY = Path(sys.executable).with_name("assay")
NAMES = UUID("4b1a5d3e-93a7-4c39-8a53-6dfb6c2f5a10")
THEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any


@dataclass
class Reply:
    """What to answer: a body with its status, a stream of events, or a connection cut short.

    `promised` is how many bytes the answer says that it has, where it breaks off before them.
    """

    status: int = 200
    body: bytes = b""
    media_type: str = "application/json"
    events: Sequence[StoredEvent] | None = None
    stays_open: bool = False
    is_cut: bool = False
    promised: int | None = None
    retry_after: int | None = None


@dataclass
class Server:
    """Replies by method and path, in order; the last one is given again and again."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _replies: dict[tuple[str, str], list[Reply]] = field(default_factory=lambda: defaultdict(list))

    def answers(self, method: str, path: str, answer: object = None, status: int = 200) -> None:
        """Answer with a model, a list of models, or nothing."""
        if isinstance(answer, Problem):
            status = answer.status
        media_type = PROBLEM_MEDIA_TYPE if isinstance(answer, Problem) else "application/json"
        self.replies(method, path, Reply(status, to_bytes(answer), media_type))

    def replies(self, method: str, path: str, *replies: Reply) -> None:
        """Answer so, one after the other."""
        self._replies[method, path].extend(replies)

    def next_reply(self, method: str, path: str, *, live: bool) -> Reply:
        """The reply to give now."""
        waiting = self._replies.get((method, f"{path}#live" if live else path))
        if not waiting:
            problem = Problem(title="no such thing", status=404, detail="", code="NOT_FOUND")
            return Reply(404, to_bytes(problem), PROBLEM_MEDIA_TYPE)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def requests(self, method: str, path: str) -> list[Seen]:
        """The requests for a path so far."""
        return [seen for seen in self.seen if (seen.method, seen.path) == (method, path)]


def to_bytes(answer: object) -> bytes:
    if answer is None:
        return b""
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, BaseModel):
        return answer.model_dump_json().encode()
    assert isinstance(answer, list)
    return json.dumps([one.model_dump(mode="json") for one in answer]).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    assay: Server

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        parts = urlsplit(self.path)
        self.assay.seen.append(
            Seen(
                self.command,
                parts.path,
                parse_qs(parts.query),
                dict(self.headers.items()),
                json.loads(raw) if raw else None,
            )
        )
        live = self.headers.get("Accept") == "text/event-stream"
        reply = self.assay.next_reply(self.command, parts.path, live=live)
        if reply.is_cut:
            self.close_connection = True
            return
        if reply.events is not None:
            self._stream(reply)
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(reply.promised or len(reply.body)))
        if reply.retry_after is not None:
            self.send_header("Retry-After", str(reply.retry_after))
        self.end_headers()
        self.wfile.write(reply.body)
        self.close_connection = reply.promised is not None

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for stored in reply.events or ():
            self.wfile.write(
                f"id: {stored.sequence}\ndata: {stored.model_dump_json()}\n\n".encode()
            )
            self.wfile.flush()
        if reply.stays_open:
            self.assay.closing.wait()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on a free port of this machine."""
    handler = type("Handler", (_Handler,), {})
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listening.daemon_threads = True
    made = Server(f"http://127.0.0.1:{listening.server_port}")
    handler.assay = made
    thread = threading.Thread(
        target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield made
    made.closing.set()
    listening.shutdown()
    listening.server_close()
    thread.join(5)


@pytest.fixture
def environment(server: Server, tmp_path: Path) -> dict[str, str]:
    """The environment of a user of that server, with nothing of this machine's own."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TZ": "UTC",
        "ASSAY_SERVER": server.url,
        "ASSAY_DATA": str(tmp_path / "data"),
        "ASSAY_TOKEN": "test-token",
    }


Assay = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def assay(environment: dict[str, str], tmp_path: Path) -> Assay:
    """The real command, run to its end."""

    def run(*arguments: str, given: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ASSAY, *arguments],
            check=False,
            input=given,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**environment, **changes},
            timeout=60,
        )

    return run


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def page(*items: BaseModel, next_offset: int | None = None) -> Page[Any]:
    return Page(items=list(items), total_count=len(items), next_offset=next_offset)


def problem(status: int, code: str, title: str, **more: Any) -> Problem:
    return Problem(status=status, code=code, title=title, **{"detail": "", **more})


def benchmark(**changes: Any) -> BenchmarkDetail:
    standard: dict[str, Any] = {
        "id": uuid5(NAMES, "benchmark"),
        "name": "Tiny Bench",
        "key": "acme/tiny@3",
        "description": "A few small tasks",
        "source_type": "harbor_registry",
        "source": RegistrySource(dataset="acme/tiny", version="3"),
        "source_url": None,
        "version": "3",
        "digest": "sha256:" + "ab" * 32,
        "task_count": 1234,
        "category_count": 0,
        "task_sets": [],
        "sync_status": "ready",
        "synced_task_count": 1234,
        "syncing_task_count": None,
        "sync_error": None,
        "managed": False,
        "added_at": THEN,
        "added_by": "admin",
        "run_count": 0,
        "running_count": 0,
        "last_run_name": None,
        "last_run_status": None,
        "last_run_at": None,
        "rules": BenchmarkRules(),
        "categories": [],
        "tasks": [],
    }
    return BenchmarkDetail(**{**standard, **changes})


def benchmark_entry(**changes: Any) -> BenchmarkEntry:
    made = benchmark(**changes)
    return BenchmarkEntry(**{name: getattr(made, name) for name in BenchmarkEntry.model_fields})


def rate(value: float = 0.75, n_tasks: int = 249, **changes: Any) -> Rate:
    return Rate(
        **{"value": value, "ci_low": 0.719, "ci_high": 0.781, "n_tasks": n_tasks, **changes}
    )


def rate_at(k: int) -> RateAtK:
    return RateAtK(k=k, **rate(0.9).model_dump())


def amount(value: float) -> Amount:
    return Amount(value=value, ci_low=None, ci_high=None, n_tasks=249)


def category(name: str | None, pass_at_1: float) -> CategoryMeasures:
    measures = agent().model_dump(include=set(CategoryMeasures.model_fields))
    own = {"category": name, "n_tasks": 12, "pass_at_1": rate(pass_at_1, 12)}
    return CategoryMeasures.model_validate(measures | own)


def spend(**changes: Any) -> Spend:
    standard: dict[str, Any] = {
        "tries": 5,
        "cost_usd": 0.15,
        "input_tokens": 1_300_000,
        "output_tokens": 1100,
        "judge_cost_usd": None,
    }
    return Spend(**{**standard, **changes})


def agent(**changes: Any) -> AgentRow:
    standard: dict[str, Any] = {
        "index": 0,
        "harness": "terminus-2",
        "model": "openai/gpt-5.2",
        "status": "finished",
        "expected_results": 4,
        "ingested_results": 4,
        "n_tasks": 249,
        "passed": 1,
        "failed": 1,
        "errored": 1,
        "cancelled": 1,
        "pass_at_1": rate(),
        "pass_at_k": [rate_at(1), rate_at(4)],
        "pass_hat_k": [rate_at(1), rate_at(4)],
        "cost_per_task": amount(0.0),
        "seconds_per_task": amount(54.2),
        "tokens_per_task": amount(12_345),
        "input_tokens": 1_100_000,
        "output_tokens": 950,
        "cost_usd": 0.1234,
        "spent": spend(),
        "causes": [],
        "categories": [],
        "least_detectable_difference": 0.0512,
    }
    return AgentRow(**{**standard, **changes})


def result(task: str, outcome: str, cause: str, reason: str, attempt: int = 1) -> ResultRow:
    return ResultRow(
        slot_id=uuid5(NAMES, f"{task}/{attempt}"),
        agent=0,
        task=task,
        attempt=attempt,
        try_number=1,
        outcome=outcome,
        reward=0.0,
        rewards=None,
        cause=cause,
        reason=reason,
        environment="docker",
        runner="runner-1",
        seconds=12.0,
        durations=Durations(),
        usage=Usage(),
        judge=None,
        artifacts_sha256=None,
    )


def run(status: str = "running", **changes: Any) -> RunDetail:
    standard: dict[str, Any] = {
        "id": uuid5(NAMES, "run"),
        "name": "bright-otter",
        "status": status,
        "reason": None,
        "benchmark_id": uuid5(NAMES, "benchmark"),
        "benchmark_name": "Tiny Bench",
        "agent_count": 1,
        "expected_results": 4,
        "ingested_results": 2,
        "best_pass_at_1": 0.75,
        "submitted_by": "admin",
        "submitted_at": THEN,
        "started_at": THEN,
        "ended_at": None,
        "benchmark_version": "3",
        "benchmark_digest": "sha256:" + "ab" * 32,
        "benchmark_key": "acme/tiny@3",
        "imported": None,
        "selection": Selection(task_set="full", task_count=4),
        "environment": "docker",
        "config": {"execution": {"attempts_per_task": 1}},
        "secret_scopes": {"OPENAI_API_KEY": "user_override"},
        "agents": [agent()],
        "problems": [],
    }
    return RunDetail(**{**standard, **changes})


def run_entry(status: str = "pending", **changes: Any) -> RunEntry:
    return RunEntry(
        **{name: getattr(run(status), name) for name in RunEntry.model_fields} | changes
    )


def standing(rank: int | None, **changes: Any) -> Standing:
    standard: dict[str, Any] = {
        "rank": rank,
        "tied": False,
        "harness": "terminus-2",
        "model": "openai/gpt-5.2",
        "agent": 0,
        "task_set": "full",
        "benchmark_version": "3",
        "run_id": uuid5(NAMES, "run"),
        "run_name": "bright-otter",
        "environment": ["docker"],
        "imported": False,
        "pass_threshold": 1.0,
        "judge_model": None,
        "pass_at_1": rate(),
        "pass_at_k": [rate_at(4)],
        "pass_hat_k": [rate_at(4)],
        "cost_per_task": amount(0.31),
        "seconds_per_task": amount(54.2),
        "tokens_per_task": amount(1_100_000),
        "comparison": None,
    }
    return Standing(**{**standard, **changes})


def board(*standings: Standing, not_ranked: Sequence[NotRanked] = ()) -> Leaderboard:
    return Leaderboard(
        benchmark_id=uuid5(NAMES, "benchmark"),
        benchmark_name="Tiny Bench",
        metric="pass@1",
        sequence=1042,
        standings=list(standings),
        not_ranked=list(not_ranked),
    )


def event(sequence: int, kind: str = "queued", **payload: Any) -> StoredEvent:
    stored = {
        "id": str(uuid5(NAMES, f"event {sequence}")),
        "type": kind,
        "version": 1,
        "workspace": "default",
        "occurred_at": "2026-03-01T12:00:00Z",
        "actor": "run-scheduler",
        "correlation_id": str(uuid5(NAMES, "request")),
        "causation_id": None,
        "run": str(uuid5(NAMES, "run")),
        "data": payload or {"expected_results": 4},
    }
    return StoredEvent(sequence=sequence, subject=f"runs.default.x.lifecycle.{kind}", event=stored)


@pytest.fixture
def make() -> SimpleNamespace:
    """Small builders of answers, with everything that a test does not care about filled in."""
    return SimpleNamespace(
        page=page,
        problem=problem,
        benchmark=benchmark,
        benchmark_entry=benchmark_entry,
        rate=rate,
        rate_at=rate_at,
        amount=amount,
        agent=agent,
        category=category,
        source=ImportSource(kind="table", digest="ab" * 32),
        result=result,
        run=run,
        run_entry=run_entry,
        standing=standing,
        board=board,
        event=event,
        reply=Reply,
        then=THEN,
        to_bytes=to_bytes,
        wait_until=wait_until,
    )
