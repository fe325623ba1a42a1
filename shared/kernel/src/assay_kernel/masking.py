"""Taking the values of secrets out of everything that leaves a process.

A value is found as it is, and in the forms in which programs commonly write it: escaped for JSON,
Python, a shell or HTML, percent-encoded in an address, in base64 (as in a basic authorization
header) and in hexadecimal. Line breaks within it are overlooked, since encoders and terminals wrap
long lines. Of a long value, what is left of it where a text was cut off is found too, if that is
its first or its last half or more. What an agent encrypts, packs or cuts up on purpose is not.
"""

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Characters; masking shorter values would spoil every file and hide nothing."""

_MASK = b"********"
_SHORTEST_ENCODED = 10
_SHORTEST_LINE = 16
_SHORTEST_IN_HALVES = 32
_BREAKS = b"\r\n"
_LINE = re.compile(rb"[^\r\n]+")

type _Span = tuple[int, int]


class Mask:
    """Replaces known values."""

    def __init__(self, values: Sequence[str]) -> None:
        forms = {form for value in values for form in _forms(value)}
        self._short = [form for form in forms if len(form) < _SHORTEST_IN_HALVES]
        self._long = [form for form in forms if len(form) >= _SHORTEST_IN_HALVES]

    def in_bytes(self, content: bytes) -> bytes:
        """`content` without the values."""
        if not self._short and not self._long:
            return content
        joined = content.translate(None, _BREAKS)
        spans = sorted(self._found(joined))
        return _replaced(content, _merged(spans)) if spans else content

    def in_text(self, text: str) -> str:
        """`text` without the values."""
        return self.in_bytes(text.encode(errors="replace")).decode(errors="replace")

    def in_file(self, path: Path) -> None:
        """Rewrite a file that holds a value."""
        if not self._short and not self._long:
            return
        before = path.read_bytes()
        after = self.in_bytes(before)
        if after != before:
            path.write_bytes(after)

    def _found(self, joined: bytes) -> Iterator[_Span]:
        """Where values stand in a content without line breaks; halves of long ones, too."""
        for form in self._short:
            at = joined.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = joined.find(form, at + 1)
        for form in self._long:
            yield from _beginnings(joined, form)
            yield from _ends(joined, form)


def _beginnings(joined: bytes, form: bytes) -> Iterator[_Span]:
    """Where `form` stands, or its first half and more."""
    piece = form[: len(form) // 2]
    at = joined.find(piece)
    while at >= 0:
        there = joined[at : at + len(form)]
        length = _common(there, form)
        yield at, at + length
        at = joined.find(piece, at + length - len(piece) + 1)


def _ends(joined: bytes, form: bytes) -> Iterator[_Span]:
    """Where `form` stands, or its last half and more."""
    piece = form[-(len(form) // 2) :]
    at = joined.find(piece)
    while at >= 0:
        end = at + len(piece)
        there = joined[max(0, end - len(form)) : end]
        length = _common(there[::-1], form[::-1])
        yield end - length, end
        at = joined.find(piece, at + 1)


def _common(there: bytes, form: bytes) -> int:
    """How many bytes at the beginning are the same."""
    if there == form:
        return len(form)
    same, other = 0, min(len(there), len(form)) + 1
    while other - same > 1:
        middle = (same + other) // 2
        if there[:middle] == form[:middle]:
            same = middle
        else:
            other = middle
    return same


def _merged(spans: Sequence[_Span]) -> list[_Span]:
    """Sorted spans, those that overlap made one."""
    merged = [spans[0]]
    for start, end in spans[1:]:
        last_start, last_end = merged[-1]
        if start < last_end:
            merged[-1] = (last_start, max(last_end, end))
        else:
            merged.append((start, end))
    return merged


def _replaced(content: bytes, spans: Sequence[_Span]) -> bytes:
    """`content` with a mask in place of each span, which counts without line breaks."""
    places: list[int] = []  # of each line's beginning: without the breaks before it, and with them
    shifts: list[int] = []
    breaks, after = 0, 0
    for line in _LINE.finditer(content):
        breaks += line.start() - after
        after = line.end()
        places.append(line.start() - breaks)
        shifts.append(breaks)

    def original(place: int) -> int:
        return place + shifts[bisect_right(places, place) - 1]

    pieces: list[bytes] = []
    done = 0
    for start, end in spans:
        pieces += [content[done : original(start)], _MASK]
        done = original(end - 1) + 1
    return b"".join([*pieces, content[done:]])


def _forms(value: str) -> set[bytes]:
    """A value as programs write it, without line breaks; nothing of one that is too short."""
    wholes = {value, value.strip()}
    lines = {line.strip() for line in value.splitlines()} - wholes
    texts = {text for whole in wholes for text in _written(whole)}
    texts |= {line for line in lines if len(line) >= _SHORTEST_LINE}
    forms = {text.encode() for text in texts}
    forms |= {code for whole in wholes for code in _encoded(whole.encode())}
    joined = {form.translate(None, _BREAKS) for form in forms}
    return {form for form in joined if len(form.decode()) >= SHORTEST}


def _written(value: str) -> Iterator[str]:
    yield value
    yield repr(value)[1:-1]
    yield from (html.escape(value, quote=False), html.escape(value))
    yield from (value.replace("'", "'\\''"), value.replace("'", "'\"'\"'"))
    for address in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield from (address, re.sub("%..", lambda code: code[0].lower(), address))
    for in_json in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield in_json
        yield in_json.replace("/", "\\/")
        yield re.sub("[&<>]", lambda sign: f"\\u{ord(sign[0]):04x}", in_json)
        yield json.dumps(in_json)[1:-1]


def _encoded(raw: bytes) -> Iterator[bytes]:
    for before in range(3):
        # The letters that depend on the value alone, whatever stands around it.
        letters = base64.b64encode(bytes(before) + raw)
        inner = letters[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(inner) >= _SHORTEST_ENCODED:
            yield inner
            yield inner.replace(b"+", b"-").replace(b"/", b"_")
    if 2 * len(raw) >= _SHORTEST_ENCODED:
        yield raw.hex().encode()
        yield raw.hex().upper().encode()


__all__: Sequence[str] = ["SHORTEST", "Mask"]
