"""The supervisor in the background: started in a session of its own, watched until it is ready."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from assay_local.folder import DataFolder
from assay_local.installation import NotStartedError, Services, assay_services, run_platform
from assay_local.supervisor import Telling

COMMAND = (sys.executable, "-P", "-m", "assay_local.detached")
"""Starts `main`; the arguments are the data folder, the port and the descriptor to report to."""


def start_detached(
    root: Path, port: int, tell: Callable[[str], None], command: Sequence[str] = COMMAND
) -> int:
    """Start the supervisor in the background; returns 0 when all is ready, or its exit code.

    Raises:
        FolderError: the data folder cannot be used.
    """
    folder = DataFolder.prepare(root)
    reading, writing = os.pipe()
    with folder.log("supervisor").open("ab") as output:
        supervisor = subprocess.Popen(  # noqa: S603  a program of ours
            [*command, str(folder.root), str(port), str(writing)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            cwd="/",
            start_new_session=True,
        )
    os.close(writing)
    with os.fdopen(reading) as reports:
        try:
            for report in map(json.loads, reports):
                if "ready" in report:
                    return 0
                tell(report["line"])
        except KeyboardInterrupt:
            supervisor.send_signal(signal.SIGTERM)
            tell("stopping")
    return supervisor.wait() or 1


def main(arguments: Sequence[str], services: Services = assay_services) -> int:
    """Run the platform, reporting to the descriptor until it is ready."""
    root, port, descriptor = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    os.set_inheritable(descriptor, False)
    reports = _Reports(descriptor)
    try:
        return run_platform(root, port, Telling(reports.line, reports.ready), services)
    except NotStartedError as error:
        reports.line(str(error))
        return 1
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
