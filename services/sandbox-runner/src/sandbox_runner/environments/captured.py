"""What a command writes: kept whole up to a limit, and beyond it the beginning and the end."""

import codecs
from collections import deque

_KEPT_BYTES = 8 * 1024 * 1024


class Captured:
    """One stream of a command's output, in bounded memory."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._half = kept_bytes // 2
        self._beginning = bytearray()
        self._end: deque[bytes] = deque()
        self._end_bytes = 0
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, chunk: bytes) -> str:
        """Take what was written next; returns it as text, for who reads along."""
        text = self._decoder.decode(chunk)
        room = self._half - len(self._beginning)
        self._beginning += chunk[:room]
        if rest := chunk[room:] if room < len(chunk) else b"":
            self._end.append(rest)
            self._end_bytes += len(rest)
        while self._end and self._end_bytes - len(self._end[0]) >= self._half:
            dropped = len(self._end.popleft())
            self._end_bytes -= dropped
            self._left_out += dropped
        return text

    def text(self) -> str:
        """What was written so far."""
        beginning = bytes(self._beginning)
        end = b"".join(self._end)
        if self._left_out:
            beginning += f"\n[{self._left_out} bytes left out]\n".encode()
        return (beginning + end).decode(errors="replace")
