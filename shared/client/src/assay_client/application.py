"""The `assay` command put together: root options, groups and commands."""

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from assay_client.commands import (
    account,
    audit,
    benchmark,
    billing,
    deadletter,
    download,
    events,
    evidence,
    importing,
    leaderboard,
    local,
    run,
    sandbox,
    secret,
    sql,
    stream,
    system,
    token,
    user,
    workspace,
)
from assay_client.commands.options import Root
from assay_client.errors import InterruptedByUserError
from assay_client.render.output import write_line


class _Interruptible(TyperGroup):
    """Turns Ctrl-C, wherever it strikes, into an error like every other."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedByUserError from None


application = typer.Typer(
    name="assay",
    cls=_Interruptible,
    help="Score AI agents on benchmarks, and rank them honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(f"assay {version('assay-client')}")
        raise typer.Exit


@application.callback()
def root(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="ASSAY_SERVER",
            help="Address of the server.",
            show_default="the one that `assay up` started, or http://127.0.0.1:8400",
        ),
    ] = None,
    named_workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace",
            metavar="NAME",
            envvar="ASSAY_WORKSPACE",
            help="Workspace that is meant.",
            show_default="yours, where you are a member of one; else the one named default",
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Score AI agents on benchmarks, and rank them honestly.

    Sign in with `assay login`, or give a token as ASSAY_TOKEN; for a server on this machine the
    token in its data folder is used.
    """
    context.obj = Root(server=server, workspace=named_workspace)


application.command()(local.up)
application.command()(local.down)
application.command()(system.status)
application.command()(local.demo)
application.add_typer(benchmark.commands, name="benchmark")
application.add_typer(run.commands, name="run")
application.add_typer(leaderboard.commands, name="leaderboard")
application.add_typer(sandbox.commands, name="sandbox")
application.command()(events.events)
application.command()(system.replay)
application.command()(sql.sql)
application.add_typer(secret.commands, name="secret")
application.add_typer(billing.commands, name="billing")
application.add_typer(deadletter.commands, name="deadletter")
application.command()(account.login)
application.command()(account.logout)
application.command()(account.whoami)
application.command()(audit.audit)
application.add_typer(account.device, name="device")
application.add_typer(token.commands, name="token")
application.add_typer(user.commands, name="user")
application.add_typer(workspace.commands, name="workspace")
application.add_typer(local.nats, name="nats")

__all__ = ["application", "download", "evidence", "importing", "stream"]
