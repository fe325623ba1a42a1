"""Progress of something long on stderr: a bar on a terminal, else a line now and then."""

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from assay_client.render.output import make_console, text
from assay_client.render.values import clean

_LINE_SECONDS = 10.0
_ROOM_FOR_NOTE = 110  # columns; with less, the note would push the bar off the line


class Meter:
    """How far a thing is. `silent` draws nothing, for output that programs read."""

    def __init__(self, noun: str, *, silent: bool) -> None:
        self._noun = noun
        self._console = make_console(stderr=True)
        self._silent = silent
        self._told: tuple[str, float] | None = None
        self._bar: Progress | None = None
        if not silent and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False, table_column=_whole_line()),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[done]}", markup=False, table_column=_whole_line()),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None, done="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, state: str, completed: int, total: int | None, note: str = "") -> None:
        """Show `state` and how much of how many are done; `note` goes at the end."""
        if self._silent:
            return
        of = "" if total is None else f" of {total:,}"
        done = f"{completed:,}{of} {self._noun}"
        if note and (self._bar is None or self._console.width >= _ROOM_FOR_NOTE):
            done = f"{done} · {clean(note)}"
        if self._bar is not None:
            self._bar.update(
                self._task, description=state, completed=completed, total=total, done=done
            )
            return
        now = time.monotonic()
        if self._told is None or self._told[0] != state or now - self._told[1] >= _LINE_SECONDS:
            self._told = (state, now)
            self._console.print(text(f"{state}: {done}"), soft_wrap=True)


def _whole_line() -> Column:
    return Column(no_wrap=True, overflow="ellipsis")
