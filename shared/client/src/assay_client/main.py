"""The entry point of `assay`. Loading the rest takes a moment; Ctrl-C is one line even then."""

import sys
from collections.abc import Sequence

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        from assay_client.boundary import run_command  # noqa: PLC0415

        return run_command(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        sys.stderr.write("assay: interrupted\n")
        return _INTERRUPTED
