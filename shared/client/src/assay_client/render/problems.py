"""How an error is told: lines for a person, or one JSON document for a program, both on stderr."""

import json
import re
import shlex
import sys

from assay_client.errors import AssayError
from assay_client.render.output import make_console, text
from assay_contracts.problems import ProblemCode

MOST_ISSUES = 100
"""How many mistakes a person is shown; a program gets all."""


def tell_error(error: AssayError, as_json: bool) -> None:
    """Write an error to stderr."""
    if as_json:
        sys.stderr.write(f"{json.dumps({'error': error_document(error)})}\n")
        return
    console = make_console(stderr=True)
    for number, line in enumerate(error_lines(error)):
        console.print(text(line, style="" if number else "bold red"), soft_wrap=True)


def error_document(error: AssayError) -> dict[str, object]:
    """An error as programs read it; `status` is null where the server had no say."""
    return {
        "code": error.code,
        "title": error.title,
        "detail": error.detail,
        "status": error.status,
        "issues": [issue.model_dump() for issue in error.issues],
        "details": error.details,
    }


def error_lines(error: AssayError) -> list[str]:
    """An error as people read it: what happened, what to do, and every single mistake."""
    lines = [f"assay: {error.title}"]
    lines.extend(f"  {issue}" for issue in error.issues[:MOST_ISSUES])
    if len(error.issues) > MOST_ISSUES:
        lines.append(f"  and {len(error.issues) - MOST_ISSUES:,} more; --json lists all")
    if error.detail not in {"", error.title, "; ".join(str(issue) for issue in error.issues)}:
        lines.extend(f"  {line}" for line in error.detail.splitlines())
    lines.extend(f"  {advice}" for advice in _advice(error) if not _says(error.detail, advice))
    return lines


def _says(detail: str, advice: str) -> bool:
    """Whether the server gave that advice itself, and not one for a longer name."""
    return re.search(rf"{re.escape(advice)}(?!\w)", detail) is not None


def _advice(error: AssayError) -> list[str]:
    if error.code == ProblemCode.MISSING_SECRETS:
        missing = error.details.get("missing")
        names = missing if isinstance(missing, list) else []
        return [f"assay secret set {shlex.quote(str(name))}" for name in names]
    if error.code == ProblemCode.AUTH_REQUIRED:
        return ["assay login"]
    return []
