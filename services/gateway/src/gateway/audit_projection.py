"""The audit stream as rows, so that it can be asked for by workspace and from its newest end."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.audit_events import Acted, AuditEvent
from assay_kernel.projection import Events
from gateway.tables import audit


class AuditProjection:
    """One row for each act."""

    name = "audit"
    stream = AuditEvent.stream
    subjects: Sequence[str] = (f"{AuditEvent.stream.lower()}.>",)
    tables: Sequence[Table] = (audit,)
    version = 1

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Add a row for each act."""
        rows = [_row(one.sequence, one.event) for one in events if isinstance(one.event, Acted)]
        if rows:
            await connection.execute(insert(audit), rows)

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Nothing follows."""


def _row(sequence: int, event: Acted) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "workspace": event.workspace,
        "at": event.occurred_at,
        "actor": event.actor,
        "act": event.data.act,
        "target": event.data.target,
        "details": event.data.details,
        "request_id": event.correlation_id,
    }
