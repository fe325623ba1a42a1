"""What can go wrong between a person and the server, each kind with what to do about it.

An error is raised where it is known and turned into text or JSON and an exit code once, in
`assay_client.main`. None of them ever carries the value of a secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assay_contracts.problems import Problem, ProblemCode
from assay_contracts.run_config import ConfigIssue


class AssayError(Exception):
    """Base of every error of the client.

    `code` is stable and for programs, `title` says what happened, `detail` what to do about it.
    """

    code: str = "FAILED"
    exit_code: int = 1
    status: int | None = None

    def __init__(
        self,
        title: str,
        detail: str = "",
        *,
        issues: Sequence[ConfigIssue] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{title}: {detail}" if detail else title)
        self.title = title
        self.detail = detail
        self.issues = tuple(issues)
        self.details = dict(details or {})


class ApiError(AssayError):
    """The server refused, or failed; everything its problem document says is here.

    `code` is a value of `ProblemCode` where the server names one, else `HTTP_<status>`.
    """

    status: int

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str = "",
        *,
        issues: Sequence[ConfigIssue] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(title, detail, issues=issues, details=details)
        self.retry_after: int | None = None
        self.status = status
        self.code = code

    @classmethod
    def of(cls, problem: Problem) -> "ApiError":
        """The error that a problem document describes."""
        return cls(
            problem.status,
            problem.code.value,
            problem.title,
            problem.detail,
            issues=problem.issues,
            details=problem.details,
        )

    @property
    def is_not_found(self) -> bool:
        """True where the server knows no such thing."""
        return self.code == ProblemCode.NOT_FOUND

    @property
    def is_temporary(self) -> bool:
        """True where asking again in a moment may well succeed."""
        return self.status in {429, 502, 503, 504}


class NoAnswerError(AssayError):
    """The connection broke, or no answer came in time; a change may have happened all the same."""

    code = "NO_ANSWER"


class ServerUnreachableError(NoAnswerError):
    """Nobody listens at the server's address; nothing was sent."""

    code = "UNREACHABLE"

    def __init__(self, server: str) -> None:
        super().__init__(f"no server answers at {server}; start one with: assay up")
        self.server = server


class UnexpectedAnswerError(AssayError):
    """The server answered something that this version of the client does not understand."""

    code = "UNEXPECTED_ANSWER"


class InvalidInputError(AssayError):
    """A file or a value that a person gave cannot be used."""

    code = ProblemCode.VALIDATION.value


class InterruptedByUserError(AssayError):
    """Ctrl-C; `goes_on` says what the server does all the same."""

    code = "INTERRUPTED"
    exit_code = 130

    def __init__(self, goes_on: str | None = None) -> None:
        super().__init__("interrupted" if goes_on is None else f"interrupted; {goes_on}")
