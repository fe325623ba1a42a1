"""Dead letters: what could not be handled anywhere on the platform, why, and once more."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query
from nats.errors import Error as NatsError
from pydantic import BaseModel, ValidationError

from assay_contracts.commands import (
    Redrive,
    Redriven,
    Resend,
    Resent,
    redrive_subject,
    resend_subject,
)
from assay_contracts.http import DeadLetterDetail, DeadLetterEntry, Page
from assay_kernel.dead_letters import DeadLetter, note_redriven, read_letters
from gateway.access import Operating
from gateway.desk import Desk, DeskNow
from gateway.paging import LARGEST_SEQUENCE, Limit, Offset, page
from gateway.problems import conflict, not_found, unavailable

router = APIRouter(prefix="/deadletters", tags=["dead letters"])

_REDRIVE_SECONDS = 3600.0

LetterId = Annotated[int, Path(ge=1, le=LARGEST_SEQUENCE)]


@router.get("", summary="List dead letters")
async def list_all(
    _: Operating,
    desk: DeskNow,
    limit: Limit = 50,
    offset: Offset = 0,
    redriven: Annotated[bool, Query(description="Those that were redriven, too.")] = False,
) -> Page[DeadLetterEntry]:
    """What could not be handled after bounded tries, oldest first, with the reason."""
    letters = [one for one in await read_letters(desk.store.client) if redriven or one.is_open]
    shown = [_entry(one) for one in letters[offset : offset + limit]]
    return page(shown, len(letters), offset)


@router.get("/{letter}", summary="Show a dead letter")
async def show(letter: LetterId, _: Operating, desk: DeskNow) -> DeadLetterDetail:
    """A letter with the event or message that it is about."""
    found = await _letter(desk, letter)
    return DeadLetterDetail(**_fields(found), **_content(await _payload(desk, found)))


@router.post("/{letter}/redrive", summary="Redrive a dead letter")
async def redrive(letter: LetterId, asking: Operating, desk: DeskNow) -> DeadLetterEntry:
    """Handle it again: an event is folded in its place, a message is sent on its way.

    Refused where that fails again, and for a letter that was redriven before.
    """
    found = await _letter(desk, letter)
    if not found.is_open:
        raise conflict(f"the letter {letter} was redriven before")
    if found.payload is None:
        await _fold_again(desk, found)
    else:
        await _send_again(desk, found)
    await note_redriven(desk.store, found, asking.user)
    return _entry(await _letter(desk, letter))


async def _letter(desk: Desk, wanted: int) -> DeadLetter:
    for one in await read_letters(desk.store.client):
        if one.id == wanted:
            return one
    raise not_found(f"there is no dead letter {wanted}; list them with: assay deadletter list")


async def _fold_again(desk: Desk, letter: DeadLetter) -> None:
    question = Redrive(projection=letter.part, sequence=letter.sequence or 0)
    subject = redrive_subject(letter.service)
    redriven = await _ask(desk, letter.service, subject, question, Redriven)
    if redriven.problem is not None:
        raise conflict(redriven.problem)


async def _send_again(desk: Desk, letter: DeadLetter) -> None:
    question = Resend(letter=letter.id)
    resent = await _ask(desk, letter.sender, resend_subject(letter.sender), question, Resent)
    if resent.problem is not None:
        raise conflict(resent.problem)


async def _ask[Answer: BaseModel](
    desk: Desk, service: str, subject: str, question: BaseModel, kind: type[Answer]
) -> Answer:
    try:
        answer = await desk.store.client.request(
            subject, question.model_dump_json().encode(), timeout=_REDRIVE_SECONDS
        )
    except (NatsError, TimeoutError) as error:
        raise unavailable(f"{service} does not answer; see assay status") from error
    try:
        return kind.model_validate_json(answer.data)
    except ValidationError as error:
        raise unavailable(f"{service} could not redrive; its log says why") from error


async def _payload(desk: Desk, letter: DeadLetter) -> bytes:
    if letter.payload is not None:
        return letter.payload
    _, payload = await desk.store.message(letter.stream, letter.sequence or 0)
    return payload


def _content(payload: bytes) -> dict[str, Any]:
    try:
        return {"content": orjson.loads(payload)}
    except orjson.JSONDecodeError:
        return {"text": payload.decode(errors="replace")}


def _entry(letter: DeadLetter) -> DeadLetterEntry:
    return DeadLetterEntry(**_fields(letter))


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "kind": "event" if letter.payload is None else "message",
        "place": letter.place,
        "stream": letter.stream or None,
        "sequence": letter.sequence,
        "subject": letter.subject,
        "reason": letter.reason,
        "tries": letter.tries,
        "buried_at": letter.buried_at,
        "redriven_at": letter.redriven_at,
        "redriven_by": letter.redriven_by,
    }
