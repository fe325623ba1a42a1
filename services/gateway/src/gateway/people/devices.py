"""Signing in a device that has no browser (RFC 8628): it shows a code, a person types it elsewhere.

Both the `assay` command and Osmosis clients sign in like this.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Depends

from assay_contracts.audit_events import INSTALLATION
from assay_contracts.http import (
    CreatedToken,
    DecideDevice,
    DeviceLogin,
    PendingDevice,
    PollDevice,
    StartDeviceLogin,
)
from assay_contracts.problems import ProblemCode
from gateway.access import Somebody, SomebodyNow
from gateway.desk import Desk, DeskNow
from gateway.idempotency import answer_not_kept
from gateway.people import queries
from gateway.people.addresses import PublicAddress
from gateway.people.credentials import (
    DEVICE_LIFETIME,
    as_user_code,
    hashed,
    new_code,
    new_user_code,
)
from gateway.people.tokens import Wanted, issue
from gateway.problems import ProblemError, not_found, unavailable

router = APIRouter(prefix="/device", tags=["session"])

INTERVAL_SECONDS = 2
_TOKEN_LIFETIME = timedelta(days=90)
_TRIES = 5


class DeviceRefusedError(Exception):
    """A device is not let in (yet): `code` as RFC 8628 names it."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@router.post(
    "",
    status_code=201,
    summary="Ask to be signed in",
    dependencies=[Depends(answer_not_kept)],
)
async def start(body: StartDeviceLogin, desk: DeskNow, address: PublicAddress) -> DeviceLogin:
    """The device shows the user's code and asks again and again whether it was let in."""
    return await begin(body.device_name, desk, address)


@router.post(
    "/token",
    summary="Ask whether the device was let in",
    dependencies=[Depends(answer_not_kept)],
    responses={400: {"description": "Not yet, or not at all: `code` says which"}},
)
async def poll(body: PollDevice, desk: DeskNow) -> CreatedToken:
    """Answers a token, once, when somebody has let the device in."""
    try:
        return await redeem(body.device_code, desk)
    except DeviceRefusedError as refusal:
        code = ProblemCode(refusal.code.upper())
        raise ProblemError(code, 400, str(refusal)) from refusal


@router.get("/{user_code}", summary="Which device shows this code?")
async def waiting(user_code: str, _: SomebodyNow, desk: DeskNow) -> PendingDevice:
    """What the device calls itself; look whether it is yours before you let it in."""
    return await pending(user_code, desk)


@router.post("/decision", summary="Let a device in, or turn it away")
async def decide(body: DecideDevice, asking: SomebodyNow, desk: DeskNow) -> PendingDevice:
    """It gets a token that can do what you can for 90 days."""
    return await decide_on(body.user_code, asking, desk, approve=body.approve)


async def pending(user_code: str, desk: Desk) -> PendingDevice:
    """The device that shows a code.

    Raises:
        ProblemError: none does.
    """
    async with desk.acting() as connection:
        return _pending(await _waiting(connection, user_code))


async def begin(device_name: str, desk: Desk, address: str) -> DeviceLogin:
    """Begin a device's login."""
    now = datetime.now(UTC)
    for _ in range(_TRIES):
        device_code, user_code = new_code(), new_user_code()
        values: dict[str, Any] = {
            "hash": hashed(device_code),
            "user_code": user_code,
            "device_name": device_name,
            "expires_at": now + DEVICE_LIFETIME,
            "denied": False,
        }
        async with desk.acting() as connection:
            if await queries.begin_device(connection, values, now):
                return DeviceLogin(
                    device_code=device_code,
                    user_code=user_code,
                    verification_uri=f"{address}/device",
                    verification_uri_complete=f"{address}/device?code={user_code}",
                    expires_in=int(DEVICE_LIFETIME.total_seconds()),
                    interval=INTERVAL_SECONDS,
                )
    raise unavailable("too many devices are signing in; try again in a moment")


async def redeem(device_code: str, desk: Desk) -> CreatedToken:
    """The token of a device that was let in.

    Raises:
        DeviceRefusedError: it was not, or not yet.
    """
    key, now = hashed(device_code), datetime.now(UTC)
    async with desk.acting() as connection:
        row = await queries.polled_device(connection, key, now)
        standing = _standing(row, now)
        if standing is None and row is not None:
            await queries.drop_device(connection, key)
            wanted = Wanted(row["device_name"], None, None, now + _TOKEN_LIFETIME)
            token = await issue(connection, row["user"], wanted)
            await desk.audit.tell_of(
                connection,
                row["user"],
                None,
                "token-created",
                str(token.id),
                {"name": wanted.name},
                INSTALLATION,
            )
            return token
        if row is not None and standing is not None and standing.code == "access_denied":
            await queries.drop_device(connection, key)
    raise standing or DeviceRefusedError("expired_token", "the code has expired")


def _standing(row: Any, now: datetime) -> DeviceRefusedError | None:
    if row is None or row["expires_at"] <= now:
        return DeviceRefusedError("expired_token", "the code has expired; sign in anew")
    if row["denied"]:
        return DeviceRefusedError("access_denied", "the device was turned away")
    if row["user"] is not None:
        return None
    last = row["polled_at"]
    # Half the interval is grace for clocks and networks.
    if last is not None and now - last < timedelta(seconds=INTERVAL_SECONDS / 2):
        return DeviceRefusedError("slow_down", "ask less often")
    return DeviceRefusedError("authorization_pending", "nobody has let the device in yet")


async def decide_on(
    user_code: str, asking: Somebody, desk: Desk, *, approve: bool
) -> PendingDevice:
    """Let the device that shows a code in, in somebody's name, or turn it away.

    Raises:
        ProblemError: no device shows it, or what somebody asks with is cut to less than its own.
    """
    identity = asking.identity
    if identity.scopes is not None or identity.workspace is not None:
        raise ProblemError(
            ProblemCode.FORBIDDEN, 403, "a token that is cut to less lets no device in"
        )
    async with desk.acting() as connection:
        row = await _waiting(connection, user_code)
        await queries.decide_device(connection, row["hash"], user=asking.user if approve else None)
        await desk.audit.tell(
            connection,
            asking,
            "device-let-in" if approve else "device-turned-away",
            row["device_name"],
            workspace=INSTALLATION,
        )
    return _pending(row)


async def _waiting(connection: Any, user_code: str) -> Any:
    found = await queries.waiting_device(connection, as_user_code(user_code), datetime.now(UTC))
    if found is None:
        raise not_found("no device shows this code (any more); begin again on the device")
    return found


def _pending(row: Any) -> PendingDevice:
    return PendingDevice(
        user_code=row["user_code"],
        device_name=row["device_name"],
        expires_at=row["expires_at"],
    )
