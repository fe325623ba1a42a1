"""The HTTP API, one method per route; a table of contents of what a client can do.

Answers are the models of `assay_contracts.http`. Every method raises `ApiError` where the server
refuses, `ServerUnreachableError` where nobody listens, and `NoAnswerError` where the connection
breaks. A `ref` is a key, a name or an id.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from urllib.parse import quote

from httpx_sse import ServerSentEvent

from assay_client.errors import InvalidInputError, UnexpectedAnswerError
from assay_client.settings import (
    DEFAULT_WORKSPACE,
    ClientSettings,
    checked_address,
    checked_token,
    checked_workspace,
)
from assay_client.transport import Transport, parsed
from assay_contracts.http import (
    AddBenchmark,
    BenchmarkDetail,
    BenchmarkEntry,
    DeadLetterDetail,
    DeadLetterEntry,
    EventPage,
    Explanation,
    ImportReceipt,
    ImportResults,
    ImportRun,
    Leaderboard,
    LogPage,
    Metric,
    Page,
    PairComparison,
    PauseRun,
    Replay,
    ReplayReport,
    ResultRow,
    ResumeRun,
    RetriedRun,
    RetryRun,
    RunDetail,
    RunEntry,
    SandboxList,
    SecretEntry,
    SetSecret,
    SqlAnswer,
    SqlQuery,
    StopRun,
    StoredEvent,
    SubmitRun,
    SystemStatus,
)
from assay_contracts.values import CauseClass, Outcome

REPLAY_SECONDS = 3660.0
"""How long a replay may take: it folds every event there ever was. The server waits an hour for a
service; a minute more lets it say which one did not answer."""


class AssayClient:
    """A client of one server, in one workspace. Use it in a `with`, or close it.

    Args:
        server: address such as `http://127.0.0.1:8400`.
        token: bearer token; None where the server asks for none.
        workspace: whose benchmarks, runs and secrets are meant.
        timeout_seconds: how long an answer may take.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._transport = Transport(
            checked_address(server),
            token=None if token is None else checked_token(token),
            workspace=checked_workspace(workspace),
            timeout_seconds=timeout_seconds,
        )

    @classmethod
    def of(cls, settings: ClientSettings) -> "AssayClient":
        """A client with these settings."""
        return cls(settings.server, token=settings.token, workspace=settings.workspace)

    @property
    def server(self) -> str:
        """The server's address."""
        return self._transport.server

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Benchmarks

    def benchmarks(self, *, limit: int = 50, offset: int = 0) -> Page[BenchmarkEntry]:
        """Benchmarks of the workspace."""
        query = {"limit": limit, "offset": offset}
        return parsed(self._transport.get("benchmarks", query), Page[BenchmarkEntry])

    def add_benchmark(self, request: AddBenchmark) -> BenchmarkEntry:
        """Add a benchmark; its task list is read in the background."""
        return parsed(self._transport.send("POST", "benchmarks", request), BenchmarkEntry)

    def benchmark(self, ref: str) -> BenchmarkDetail:
        """One benchmark with its rules and its task list."""
        return parsed(self._transport.get(f"benchmarks/{_segment(ref)}"), BenchmarkDetail)

    def sync_benchmark(self, ref: str) -> BenchmarkEntry:
        """Read a benchmark's task list again, in the background."""
        path = f"benchmarks/{_segment(ref)}/sync"
        return parsed(self._transport.send("POST", path), BenchmarkEntry)

    def remove_benchmark(self, ref: str) -> None:
        """Remove a benchmark from the workspace; its runs stay."""
        self._transport.send("DELETE", f"benchmarks/{_segment(ref)}")

    def leaderboard(
        self, ref: str, *, metric: Metric | None = None, as_of: str | None = None
    ) -> Leaderboard:
        """The standings of a benchmark by one metric (the server's choice by default), now or as
        of a past moment or sequence."""
        path = f"benchmarks/{_segment(ref)}/leaderboard"
        return parsed(self._transport.get(path, {"metric": metric, "as_of": as_of}), Leaderboard)

    def compare(
        self,
        ref: str,
        first: str,
        second: str,
        *,
        metric: Metric | None = None,
        margin: float | None = None,
    ) -> PairComparison:
        """Two entrants of a leaderboard, paired by task."""
        query = {
            "first": first,
            "second": second,
            "metric": metric,
            "margin": None if margin is None else str(margin),
        }
        path = f"benchmarks/{_segment(ref)}/compare"
        return parsed(self._transport.get(path, query), PairComparison)

    # Runs

    def submit_run(self, request: SubmitRun) -> RunEntry:
        """Submit a run."""
        secrets = tuple(request.secrets.values())
        return parsed(self._transport.send("POST", "runs", request, secrets=secrets), RunEntry)

    def runs(
        self, *, limit: int = 50, offset: int = 0, benchmark: str | None = None
    ) -> Page[RunEntry]:
        """Runs of the workspace, or those on one benchmark; the newest first."""
        query = {"limit": limit, "offset": offset, "benchmark": benchmark}
        return parsed(self._transport.get("runs", query), Page[RunEntry])

    def run(self, ref: str) -> RunDetail:
        """One run with its agents, their metrics, and every result that is no pass."""
        return parsed(self._transport.get(f"runs/{_segment(ref)}"), RunDetail)

    def run_results(
        self,
        ref: str,
        *,
        agent: int | None = None,
        outcome: Outcome | None = None,
        cause: CauseClass | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Page[ResultRow]:
        """Results of a run, one for each slot; those of one agent, outcome or cause where asked."""
        query = {
            "agent": agent,
            "outcome": outcome,
            "cause": cause,
            "limit": limit,
            "offset": offset,
        }
        path = f"runs/{_segment(ref)}/results"
        return parsed(self._transport.get(path, query), Page[ResultRow])

    def explain(self, ref: str, *, agent: str, task: str) -> Explanation:
        """What an agent's score on a task rests on."""
        path = f"runs/{_segment(ref)}/explain"
        return parsed(self._transport.get(path, {"agent": agent, "task": task}), Explanation)

    @contextmanager
    def export_run(self, ref: str) -> Iterator[Iterator[bytes]]:
        """A run's proof in pieces; entering the `with` connects."""
        with self._transport.download(f"runs/{_segment(ref)}/export") as pieces:
            yield pieces

    def import_run(self, request: ImportRun) -> RunEntry:
        """Begin a run of results made elsewhere; the same request again is the same run."""
        return parsed(self._transport.send("POST", "runs/import", request), RunEntry)

    def add_results(self, ref: str, request: ImportResults) -> ImportReceipt:
        """Add results to an imported run; those that are there already change nothing."""
        path = f"runs/{_segment(ref)}/results"
        return parsed(self._transport.send("POST", path, request), ImportReceipt)

    def run_events(
        self, ref: str, *, after: int | None = None, limit: int | None = None
    ) -> EventPage:
        """Events of a run as they are stored, from after the sequence `after`."""
        query = {"after": after, "limit": limit}
        return parsed(self._transport.get(f"runs/{_segment(ref)}/events", query), EventPage)

    @contextmanager
    def live_run_events(
        self, ref: str, *, after: int | None = None
    ) -> Iterator[Iterator[StoredEvent]]:
        """Events of a run as they happen, from after the sequence `after`.

        Entering the `with` connects. The iterator ends where the server ends the stream; it raises
        `NoAnswerError` where the stream breaks, and can then be resumed from the last sequence.
        """
        with self._transport.live(f"runs/{_segment(ref)}/events", after) as events:
            yield (_stored(event) for event in events if event.data)

    def run_logs(self, ref: str, *, after: int | None = None, limit: int | None = None) -> LogPage:
        """Lines of a run's log, from after the sequence `after`."""
        query = {"after": after, "limit": limit}
        return parsed(self._transport.get(f"runs/{_segment(ref)}/logs", query), LogPage)

    def stop_run(self, ref: str, request: StopRun | None = None) -> RunEntry:
        """Ask a run to stop; results that are there stay."""
        path = f"runs/{_segment(ref)}/stop"
        return parsed(self._transport.send("POST", path, request or StopRun()), RunEntry)

    def pause_run(self, ref: str, request: PauseRun | None = None) -> RunEntry:
        """Let nothing new of a run start, or of one agent; what runs may end."""
        path = f"runs/{_segment(ref)}/pause"
        return parsed(self._transport.send("POST", path, request or PauseRun()), RunEntry)

    def resume_run(self, ref: str, request: ResumeRun | None = None) -> RunEntry:
        """Let one agent go on, or all that is paused of a run."""
        path = f"runs/{_segment(ref)}/resume"
        return parsed(self._transport.send("POST", path, request or ResumeRun()), RunEntry)

    def retry_run(self, ref: str, request: RetryRun | None = None) -> RetriedRun:
        """Run a finished run's errored results again; what was scored stays."""
        path = f"runs/{_segment(ref)}/retry"
        return parsed(self._transport.send("POST", path, request or RetryRun()), RetriedRun)

    # Secrets

    def secrets(self, *, limit: int | None = None, offset: int | None = None) -> Page[SecretEntry]:
        """Names of the secrets; their values never leave the server."""
        query = {"limit": limit, "offset": offset}
        return parsed(self._transport.get("secrets", query), Page[SecretEntry])

    def set_secret(self, name: str, request: SetSecret) -> SecretEntry:
        """Keep a secret's value, in place of an older one."""
        path = f"secrets/{_segment(name)}"
        sent = self._transport.send("PUT", path, request, secrets=[request.value])
        return parsed(sent, SecretEntry)

    def delete_secret(self, name: str, *, scope: str = "user") -> None:
        """Forget a secret of the scope `user` or `workspace`."""
        self._transport.send("DELETE", f"secrets/{_segment(name)}", query={"scope": scope})

    # Dead letters

    def dead_letters(
        self, *, limit: int | None = None, offset: int | None = None, redriven: bool = False
    ) -> Page[DeadLetterEntry]:
        """What could not be handled, oldest first; with `redriven`, what was redriven as well."""
        query = {"limit": limit, "offset": offset, "redriven": "true" if redriven else None}
        return parsed(self._transport.get("deadletters", query), Page[DeadLetterEntry])

    def dead_letter(self, letter: int) -> DeadLetterDetail:
        """A letter with what it is about."""
        return parsed(self._transport.get(f"deadletters/{letter}"), DeadLetterDetail)

    def redrive(self, letter: int) -> DeadLetterEntry:
        """Have it handled again; may take minutes."""
        answer = self._transport.send(
            "POST", f"deadletters/{letter}/redrive", timeout_seconds=REPLAY_SECONDS
        )
        return parsed(answer, DeadLetterEntry)

    def sql(self, asked: SqlQuery) -> SqlAnswer:
        """The rows of a query over the workspace's read models."""
        return parsed(self._transport.send("POST", "sql", asked), SqlAnswer)

    # The system

    def system_status(self) -> SystemStatus:
        """Every service, and whether the whole is ready."""
        return parsed(self._transport.get("system/status"), SystemStatus)

    def sandboxes(self) -> SandboxList:
        """Every sandbox that a runner sees."""
        return parsed(self._transport.get("sandboxes"), SandboxList)

    def replay(self, request: Replay) -> list[ReplayReport]:
        """Fold every event again and compare, or swap in; may take minutes."""
        answer = self._transport.send(
            "POST", "system/replay", request, timeout_seconds=REPLAY_SECONDS
        )
        return parsed(answer, list[ReplayReport])

    def is_alive(self) -> bool:
        """Whether the server's process answers that it lives; needs no token."""
        return self._transport.succeeds("/healthz")

    def is_ready(self) -> bool:
        """Whether the server says that it can do its work; needs no token."""
        return self._transport.succeeds("/readyz")


def _segment(ref: str) -> str:
    """A reference as one segment of a path, whatever characters it holds."""
    if not ref.strip():
        raise InvalidInputError("a key, a name or an id is needed, and this one is blank")
    encoded = quote(ref, safe="")
    return encoded.replace(".", "%2E") if encoded in {".", ".."} else encoded


def _stored(event: ServerSentEvent) -> StoredEvent:
    try:
        return StoredEvent.model_validate_json(event.data)
    except ValueError as error:
        raise UnexpectedAnswerError("the server streamed something that is no event") from error
