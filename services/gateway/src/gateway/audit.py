"""Tells the audit stream of administrative acts: what was done, by whom, to what.

An act is told through the outbox in the transaction that does it, so that nothing is done without
being told, and nothing told that was not done.
"""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.audit_events import INSTALLATION, Acted, ActedData
from assay_contracts.identifiers import new_id
from assay_kernel.outbox import Outbox, Outgoing
from gateway.access import Caller, Somebody
from gateway.moments import stamp


class Audit:
    """Writes acts into the outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def tell(
        self,
        connection: AsyncConnection,
        asking: Somebody,
        act: str,
        target: str,
        details: Mapping[str, str] | None = None,
        *,
        workspace: str | None = None,
    ) -> None:
        """Tell an act in the caller's transaction.

        Args:
            connection: the transaction in which it is done.
            asking: who does it.
            act: what, such as `token-created`.
            target: the name or id of what it is done to.
            details: a few words more; never a secret's value.
            workspace: whom it concerns; by default the caller's, else the whole installation.
        """
        own = asking.workspace if isinstance(asking, Caller) else INSTALLATION
        await self.tell_of(
            connection, asking.user, asking.request_id, act, target, details, workspace or own
        )

    async def tell_of(
        self,
        connection: AsyncConnection,
        actor: str,
        request_id: UUID | None,
        act: str,
        target: str,
        details: Mapping[str, str] | None,
        workspace: str,
    ) -> None:
        """Tell an act of somebody who has only just proven who it is; without a request's id the
        act begins a chain of its own."""
        data = ActedData(act=act, target=target, details=dict(details or {}))
        envelope = stamp(actor).beginning(workspace, request_id or new_id())
        event = Acted.model_validate(envelope | {"data": data})
        await self._outbox.write(connection, [Outgoing.fact(event, str(event.id))])

    def wake(self) -> None:
        """The transaction was committed."""
        self._outbox.wake()
