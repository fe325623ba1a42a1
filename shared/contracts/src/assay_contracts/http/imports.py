"""Runs whose results were made elsewhere."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from assay_contracts.http.base import Request, Resource, with_example
from assay_contracts.run_config import Tasks
from assay_contracts.run_events import Durations, ExceptionSummary, Usage
from assay_contracts.values import Finite, ImportSource, Seconds

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2970, 1, 1, tzinfo=UTC)


class ImportRun(Request):
    """`POST /api/v1/runs/import`: a run whose results were made elsewhere.

    `tasks` as in a configuration (nothing means the full list); `agents` in the order that results
    refer to them; `source` says what the results are read from. The same request again is the same
    run. Its results follow with `POST /api/v1/runs/{run}/results`; it is finished when each slot
    has one.
    """

    model_config = with_example(
        benchmark="my-set",
        agents=[{"harness": "codex", "model": "openai/gpt-5.2"}],
        attempts_per_task=1,
        source={"kind": "table", "digest": "ab" * 32},
    )

    benchmark: str
    tasks: Tasks = Field(default_factory=Tasks)
    agents: list["ImportedAgent"] = Field(min_length=1, max_length=100)
    attempts_per_task: int = Field(ge=1, le=1000)
    pass_threshold: float | None = Field(default=None, ge=0, le=1)
    source: ImportSource


class ImportedAgent(Request):
    """An agent of an imported run: its harness, if it has one, and its model as it was named."""

    harness: Annotated[str, Field(pattern=r"\S", max_length=200)] | None = None
    model: Annotated[str, Field(pattern=r"\S", max_length=200)]


class ImportedResult(Request):
    """What came of one slot elsewhere, in the terms of `result-ingested`.

    `cancelled` with an exception is for a slot that the imported data has nothing of. Without
    `seconds` nobody knows how long it took.
    """

    agent: int = Field(ge=0)
    task: str = Field(min_length=1)
    attempt: int = Field(ge=1)
    rewards: dict[str, Finite] | None = None
    reward_valid: bool
    cancelled: bool = False
    exception: ExceptionSummary | None = None
    seconds: Seconds | None = None
    started_at: Annotated[AwareDatetime, Field(ge=_EARLIEST, lt=_LATEST)] | None = None
    durations: Durations = Durations()
    usage: Usage = Usage()
    harness_version: str | None = None


class ImportResults(Request):
    """`POST /api/v1/runs/{run}/results`: some results of an imported run, in any order."""

    model_config = with_example(
        results=[
            {
                "agent": 0,
                "task": "org/fix-git",
                "attempt": 1,
                "rewards": {"reward": 1.0},
                "reward_valid": True,
                "seconds": 81.5,
            }
        ]
    )

    results: list[ImportedResult] = Field(min_length=1, max_length=1000)


class ImportReceipt(Resource):
    """How many results were sent, and how many of them were new."""

    received: int
    added: int
