"""Stands by while a supervisor runs, and cleans up if that is killed.

The supervisor holds the other end of the guard's standard input. It says that it is done before it
closes it; a supervisor that was killed cannot, and the kernel closes it. Then the guard ends what
is left, unless a new supervisor is already there to do so.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay_local.environment import passed_environment
from assay_local.folder import DataFolder, HeldError
from assay_local.leftovers import clean_up

_DONE = b"done"


@contextmanager
def guarded(folder: DataFolder) -> Iterator[None]:
    """Have a guard as long as this lasts."""
    with folder.log("supervisor").open("ab") as output:
        guard = subprocess.Popen(  # noqa: S603  a program of ours
            [sys.executable, "-P", "-m", "assay_local.guard", str(folder.root)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=passed_environment(os.environ),
            cwd="/",
            start_new_session=True,
        )
    try:
        yield
    finally:
        try:
            guard.communicate(_DONE, timeout=5)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()


def main(root: str) -> int:
    """Wait for the supervisor's end, and clean up unless it said that it is done."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == _DONE:
        return 0
    folder = DataFolder(Path(root))
    try:
        with folder.lock():
            clean_up(folder, passed_environment(os.environ))
    except HeldError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
