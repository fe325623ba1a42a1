"""The one place where an error becomes text, or JSON, and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

import stamina.instrumentation
import typer

from assay_client.application import application
from assay_client.errors import AssayError, InterruptedByUserError
from assay_client.render.problems import tell_error


class UsageError(AssayError):
    """The command line cannot be understood."""

    code = "USAGE"
    exit_code = 2


def run_command(arguments: Sequence[str]) -> int:
    """Run the command line; every error is told on stderr."""
    stamina.instrumentation.set_on_retry_hooks([])  # they would write to stdout
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character
    try:
        return _run(arguments)
    except AssayError as error:
        tell_error(error, as_json="--json" in arguments)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has enough of it; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: Sequence[str]) -> int:
    try:
        code = application(args=list(arguments), prog_name="assay", standalone_mode=False)
    except typer.TyperException as error:
        raise _usage_error(error) from error
    except (typer.Abort, KeyboardInterrupt):
        raise InterruptedByUserError from None
    return code if isinstance(code, int) else 0


def _usage_error(error: typer.TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "assay")
    told = " ".join(error.format_message().split()).rstrip(".")
    return UsageError(told or "a subcommand is needed", f"see: {command} --help")
