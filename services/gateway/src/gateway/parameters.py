"""What stands behind the `?` of an address has to be known: a typo must not change what is done."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant

from assay_contracts.run_config import ConfigIssue
from gateway.problems import did_you_mean, invalid


async def only_known(request: Request) -> None:
    """A dependency of routes that refuses parameters which they do not have.

    Raises:
        ProblemError: there are some; all of them are named.
    """
    sent = set(request.query_params)
    if not sent:
        return
    known = set(_names(request.scope["route"].dependant))
    unknown = sorted(sent - known)
    if unknown:
        message = "is no parameter of this address"
        raise invalid(
            [
                ConfigIssue(key=f"query.{one}", message=message + did_you_mean(one, sorted(known)))
                for one in unknown
            ]
        )


def _names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for part in dependant.dependencies:
        yield from _names(part)
