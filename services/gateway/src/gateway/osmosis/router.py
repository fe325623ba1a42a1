"""All routes of the client's interface, and how the application takes them in."""

from typing import NoReturn

from fastapi import APIRouter, Depends, FastAPI

from assay_contracts.problems import ProblemCode
from gateway.osmosis import benchmarks, identity, outputs, runs, secrets
from gateway.osmosis.errors import (
    PREFIX,
    OsmosisAnswers,
    OsmosisError,
    WireError,
    answer_osmosis_errors,
)
from gateway.osmosis.versions import served_version

_elsewhere = APIRouter()


@_elsewhere.api_route(
    "/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], response_model=None
)
async def elsewhere(path: str) -> NoReturn:
    """What the client can do elsewhere, such as datasets, training and deployments."""
    thing = path.split("/", maxsplit=1)[0]
    raise OsmosisError(
        404,
        WireError(
            error=f"this server has no {thing}: it serves benchmarks, their runs and secrets",
            code=ProblemCode.NOT_FOUND,
        ),
    )


def serve_osmosis(app: FastAPI) -> None:
    """Add the interface to an application; after its other middleware, which this one goes around.

    It is left out of the OpenAPI document, which describes our own API.
    """
    router = APIRouter(
        prefix=PREFIX, include_in_schema=False, dependencies=[Depends(served_version)]
    )
    for part in (
        identity.router,
        secrets.router,
        benchmarks.router,
        runs.router,
        outputs.router,
        _elsewhere,
    ):
        router.include_router(part)
    app.include_router(router)
    answer_osmosis_errors(app)
    app.add_middleware(OsmosisAnswers)
