"""Which sandboxes of which trial are open, so that none outlives its trial.

Harbor stops its environments itself, but returns early when a trial is cancelled twice.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment

_open: defaultdict[Path, set[BaseEnvironment]] = defaultdict(set)


def note_opening(sandbox: BaseEnvironment) -> None:
    """A sandbox begins to start."""
    _open[sandbox.trial_paths.trial_dir].add(sandbox)


def note_closed(sandbox: BaseEnvironment) -> None:
    """A sandbox is gone, with all it held."""
    folder = sandbox.trial_paths.trial_dir
    _open[folder].discard(sandbox)
    if not _open[folder]:
        del _open[folder]


async def close_all(trial_dir: Path) -> None:
    """Stop what is still open of a trial, to the end, however often this is cancelled."""
    for sandbox in list(_open.get(trial_dir, ())):
        await to_the_end(sandbox.stop(delete=True))


async def to_the_end[T](work: Coroutine[Any, Any, T]) -> T:
    """Do `work` completely; a cancellation takes effect only after it."""
    doing = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return doing.result()
