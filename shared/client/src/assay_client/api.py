"""The HTTP API, one method per route; a table of contents of what a client can do.

Answers are the models of `assay_contracts.http`. Every method raises `ApiError` where the server
refuses, `ServerUnreachableError` where nobody listens, and `NoAnswerError` where the connection
breaks. A `ref` is a key, a name or an id.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from types import TracebackType
from typing import Self
from uuid import UUID

from httpx_sse import ServerSentEvent

from assay_client.api_people import PeopleApi
from assay_client.errors import (
    ApiError,
    AssayError,
    NoAnswerError,
    UnexpectedAnswerError,
)
from assay_client.segments import segment
from assay_client.settings import (
    ClientSettings,
    checked_address,
    checked_token,
    checked_workspace,
)
from assay_client.transport import Query, Transport, parsed
from assay_contracts.http import (
    AddBenchmark,
    AgentRow,
    BenchmarkDetail,
    BenchmarkEntry,
    Billing,
    DeadLetterDetail,
    DeadLetterEntry,
    DownloadManifest,
    DownloadType,
    DownloadUrls,
    EventPage,
    Explanation,
    ImportReceipt,
    ImportResults,
    ImportRun,
    Leaderboard,
    LogPage,
    MakeDownloadUrls,
    Metric,
    Page,
    PairComparison,
    PauseRun,
    Replay,
    ReplayReport,
    ResultDetail,
    ResultRow,
    ResultSort,
    ResumeRun,
    RetriedRun,
    RetryRun,
    RotatedKeys,
    RunDetail,
    RunEntry,
    RunPreview,
    SandboxList,
    SecretEntry,
    SetBilling,
    SetSecret,
    SortOrder,
    SqlAnswer,
    SqlQuery,
    StopRun,
    StoredEvent,
    SubmitRun,
    SystemStatus,
    TableFormat,
    WorkspaceEvent,
    WorkspaceEventPage,
)
from assay_contracts.problems import Problem
from assay_contracts.values import CauseClass, Outcome, RunStatus

_PROBLEM = "problem"
"""The type of the event that says why the server ends a live stream."""

REPLAY_SECONDS = 3660.0
"""How long a replay may take: it folds every event there ever was. The server waits an hour for a
service; a minute more lets it say which one did not answer."""

RENDER_SECONDS = 600.0
"""How long a list of files may take: tables and log of a large run are rendered for it."""


@dataclass(frozen=True)
class WantedEvents:
    """Which events of a workspace are meant; nothing named means all but those of `audit`."""

    types: Sequence[str] = ()
    run: str | None = None
    benchmark: str | None = None
    streams: Sequence[str] = ()

    def query(self) -> dict[str, str | Sequence[str] | None]:
        """As the API asks for them."""
        return {
            "type": self.types or None,
            "run": self.run,
            "benchmark": self.benchmark,
            "stream": self.streams or None,
        }


@dataclass(frozen=True)
class LiveEvent:
    """An event with the position after it; without one, a sign that the server is there."""

    position: str
    event: WorkspaceEvent | None


@dataclass(frozen=True)
class Fetched:
    """A file in pieces as they come, beginning with the byte `begins_at`."""

    begins_at: int
    pieces: Iterator[bytes]


class AssayClient(PeopleApi):
    """A client of one server, in one workspace. Use it in a `with`, or close it.

    Args:
        server: address such as `http://127.0.0.1:8400`.
        token: bearer token; None where the server asks for none.
        workspace: whose benchmarks, runs and secrets are meant; None leaves it to the server.
        timeout_seconds: how long an answer may take.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str | None = None,
        workspace: str | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._transport = Transport(
            checked_address(server),
            token=None if token is None else checked_token(token),
            workspace=None if workspace is None else checked_workspace(workspace),
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
        return parsed(self._transport.get(f"benchmarks/{segment(ref)}"), BenchmarkDetail)

    def sync_benchmark(self, ref: str) -> BenchmarkEntry:
        """Read a benchmark's task list again, in the background."""
        path = f"benchmarks/{segment(ref)}/sync"
        return parsed(self._transport.send("POST", path), BenchmarkEntry)

    def remove_benchmark(self, ref: str) -> None:
        """Remove a benchmark from the workspace; its runs stay."""
        self._transport.send("DELETE", f"benchmarks/{segment(ref)}")

    def leaderboard(
        self, ref: str, *, metric: Metric | None = None, as_of: str | None = None
    ) -> Leaderboard:
        """The standings of a benchmark by one metric (the server's choice by default), now or as
        of a past moment or sequence."""
        path = f"benchmarks/{segment(ref)}/leaderboard"
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
        path = f"benchmarks/{segment(ref)}/compare"
        return parsed(self._transport.get(path, query), PairComparison)

    # Runs

    def submit_run(self, request: SubmitRun) -> RunEntry:
        """Submit a run."""
        secrets = tuple(request.secrets.values())
        return parsed(self._transport.send("POST", "runs", request, secrets=secrets), RunEntry)

    def validate_run(self, request: SubmitRun) -> RunPreview:
        """What a submission would lead to, and what it is likely to take; nothing is done."""
        secrets = tuple(request.secrets.values())
        sent = self._transport.send("POST", "runs/validate", request, secrets=secrets)
        return parsed(sent, RunPreview)

    def runs(
        self,
        *,
        limit: int = 50,
        offset: int | None = None,
        cursor: str | None = None,
        benchmark: str | None = None,
        statuses: Sequence[RunStatus] = (),
        submitter: str | None = None,
        harness: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        search: str | None = None,
    ) -> Page[RunEntry]:
        """Runs of the workspace that fit every filter; the newest first.

        `since` is the first moment of submission that is meant, `until` the first that is not.
        """
        query: Query = {
            "limit": limit,
            "offset": offset,
            "cursor": cursor,
            "benchmark": benchmark,
            "status": list(statuses),
            "submitter": submitter,
            "harness": harness,
            "model": model,
            "since": None if since is None else since.isoformat(),
            "until": None if until is None else until.isoformat(),
            "search": search,
        }
        return parsed(self._transport.get("runs", query), Page[RunEntry])

    def run(self, ref: str) -> RunDetail:
        """One run with its agents, their metrics, and every result that is no pass."""
        return parsed(self._transport.get(f"runs/{segment(ref)}"), RunDetail)

    def run_results(
        self,
        ref: str,
        *,
        agents: Sequence[int] = (),
        outcomes: Sequence[Outcome] = (),
        causes: Sequence[CauseClass] = (),
        category: str | None = None,
        task: str | None = None,
        search: str | None = None,
        sort: ResultSort | None = None,
        order: SortOrder | None = None,
        limit: int = 50,
        offset: int | None = None,
        cursor: str | None = None,
    ) -> Page[ResultRow]:
        """Results of a run, one for each slot, that fit every filter."""
        query: Query = {
            "agent": list(agents),
            "outcome": list(outcomes),
            "cause": list(causes),
            "category": category,
            "task": task,
            "search": search,
            "sort": sort,
            "order": order,
            "limit": limit,
            "offset": offset,
            "cursor": cursor,
        }
        path = f"runs/{segment(ref)}/results"
        return parsed(self._transport.get(path, query), Page[ResultRow])

    def run_result(self, ref: str, slot: UUID) -> ResultDetail:
        """One result of a run with every try of its slot."""
        return parsed(self._transport.get(f"runs/{segment(ref)}/results/{slot}"), ResultDetail)

    def run_agents(self, ref: str) -> list[AgentRow]:
        """The agents of a run with their measures."""
        return parsed(self._transport.get(f"runs/{segment(ref)}/agents"), list[AgentRow])

    def delete_run(self, ref: str, *, reason: str | None = None) -> None:
        """Delete a run that has ended; its events stay, and its name stays taken."""
        self._transport.send("DELETE", f"runs/{segment(ref)}", query={"reason": reason})

    def explain(self, ref: str, *, agent: str, task: str) -> Explanation:
        """What an agent's score on a task rests on."""
        path = f"runs/{segment(ref)}/explain"
        return parsed(self._transport.get(path, {"agent": agent, "task": task}), Explanation)

    @contextmanager
    def export_run(self, ref: str) -> Iterator[Iterator[bytes]]:
        """A run's proof in pieces; entering the `with` connects."""
        with self._transport.download(f"runs/{segment(ref)}/export") as pieces:
            yield pieces

    def import_run(self, request: ImportRun) -> RunEntry:
        """Begin a run of results made elsewhere; the same request again is the same run."""
        return parsed(self._transport.send("POST", "runs/import", request), RunEntry)

    def add_results(self, ref: str, request: ImportResults) -> ImportReceipt:
        """Add results to an imported run; those that are there already change nothing."""
        path = f"runs/{segment(ref)}/results"
        return parsed(self._transport.send("POST", path, request), ImportReceipt)

    def run_events(
        self, ref: str, *, after: int | None = None, limit: int | None = None
    ) -> EventPage:
        """Events of a run as they are stored, from after the sequence `after`."""
        query = {"after": after, "limit": limit}
        return parsed(self._transport.get(f"runs/{segment(ref)}/events", query), EventPage)

    @contextmanager
    def live_run_events(
        self, ref: str, *, after: int | None = None
    ) -> Iterator[Iterator[StoredEvent]]:
        """Events of a run as they happen, from after the sequence `after`.

        Entering the `with` connects. The iterator ends where the server ends the stream; it raises
        `NoAnswerError` where the stream breaks, and can then be resumed from the last sequence.
        """
        with self._transport.live(f"runs/{segment(ref)}/events", after) as events:
            yield (_stored(event) for event in events if event.data)

    def run_logs(self, ref: str, *, after: int | None = None, limit: int | None = None) -> LogPage:
        """Lines of a run's log, from after the sequence `after`."""
        query = {"after": after, "limit": limit}
        return parsed(self._transport.get(f"runs/{segment(ref)}/logs", query), LogPage)

    def stop_run(self, ref: str, request: StopRun | None = None) -> RunEntry:
        """Ask a run to stop; results that are there stay."""
        path = f"runs/{segment(ref)}/stop"
        return parsed(self._transport.send("POST", path, request or StopRun()), RunEntry)

    def pause_run(self, ref: str, request: PauseRun | None = None) -> RunEntry:
        """Let nothing new of a run start, or of one agent; what runs may end."""
        path = f"runs/{segment(ref)}/pause"
        return parsed(self._transport.send("POST", path, request or PauseRun()), RunEntry)

    def resume_run(self, ref: str, request: ResumeRun | None = None) -> RunEntry:
        """Let one agent go on, or all that is paused of a run."""
        path = f"runs/{segment(ref)}/resume"
        return parsed(self._transport.send("POST", path, request or ResumeRun()), RunEntry)

    def retry_run(self, ref: str, request: RetryRun | None = None) -> RetriedRun:
        """Run a finished run's errored results again; what was scored stays."""
        path = f"runs/{segment(ref)}/retry"
        return parsed(self._transport.send("POST", path, request or RetryRun()), RetriedRun)

    # Downloads

    def downloads(
        self,
        ref: str,
        types: Sequence[DownloadType],
        *,
        table_format: TableFormat = TableFormat.CSV,
        after: UUID | None = None,
        limit: int | None = None,
    ) -> DownloadManifest:
        """The files of a run of some types, artifacts in pages; may take minutes."""
        query = {
            "types": ",".join(types),
            "format": table_format,
            "after": None if after is None else str(after),
            "limit": limit,
        }
        path = f"runs/{segment(ref)}/downloads"
        answer = self._transport.get(path, query, timeout_seconds=RENDER_SECONDS)
        return parsed(answer, DownloadManifest)

    def download_urls(self, ref: str, request: MakeDownloadUrls) -> DownloadUrls:
        """Addresses that files can be fetched at for a while."""
        path = f"runs/{segment(ref)}/downloads/urls"
        answer = self._transport.send("POST", path, request, timeout_seconds=RENDER_SECONDS)
        return parsed(answer, DownloadUrls)

    @contextmanager
    def fetch(self, url: str, *, first: int = 0, etag: str = "") -> Iterator[Fetched]:
        """The file at such an address, from the byte `first` on if it is the version `etag` yet;
        entering the `with` connects."""
        headers = {"Accept-Encoding": "identity"}
        if first:
            headers |= {"Range": f"bytes={first}-", "If-Range": f'"{etag}"'}
        with self._transport.fetch(url, headers) as response:
            begins_at = first if response.status_code == HTTPStatus.PARTIAL_CONTENT else 0
            yield Fetched(begins_at, response.iter_bytes())

    # The workspace's events

    def events(
        self, wanted: WantedEvents, *, after: str | None = None, limit: int | None = None
    ) -> WorkspaceEventPage:
        """Events of the workspace as they are stored, from the beginning or after a position."""
        query = {**wanted.query(), "after": after, "limit": limit}
        return parsed(self._transport.get("events", query), WorkspaceEventPage)

    @contextmanager
    def live_events(
        self, wanted: WantedEvents, *, after: str | None = None
    ) -> Iterator[Iterator[LiveEvent]]:
        """Events of the workspace as they happen, from now on or after a position.

        Entering the `with` connects. It raises `NoAnswerError` where the stream breaks, and can
        then be resumed from the last position.
        """
        with self._transport.live("events", after, wanted.query()) as events:
            yield (LiveEvent(one.id, _placed(one) if one.data else None) for one in events)

    # Secrets

    def secrets(self, *, limit: int | None = None, offset: int | None = None) -> Page[SecretEntry]:
        """Names of the secrets; their values never leave the server."""
        query = {"limit": limit, "offset": offset}
        return parsed(self._transport.get("secrets", query), Page[SecretEntry])

    def set_secret(self, name: str, request: SetSecret) -> SecretEntry:
        """Keep a secret's value, in place of an older one."""
        path = f"secrets/{segment(name)}"
        sent = self._transport.send("PUT", path, request, secrets=[request.value])
        return parsed(sent, SecretEntry)

    def delete_secret(self, name: str, *, scope: str = "user") -> None:
        """Forget a secret of the scope `user` or `workspace`."""
        self._transport.send("DELETE", f"secrets/{segment(name)}", query={"scope": scope})

    def rotate_keys(self) -> RotatedKeys:
        """Wrap every secret's own key under the newest master key; may take minutes."""
        answer = self._transport.send("POST", "secrets/rotate", timeout_seconds=REPLAY_SECONDS)
        return parsed(answer, RotatedKeys)

    # Billing

    def billing(self) -> Billing:
        """The workspace's budget for the month, and what is left of it."""
        return parsed(self._transport.get("billing"), Billing)

    def set_billing(self, request: SetBilling) -> Billing:
        """Set both limits of the workspace's months."""
        return parsed(self._transport.send("PUT", "billing", request), Billing)

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


def _stored(event: ServerSentEvent) -> StoredEvent:
    if event.event == _PROBLEM:
        raise _ended(event)
    try:
        return StoredEvent.model_validate_json(event.data)
    except ValueError as error:
        raise UnexpectedAnswerError("the server streamed something that is no event") from error


def _placed(event: ServerSentEvent) -> WorkspaceEvent:
    return WorkspaceEvent(id=event.id, **_stored(event).model_dump())


def _ended(event: ServerSentEvent) -> AssayError:
    """Why the server ended a stream: one that can be resumed has broken, and no more."""
    try:
        refused = ApiError.of(Problem.model_validate_json(event.data))
    except ValueError:
        return UnexpectedAnswerError("the server ended the stream, and did not say why")
    return NoAnswerError(refused.title, refused.detail) if refused.is_temporary else refused
