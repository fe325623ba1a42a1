"""The gate `webhook`: an external system says yes or no to each run.

The question is signed as Standard Webhooks have it. An answer that does not come in time, is a
redirect or an error, or is not what was asked for is no answer at all: what happens then is the
operator's choice.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

import httpx
import structlog
from pydantic import ValidationError
from standardwebhooks.webhooks import Webhook

from assay_contracts.http import BillingAnswer, BillingMode, BillingQuestion
from gateway.billing import Gate, Opening, billing_required
from gateway.billing_estimates import Flat, expected
from gateway.desk import Desk

_MOST_BYTES = 64 * 1024

log = structlog.get_logger(__name__)


class NoWebhookSecretError(RuntimeError):
    """The file with the webhook's secret holds none that can be used."""


class _NoAnswerError(Exception):
    """The webhook gave no answer; the message says why."""


def read_secret(path: Path) -> Webhook:
    """The signer with the secret in a file: base64, with or without `whsec_` before it.

    Raises:
        NoWebhookSecretError: it holds none.
    """
    try:
        return Webhook(path.read_text().strip())
    except Exception as error:
        raise NoWebhookSecretError(
            f"{path.name} holds no secret of a webhook: whsec_ and at least one byte in base64"
        ) from error


class WebhookGate(Gate):
    """Lets pass what the webhook allows.

    Args:
        desk: where read models are, for the estimate.
        url: address that is asked.
        signer: signs with the secret that both sides know.
        seconds: how long the whole answer may take.
        unreachable: what happens where there is no answer.
        flat: what a slot is taken to need where nothing is known.
    """

    mode = BillingMode.WEBHOOK

    def __init__(
        self,
        desk: Desk,
        url: str,
        signer: Webhook,
        *,
        seconds: float,
        unreachable: Literal["allow", "refuse"],
        flat: Flat,
    ) -> None:
        self._desk = desk
        self._url = url
        self._signer = signer
        self._seconds = seconds
        self._unreachable = unreachable
        self._flat = flat

    async def admit(self, request: UUID, opening: Opening) -> None:
        """Ask about an opening.

        Raises:
            ProblemError: the answer is no; or there is none, and that counts as no.
        """
        async with self._desk.reading() as connection:
            needed = await expected(connection, opening, self._flat)
        question = BillingQuestion(
            id=request,
            workspace=opening.workspace,
            user=opening.user,
            benchmark=opening.submitted.benchmark.name,
            run=opening.run,
            retry=opening.retry,
            slots=opening.slots,
            estimate=needed.shown,
        )
        try:
            answer = await self._asked(question)
        except _NoAnswerError as error:
            log.warning("billing-webhook", error=str(error), then=self._unreachable)
            if self._unreachable == "allow":
                return
            raise billing_required(
                "whether the run may start is decided elsewhere, and there was no answer; try "
                "again in a moment, or ask whoever runs this installation"
            ) from error
        if not answer.allow:
            said = f": {answer.reason}" if answer.reason else ""
            raise billing_required(f"the run was not allowed{said}")

    async def withdraw(self, request: UUID) -> None:
        """The webhook is told nothing more."""

    async def _asked(self, question: BillingQuestion) -> BillingAnswer:
        content = question.model_dump_json()
        now, name = datetime.now(UTC), str(question.id)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(name, now, content),
        }
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._posted(content, headers)
        except TimeoutError as error:
            raise _NoAnswerError(f"no answer within {self._seconds:g} s") from error
        except httpx.HTTPError as error:
            raise _NoAnswerError(f"{type(error).__name__}: {error}") from error
        try:
            return BillingAnswer.model_validate_json(body)
        except ValidationError as error:
            raise _NoAnswerError("the answer is no JSON with allow and reason") from error

    async def _posted(self, content: str, headers: dict[str, str]) -> bytes:
        """The body of a successful answer, within its limit of bytes."""
        async with (
            httpx.AsyncClient(follow_redirects=False, timeout=self._seconds) as client,
            client.stream("POST", self._url, content=content, headers=headers) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise _NoAnswerError(f"it answered {response.status_code}")
            body = bytearray()
            async for piece in response.aiter_bytes(_MOST_BYTES):
                body += piece
                if len(body) > _MOST_BYTES:
                    raise _NoAnswerError(f"it answered more than {_MOST_BYTES} bytes")
            return bytes(body)
