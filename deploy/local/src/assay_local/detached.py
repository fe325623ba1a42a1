"""Starts the supervisor in the background, in a session of its own, and waits until it is ready."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from assay_local.folder import DataFolder

COMMAND = (sys.executable, "-P", "-m", "assay_local.background")
"""The supervisor's program; its arguments are the data folder, the port, and where to report."""


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
