"""What the platform still waits for, as the gateway tells it."""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Readiness:
    """`answers`: the gateway speaks; `missing`: the services that are not ready."""

    answers: bool
    missing: Sequence[str]

    @property
    def is_ready(self) -> bool:
        """Whether every service is ready."""
        return self.answers and not self.missing


async def ask_readiness(client: httpx.AsyncClient, services: Sequence[str]) -> Readiness:
    """Ask the gateway; `services` are all missing as long as it does not answer."""
    try:
        answer = await client.get("/readyz", timeout=_ANSWER_SECONDS)
    except httpx.HTTPError:
        return Readiness(answers=False, missing=services)
    if answer.status_code == httpx.codes.OK:
        return Readiness(answers=True, missing=())
    return Readiness(answers=True, missing=_missing(answer) or ["gateway"])


def _missing(answer: httpx.Response) -> Sequence[str]:
    try:
        body = answer.json()
        silent = [str(name) for name in body["missing"]]
        unready = [str(one["service"]) for one in body.get("services", ()) if not one["ready"]]
    except (ValueError, KeyError, TypeError):
        return ()
    return list(dict.fromkeys([*silent, *unready]))
