"""The billing gate: whether a run may start, asked before anything of it is appended.

What the gates have in common: what they are asked, how they refuse, and that a request which is
refused afterwards, for another reason, takes back what it had reserved.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from assay_contracts.http import BillingMode
from assay_contracts.identifiers import new_id
from assay_contracts.problems import ProblemCode
from assay_contracts.run_events import SubmittedData
from gateway.problems import ProblemError


@dataclass(frozen=True)
class Opening:
    """A run that is to start, or slots of it that are to run again.

    `tasks` are those of the slots, by the place of their agent: a task of several slots is named as
    often. `spent_usd` is what a run that is retried has spent by now.
    """

    workspace: str
    user: str
    run: UUID
    submitted: SubmittedData
    tasks: Mapping[int, Sequence[str]]
    retry: bool = False
    spent_usd: float = 0.0

    @classmethod
    def first(
        cls, workspace: str, user: str, run: UUID, submitted: SubmittedData, tasks: Sequence[str]
    ) -> "Opening":
        """A run that is submitted: every agent on each of its `tasks`, as often as it attempts."""
        slots = [*tasks] * submitted.execution.attempts_per_task
        agents = range(len(submitted.agents))
        return cls(workspace, user, run, submitted, dict.fromkeys(agents, slots))

    @property
    def slots(self) -> int:
        """How many slots are to run."""
        return sum(map(len, self.tasks.values()))


class Gate(Protocol):
    """Decides whether runs may start."""

    mode: BillingMode

    async def admit(self, request: UUID, opening: Opening) -> None:
        """Let an opening pass; the same request may ask again, and counts once.

        Raises:
            ProblemError: it may not start, or that cannot be known now.
        """
        ...

    async def withdraw(self, request: UUID) -> None:
        """Take back what was reserved for a request that came to nothing."""
        ...


class OpenGate(Gate):
    """Lets everything pass."""

    mode = BillingMode.OFF

    async def admit(self, request: UUID, opening: Opening) -> None:
        """Let it pass."""

    async def withdraw(self, request: UUID) -> None:
        """Nothing was reserved."""


type Admit = Callable[[Opening], Awaitable[None]]


@asynccontextmanager
async def billed(gate: Gate) -> AsyncIterator[Admit]:
    """Within it, an opening asks to be admitted before it is appended.

    Where the body refuses, nothing was appended, and what was reserved is taken back. Where it
    breaks instead, that is not known: the reservation then stays until the run has ended, or
    lapses where the run never comes.
    """
    request = new_id()
    try:
        yield partial(gate.admit, request)
    except ProblemError:
        await gate.withdraw(request)
        raise


def billing_required(detail: str, details: dict[str, Any] | None = None) -> ProblemError:
    """The run may not start."""
    return ProblemError(ProblemCode.BILLING_REQUIRED, 403, detail, details=details)
