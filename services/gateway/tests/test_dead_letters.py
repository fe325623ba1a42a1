"""Dead letters by HTTP: listed with their reasons, shown with what they are about, redriven."""

import pytest

from assay_contracts.commands import Redrive, Redriven, Resend, redrive_subject, resend_subject
from assay_contracts.envelope import MAX_EVENT_BYTES
from assay_contracts.http import DeadLetterDetail, DeadLetterEntry, Page
from assay_kernel.cursor import StoredMessage
from assay_kernel.dead_letters import bury_event, bury_message, bury_unsent, resend


@pytest.fixture
async def buried(stage):
    """An event that the grader left out, an order that no runner could read, and a huge fact.

    The read models are held, so that nobody else buries the event too.
    """
    await stage.hold_read_models()
    store = stage.store
    await store.tell_bytes("audit.odd", b"no event", message_id="odd")
    event = await store.stored_at("AUDIT", 1)
    await bury_event(store, "grader.grades", event, ValueError("odd"), tries=3)
    await bury_message(
        store,
        "sandbox-runner.work",
        StoredMessage("WORK", "work.default", 5, b'{"try": 1}', event.stored_at, 0),
        ValueError("unreadable"),
        tries=1,
    )
    await bury_unsent(
        store,
        "grader.outbox",
        "runs.default.x.attempts.result-graded",
        b"x" * 2 * MAX_EVENT_BYTES,
        ValueError("too large"),
        message_id="huge",
        tries=3,
    )


@pytest.fixture
async def senders(stage):
    """The services that send messages, as far as they send them again."""
    for service in ("run-scheduler", "grader"):

        async def sent(message, service=service):
            request = Resend.model_validate_json(message.data)
            done = await resend(stage.store, service, request)
            await message.respond(done.model_dump_json().encode())

        await stage.store.client.subscribe(resend_subject(service), cb=sent)


async def test_letters_are_listed_with_their_reasons_and_counted(http, buried):
    listed = Page[DeadLetterEntry].model_validate((await http.get("/deadletters")).json())
    assert [(one.id, one.kind, one.place, one.reason) for one in listed.items] == [
        (1, "event", "grader.grades", "ValueError: odd"),
        (2, "message", "sandbox-runner.work", "ValueError: unreadable"),
        (3, "message", "grader.outbox", "ValueError: too large"),
    ]
    part = (await http.get("/deadletters", params={"limit": 1, "offset": 1})).json()
    assert ([one["id"] for one in part["items"]], part["total_count"]) == ([2], 3)
    assert (await http.get("/system/status")).json()["dead_letters"] == 3


async def test_a_letter_is_shown_with_what_it_is_about(http, buried):
    event = DeadLetterDetail.model_validate((await http.get("/deadletters/1")).json())
    assert (event.stream, event.sequence, event.text, event.content) == (
        "AUDIT",
        1,
        "no event",
        None,
    )
    order = DeadLetterDetail.model_validate((await http.get("/deadletters/2")).json())
    assert (order.subject, order.content) == ("work.default", {"try": 1})
    absent = await http.get("/deadletters/4")
    assert (absent.status_code, absent.json()["code"]) == (404, "NOT_FOUND")


async def test_a_message_is_sent_again_and_its_letter_is_closed(stage, http, buried, senders):
    redriven = DeadLetterEntry.model_validate((await http.post("/deadletters/2/redrive")).json())
    assert redriven.redriven_by == "admin"
    assert await stage.store.message("WORK", 1) == ("work.default", b'{"try": 1}')
    again = await http.post("/deadletters/2/redrive")
    assert (again.status_code, again.json()["detail"]) == (409, "the letter 2 was redriven before")
    assert [one["id"] for one in (await http.get("/deadletters")).json()["items"]] == [1, 3]
    everything = await http.get("/deadletters", params={"redriven": "true"})
    assert [one["id"] for one in everything.json()["items"]] == [1, 2, 3]


async def test_a_message_that_is_still_refused_stays_a_letter(http, buried, senders):
    refused = await http.post("/deadletters/3/redrive")
    assert refused.status_code == 409
    assert "message size exceeds" in refused.json()["detail"]
    assert (await http.get("/system/status")).json()["dead_letters"] == 3


async def test_an_event_is_folded_by_the_service_that_left_it_out(stage, http, buried):
    absent = await http.post("/deadletters/1/redrive")
    assert (absent.status_code, absent.json()["code"]) == (503, "UNAVAILABLE")
    asked: list[Redrive] = []
    answers = [Redriven(problem="it still cannot be folded"), Redriven()]

    async def told(message):
        asked.append(Redrive.model_validate_json(message.data))
        await message.respond(answers[len(asked) - 1].model_dump_json().encode())

    await stage.store.client.subscribe(redrive_subject("grader"), cb=told)
    refused = await http.post("/deadletters/1/redrive")
    assert (refused.status_code, refused.json()["detail"]) == (409, "it still cannot be folded")
    assert (await http.post("/deadletters/1/redrive")).status_code == 200
    assert asked == [Redrive(projection="grades", sequence=1)] * 2
