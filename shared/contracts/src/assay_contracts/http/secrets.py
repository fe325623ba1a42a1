"""Secrets: records without values, and handing values to a runner."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from assay_contracts.http.base import Request, Resource, with_example


class SecretEntry(Resource):
    """A secret's record; its value never leaves."""

    name: str
    scope: Literal["workspace", "user"]
    created_at: datetime
    updated_at: datetime
    updated_by: str


class SetSecret(Request):
    """`PUT /api/v1/secrets/{name}`."""

    model_config = with_example(value="sk-…", scope="workspace")

    value: str = Field(min_length=1, max_length=65536, repr=False)
    scope: Literal["workspace", "user"] = "user"


class ClaimSecrets(Request):
    """A runner that holds a claimed try asks for its secrets, sealed to `public_key` (base64)."""

    workspace: str
    run: UUID
    names: list[str]
    public_key: str


class SealedSecrets(Resource):
    """The secrets as a sealed box (base64) over a JSON object of names to values."""

    sealed: str


class RotatedKeys(Resource):
    """What a rotation did; keys are told by their ids, the newest last.

    Of all `records`, which are now under `key`, it wrapped `rewrapped` anew. `unreadable` ones open
    with no key that is there, and stay as they are.
    """

    key: str
    keys: list[str]
    rewrapped: int
    records: int
    unreadable: int
    unreadable_names: list[str]
