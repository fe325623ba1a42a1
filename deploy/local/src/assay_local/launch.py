"""Becomes the program it is given, tied to the life of the one that started it.

Run as a file with the interpreter alone, so that it costs a few milliseconds:

    python -I -S launch.py PARENT SIGNAL USER -- COMMAND...

It drops root for USER (`uid:gid`, or `-` to stay), asks the kernel to send SIGNAL when PARENT dies
(Linux; elsewhere the guard alone sees to that), and executes COMMAND in the same process. Changing
the user clears the request to the kernel, which is why both happen here and in this order.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127


def main(arguments: list[str]) -> int:
    """Execute the command; returns only when that is impossible."""
    parent, death_signal, user = int(arguments[0]), int(arguments[1]), arguments[2]
    command = arguments[4:]
    try:
        if user != "-":
            _become(user)
        if sys.platform == "linux":
            _end_with_parent(death_signal)
        if os.getppid() != parent:
            return _NOT_STARTED
        os.execvp(command[0], command)  # noqa: S606  what the supervisor asked for
    except OSError as error:
        sys.stderr.write(f"{command[0]} could not be started: {error}\n")
    return _NOT_STARTED


def _become(user: str) -> None:
    uid, gid = (int(number) for number in user.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _end_with_parent(death_signal: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
