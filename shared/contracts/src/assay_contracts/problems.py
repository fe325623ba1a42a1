"""Problem details (RFC 9457): the one shape of every error that HTTP answers carry."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assay_contracts.run_config import ConfigIssue

PROBLEM_MEDIA_TYPE = "application/problem+json"


class ProblemCode(StrEnum):
    """Stable codes that a program can act on."""

    VALIDATION = "VALIDATION"
    AUTH_REQUIRED = "AUTH_REQUIRED"
    TOKEN_EXPIRED = "TOKEN_EXPIRED"  # noqa: S105
    TOKEN_REVOKED = "TOKEN_REVOKED"  # noqa: S105
    AUTHORIZATION_PENDING = "AUTHORIZATION_PENDING"
    SLOW_DOWN = "SLOW_DOWN"
    ACCESS_DENIED = "ACCESS_DENIED"
    EXPIRED_TOKEN = "EXPIRED_TOKEN"  # noqa: S105
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    BENCHMARK_NOT_READY = "BENCHMARK_NOT_READY"
    MISSING_SECRETS = "MISSING_SECRETS"
    BILLING_REQUIRED = "BILLING_REQUIRED"
    TOO_LARGE = "TOO_LARGE"
    RANGE_NOT_SATISFIABLE = "RANGE_NOT_SATISFIABLE"
    RATE_LIMITED = "RATE_LIMITED"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    MALFORMED = "MALFORMED"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    IDEMPOTENCY_IN_PROGRESS = "IDEMPOTENCY_IN_PROGRESS"
    IDEMPOTENCY_ANSWER_GONE = "IDEMPOTENCY_ANSWER_GONE"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


class Problem(BaseModel):
    """An error: `title` says what, `detail` says what to do about it.

    `issues` lists every mistake of a run configuration; `details` carries further fields that
    belong to the code, such as `missing` secret names.
    """

    model_config = ConfigDict(extra="forbid")

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: ProblemCode
    issues: list[ConfigIssue] = Field(default_factory=list)
    details: dict[str, Any] = Field(default_factory=dict)
