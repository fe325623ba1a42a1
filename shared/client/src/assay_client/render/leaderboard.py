"""A leaderboard on any console: what programs other than `assay` print standings with.

How it looks is told in `assay_client.render.standings`; here it is fitted to the room there is.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

from assay_client.render.output import Frame
from assay_client.render.standings import leaderboard, standings_table
from assay_contracts.http import Leaderboard


def leaderboard_table(board: Leaderboard) -> RenderableType:
    """The standings alone, as wide as the place where they are printed allows."""
    return _FittedTable(board)


def print_leaderboard(console: Console, board: Leaderboard) -> None:
    """The standings with their captions, and what does not rank and why.

    A board on which nothing ranks says what it takes to rank.
    """
    for part in leaderboard(board, Frame(console.width, datetime.now(UTC))):
        console.print(part)


@dataclass(frozen=True)
class _FittedTable:
    board: Leaderboard

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield standings_table(self.board, Frame(options.max_width, datetime.now(UTC)))
