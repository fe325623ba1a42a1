"""Each service may do its own work on NATS and nobody else's: the server refuses the rest."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import get_args

import nats
import pytest
from nats.aio.client import Client
from nats.errors import TimeoutError as NoAnswerError
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from assay_contracts.commands import SERVICES
from assay_contracts.events import AnyBenchmarkEvent, AnyRunEvent
from assay_kernel.cursor import read_stored
from assay_kernel.event_store import EventStore
from assay_kernel.permissions import DUTIES, OPERATOR, USERS, inbox_prefix, subjects_of
from assay_kernel.streams import ensure_streams
from assay_local.commands import nats_permissions
from assay_local.embedded import free_port, nats_program, start_program
from assay_local.provision import provision_streams

RUN, BENCHMARK = "runs.w.r", "benchmarks.w.b"

MAY_TELL = {
    f"{RUN}.lifecycle.submitted": {"gateway"},
    f"{RUN}.lifecycle.queued": {"run-scheduler"},
    f"{RUN}.lifecycle.started": {"run-scheduler"},
    f"{RUN}.lifecycle.stop-requested": {"gateway", "run-scheduler"},
    f"{RUN}.lifecycle.stopped": {"run-scheduler"},
    f"{RUN}.lifecycle.finished": {"run-scheduler"},
    f"{RUN}.lifecycle.failed": {"run-scheduler"},
    f"{RUN}.lifecycle.reopened": {"gateway"},
    f"{RUN}.lifecycle.deleted": {"gateway"},
    f"{RUN}.lifecycle.paused": {"gateway", "run-scheduler"},
    f"{RUN}.lifecycle.resumed": {"gateway", "run-scheduler"},
    f"{RUN}.lifecycle.invented": set(),
    f"{RUN}.attempts.attempt-started": {"sandbox-runner"},
    f"{RUN}.attempts.attempt-retried": {"run-scheduler"},
    f"{RUN}.attempts.result-ingested": {"gateway", "sandbox-runner"},
    f"{RUN}.attempts.result-graded": {"grader"},
    f"{BENCHMARK}.added": {"gateway", "registry-sync"},
    f"{BENCHMARK}.sync-requested": {"gateway", "registry-sync"},
    f"{BENCHMARK}.sync-started": {"registry-sync"},
    f"{BENCHMARK}.tasks-synced": {"registry-sync"},
    f"{BENCHMARK}.synced": {"registry-sync"},
    f"{BENCHMARK}.sync-failed": {"registry-sync"},
    f"{BENCHMARK}.removed": {"gateway", "registry-sync"},
    "audit.w.something": {"gateway"},
    "work.default": {"run-scheduler"},
    "dead.redriven": {"gateway"},
    "dead.grader.grades": {"grader"},
    "dead.sandbox-runner.work": {"sandbox-runner"},
}
"""Subjects of the streams, and which services may publish there."""

MAY_READ = {
    "RUNS": {"gateway", "run-scheduler", "sandbox-runner", "grader", "leaderboard"},
    "BENCHMARKS": {"gateway", "registry-sync", "run-scheduler", "grader"},
    "AUDIT": {"gateway"},
    "WORK": set(),
    "DEAD": {"gateway", "run-scheduler", "grader"},
}
"""Streams, and which services may make a reader of them and look at single messages."""

NEVER = [
    *(f"$JS.API.STREAM.{verb}.RUNS" for verb in ("CREATE", "UPDATE", "DELETE", "PURGE")),
    *(f"$JS.API.STREAM.{verb}.OTHER" for verb in ("CREATE", "UPDATE", "DELETE", "INFO")),
    *(f"$JS.API.STREAM.{verb}.RUNS" for verb in ("MSG.DELETE", "SNAPSHOT", "RESTORE")),
    *("$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.INFO", "$JS.API.CONSUMER.LIST.RUNS"),
    *("$JS.API.CONSUMER.DURABLE.CREATE.RUNS.mine", "$JS.API.CONSUMER.DELETE.WORK.runner-default"),
    *("$JS.API.STREAM.MSG.GET.WORK", "$JS.API.DIRECT.GET.WORK", "$SYS.REQ.SERVER.PING"),
    *("anything", "runs", "commands.other.status", "_INBOX.grader.x", "_INBOX.x"),
]
"""What no service may publish."""

NOBODYS = "refused.to.everybody"

WORKING = (
    "$JS.API.CONSUMER.DURABLE.CREATE.WORK.runner-default",
    "$JS.API.CONSUMER.MSG.NEXT.WORK.runner-default",
    "$JS.ACK.WORK.runner-default.1.1.1.1.0",
)


class Users:
    """The server's users, each with its password."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.passwords = {user: f"password-of-{user}" for user in USERS}

    def url(self, user: str) -> str:
        """The server's address for a user."""
        return f"nats://{user}:{self.passwords[user]}@127.0.0.1:{self.port}"

    @asynccontextmanager
    async def connected(self, user: str) -> AsyncIterator["Session"]:
        """A connection as a user, with the inbox that the services have."""
        session = Session()
        session.client = await nats.connect(
            self.url(user), inbox_prefix=inbox_prefix(user), error_cb=session.note
        )
        try:
            yield session
        finally:
            await session.client.close()


class Session:
    """A connection, and what the server refused on it, in its words."""

    client: Client

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self._told = asyncio.Event()

    async def note(self, error: Exception) -> None:
        """Called by the client with what the server says."""
        self.refusals.append(str(error).lower())
        self._told.set()

    async def refused(self, verb: str, subjects: Iterable[str]) -> set[str]:
        """Those of the subjects on which the server refuses a `publish` or a `subscription`."""
        self.refusals.clear()
        wanted = {_refusal(verb, subject): subject for subject in subjects}
        for subject in wanted.values():
            if verb == "publish":
                await self.client.publish(subject, b"{}")
            else:
                await self.client.subscribe(subject)
        await self.client.publish(NOBODYS, b"")  # the server answers in order
        async with asyncio.timeout(60):
            while not self.refusals or _refusal("publish", NOBODYS) not in self.refusals[-1]:
                self._told.clear()
                await self._told.wait()
        return {
            subject
            for said, subject in wanted.items()
            if any(said in refusal for refusal in self.refusals)
        }


def _refusal(verb: str, subject: str) -> str:
    return f'permissions violation for {verb} to "{subject}"'.lower()


@contextmanager
def _running(folder: Path, users: Users, passwords: Mapping[str, str] | None) -> Iterator[None]:
    program = nats_program(folder, users.port, passwords)
    process = start_program(program, folder / "log")
    try:
        while not program.is_ready():
            assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    """A nats-server as `assay up` starts it, with its streams."""
    users = Users(free_port())
    with (
        tempfile.TemporaryDirectory(prefix="assay-test-") as kept,
        _running(Path(kept), users, users.passwords),
    ):
        provision_streams(users.url(OPERATOR))
        yield users


def test_every_event_there_is_has_somebody_who_may_tell_it():
    kinds = [
        kind for union in (AnyRunEvent, AnyBenchmarkEvent) for kind in get_args(get_args(union)[0])
    ]
    told = {subjects_of(kind).rpartition(".")[2] for kind in kinds}
    assert {subject.rpartition(".")[2] for subject, tellers in MAY_TELL.items() if tellers} >= told
    assert {kind for duties in DUTIES.values() for kind in duties.tells} == set(kinds)


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_tells_its_own_events_and_no_other(users, service):
    async with users.connected(service) as session:
        refused = await session.refused("publish", MAY_TELL)
    assert set(MAY_TELL) - refused == {
        subject for subject, tellers in MAY_TELL.items() if service in tellers
    }


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_reads_its_own_streams_and_no_other(users, service):
    async with users.connected(service) as session:
        for stream, readers in MAY_READ.items():
            reading = {f"$JS.API.{verb}.{stream}" for verb in ("CONSUMER.CREATE", "STREAM.MSG.GET")}
            refused = await session.refused("publish", reading)
            assert refused == (set() if service in readers else reading)


@pytest.mark.parametrize("service", SERVICES)
async def test_no_service_changes_streams_or_speaks_where_it_has_no_business(users, service):
    never = [one for one in NEVER if one != f"_INBOX.{service}.x"]
    async with users.connected(service) as session:
        assert await session.refused("publish", never) == set(never)
        refused = await session.refused("publish", WORKING)
        assert refused == (set() if service == "sandbox-runner" else set(WORKING))


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_hears_its_own_answers_and_commands_alone(users, service):
    subjects = {
        *(f"{inbox_prefix(user)}.>" for user in USERS),
        *(f"commands.{user}.status" for user in USERS),
        *(">", "_INBOX.>", "runs.>", "work.>", "dead.>", "commands.>", "$JS.API.>", "$SYS.>"),
    }
    async with users.connected(service) as session:
        refused = await session.refused("subscription", subjects)
    assert subjects - refused == {f"{inbox_prefix(service)}.>", f"commands.{service}.status"}


@pytest.mark.parametrize("service", SERVICES)
async def test_only_the_gateway_commands_others(users, service):
    verbs = ("status", "replay", "redrive", "standings-at", "compare")
    commands = {f"commands.leaderboard.{verb}" for verb in verbs}
    async with users.connected(service) as session:
        refused = await session.refused("publish", commands)
    assert refused == (set() if service == "gateway" else commands)


async def test_a_question_is_answered_once_and_nothing_else_is_sent_to_who_asked(users):
    async with users.connected("gateway") as gateway, users.connected("grader") as grader:
        questions = await grader.client.subscribe("commands.grader.status")
        await grader.client.flush()
        asked = await gateway.client.subscribe(gateway.client.new_inbox())
        await gateway.client.publish("commands.grader.status", b"?", reply=asked.subject)
        question = await questions.next_msg(60)
        beside = f"{asked.subject}.x"
        assert await grader.refused("publish", [beside, question.reply]) == {beside}
        assert await grader.refused("publish", [question.reply]) == {question.reply}
        assert (await asked.next_msg(60)).data == b"{}"
        with pytest.raises(NoAnswerError):
            await asked.next_msg(0.2)


@pytest.mark.parametrize("service", sorted(MAY_READ["RUNS"]))
async def test_a_service_that_folds_runs_gets_every_message_with_flow_control(users, service):
    count = 3000
    async with users.connected("grader") as session:
        context = session.client.jetstream()
        pending = [
            await context.publish_async(f"runs.{service}.r.attempts.result-graded", b"x" * 2000)
            for _ in range(count)
        ]
        for one in pending:
            await one
    async with users.connected(service) as session:
        stored = read_stored(session.client, "RUNS", [f"runs.{service}.>"])
        sequences = [message.sequence async for message in stored]
        last = await EventStore(session.client).last_sequence("RUNS", f"runs.{service}.>")
        assert (len(sequences), sequences[-1]) == (count, last)
        assert session.refusals == []


async def test_the_runner_takes_work_and_acknowledges_it(users):
    async with users.connected("run-scheduler") as session:
        await session.client.jetstream().publish("work.local", b"an order")
    async with users.connected("sandbox-runner") as session:
        context = session.client.jetstream()
        config = ConsumerConfig(
            durable_name="runner-local", filter_subject="work.local", ack_policy=AckPolicy.EXPLICIT
        )
        await context.add_consumer("WORK", config)
        pulling = await context.pull_subscribe_bind(stream="WORK", durable="runner-local")
        [order] = await pulling.fetch(1, timeout=60)
        await order.in_progress()
        await order.ack_sync(60)
        with pytest.raises(NoAnswerError):
            await pulling.fetch(1, timeout=0.2)
        assert session.refusals == []


async def test_the_operator_may_do_everything(users):
    subjects = [*MAY_TELL, "commands.grader.status", "_INBOX.grader.x", "anything"]
    async with users.connected(OPERATOR) as session:
        heard = await session.client.subscribe(">")
        for subject in subjects:
            await session.client.publish(subject, b"{}")
        assert [(await heard.next_msg(60)).subject for _ in subjects] == subjects
        await session.client.jetstream().add_stream(StreamConfig(name="OTHER", subjects=["x"]))


async def test_what_was_stored_before_there_were_users_stays(tmp_path):
    users = Users(free_port())
    with _running(tmp_path, users, None):
        client = await nats.connect(f"nats://127.0.0.1:{users.port}")
        await ensure_streams(client.jetstream(), replicas=1)
        await client.jetstream().publish("runs.w.r.lifecycle.submitted", b"an old event")
        await client.close()
    with _running(tmp_path, users, users.passwords):
        await asyncio.to_thread(provision_streams, users.url(OPERATOR))
        async with users.connected("leaderboard") as session:
            stored = await EventStore(session.client).message("RUNS", 1)
    assert stored == ("runs.w.r.lifecycle.submitted", b"an old event")


def test_the_command_prints_what_a_server_of_your_own_needs(capsys, tmp_path):
    assert nats_permissions() == 0

    config = tmp_path / "nats.conf"
    config.write_text(capsys.readouterr().out)
    done = subprocess.run(
        [Path(sys.executable).with_name("nats-server"), "-t", "-c", config],
        check=False,
        capture_output=True,
        text=True,
    )
    assert "is valid" in done.stderr
    assert {f'"user": "{user}"' for user in USERS} <= set(
        re.findall(r'"user": "\S+"', config.read_text())
    )
