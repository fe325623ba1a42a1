"""The supervisor in the background: it reports to whoever started it until it is ready."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from assay_local.installation import NotStartedError, run_platform
from assay_local.supervisor import Telling


def main(arguments: Sequence[str]) -> int:
    """Run the platform, reporting to the descriptor until it is ready."""
    root, port, descriptor = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    os.set_inheritable(descriptor, False)
    reports = _Reports(descriptor)
    try:
        return run_platform(root, port, Telling(reports.line, reports.ready))
    except NotStartedError as error:
        reports.line(str(error))
        return 1
    except Exception as error:
        reports.line(f"Assay failed: {error!r}")
        raise
    finally:
        reports.close()


class _Reports:
    """Lines of JSON to whoever started us; nobody reads them once it knows that all is ready."""

    def __init__(self, descriptor: int) -> None:
        self._output = os.fdopen(descriptor, "w", buffering=1)

    def line(self, text: str) -> None:
        self._write({"line": text})

    def ready(self) -> None:
        self._write({"ready": True})
        self.close()

    def close(self) -> None:
        with suppress(OSError):
            self._output.close()

    def _write(self, report: dict[str, object]) -> None:
        if not self._output.closed:
            with suppress(OSError):
                self._output.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
