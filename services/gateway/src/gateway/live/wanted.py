"""Which events a listener wants, as subjects for the server and as a question to each event."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from assay_contracts.audit_events import AuditEvent
from assay_contracts.benchmark_events import BenchmarkEvent
from assay_contracts.identifiers import MANAGED_WORKSPACE
from assay_contracts.run_events import RunEvent
from gateway.live.told import Told

RUNS, BENCHMARKS, AUDIT = RunEvent.stream, BenchmarkEvent.stream, AuditEvent.stream
_SUBMITTED = "submitted"
_PARTS = {RUNS: ".*", BENCHMARKS: "", AUDIT: ""}
"""What stands between what an event is about and its kind."""


@dataclass
class Wanted:
    """Events of a workspace; of one run, or of one benchmark and its runs, where named.

    `kinds` are the wanted types, or acts; empty for all. `known_runs` are the runs of `benchmark`;
    those that are submitted later are learned from the events themselves, which is why `takes`
    has to see events in their order.
    """

    workspace: str
    streams: Sequence[str]
    kinds: frozenset[str] = frozenset()
    run: UUID | None = None
    benchmark: UUID | None = None
    known_runs: set[str] = field(default_factory=set)

    def owners(self, stream: str) -> Sequence[str]:
        """Whose events of a stream are wanted; the catalogue's benchmarks are everybody's."""
        return (self.workspace, MANAGED_WORKSPACE) if stream == BENCHMARKS else (self.workspace,)

    def subjects(self, stream: str) -> Sequence[str]:
        """Filters, none of which overlaps another, that let through all that may be wanted."""
        about = "" if stream == AUDIT else f".{self._about(stream) or '*'}"
        kinds: Collection[str] = self.kinds
        if kinds and stream == RUNS and self.benchmark is not None:
            kinds = self.kinds | {_SUBMITTED}
        ends = [f"{_PARTS[stream]}.{kind}" for kind in sorted(kinds)] or [".>"]
        return [
            f"{stream.lower()}.{owner}{about}{end}" for owner in self.owners(stream) for end in ends
        ]

    def concerns(self, told: Told) -> bool:
        """Whether an event of a wanted owner may be wanted; false only where it cannot be."""
        about = self._about(told.stream)
        if about is not None and told.about != about:
            return False
        learns = self.benchmark is not None and told.kind == _SUBMITTED
        return learns or not self.kinds or told.kind in self.kinds

    def takes(self, told: Told) -> bool:
        """Whether an event that `concerns` let through is wanted."""
        if self.benchmark is not None and told.stream == RUNS:
            if told.kind == _SUBMITTED and _benchmark_of(told) == str(self.benchmark):
                self.known_runs.add(told.about)
            if told.about not in self.known_runs:
                return False
        return not self.kinds or told.kind in self.kinds

    def _about(self, stream: str) -> str | None:
        named = {RUNS: self.run, BENCHMARKS: self.benchmark}.get(stream)
        return None if named is None else str(named)


def _benchmark_of(told: Told) -> str | None:
    """Whose run was submitted; the shape has been the same in every version of the event."""
    match told.event:
        case {"data": {"benchmark": {"id": str(found)}}}:
            return found
        case _:
            return None
