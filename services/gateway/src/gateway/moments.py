"""The envelope fields that come from outside the rules: a fresh id, the present time, who acts."""

from datetime import UTC, datetime

from assay_contracts.envelope import Stamp
from assay_contracts.identifiers import new_id


def stamp(user: str) -> Stamp:
    """A fresh id and the present time, in a user's name."""
    return Stamp(id=new_id(), at=datetime.now(UTC), actor=user)
