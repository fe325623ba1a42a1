"""The platform itself: is it there, is it ready, how is each service, and replay."""

import asyncio
import importlib.metadata
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from nats.aio.client import Client
from nats.errors import Error as NatsError
from pydantic import BaseModel, TypeAdapter, ValidationError

from assay_contracts.commands import (
    SERVICES,
    StatusRequest,
    replay_subject,
    status_subject,
)
from assay_contracts.http import Replay, ReplayReport, ServiceStatus, SystemStatus
from assay_contracts.run_config import ConfigIssue
from assay_kernel.dead_letters import read_letters
from gateway.access import Operating, Reading
from gateway.desk import Desk, DeskNow
from gateway.problems import invalid, unavailable

router = APIRouter(prefix="/system", tags=["system"])
health = APIRouter(tags=["health"])

REPLAYED = ("registry-sync", "run-scheduler", "grader", "leaderboard", "gateway")
_STATUS_SECONDS = 1.0
_RUNNERS_SECONDS = 0.5
_DATABASE_SECONDS = 2.0
_REPLAY_SECONDS = 3600.0
_REPORTS = TypeAdapter(list[ReplayReport])


async def ask_services(client: Client) -> SystemStatus:
    """What each service says of itself; those that say nothing in time are missing."""
    answers = await asyncio.gather(*(_ask(client, service) for service in SERVICES))
    present = [answer for answer in answers if answer is not None]
    ready = {answer.service for answer in present if answer.ready}
    missing = [service for service in SERVICES if service not in ready]
    return SystemStatus(
        ready=not missing,
        version=importlib.metadata.version("assay-kernel"),
        services=present,
        missing=missing,
    )


async def _ask(client: Client, service: str) -> ServiceStatus | None:
    question = StatusRequest().model_dump_json().encode()
    try:
        answer = await client.request(status_subject(service), question, timeout=_STATUS_SECONDS)
        return ServiceStatus.model_validate_json(answer.data)
    except (NatsError, TimeoutError, ValidationError):
        return None


async def ask_runners(client: Client) -> list[ServiceStatus]:
    """What every sandbox-runner says of itself within a moment; empty where none answers."""
    subject = status_subject("sandbox-runner")
    return await ask_all(client, subject, StatusRequest(), ServiceStatus, seconds=_RUNNERS_SECONDS)


async def ask_all[Answer: BaseModel](
    client: Client,
    subject: str,
    question: BaseModel,
    kind: type[Answer],
    *,
    seconds: float,
    wanted: int | None = None,
) -> list[Answer]:
    """What all that listen to a subject answer within `seconds`, or until `wanted` have answered.

    What this build cannot read is left out.
    """
    found: list[Answer] = []
    if wanted == 0:
        return found
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    try:
        await client.publish(subject, question.model_dump_json().encode(), reply=inbox)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while wanted is None or len(found) < wanted:
                    answer = await answers.next_msg(timeout=seconds)
                    with suppress(ValidationError):
                        found.append(kind.model_validate_json(answer.data))
    except NatsError:
        return found
    finally:
        await answers.unsubscribe()
    return found


def _client(desk: DeskNow) -> Client:
    return desk.store.client


ClientNow = Annotated[Client, Depends(_client)]


@health.get("/healthz", summary="Is the gateway alive?")
async def healthz() -> dict[str, str]:
    """Answers while the process lives."""
    return {"status": "alive"}


@health.get(
    "/readyz",
    summary="Is the platform ready?",
    responses={503: {"description": "Not ready: `missing` says what does not answer"}},
)
async def readyz(response: Response, desk: DeskNow) -> dict[str, object]:
    """200 when NATS, the database and every service answer, else 503 and what is missing."""
    status, is_readable = await asyncio.gather(ask_services(desk.store.client), _can_be_read(desk))
    missing = list(status.missing)
    if not desk.store.client.is_connected:
        missing.append("nats")
    if not is_readable:
        missing.append("database")
    response.status_code = 503 if missing else 200
    return {"ready": not missing, "missing": missing}


async def _can_be_read(desk: Desk) -> bool:
    try:
        async with asyncio.timeout(_DATABASE_SECONDS), desk.reading():
            return True
    except Exception:  # noqa: BLE001  whatever it is, the database cannot be read
        return False


@router.get("/status", summary="How is each service?")
async def status(_: Reading, client: ClientNow) -> SystemStatus:
    """Every service with its projections' positions, what is missing, and open dead letters."""
    found, letters = await asyncio.gather(ask_services(client), read_letters(client))
    return found.model_copy(update={"dead_letters": sum(one.is_open for one in letters)})


@router.post("/replay", summary="Fold the streams again")
async def replay(
    body: Replay, asking: Operating, client: ClientNow, desk: DeskNow
) -> list[ReplayReport]:
    """Fold every stream from sequence 0 and compare with what serves, or let it serve instead."""
    if body.service is not None and body.service not in REPLAYED:
        known = ", ".join(REPLAYED)
        raise invalid([ConfigIssue(key="service", message=f"must be one of {known}")])
    wanted = REPLAYED if body.service is None else (body.service,)
    if not body.verify:
        async with desk.acting() as connection:
            await desk.audit.tell(connection, asking, "replay-swapped-in", ", ".join(wanted))
    reports: list[ReplayReport] = []
    for service in wanted:
        try:
            answer = await client.request(
                replay_subject(service), body.model_dump_json().encode(), timeout=_REPLAY_SECONDS
            )
        except (NatsError, TimeoutError) as error:
            raise unavailable(f"{service} does not answer; see assay status") from error
        try:
            reports += _REPORTS.validate_json(answer.data)
        except ValidationError as error:
            raise unavailable(f"{service} could not replay; its log says why") from error
    return reports
