"""What a process logs while it holds secrets, and that it forgets them."""

import asyncio
import io
import logging
import sys

import pytest
import structlog

from assay_kernel.live_secrets import _held, kept_out_of_logs, note
from assay_kernel.logging import configure_logging
from assay_kernel.settings import KernelSettings

VALUE = "sk-hush-hush"


@pytest.fixture(params=["json", "console"])
def logged(request, monkeypatch):
    """Everything that is logged from now on."""
    output = io.StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    configure_logging("test", KernelSettings(log_format=request.param))
    try:
        yield output.getvalue
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = []


def test_fields_exceptions_and_the_logs_of_libraries_are_masked_while_a_value_is_held(logged):
    log = structlog.get_logger("ours")
    with kept_out_of_logs():
        note([VALUE])
        log.warning("said", text=f"the key {VALUE}", nested={"of": [VALUE]})
        try:
            raise ValueError(f"refused: {VALUE}")
        except ValueError:
            log.exception("broke")
            logging.getLogger("theirs").exception("broke with %s", VALUE)
    assert "hush" not in logged()
    assert logged().count("********") >= 5
    assert logged().count("ValueError: refused: ********") == 2
    log.warning("afterwards", text="hush")
    assert "hush" in logged()


async def test_what_a_task_of_the_work_is_handed_is_held_until_the_work_ends(logged):
    log = structlog.get_logger("ours")

    async def ask(value):
        note([value])

    async def work(value, ended):
        with kept_out_of_logs():
            await asyncio.create_task(ask(value))
            await ended.wait()

    first, second = asyncio.Event(), asyncio.Event()
    works = [
        asyncio.create_task(work(value, ended))
        for value, ended in (("first-value", first), ("second-value", second))
    ]
    async with asyncio.timeout(60):
        while sum(map(len, _held._works.values())) < 2:
            await asyncio.sleep(0)
    log.warning("both", text="first-value second-value")
    first.set()
    await works[0]
    log.warning("one", text="first-value second-value")
    second.set()
    await works[1]
    assert logged().count("second-value") == 0
    assert logged().count("first-value") == 1


def test_nothing_of_a_value_is_kept_after_the_work(logged):
    with kept_out_of_logs():
        note(["".join(["sk-", "hush-", "hush"])])
    assert _held._works == {}
    assert (_held.mask._short, _held.mask._long) == ([], [])


def test_secrets_that_nobody_would_forget_are_not_taken():
    with pytest.raises(RuntimeError, match="kept_out_of_logs"):
        note([VALUE])
