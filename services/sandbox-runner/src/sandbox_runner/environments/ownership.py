"""Whose a sandbox is: the process that made it, so that another can tell when nobody owns it.

A mark names a place (this boot of this machine and the process's view of its processes) and in it a
process with the time it began, since numbers are used again.
"""

import os
from functools import cache
from pathlib import Path

FILE = "owner"
"""The name of the file that holds the mark, in what is owned."""

LABEL = "assay.owner"
"""The name of the label that holds the mark."""


def mine() -> str:
    """The mark of this process."""
    return f"{_place()}/{os.getpid()}/{_began(os.getpid())}"


def is_abandoned(mark: str) -> bool:
    """Whether the process that made the mark has surely ended.

    Of a process in another place nothing is sure.
    """
    place, _, process = mark.strip().rpartition("/")[0].rpartition("/")
    began = mark.strip().rpartition("/")[2]
    return place == _place() and _began(int(process)) != began


@cache
def _place() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"


def _began(pid: int) -> str | None:
    """The time at which the process began, in the kernel's ticks; None where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
