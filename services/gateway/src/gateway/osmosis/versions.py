"""Which versions of the Osmosis client are served: the client asks, and the server says.

Benchmarks came with 0.3.0 and `--workspace` with 0.3.2; 0.3.8 is the version that the tests drive.
A client that names no version, or none that can be read, is served as it is.
"""

from typing import Annotated

from fastapi import Header, Response
from packaging.version import InvalidVersion, Version

from gateway.osmosis.errors import OsmosisError, WireError

FIRST_WITH_BENCHMARKS = Version("0.3.0")
FIRST_WITH_WORKSPACES = Version("0.3.2")

VERSION_STATUS, VERSION_MESSAGE = "X-Osmosis-Version-Status", "X-Osmosis-Version-Message"


async def served_version(
    response: Response, x_osmosis_cli_version: Annotated[str | None, Header()] = None
) -> None:
    """Say how the client's version stands; refuse one that knows no benchmarks.

    Raises:
        OsmosisError: 426, the client is too old.
    """
    version = _read(x_osmosis_cli_version)
    if version is None:
        return
    if version < FIRST_WITH_BENCHMARKS:
        said = (
            f"osmosis {version} is too old for this server, which needs "
            f"{FIRST_WITH_BENCHMARKS} or newer: pip install --upgrade osmosis-ai"
        )
        raise OsmosisError(
            426, WireError(error=said, code="UPGRADE_REQUIRED", status="unsupported", message=said)
        )
    if version < FIRST_WITH_WORKSPACES:
        response.headers[VERSION_STATUS] = "deprecated"
        response.headers[VERSION_MESSAGE] = (
            f"osmosis {version} cannot choose a workspace by --workspace; "
            f"{FIRST_WITH_WORKSPACES} and newer can: pip install --upgrade osmosis-ai"
        )
        return
    response.headers[VERSION_STATUS] = "current"


def _read(text: str | None) -> Version | None:
    try:
        return None if text is None else Version(text)
    except InvalidVersion:
        return None
