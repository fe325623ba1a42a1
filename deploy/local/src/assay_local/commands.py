"""What `assay up`, `down` and `demo` do on this machine. Each returns the exit code."""

import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

from assay_local.detached import start_detached
from assay_local.environment import passed_environment
from assay_local.folder import DataFolder, FolderError, HeldError, Running
from assay_local.leftovers import clean_up
from assay_local.process import wait_for_end

_STOP_SECONDS = 120.0


def up(data: Path, port: int, detach: bool) -> int:
    """Run the platform on `data` until it is stopped, or with `detach` in the background."""
    try:
        return _up_in_background(data, port) if detach else _up_here(data, port)
    except FolderError as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def down(data: Path) -> int:
    """Stop the platform that runs on `data`, or what a killed one left; nothing running is fine."""
    folder = DataFolder(data.expanduser().resolve())
    if not folder.identity_file.exists():
        _say(f"Nothing is running on {folder.root}")
        return 0
    try:
        with folder.lock(_STOP_SECONDS):
            return _clean_up(folder)
    except HeldError as error:
        if error.running is None:
            _complain(str(error))
            return 1
        return _stop(folder, error.running)
    except PermissionError as error:
        _complain(f"{folder.root} belongs to another user: {error.strerror}")
        return 1


def new_master_key(data: Path) -> int:
    """Make a newer master key in `data`; a running platform takes it up at a rotation."""
    folder = DataFolder(data.expanduser().resolve())
    if not folder.identity_file.exists():
        _complain(f"{folder.root} is no data folder of Assay; choose another with --data")
        return 1
    try:
        folder.add_master_key()
    except OSError as error:
        _complain(f"no key could be made in {folder.root}: {error.strerror}")
        return 1
    return 0


def demo(data: Path, port: int, json_output: bool) -> int:
    """Run the demo on `data` and show its leaderboard; the platform goes on running."""
    # Imported here since it is slow, and `down` needs none of it.
    from assay_client.errors import AssayError  # noqa: PLC0415
    from assay_client.render import standings  # noqa: PLC0415
    from assay_client.render.output import show  # noqa: PLC0415
    from assay_local.demo import DemoError, run_demo  # noqa: PLC0415

    try:
        done = run_demo(data, port, _mention if json_output else _say)
    except (FolderError, DemoError, AssayError) as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        _complain(f"interrupted; what was started goes on; stop it with: {_down_command(data)}")
        return 130
    if json_output:
        _say(done.as_json())
        return 0
    _say("")
    show(lambda frame: standings.leaderboard(done.leaderboard, frame))
    _say_where(data, done.url, _down_command(data))
    return 0


def nats_permissions() -> int:
    """Print the part of a nats-server's configuration that holds each service to its own work."""
    # Imported here since it is slow, and `down` needs none of it.
    from assay_kernel.permissions import USERS, server_authorization  # noqa: PLC0415

    _say(server_authorization({user: f"the password of {user}" for user in USERS}).rstrip())
    return 0


def _up_in_background(data: Path, port: int) -> int:
    code = start_detached(data, port, _say)
    if code == 0:
        _say_where(data, _url(port), _down_command(data))
    return code


def _up_here(data: Path, port: int) -> int:
    # Imported here since it is slow, and `down` needs none of it.
    from assay_local.installation import NotStartedError, run_platform  # noqa: PLC0415
    from assay_local.supervisor import Telling  # noqa: PLC0415

    try:
        return run_platform(
            data,
            port,
            Telling(_say, lambda: _say_where(data, _url(port), "Ctrl-C, or `assay down`")),
        )
    except NotStartedError as error:
        _complain(str(error))
        return 1


def _stop(folder: DataFolder, running: Running) -> int:
    _say(f"Stopping Assay at {running.url}")
    running.supervisor.send(signal.SIGTERM)
    if wait_for_end([running.supervisor], _STOP_SECONDS):
        _say(f"It did not stop in {_STOP_SECONDS:.0f} s and is killed")
        running.supervisor.send(signal.SIGKILL)
        with folder.lock(_STOP_SECONDS):
            return _clean_up(folder)
    _say(f"Stopped. The data stays in {folder.root}")
    return 0


def _clean_up(folder: DataFolder) -> int:
    ended = clean_up(folder, passed_environment(os.environ))
    if ended:
        _say(f"Ended what a killed supervisor had left: {', '.join(ended)}")
    else:
        _say(f"Nothing is running on {folder.root}")
    return 0


def _down_command(data: Path) -> str:
    # `make` runs a command that is not on the path.
    called = sys.argv[0]
    found = Path(called).name == "assay" and shutil.which("assay") is None
    return f"{shlex.quote(called) if found else 'assay'} down --data {shlex.quote(str(data))}"


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _say_where(data: Path, url: str, stop: str) -> None:
    _say("")
    _say(f"  address  {url}")
    _say(f"  data     {data.expanduser().resolve()}")
    _say(f"  stop     {stop}")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  the command's output


def _mention(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  progress beside the answer


def _complain(line: str) -> None:
    print(f"assay: {line}", file=sys.stderr, flush=True)  # noqa: T201  the command's output
