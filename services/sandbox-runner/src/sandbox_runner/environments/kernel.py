"""The system calls that sandboxes are made with and that Python does not offer.

Used in the supervisor of a local sandbox, so with the standard library alone and nothing that is
slow to import. Numbers are those of the Linux headers `mount.h`, `prctl.h`, `capability.h` and
`sockios.h`.
"""

import ctypes
import fcntl
import os
import socket
import struct

READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 32, 4096, 16384, 1 << 18
_DETACH = 2
_DEATH_SIGNAL, _DUMPABLE, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 1, 4, 24, 38
_SIGKILL = 9
_CAPABILITIES_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_SET_FLAGS, _UP = 0x8914, 1
_KEPT_FLAGS = {os.ST_NOSUID: NO_SUID, os.ST_NODEV: NO_DEVICES, os.ST_NOEXEC: NO_EXEC}

# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, SYS_CHROOT
KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 10, 18)
"""What root inside needs to install packages and to run services as other users."""

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    if _libc.mount(*arguments[:3], ctypes.c_ulong(flags), arguments[4]) != 0:
        raise _error(target)


def bind(source: str, target: str, *, recursive: bool = False) -> None:
    """Show `source` at `target` too."""
    mount(source, target, flags=BIND | (RECURSIVE if recursive else 0))


def make_read_only(target: str) -> None:
    """Make a mount read-only, and leave its other restrictions as they are."""
    had = os.statvfs(target).f_flag
    kept = sum(flag for bit, flag in _KEPT_FLAGS.items() if had & bit)
    mount("", target, flags=BIND | REMOUNT | READ_ONLY | kept)


def swap_root(new_root: str) -> None:
    """Make `new_root`, a mount, the root of this mount namespace and forget the old one."""
    os.chdir(new_root)
    # Both roots in one place: the old one ends up on top, and is taken off.
    if _libc.pivot_root(b".", b".") != 0 or _libc.umount2(b".", _DETACH) != 0:
        raise _error(new_root)
    os.chdir("/")


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends."""
    _control(_DEATH_SIGNAL, _SIGKILL)


def bring_loopback_up() -> None:
    """Let the processes of this network namespace reach each other over 127.0.0.1."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


def give_up_privileges() -> None:
    """Drop every capability that leads out of a sandbox, for this process and all that follow."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            # Beyond the last one that the kernel knows this fails, and there is nothing to drop.
            _libc.prctl(_DROP_BOUNDING, ctypes.c_ulong(capability), 0, 0, 0)
    kept = sum(1 << capability for capability in KEPT_CAPABILITIES)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    header = struct.pack("Ii", _CAPABILITIES_VERSION_3, 0)
    sets = struct.pack("6I", low, low, 0, high, high, 0)
    if _libc.capset(header, sets) != 0:
        raise _error("capabilities")
    _control(_NO_NEW_PRIVILEGES, 1)
    _control(_DUMPABLE, 0)


def _control(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise _error("prctl")


def _error(about: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), about)
