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
from contextlib import contextmanager, suppress
from pathlib import Path

from assay_local.environment import passed_environment
from assay_local.folder import DataFolder, HeldError
from assay_local.leftovers import clean_up
from assay_local.process import ProcessRef, wait_for_end

_DONE = b"done"
_DEATH_SECONDS = 10.0
_LOCK_SECONDS = 10.0


@contextmanager
def guarded(folder: DataFolder) -> Iterator[None]:
    """Have a guard as long as this lasts."""
    supervisor = ProcessRef.current()
    with folder.log("supervisor").open("ab") as output:
        guard = subprocess.Popen(  # noqa: S603  a program of ours
            [
                *(sys.executable, "-P", "-m", "assay_local.guard"),
                *(str(folder.root), str(supervisor.pid), supervisor.born),
            ],
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


def main(root: str, pid: str, born: str) -> int:
    """Wait for the supervisor's end, and clean up unless it said that it is done."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == _DONE:
        return 0
    # Its end of the pipe closes a moment before its lock does.
    wait_for_end([ProcessRef(int(pid), born)], _DEATH_SECONDS)
    folder = DataFolder(Path(root))
    with suppress(HeldError), folder.lock(_LOCK_SECONDS):
        clean_up(folder, passed_environment(os.environ))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
