"""Making and entering the namespaces of a local sandbox.

As root: an overlay with the host's root file system below and a scratch folder on top, in mount,
PID, IPC, UTS and (unless the network is public) network namespaces of its own, with the host's home
folders, data folders, /run and /tmp covered, and dangerous capabilities dropped for good. As an
ordinary user: the same idea through bubblewrap, with the system folders read-only.

The first process holds the namespaces open. It dies with this process, and everything in the
sandbox dies with it.
"""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PREPARED_FOLDERS = ("/app", "/logs", "/tests", "/solution")
_COVERED = ("/root", "/home", "/run", "/mnt", "/media", "/srv")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DROPPED = (
    "sys_admin,sys_module,sys_rawio,sys_boot,sys_time,sys_ptrace,sys_pacct,sys_tty_config,"
    "mknod,audit_control,audit_write,net_admin,net_raw,mac_admin,mac_override,syslog,"
    "wake_alarm,block_suspend,linux_immutable,bpf,perfmon,checkpoint_restore,lease"
)
_LO_UP = (
    "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 1))"
)
_STARTED = b"ready\n"
_START_SECONDS = 30.0


class NamespaceError(RuntimeError):
    """The namespaces could not be made; the message holds what the system said."""


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """What a sandbox sees: its scratch folder, what is covered, its network, its work folder."""

    scratch: Path
    hidden: Sequence[Path]
    public_network: bool
    workdir: str


class Namespace:
    """A running sandbox: the process that holds it, and how to run commands in it."""

    def __init__(self, spec: NamespaceSpec, keeper: asyncio.subprocess.Process, pid: int) -> None:
        self._spec = spec
        self._keeper = keeper
        self._pid = pid

    @classmethod
    async def open(cls, spec: NamespaceSpec) -> "Namespace":
        """Make the namespaces.

        Raises:
            NamespaceError: the system refuses.
        """
        _prepare_scratch(spec)
        command = _root_command(spec) if os.geteuid() == 0 else _bubblewrap_command(spec)
        keeper = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")},
            start_new_session=True,
        )
        if keeper.stdout is None or keeper.stderr is None:
            raise NamespaceError("the sandbox has no output")
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await keeper.stdout.readline()
        except BaseException:
            await _end(keeper)
            raise
        if line != _STARTED:
            said = (await keeper.stderr.read()).decode(errors="replace").strip()
            await _end(keeper)
            raise NamespaceError(f"the local sandbox cannot be made: {said or 'no reason given'}")
        return cls(spec, keeper, await asyncio.to_thread(_innermost_child, keeper.pid))

    @property
    def is_alive(self) -> bool:
        """Whether the process that holds the namespaces is still there."""
        return self._keeper.returncode is None

    async def start(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
    ) -> asyncio.subprocess.Process:
        """Start a command inside, with pipes; variables go through its environment alone."""
        return await asyncio.create_subprocess_exec(
            *self._entering(cwd or self._spec.workdir, user),
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**_base_environment(user), **(env or {})},
            start_new_session=True,
        )

    def _entering(self, cwd: str, user: str | int | None) -> list[str]:
        target = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--ipc", "--uts"]
        if not self._spec.public_network:
            target.append("--net")
        if os.geteuid() != 0:
            return [*target, "--user", "--preserve-credentials", "--root", *_in_folder(cwd)]
        identity = [] if user in (None, "root", 0, "0") else _as_user(str(user))
        limits = ["setpriv", f"--bounding-set=-{_DROPPED.replace(',', ',-')}", "--inh-caps=-all"]
        return [*target, "--root", *limits, *identity, *_in_folder(cwd)]

    async def close(self) -> None:
        """End every process of the sandbox and remove its scratch folder."""
        await _end(self._keeper)
        await asyncio.to_thread(shutil.rmtree, self._spec.scratch, ignore_errors=True)


def _in_folder(cwd: str) -> list[str]:
    # A folder that is missing is an error of the command, as it is in a container.
    return ["sh", "-c", 'cd -- "$0" || exit 126; exec "$@"', cwd]


def _as_user(user: str) -> list[str]:
    if user.isdigit():
        return ["--reuid", user, "--regid", user, "--clear-groups"]
    return ["--reuid", user, "--regid", user, "--init-groups"]


def _base_environment(user: str | int | None) -> dict[str, str]:
    home = "/root" if user in (None, "root", 0, "0") and os.geteuid() == 0 else "/tmp"  # noqa: S108  inside the sandbox
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
    }


def _prepare_scratch(spec: NamespaceSpec) -> None:
    for name in ("upper", "work", "root", "covers"):
        (spec.scratch / name).mkdir(parents=True, exist_ok=True)
    for folder in {*PREPARED_FOLDERS, spec.workdir}:
        cover = spec.scratch / "covers" / PurePosixPath(folder).relative_to("/")
        cover.mkdir(parents=True, exist_ok=True)
        cover.chmod(0o777)


def _root_command(spec: NamespaceSpec) -> list[str]:
    network = [] if spec.public_network else ["--net"]
    return [
        *("setpriv", "--pdeathsig=KILL"),
        *("unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", *network),
        *("--kill-child=KILL", "--propagation=private"),
        *("sh", "-euc", _root_script(spec)),
    ]


def _root_script(spec: NamespaceSpec) -> str:
    root, quote = str(spec.scratch / "root"), shlex.quote
    scratch = str(spec.scratch)
    lines = [
        f"mount -t overlay overlay -o lowerdir=/,upperdir={quote(scratch)}/upper,"
        f"workdir={quote(scratch)}/work {quote(root)}",
        f"mount -t tmpfs -o mode=1777 tmpfs {quote(root)}/tmp",  # noqa: S108  inside the sandbox
        f"mount -t tmpfs -o mode=755 tmpfs {quote(root)}/dev",
        f"mkdir -m 1777 {quote(root)}/dev/shm",  # noqa: S108  inside the sandbox
        f"ln -s /proc/self/fd {quote(root)}/dev/fd",
    ]
    for device in _DEVICES:
        lines.append(
            f"touch {quote(root)}/dev/{device} && "
            f"mount --bind /dev/{device} {quote(root)}/dev/{device}"
        )
    # Covers come last and bind from the scratch folder, which a hidden folder may hold.
    for folder in sorted({*PREPARED_FOLDERS, spec.workdir}):
        cover = f"{scratch}/covers{folder}"
        lines.append(
            f"mkdir -p {quote(root + folder)} && mount --bind {quote(cover)} {quote(root + folder)}"
        )
    for folder in [*_COVERED, *map(str, spec.hidden)]:
        lines.append(
            f"[ ! -d {quote(root + folder)} ] || "
            f"mount -t tmpfs -o mode=755 tmpfs {quote(root + folder)}"
        )
    if not spec.public_network:
        lines.append(f"ip link set lo up 2>/dev/null || {quote(sys.executable)} -c {quote(_LO_UP)}")
    lines += [
        "hostname sandbox",
        f"cd {quote(root)} && mkdir -p .old-root && pivot_root . .old-root",
        "umount -l /.old-root && rmdir /.old-root",
        "mount -t proc -o nosuid,nodev,noexec proc /proc",
        "echo ready && exec sleep infinity",
    ]
    return "\n".join(lines)


def _bubblewrap_command(spec: NamespaceSpec) -> list[str]:
    command = ["bwrap", "--die-with-parent", "--unshare-all", "--hostname", "sandbox"]
    if spec.public_network:
        command.append("--share-net")
    command += ["--tmpfs", "/", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        path = Path("/", name)
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--dir", "/var/tmp"]  # noqa: S108  inside the sandbox
    for folder in sorted({*PREPARED_FOLDERS, spec.workdir}):
        command += ["--bind", f"{spec.scratch}/covers{folder}", folder]
    return [*command, "--", "sh", "-c", "echo ready && exec sleep infinity"]


def _innermost_child(pid: int) -> int:
    """The process that holds the namespaces: the last of the line that begins at `pid`."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        pid = int(children[0])


async def _end(keeper: asyncio.subprocess.Process) -> None:
    if keeper.returncode is None:
        keeper.kill()
    await keeper.wait()
