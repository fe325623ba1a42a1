"""Holds up whoever tries passwords: counted where they fail, by user and by address.

Counted in this process's memory, as the rate limits are.
"""

import time
from collections.abc import Sequence

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from assay_contracts.problems import ProblemCode
from gateway.problems import ProblemError

_FROM_ONE_ADDRESS = parse("10 per 5 minutes")
_FROM_ANYWHERE = parse("100 per hour")
"""For one user, so that many addresses together get no further; its own are held up as well."""


class Attempts:
    """Failed attempts to sign in."""

    def __init__(self) -> None:
        self._failed = FixedWindowRateLimiter(MemoryStorage())

    def require_few(self, user: str, network: str) -> None:
        """Refuse before a password is even looked at.

        Raises:
            ProblemError: too many have failed.
        """
        for limit, names in _counted(user, network):
            if not self._failed.test(limit, *names):
                until = self._failed.get_window_stats(limit, *names).reset_time
                seconds = max(1, round(until - time.time()))
                raise ProblemError(
                    ProblemCode.RATE_LIMITED,
                    429,
                    f"too many attempts to sign in have failed; try again in {seconds} s",
                    headers={"Retry-After": str(seconds)},
                )

    def failed(self, user: str, network: str) -> None:
        """An attempt has failed."""
        for limit, names in _counted(user, network):
            self._failed.hit(limit, *names)


def _counted(user: str, network: str) -> Sequence[tuple[RateLimitItem, tuple[str, ...]]]:
    name = user.lower()
    return ((_FROM_ONE_ADDRESS, (name, network)), (_FROM_ANYWHERE, (name,)))
