"""Errors as problem details: raised where they are known, translated once, here."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from nats.errors import Error as NatsError
from sqlalchemy.exc import ProgrammingError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from assay_contracts.problems import PROBLEM_MEDIA_TYPE, Problem, ProblemCode
from assay_contracts.run_config import ConfigIssue
from assay_kernel.database import is_outage

log = structlog.get_logger(__name__)

_CODES = {
    401: ProblemCode.AUTH_REQUIRED,
    403: ProblemCode.FORBIDDEN,
    404: ProblemCode.NOT_FOUND,
    409: ProblemCode.CONFLICT,
    413: ProblemCode.TOO_LARGE,
    503: ProblemCode.UNAVAILABLE,
}
_UNDEFINED_TABLE = "42P01"


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


def unavailable(detail: str) -> ProblemError:
    """A part of the platform does not answer for the moment."""
    return ProblemError(ProblemCode.UNAVAILABLE, 503, detail, headers={"Retry-After": "1"})


def answer_problems(app: FastAPI) -> None:
    """Let every error of the application leave as a problem."""

    @app.exception_handler(ProblemError)
    async def ours(_: Request, error: ProblemError) -> Response:
        return problem_response(error)

    @app.exception_handler(HTTPException)
    async def framework(_: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, ProblemCode.VALIDATION)
        return problem_response(ProblemError(code, error.status_code, str(error.detail)))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        issues = [
            ConfigIssue(
                key=".".join(str(part) for part in one["loc"]) or "body", message=str(one["msg"])
            )
            for one in error.errors()
        ]
        return problem_response(invalid(issues))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return problem_response(translated(error, request))


def translated(error: Exception, request: Request) -> ProblemError:
    """The problem that an error of no type of ours means."""
    if isinstance(error, ProblemError):
        return error
    starting = isinstance(error, ProgrammingError) and (
        getattr(error.orig, "sqlstate", None) == _UNDEFINED_TABLE
    )
    if starting or is_outage(error) or isinstance(error, NatsError | TimeoutError):
        log.warning("unavailable", path=request.url.path, error=type(error).__name__)
        return unavailable("a part of the platform does not answer yet; try again in a moment")
    log.error("internal-error", path=request.url.path, exc_info=error)
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
