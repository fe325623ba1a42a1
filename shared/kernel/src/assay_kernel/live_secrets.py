"""The secrets that this process holds at the moment, kept out of every line that it logs.

Work that asks for secrets is done within `kept_out_of_logs`; what it is handed is noted there, is
masked in whatever anybody logs meanwhile (libraries, too), and is forgotten when the work ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from structlog.typing import EventDict

from assay_kernel.masking import Mask


class _Held:
    """The values of every work under way, and the mask over all of them."""

    def __init__(self) -> None:
        self._works: dict[int, list[str]] = {}
        self.mask = Mask(())

    def begin(self, work: list[str]) -> None:
        self._works[id(work)] = work

    def add(self, work: list[str], values: Iterable[str]) -> None:
        work.extend(values)
        self._renew()

    def end(self, work: list[str]) -> None:
        del self._works[id(work)]
        if work:
            self._renew()

    def _renew(self) -> None:
        self.mask = Mask([value for work in self._works.values() for value in work])


_held = _Held()
_work: ContextVar[list[str]] = ContextVar("the values that the work under way was handed")


@contextmanager
def kept_out_of_logs() -> Iterator[None]:
    """Keep out of logs what the body, and every task that it starts, is handed by `note`."""
    work: list[str] = []
    _held.begin(work)
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)
        _held.end(work)


def note(values: Iterable[str]) -> None:
    """Note values that the work under way was handed.

    Raises:
        RuntimeError: there is no work under way that they would be forgotten with.
    """
    try:
        work = _work.get()
    except LookupError:
        raise RuntimeError("secrets are asked for within kept_out_of_logs") from None
    _held.add(work, values)


def masked_line(_: object, __: str, line: str | EventDict) -> str:
    """The last of structlog's processors: a rendered line without the values that are held."""
    return _held.mask.in_text(str(line))


__all__: Sequence[str] = ["kept_out_of_logs", "masked_line", "note"]
