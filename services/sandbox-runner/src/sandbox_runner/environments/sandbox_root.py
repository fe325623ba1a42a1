"""The namespaces of a local sandbox, and the file system in them.

As root: an overlay with the host's root file system below and the scratch folder on top. Folders
that are no part of the operating system are empty in it, and so is what an ordinary user of the
host may not read. As an ordinary user, to whom that overlay is refused: the system folders,
read-only, in a user namespace. Either way nothing but the scratch folder can be written to.

Runs in the supervisor: the standard library alone, and nothing that is slow to import.
"""
# Paths are strings here, since pathlib is slow to import; the modes are meant as they are.
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH114, PTH115, PTH116, PTH120, PTH123, PTH208
# ruff: noqa: PTH211, S103

import os
import socket

from sandbox_runner.environments import kernel
from sandbox_runner.environments.sandbox_setup import Setup

_SYSTEM = frozenset(
    ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt", "nix", "gnu")
)
_SHARED_READ_ONLY = _SYSTEM - {"var"}
_MOUNTED = frozenset(("proc", "sys", "dev"))
_MODES = {"/root": 0o700, "/tmp": 0o1777, "/var/tmp": 0o1777}  # noqa: S108  inside the sandbox
_ALWAYS_EMPTY = ("/root", "/home", "/run", "/tmp", "/var/tmp")  # noqa: S108  inside the sandbox
_EMPTY_UNDER_VAR = ("backups", "mail", "spool", "tmp")
_PASSWORDS = ("/etc/shadow", "/etc/gshadow")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_MASKED = ("kcore", "keys", "latency_stats", "sched_debug", "timer_list")
_MASKED_FOLDERS = ("acpi", "asound", "scsi")
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_OPAQUE = "trusted.overlay.opaque"


def unshare(setup: Setup) -> None:
    """Leave the host's namespaces; the next child is the first process of the new ones."""
    if setup.rootless:
        uid, gid = os.geteuid(), os.getegid()
        os.unshare(os.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
    flags = os.CLONE_NEWNS | os.CLONE_NEWPID | os.CLONE_NEWIPC | os.CLONE_NEWUTS
    os.unshare(flags if setup.public_network else flags | os.CLONE_NEWNET)


def make(setup: Setup) -> None:
    """Build the sandbox's root and make it this process's own."""
    os.umask(0)
    root = f"{setup.scratch}/root"
    os.mkdir(root)
    names = _name_servers() if setup.public_network else None
    kernel.mount("", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
    if setup.rootless:
        _make_from_binds(setup, root)
    else:
        _make_from_overlay(setup, root)
    _mount_proc(root, masked=not setup.rootless)
    _mount_devices(root)
    if names is not None:
        place, text = names
        os.makedirs(os.path.dirname(root + place), exist_ok=True)
        _write(root + place, text)
    if not setup.public_network:
        kernel.bring_loopback_up()
    socket.sethostname("sandbox")
    kernel.swap_root(root)


def _make_from_overlay(setup: Setup, root: str) -> None:
    upper = f"{setup.scratch}/upper"
    os.mkdir(upper)
    os.chmod(upper, 0o755)
    # In order of path, so that a folder is covered before what is in it.
    for path in sorted({os.path.realpath(path) for path in _covered(setup)}):
        _cover(upper, path)
    for folder in sorted({os.path.realpath(folder) for folder in setup.fresh_folders}):
        _freshen(upper, folder)
    os.mkdir(f"{setup.scratch}/work")
    # Relative to the scratch folder, whose own path may hold a comma.
    os.chdir(setup.scratch)
    layers = "lowerdir=/,upperdir=upper,workdir=work"
    kernel.mount("overlay", root, "overlay", kernel.NO_DEVICES, layers)


def _covered(setup: Setup) -> list[str]:
    """Everything of the host that the sandbox must not see."""
    top = [name for name in os.listdir("/") if name not in _SYSTEM | _MOUNTED]
    var = [f"/var/{name}" for name in _EMPTY_UNDER_VAR]
    paths = [f"/{name}" for name in top if not os.path.islink(f"/{name}")]
    return [*_ALWAYS_EMPTY, *paths, *var, *setup.hidden, *setup.private]


def _cover(upper: str, path: str) -> None:
    """Put something empty of the same kind, owner and mode over a path of the host."""
    try:
        host = os.lstat(path)
    except OSError:
        return
    place = upper + path
    if os.path.lexists(place) or not _make_parents(upper, path):
        return
    if path in _PASSWORDS:
        _write(place, _without_passwords(path))
    elif os.path.isdir(path):
        os.mkdir(place)
        os.setxattr(place, _OPAQUE, b"y")
    else:
        _write(place, "")
    os.chown(place, host.st_uid, host.st_gid)
    os.chmod(place, _MODES.get(path, host.st_mode & 0o7777))


def _freshen(upper: str, folder: str) -> None:
    """Have the sandbox begin with an empty folder that everyone may write to."""
    if folder == "/" or folder.strip("/") in _SYSTEM:
        return
    _make_parents(upper, folder, may_be_covered=True)
    place = upper + folder
    if not os.path.isdir(place):
        os.mkdir(place)
        os.chmod(place, 0o777)
    os.setxattr(place, _OPAQUE, b"y")


def _make_parents(upper: str, path: str, *, may_be_covered: bool = False) -> bool:
    """Make the folders above `path` as the host has them; False where one of them is covered."""
    above = ""
    for name in path.split("/")[1:-1]:
        above += f"/{name}"
        place = upper + above
        if os.path.isdir(place):
            if not may_be_covered and _OPAQUE in os.listxattr(place):
                return False
            continue
        os.mkdir(place, 0o755)
        if os.path.isdir(above):
            host = os.stat(above)
            os.chown(place, host.st_uid, host.st_gid)
            os.chmod(place, host.st_mode & 0o7777)
    return True


def _without_passwords(path: str) -> str:
    """The entries of a password file; nobody has a password in them."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        entries = [line.rstrip("\n").split(":") for line in lines]
    return "".join(":".join([entry[0], "*", *entry[2:]]) + "\n" for entry in entries)


def _make_from_binds(setup: Setup, root: str) -> None:
    kernel.mount("tmpfs", root, "tmpfs", kernel.NO_SUID | kernel.NO_DEVICES, "mode=755")
    for name in sorted(_SHARED_READ_ONLY & set(os.listdir("/"))):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
            continue
        os.mkdir(f"{root}/{name}")
        kernel.bind(f"/{name}", f"{root}/{name}", recursive=True)
        kernel.make_read_only(f"{root}/{name}")
    for path in setup.hidden:
        if os.path.isdir(root + path):
            kernel.mount("tmpfs", root + path, "tmpfs", kernel.READ_ONLY, "mode=755")
    for folder in sorted({*_ALWAYS_EMPTY, *setup.fresh_folders}):
        source = f"{setup.scratch}/upper{folder}"
        os.makedirs(source, exist_ok=True)
        os.chmod(source, _MODES.get(folder, 0o777))
        os.makedirs(root + folder, exist_ok=True)
        kernel.bind(source, root + folder)


def _mount_proc(root: str, *, masked: bool) -> None:
    proc = f"{root}/proc"
    quiet = kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXEC
    os.makedirs(proc, exist_ok=True)
    kernel.mount("proc", proc, "proc", quiet)
    if not masked:
        return  # the host lets its ordinary users change nothing there
    for name in _MASKED:
        if os.path.exists(f"{proc}/{name}"):
            kernel.bind("/dev/null", f"{proc}/{name}")
    for name in _MASKED_FOLDERS:
        if os.path.isdir(f"{proc}/{name}"):
            kernel.mount("tmpfs", f"{proc}/{name}", "tmpfs", quiet | kernel.READ_ONLY)
    for name in _READ_ONLY:
        if os.path.exists(f"{proc}/{name}"):
            kernel.bind(f"{proc}/{name}", f"{proc}/{name}", recursive=True)
            kernel.make_read_only(f"{proc}/{name}")


def _mount_devices(root: str) -> None:
    devices = f"{root}/dev"
    os.makedirs(devices, exist_ok=True)
    kernel.mount("tmpfs", devices, "tmpfs", kernel.NO_SUID | kernel.NO_EXEC, "mode=755")
    for name in _DEVICES:
        _write(f"{devices}/{name}", "")
        kernel.bind(f"/dev/{name}", f"{devices}/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"{devices}/{name}")
    os.mkdir(f"{devices}/pts")
    options = "newinstance,ptmxmode=0666,mode=620"
    kernel.mount("devpts", f"{devices}/pts", "devpts", kernel.NO_SUID | kernel.NO_EXEC, options)
    os.mkdir(f"{devices}/shm")
    os.chmod(f"{devices}/shm", 0o1777)


def _name_servers() -> tuple[str, str] | None:
    """Where the host keeps the addresses of its name servers, and what they are."""
    place = os.path.realpath("/etc/resolv.conf")
    if place.startswith("/etc/"):
        return None  # seen in the sandbox as it is
    try:
        with open(place, encoding="utf-8") as servers:
            return place, servers.read()
    except OSError:
        return None


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
