"""Secrets: kept and deleted by people, never read back; handed, sealed, to our own processes."""

from typing import Literal

from fastapi import APIRouter, Depends

from assay_contracts.audit_events import INSTALLATION
from assay_contracts.http import (
    ClaimSecrets,
    Page,
    RotatedKeys,
    SealedSecrets,
    SecretEntry,
    SetSecret,
)
from assay_contracts.identity import Permission
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import (
    SECRET_NAME,
    ConfigIssue,
    EndpointModel,
    ProviderModel,
)
from assay_contracts.run_events import SubmittedData
from gateway import run_queries
from gateway.access import Operating, Reading, require, runner
from gateway.desk import DeskNow
from gateway.own_queries import USER, WORKSPACE, Record, entries
from gateway.problems import ProblemError, conflict, invalid, not_found
from gateway.vault import PublicKeyError, SecretUnreadableError, seal

router = APIRouter(prefix="/secrets", tags=["secrets"])
internal = APIRouter(prefix="/internal", include_in_schema=False, dependencies=[Depends(runner)])

_NEEDED = {USER: Permission.RUN, WORKSPACE: Permission.SECRETS}
"""What writing in each scope needs."""


@router.get("", summary="List secrets")
async def list_all(asking: Reading, desk: DeskNow) -> Page[SecretEntry]:
    """The workspace's and your own, without values."""
    items = await desk.vault.entries(asking.workspace, asking.user)
    return Page(items=items, total_count=len(items))


@router.post("/rotate", summary="Rotate the master key")
async def rotate(asking: Operating, desk: DeskNow) -> RotatedKeys:
    """Read the master keys again and wrap every record's own key under the newest; an operator's.

    Values are not opened. Where it is broken off, what is done stays done: ask again.
    """
    rotated = await desk.vault.rotate()
    async with desk.acting() as connection:
        told = {"secrets": str(rotated.rewrapped)}
        await desk.audit.tell(
            connection, asking, "master-key-rotated", rotated.key, told, workspace=INSTALLATION
        )
    return rotated


@router.put("/{name}", summary="Set a secret")
async def keep(name: str, body: SetSecret, asking: Reading, desk: DeskNow) -> SecretEntry:
    """Keep a value, encrypted; there is no way to read it back.

    Needs `run` for a personal one, and `secrets` for one of the workspace.
    """
    require(asking, _NEEDED[body.scope])
    if not SECRET_NAME.fullmatch(name):
        message = "must be capitals, digits and underscores, starting with a letter"
        raise invalid([ConfigIssue(key="name", message=message)])
    owner = asking.user if body.scope == USER else ""
    record = Record(asking.workspace, body.scope, owner, name)
    async with desk.acting() as connection:
        await desk.vault.keep(connection, record, body.value, asking.user)
        await desk.audit.tell(connection, asking, "secret-set", name, {"scope": body.scope})
        kept = await entries(connection, asking.workspace, asking.user)
    return next(one for one in kept if one.name == name and one.scope == body.scope)


@router.delete("/{name}", status_code=204, summary="Delete a secret")
async def drop(
    name: str, asking: Reading, desk: DeskNow, scope: Literal["user", "workspace"] = "user"
) -> None:
    """Delete a secret of a scope; needs what setting it needs."""
    require(asking, _NEEDED[scope])
    record = Record(asking.workspace, scope, asking.user if scope == USER else "", name)
    async with desk.acting() as connection:
        if not await desk.vault.drop(connection, record):
            raise not_found(
                f"there is no secret {name} in the scope {scope}; `assay secret list` shows them"
            )
        await desk.audit.tell(connection, asking, "secret-deleted", name, {"scope": scope})


@internal.post("/secrets")
async def claim(body: ClaimSecrets, desk: DeskNow) -> SealedSecrets:
    """The secrets that a run refers to, while it goes on, for the asking process's key alone.

    Runners ask for what a try needs, the grader for the key of a run's judge.
    """
    async with desk.reading() as connection:
        row = await run_queries.find_run(connection, body.workspace, str(body.run))
    if row is None:
        raise not_found("there is no such run")
    state = await desk.run_state(body.workspace, body.run)
    if state.submitted is None or state.status.is_terminal:
        await desk.vault.drop_run(body.run)
        raise conflict("the run has ended; its secrets are no longer handed out")
    allowed = _referred_to(state.submitted)
    refused = sorted(set(body.names) - allowed)
    if refused:
        raise ProblemError(
            ProblemCode.FORBIDDEN, 403, f"the run does not refer to {', '.join(refused)}"
        )
    try:
        values = await desk.vault.values(body.workspace, row["submitted_by"], body.run, body.names)
    except SecretUnreadableError as error:
        raise conflict(str(error)) from error
    missing = [name for name in body.names if name not in values]
    if missing:
        raise ProblemError(
            ProblemCode.MISSING_SECRETS,
            404,
            f"secrets are missing: {', '.join(missing)}",
            details={"missing": missing},
        )
    try:
        return SealedSecrets(sealed=seal(values, body.public_key))
    except PublicKeyError as error:
        raise invalid([ConfigIssue(key="public_key", message=str(error))]) from error


def _referred_to(submitted: SubmittedData) -> set[str]:
    names = {*submitted.verifier_secrets, *submitted.run_secrets}
    for agent in submitted.agents:
        if isinstance(agent.model, ProviderModel | EndpointModel):
            names.add(agent.model.api_key_secret)
        if agent.harness_api_key_secret is not None:
            names.add(agent.harness_api_key_secret)
    if submitted.execution.judge_api_key_secret is not None:
        names.add(submitted.execution.judge_api_key_secret)
    return names
