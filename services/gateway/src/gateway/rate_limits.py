"""How often one may ask: counted by caller, and by address for who shows no valid token.

A download's signed address is proof enough, and asks in nobody's name: those are counted by run.

Counted in this process's memory; with several gateways each counts for itself. The headers are
those of the IETF's draft "RateLimit header fields for HTTP". Operators and the installation's own
runners are not limited.
"""

import ipaddress
import time
from datetime import UTC, datetime

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.problems import ProblemCode
from gateway.admission import Admitted, admitted
from gateway.downloads.addresses import AddressRefusedError, Signer
from gateway.master_keys import NoMasterKeyError
from gateway.problems import ProblemError
from gateway.settings import HttpLimits
from gateway.vault import Vault

_COUNTED = ("/api/", "/sign-in", "/device")
"""The API, and the pages that take passwords and codes. What `/mcp` asks for, it asks the API."""

_ADDRESSED = "/api/v1/downloads/"
_IPV6_NETWORK = 64
"""Whoever has one IPv6 address has this whole network."""


class RateLimits:
    """Counts requests, and refuses those that are too many (pure ASGI)."""

    def __init__(self, app: ASGIApp, limits: HttpLimits, vault: Vault) -> None:
        self._app = app
        self._vault = vault
        self._counted = FixedWindowRateLimiter(MemoryStorage())
        self._caller = parse(limits.rate_limit_caller)
        self._address = parse(limits.rate_limit_address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count a request and let it through.

        Raises:
            ProblemError: there were too many.
        """
        if scope["type"] != "http" or not scope["path"].startswith(_COUNTED):
            await self._app(scope, receive, send)
            return
        who = await admitted(scope)
        if _is_exempt(who):
            await self._app(scope, receive, send)
            return
        policy, limit, name = self._of(who, scope)
        is_within = self._counted.hit(limit, policy, name)
        window = self._counted.get_window_stats(limit, policy, name)
        seconds = max(1, round(window.reset_time - time.time()))
        headers = {
            "RateLimit-Policy": f'"{policy}";q={limit.amount};w={limit.get_expiry()}',
            "RateLimit": f'"{policy}";r={max(0, window.remaining)};t={seconds}',
        }
        if not is_within:
            raise ProblemError(
                ProblemCode.RATE_LIMITED,
                429,
                f"too many requests: {limit.amount} in {limit.get_expiry()} s are allowed for "
                f"each {policy}; go on in {seconds} s",
                headers=headers | {"Retry-After": str(seconds)},
            )

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self._app(scope, receive, telling)

    def _of(self, who: Admitted, scope: Scope) -> tuple[str, RateLimitItem, str]:
        """The policy that counts for a request, its limit, and under which name it counts."""
        if who.somebody is not None:
            return "caller", self._caller, who.somebody.user
        run = self._run_of_address(scope["path"])
        if run is not None:
            return "run", self._caller, run
        return "address", self._address, network_of(scope.get("client"))

    def _run_of_address(self, path: str) -> str | None:
        """The run whose file a signed address serves; None where it is none, or not good."""
        if not path.startswith(_ADDRESSED):
            return None
        try:
            signer = Signer(self._vault)
            found = signer.addressed(path.removeprefix(_ADDRESSED), datetime.now(UTC))
        except (AddressRefusedError, NoMasterKeyError):
            return None  # counted by address, and refused by the route with the reason
        return str(found.owner.run)


def _is_exempt(who: Admitted) -> bool:
    return who.is_runner or (who.somebody is not None and who.somebody.identity.operates)


def network_of(client: tuple[str, int] | None) -> str:
    """The address that a request comes from, or its network: who has one IPv6 address has many."""
    if client is None:
        return "none"
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return client[0]
    if address.version == 4:
        return client[0]
    return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))
