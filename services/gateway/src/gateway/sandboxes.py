"""The sandboxes on all machines, as their runners see them."""

from typing import Annotated

from fastapi import APIRouter, Depends
from nats.aio.client import Client

from assay_contracts.commands import SANDBOXES, SandboxesSeen, SeeSandboxes
from assay_contracts.http import SandboxEntry, SandboxList
from gateway.access import Operating
from gateway.desk import DeskNow
from gateway.system import ask_all, ask_runners

router = APIRouter(prefix="/sandboxes", tags=["system"])

_SECONDS = 10.0


def _client(desk: DeskNow) -> Client:
    return desk.store.client


@router.get("", summary="Which sandboxes are there?")
async def sandboxes(_: Operating, client: Annotated[Client, Depends(_client)]) -> SandboxList:
    """Every container and local sandbox that a runner sees, and whose it is; oldest first."""
    runners = [runner.instance for runner in await ask_runners(client)]
    told = await ask_all(
        client, SANDBOXES, SeeSandboxes(), SandboxesSeen, seconds=_SECONDS, wanted=len(runners)
    )
    silent = set(runners) - {seen.runner for seen in told}
    trouble = {seen.runner: seen.trouble for seen in told if seen.trouble is not None}
    return SandboxList(
        sandboxes=_each_once(told),
        runners=sorted({*runners, *(seen.runner for seen in told)}),
        trouble=trouble | dict.fromkeys(sorted(silent), "the runner does not answer"),
    )


def _each_once(told: list[SandboxesSeen]) -> list[SandboxEntry]:
    """Runners that share an engine see the same containers."""
    found = {
        (sandbox.environment, sandbox.id): sandbox for seen in told for sandbox in seen.sandboxes
    }
    return sorted(found.values(), key=lambda sandbox: (sandbox.began_at, sandbox.id))
