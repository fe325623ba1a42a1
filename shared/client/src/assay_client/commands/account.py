"""`assay login`, `logout` and `whoami`; and letting other devices in."""

import os
import socket
import sys
import time
from typing import Annotated

import typer

from assay_client.api import AssayClient
from assay_client.commands.options import Json, new_commands, open_client, settings_of
from assay_client.errors import ApiError, AssayError, InvalidInputError
from assay_client.logins import Login, logins_file, read_logins, write_logins
from assay_client.render.output import Frame, View, answer, show, text, write_json
from assay_client.render.people import who
from assay_contracts.http import (
    CreatedToken,
    DecideDevice,
    DeviceLogin,
    PendingDevice,
    PollDevice,
    StartDeviceLogin,
)
from assay_contracts.problems import ProblemCode

device = new_commands("Let devices in that show a code.")

UserCode = Annotated[str, typer.Argument(metavar="CODE", help="The code that the device shows.")]

_GOES_ON = {ProblemCode.AUTHORIZATION_PENDING, ProblemCode.SLOW_DOWN}


def login(
    context: typer.Context,
    with_token: Annotated[
        bool, typer.Option("--with-token", help="Read a token from stdin, and ask nobody.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sign in to the server, and keep its token for the commands that follow.

    Shows a code; who is signed in already, in a browser or with `assay device approve`, lets this
    device in with it.
    """
    settings = settings_of(context)
    if with_token:
        token = _read_token()
    else:
        with AssayClient(settings.server) as nobody:
            token = _let_in(nobody, as_json=as_json).token
    with AssayClient(settings.server, token=token, workspace=settings.workspace) as client:
        me = client.whoami()
    path = logins_file(os.environ)
    kept = Login(token=token, user=me.user, workspace=settings.workspace)
    write_logins(path, read_logins(path).having(settings.server, kept))
    answer(me, as_json, lambda said, _: who(said, settings.server))


def logout(context: typer.Context, as_json: Json = False) -> None:
    """Revoke the token that `assay login` got, and forget it."""
    server = settings_of(context).server
    path = logins_file(os.environ)
    logins = read_logins(path)
    token = logins.of(server).token
    if token is None:
        raise InvalidInputError(f"you are not signed in to {server}", "sign in with: assay login")
    try:
        with AssayClient(server, token=token) as client:
            client.sign_out()
    except ApiError as error:
        if error.status != 401:
            raise
    write_logins(path, logins.without_token(server))
    if as_json:
        write_json({"signed_out": server})
    else:
        show(lambda _: [text(f"Signed out of {server}")])


def whoami(context: typer.Context, as_json: Json = False) -> None:
    """Show who you are to the server, and what you may do in which workspace."""
    with open_client(context) as client:
        server = client.server
        answer(client.whoami(), as_json, lambda said, _: who(said, server))


@device.command()
def approve(context: typer.Context, user_code: UserCode, as_json: Json = False) -> None:
    """Let the device that shows a code in, in your name."""
    _decide(context, user_code, approve=True, as_json=as_json)


@device.command()
def deny(context: typer.Context, user_code: UserCode, as_json: Json = False) -> None:
    """Turn the device that shows a code away."""
    _decide(context, user_code, approve=False, as_json=as_json)


def _decide(context: typer.Context, user_code: str, *, approve: bool, as_json: bool) -> None:
    with open_client(context) as client:
        decided = client.decide_device(DecideDevice(user_code=user_code, approve=approve))

    def told(found: PendingDevice, _: Frame) -> View:
        done = "can do what you can, for 90 days" if approve else "was turned away"
        yield text(f"{found.device_name} {done}")

    answer(decided, as_json, told)


def _let_in(client: AssayClient, *, as_json: bool) -> CreatedToken:
    """Show a code, and wait until somebody has let this device in with it."""
    started = client.start_device(StartDeviceLogin(device_name=socket.gethostname() or "a device"))
    _tell(started, as_json=as_json)
    pause, until = float(started.interval), time.monotonic() + started.expires_in
    while time.monotonic() < until:
        time.sleep(pause)
        try:
            return client.poll_device(PollDevice(device_code=started.device_code))
        except ApiError as error:
            if error.code not in _GOES_ON:
                raise
            pause += started.interval if error.code == ProblemCode.SLOW_DOWN else 0
    raise AssayError("nobody let this device in in time", "try again with: assay login")


def _tell(started: DeviceLogin, *, as_json: bool) -> None:
    lines = (
        f"Open {started.verification_uri_complete}",
        f"and let this device in with the code {started.user_code}",
        f"(or, where you are signed in already: assay device approve {started.user_code})",
    )
    if as_json:
        sys.stderr.write("\n".join(lines) + "\n")
    else:
        show(lambda _: [text(line) for line in lines])


def _read_token() -> str:
    token = sys.stdin.readline().strip()
    if not token:
        raise InvalidInputError("stdin holds no token", "pipe one in, such as from a file")
    return token
