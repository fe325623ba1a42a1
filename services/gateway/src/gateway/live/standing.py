"""Whether one who listens still may: asked again while a stream is open."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from assay_contracts.identity import Permission
from gateway.access import Bearer, Caller, Cookie, Reading, in_workspace, require, somebody


@dataclass(frozen=True)
class Standing:
    """Who listens, and what it was proven with."""

    request: Request
    credentials: Bearer
    cookie: Cookie
    asking: Caller

    async def check(self, permissions: frozenset[Permission]) -> None:
        """Ask again who it is and what it may do.

        Raises:
            ProblemError: it is no longer known, no longer a member, or lacks a permission.
        """
        now = await somebody(self.request, self.credentials, self.cookie)
        found = in_workspace(now, self.asking.workspace)
        for permission in permissions:
            require(found, permission)


async def _standing(
    request: Request, credentials: Bearer, cookie: Cookie, asking: Reading
) -> Standing:
    return Standing(request, credentials, cookie, asking)


StandingNow = Annotated[Standing, Depends(_standing)]
