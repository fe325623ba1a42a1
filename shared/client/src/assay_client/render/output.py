"""Where output goes: tables and JSON to stdout, progress and errors to stderr.

The consoles read no markup, so that text is shown as it is. Piped output has no control codes, and
is as wide as it needs to be, since nothing wraps there.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, TypeAdapter
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from assay_client.render.values import clean

_PIPED_WIDTH = 160
_ANY: TypeAdapter[object] = TypeAdapter(object)
_STYLES = {
    "pending": "yellow",
    "queued": "yellow",
    "syncing": "blue",
    "running": "blue",
    "ready": "green",
    "finished": "green",
    "passed": "green",
    "failed": "red",
    "errored": "magenta",
    "stopped": "dim",
    "cancelled": "dim",
}


@dataclass(frozen=True)
class Frame:
    """What a view is drawn for: the columns there are, and the time it is (UTC)."""

    width: int
    now: datetime

    @property
    def is_narrow(self) -> bool:
        """True where a wide table would break every cell."""
        return self.width < 110


View = Iterable[RenderableType]


def make_console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr that shows text as it is."""
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and not os.environ.get("COLUMNS")
    return Console(
        stderr=stderr,
        markup=False,
        highlight=False,
        emoji=False,
        width=_PIPED_WIDTH if piped else None,
    )


def show(draw: Callable[[Frame], View]) -> None:
    """Draw a view on stdout."""
    console = make_console()
    parts = draw(Frame(console.width, datetime.now(UTC)))
    if console.is_terminal:
        for part in parts:
            console.print(part)
        return
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    for line in captured.get().splitlines():
        write_line(line.rstrip())


def answer[Answer: BaseModel](
    found: Answer, as_json: bool, draw: Callable[[Answer, Frame], View]
) -> None:
    """One answer of the API: as its JSON document, or drawn for a person."""
    if as_json:
        write_json(found)
    else:
        show(lambda frame: draw(found, frame))


def write_json(found: BaseModel | Sequence[BaseModel] | Mapping[str, str]) -> None:
    """Exactly one JSON document on stdout."""
    write_line(_ANY.dump_json(found, indent=2).decode())


def write_line(text: str) -> None:
    """A line on stdout, as it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def text(shown: object, style: str = "") -> Text:
    """A cell or line of text that came from elsewhere."""
    return Text(clean(str(shown)), style=style)


def interval(shown: str, frame: Frame) -> Text:
    """A rate with its interval; under each other where there is little room."""
    return Text(shown.replace(" (", "\n(") if frame.is_narrow else shown)


def status(shown: str) -> Text:
    """A status or outcome in its colour; the word alone says it too."""
    return Text(shown, style=_STYLES.get(shown, ""))


def table(*headings: str, title: str | None = None, caption: str | None = None) -> Table:
    """An empty table in the style that all have; `>` before a heading aligns it right."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title=None if title is None else Text(title, style="bold"),
        caption=None if caption is None else Text(caption),
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in headings:
        made.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            overflow="fold",
        )
    return made


def facts(rows: Iterable[tuple[str, object]]) -> Table:
    """Names with their values, one a line."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, shown in rows:
        made.add_row(name, shown if isinstance(shown, Text) else text(shown))
    return made
