"""The line under a page of a list that is not the last one."""

from collections.abc import Iterator

from rich.text import Text

from assay_contracts.http import Page


def more[Item](page: Page[Item]) -> Iterator[Text]:
    """How much more there is, and how to see it."""
    shown = f"{len(page.items):,} of {page.total_count:,}"
    if page.next_cursor is not None:
        yield Text(f"{shown} shown; go on with --cursor {page.next_cursor}", style="dim")
    elif page.next_offset is not None:
        yield Text(f"{shown} shown; go on with --offset {page.next_offset}", style="dim")
