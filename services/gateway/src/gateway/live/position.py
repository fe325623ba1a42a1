"""Where a listener stands in every stream that it hears, as one id: `runs:123,benchmarks:45`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay_contracts.run_config import ConfigIssue
from gateway.paging import LARGEST_SEQUENCE
from gateway.problems import ProblemError, invalid

_PART = re.compile(r"(runs|benchmarks|audit):(\d{1,16})")


@dataclass(frozen=True)
class Position:
    """By stream, the sequence of the last message that was told or passed over; from 0."""

    sequences: Mapping[str, int]

    @classmethod
    def start(cls, streams: Iterable[str]) -> "Position":
        """Before the first event of each stream."""
        return cls(dict.fromkeys(streams, 0))

    @classmethod
    def read(cls, text: str, streams: Iterable[str], key: str) -> "Position":
        """The position that an id stands for; `0` is the beginning.

        A stream that the id does not name begins at its beginning, so that nothing is missed.

        Raises:
            ProblemError: it is no such id; `key` is what the request calls it.
        """
        sequences = dict.fromkeys(streams, 0)
        if text == "0":
            return cls(sequences)
        for part in text.split(","):
            found = _PART.fullmatch(part.strip())
            if found is None or int(found[2]) > LARGEST_SEQUENCE:
                raise _no_position(key)
            name = found[1].upper()
            if name in sequences:
                sequences[name] = int(found[2])
        return cls(sequences)

    def __getitem__(self, stream: str) -> int:
        return self.sequences[stream]

    def at(self, stream: str, sequence: int) -> "Position":
        """The position once a message is told; never further back."""
        return Position({**self.sequences, stream: max(sequence, self.sequences[stream])})

    def __str__(self) -> str:
        return ",".join(f"{name.lower()}:{number}" for name, number in self.sequences.items())


def _no_position(key: str) -> ProblemError:
    message = "must be the id of an event, such as runs:123,benchmarks:45, or 0"
    return invalid([ConfigIssue(key=key, message=message)])
