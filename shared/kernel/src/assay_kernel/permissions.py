"""What each service may do on NATS: the table, and the server's configuration that follows from it.

A service may tell the events that are its own, read the streams that it folds, answer the commands
that bear its name, and nothing else. The subjects come from the builders that the services use
themselves, so that a renamed event cannot leave its permission behind.

Each service has inboxes of its own (`inbox_prefix`), so that none can read what another is told. A
service that answers a command may publish to that command's reply subject alone, once. What no
permission can say: whoever may make a consumer on a stream may have the server deliver its messages
to any subject. Such a message is a copy of one that is in the stream already.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay_contracts.benchmark_events import (
    BenchmarkAdded,
    BenchmarkEvent,
    BenchmarkRemoved,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncRequested,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
)
from assay_contracts.commands import (
    COMPARE,
    SANDBOXES,
    SERVICES,
    STANDINGS_AT,
    redrive_subject,
    replay_subject,
    resend_subject,
    status_subject,
)
from assay_contracts.envelope import Event
from assay_contracts.run_events import (
    AttemptRetried,
    AttemptStarted,
    ResultGraded,
    ResultIngested,
    RunDeleted,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunQueued,
    RunReopened,
    RunResumed,
    RunStarted,
    RunStopped,
    RunStopRequested,
    RunSubmitted,
)
from assay_contracts.work import HELD_SUBJECT, WORK_STREAM
from assay_kernel.streams import DEAD_STREAM, EVENT_STREAMS, REDRIVEN_SUBJECT

OPERATOR = "operator"
"""Whom the supervisor, which makes the streams, and an operator's tools are: it may do all."""

USERS = (*SERVICES, OPERATOR)
"""Every user of the server, by name."""

_API = "$JS.API"
_STREAMS = (*EVENT_STREAMS, WORK_STREAM, DEAD_STREAM)
_ANSWER_WITHIN = "1h"
"""How long a command may take: a replay folds whole streams."""


@dataclass(frozen=True)
class Duties:
    """What a service does on NATS, beyond answering its commands and burying what it cannot handle.

    `tells` are the events that it decides or finds, `queues` says whether it hands out work and
    `works` whether it takes it, `reads` are the streams that it folds, `asks` the subjects of its
    questions, and `publishes` those of what it tells beside events.
    """

    tells: Sequence[type[Event]] = ()
    reads: Sequence[str] = ()
    queues: bool = False
    works: bool = False
    asks: Sequence[str] = ()
    publishes: Sequence[str] = ()


DUTIES: Mapping[str, Duties] = {
    "gateway": Duties(
        tells=(
            BenchmarkAdded,
            BenchmarkSyncRequested,
            BenchmarkRemoved,
            RunSubmitted,
            RunStopRequested,
            RunReopened,
            RunPaused,
            RunResumed,
            RunDeleted,
            ResultIngested,  # of imported runs
        ),
        reads=(RunEvent.stream, BenchmarkEvent.stream, "AUDIT", DEAD_STREAM),
        asks=(
            *(
                subject(service)
                for service in SERVICES
                for subject in (status_subject, replay_subject, redrive_subject, resend_subject)
            ),
            SANDBOXES,
            STANDINGS_AT,
            COMPARE,
        ),
        publishes=("audit.>", REDRIVEN_SUBJECT),
    ),
    "registry-sync": Duties(
        tells=(
            BenchmarkAdded,
            BenchmarkSyncRequested,
            BenchmarkSyncStarted,
            BenchmarkTasksSynced,
            BenchmarkSynced,
            BenchmarkSyncFailed,
            BenchmarkRemoved,
        ),
        reads=(BenchmarkEvent.stream,),
    ),
    "run-scheduler": Duties(
        tells=(
            RunQueued,
            RunStarted,
            RunStopRequested,
            RunStopped,
            RunFinished,
            RunFailed,
            RunPaused,
            RunResumed,
            AttemptRetried,
        ),
        reads=(RunEvent.stream, BenchmarkEvent.stream, DEAD_STREAM),
        queues=True,
    ),
    "sandbox-runner": Duties(
        tells=(AttemptStarted, ResultIngested),
        reads=(RunEvent.stream,),
        works=True,
        asks=(HELD_SUBJECT,),
    ),
    "grader": Duties(
        tells=(ResultGraded,),
        reads=(RunEvent.stream, BenchmarkEvent.stream, DEAD_STREAM),
    ),
    "leaderboard": Duties(reads=(RunEvent.stream,)),
}
"""What each service does, by its name."""


@dataclass(frozen=True)
class Permissions:
    """The subjects that a user may publish to and subscribe to; all others are refused."""

    publish: Sequence[str]
    subscribe: Sequence[str]


def inbox_prefix(user: str) -> str:
    """Where answers to a user arrive; nobody else may listen there."""
    return f"_INBOX.{user}"


def subjects_of(kind: type[Event]) -> str:
    """The subjects of all events of one kind, whatever they are about."""
    fields: dict[str, Any] = dict.fromkeys(("workspace", "run", "benchmark"), "*")
    return kind.model_construct(type=kind.model_fields["type"].default, **fields).subject


def permissions_of(user: str) -> Permissions:
    """What a user may do.

    Raises:
        KeyError: there is no such user.
    """
    if user == OPERATOR:
        return Permissions(publish=[">"], subscribe=[">"])
    duties = DUTIES[user]
    publish = [
        *(subjects_of(kind) for kind in duties.tells),
        *duties.publishes,
        *duties.asks,
        f"dead.{user}.>",
        *(f"{_API}.STREAM.INFO.{stream}" for stream in _STREAMS),
        *(subject for stream in duties.reads for subject in _reading(stream)),
    ]
    if duties.queues:
        publish.append("work.*")
    if duties.works:
        publish += _working()
    return Permissions(
        publish=publish,
        subscribe=[f"{inbox_prefix(user)}.>", f"commands.{user}.*"],
    )


def _reading(stream: str) -> Sequence[str]:
    """Making a reader of a stream, keeping pace with it, and looking at single messages."""
    return (
        f"{_API}.CONSUMER.CREATE.{stream}",
        f"{_API}.CONSUMER.DELETE.{stream}.*",
        f"{_API}.STREAM.MSG.GET.{stream}",
        f"$JS.FC.{stream}.>",
        # Readers acknowledge nothing; but what may be published to anyway, the server need not keep
        # as the subject of an answer that is due, once for each message.
        f"$JS.ACK.{stream}.>",
    )


def _working() -> Sequence[str]:
    """Taking work off the queue and acknowledging it."""
    return (
        f"{_API}.CONSUMER.DURABLE.CREATE.{WORK_STREAM}.*",
        f"{_API}.CONSUMER.INFO.{WORK_STREAM}.*",
        f"{_API}.CONSUMER.MSG.NEXT.{WORK_STREAM}.*",
        f"$JS.ACK.{WORK_STREAM}.>",
    )


def server_authorization(passwords: Mapping[str, str]) -> str:
    """The part of a nats-server's configuration that lets in each user with its permissions.

    Args:
        passwords: of each user by name, in the clear or as bcrypt hashes.
    """
    users = [
        {"user": user, "password": password, "permissions": _in_words_of_the_server(user)}
        for user, password in passwords.items()
    ]
    return f"authorization: {json.dumps({'users': users}, indent=2)}\n"


def _in_words_of_the_server(user: str) -> Mapping[str, object]:
    permissions = permissions_of(user)
    answers = {"allow_responses": {"max": 1, "expires": _ANSWER_WITHIN}}
    return {
        "publish": {"allow": list(permissions.publish)},
        "subscribe": {"allow": list(permissions.subscribe)},
        **({} if user == OPERATOR else answers),
    }
