"""Errors as problem details: raised where they are known, translated once, here."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from nats.errors import Error as NatsError
from rapidfuzz import process
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from assay_contracts.problems import PROBLEM_MEDIA_TYPE, Problem, ProblemCode
from assay_contracts.run_config import ConfigIssue
from assay_kernel.database import is_outage
from gateway.master_keys import NoMasterKeyError

log = structlog.get_logger(__name__)

_CODES = {
    400: ProblemCode.MALFORMED,
    401: ProblemCode.AUTH_REQUIRED,
    403: ProblemCode.FORBIDDEN,
    404: ProblemCode.NOT_FOUND,
    408: ProblemCode.REQUEST_TIMEOUT,
    409: ProblemCode.CONFLICT,
    413: ProblemCode.TOO_LARGE,
    429: ProblemCode.RATE_LIMITED,
    431: ProblemCode.TOO_LARGE,
    503: ProblemCode.UNAVAILABLE,
}
_SIGNED = "/api/v1/downloads/"
_NOT_YET_THERE = {"42P01", "42703", "3F000"}
"""PostgreSQL's codes for a missing table, column or schema: another service has yet to migrate."""


class ProblemError(Exception):
    """A request that cannot be done; `detail` says what to do about it."""

    def __init__(
        self,
        code: ProblemCode,
        status: int,
        detail: str,
        *,
        issues: Sequence[ConfigIssue] = (),
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = headers
        self.problem = Problem(
            title=HTTPStatus(status).phrase,
            status=status,
            detail=detail,
            code=code,
            issues=list(issues),
            details=details or {},
        )


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """`; did you mean …?` with the names that come near, or nothing."""
    near = [str(one[0]) for one in process.extract(name, known, limit=3, score_cutoff=50)]
    return f"; did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""


def not_found(detail: str) -> ProblemError:
    """What was asked for is not there."""
    return ProblemError(ProblemCode.NOT_FOUND, 404, detail)


def conflict(detail: str) -> ProblemError:
    """The state of things does not allow it."""
    return ProblemError(ProblemCode.CONFLICT, 409, detail)


def invalid(issues: Sequence[ConfigIssue]) -> ProblemError:
    """The request has mistakes; all of them are listed."""
    detail = "; ".join(str(issue) for issue in issues)
    return ProblemError(ProblemCode.VALIDATION, 422, detail, issues=issues)


def too_large(detail: str) -> ProblemError:
    """What was sent does not fit into an event."""
    return ProblemError(ProblemCode.TOO_LARGE, 413, detail)


def unavailable(detail: str) -> ProblemError:
    """A part of the platform does not answer for the moment."""
    return ProblemError(ProblemCode.UNAVAILABLE, 503, detail, headers={"Retry-After": "1"})


def answer_problems(app: FastAPI) -> None:
    """Let the errors that endpoints and framework raise leave as problems.

    The rest is translated at the boundary, outside of the framework.
    """

    @app.exception_handler(ProblemError)
    async def ours(_: Request, error: ProblemError) -> Response:
        return problem_response(error)

    @app.exception_handler(HTTPException)
    async def framework(_: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, ProblemCode.VALIDATION)
        headers = None if error.headers is None else dict(error.headers)
        problem = ProblemError(code, error.status_code, str(error.detail), headers=headers)
        return problem_response(problem)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        issues = [
            ConfigIssue(
                key=".".join(str(part) for part in one["loc"]) or "body", message=str(one["msg"])
            )
            for one in error.errors()
        ]
        return problem_response(invalid(issues))


_OUTAGES = (NatsError, TimeoutError, PoolTimeoutError)


def not_yet_there(error: Exception) -> bool:
    """True where another service's tables have yet to be made."""
    return (
        isinstance(error, ProgrammingError)
        and getattr(error.orig, "sqlstate", None) in _NOT_YET_THERE
    )


def _told(request: Request) -> str:
    """The path for the log; a signed address opens a file to whoever reads it there."""
    before, signed, _ = request.url.path.partition(_SIGNED)
    return f"{before}{signed}…" if signed else before


def translated(error: Exception, request: Request) -> ProblemError:
    """The problem that an error of no type of ours means."""
    if isinstance(error, ProblemError):
        return error
    if not_yet_there(error) or is_outage(error) or isinstance(error, _OUTAGES):
        log.warning("unavailable", path=_told(request), error=type(error).__name__)
        return unavailable("a part of the platform does not answer yet; try again in a moment")
    if isinstance(error, NoMasterKeyError):
        return unavailable(str(error))
    log.error("internal-error", path=_told(request), exc_info=error)
    request_id = getattr(request.state, "request_id", "unknown")
    return ProblemError(
        ProblemCode.INTERNAL,
        500,
        f"something went wrong that should not; the log has it under request {request_id}",
    )


def problem_response(error: ProblemError) -> Response:
    """The answer that tells a problem."""
    return Response(
        error.problem.model_dump_json(),
        status_code=error.problem.status,
        media_type=PROBLEM_MEDIA_TYPE,
        headers=error.headers,
    )
