"""Writes the golden file of every event version that has none yet; never touches one that is there.

Run with `python tests/contract/make_golden.py` when a new version is published.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from assay_contracts import audit_events, benchmark_events, run_events
from assay_contracts.envelope import Event

GOLDEN = Path(__file__).parent / "golden"
AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
SLOT = {"agent": 0, "task": "org/fix-it", "attempt": 1}
TRY = {"slot": SLOT, "try_number": 1, "delivery": 1}
SYNC = UUID(int=9)
JUDGE = {
    "prompt": "Is {answer} right for {instruction}? {reference}",
    "answer": "artifacts/answer.txt",
    "reference": "solution/answer.txt",
    "output_schema": {"type": "object", "required": ["score"]},
    "reward": "score",
    "base_url": "https://judge.example/v1",
}
DATA: dict[str, dict[str, Any]] = {
    "submitted": {
        "name": "bright-otter",
        "benchmark": {
            "id": UUID(int=8),
            "owner": "managed",
            "name": "Demo",
            "key": "demo",
            "source_type": "osmosis_managed",
            "sync": SYNC,
            "version": "1",
            "digest": "sha256:ab",
        },
        "selection": {"task_set": "custom", "positions": "0-4,7", "task_count": 6},
        "agents": [
            {
                "harness": "codex",
                "model": {"type": "provider", "model": "openai/m", "api_key_secret": "KEY"},
                "env": {"A": "1"},
            }
        ],
        "execution": {
            "attempts_per_task": 3,
            "max_concurrent_attempts": 4,
            "timeout_multiplier": 1.0,
            "max_retries": 1,
            "pass_threshold": 1.0,
            "deadline": 7200.0,
            "budget_usd": 12.5,
            "budget_tokens": 1_000_000,
        },
        "secret_scopes": {"KEY": "workspace"},
        "expected_results": 18,
        "judge": JUDGE,
        "imported": {"kind": "table", "digest": "ab" * 32},
    },
    "queued": {"expected_results": 18},
    "started": {},
    "stop-requested": {"reason": "enough"},
    "stopped": {"reason": "enough"},
    "finished": {"scored": 17, "errored": 1},
    "failed": {"reason": "the pinned task list is gone"},
    "reopened": {"slots": [SLOT], "reason": "the network is back"},
    "paused": {"agent": 0, "reason": "the provider is busy", "until": AT},
    "resumed": {"agent": 0, "reason": "the wait is over"},
    "deleted": {"reason": "a mistake in the prompt"},
    "attempt-started": {**TRY, "runner": "r-1", "environment": "docker"},
    "attempt-retried": {**TRY, "try_number": 2, "reason": "lost", "not_before": AT},
    "result-ingested": {
        **TRY,
        "runner": "r-1",
        "environment": "docker",
        "harness_version": "1.0",
        "rewards": {"reward": 0.5},
        "reward_valid": True,
        "retryable": False,
        "exception": {
            "type": "AgentTimeoutError",
            "message": "late",
            "phase": "agent",
            "step": "second",
            "exit_code": 124,
        },
        "started_at": AT,
        "finished_at": AT,
        "durations": {"environment_setup": 1.0, "agent": 2.5},
        "usage": {"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.01},
        "artifacts": {"sha256": "ab" * 32, "files": 2, "bytes": 99},
    },
    "result-graded": {
        **TRY,
        "outcome": "failed",
        "reward": 0.5,
        "reward_rule": "the only reward",
        "pass_threshold": 1.0,
        "cause": "agent-timeout",
        "reason": "reward 0.5 is below the pass threshold 1",
        "judge": {
            "model": "openai/judge",
            "requests": 2,
            "exchange": "cd" * 32,
            "usage": {"input_tokens": 900, "output_tokens": 40, "cost_usd": 0.002},
        },
    },
    "added": {
        "name": "Demo",
        "source": {"kind": "registry", "dataset": "demo", "version": "1"},
        "source_type": "harbor_registry",
    },
    "sync-requested": {"reason": "again"},
    "sync-started": {"sync": SYNC, "task_count": 2},
    "tasks-synced": {
        "sync": SYNC,
        "first_position": 0,
        "task_count": 2,
        "tasks": [
            {
                "name": "org/fix-it",
                "category": "debugging",
                "difficulty": "easy",
                "location": {"sha256": "ef" * 32, "size": 10240},
                "origin": "https://git.example/r at ab, tasks/fix-it",
                "digest": "sha256:cd",
            },
            {"name": "broken", "unavailable": "task.toml cannot be read"},
        ],
    },
    "synced": {
        "sync": SYNC,
        "version": "1",
        "digest": "sha256:ab",
        "key": "demo@1",
        "task_count": 2,
        "task_sets": [{"name": "parity", "tasks": ["org/fix-it"]}],
        "rules": {"pass_threshold": 0.5, "judge": JUDGE},
    },
    "sync-failed": {"sync": SYNC, "reason": "the registry cannot be reached"},
    "removed": {"reason": "no longer wanted"},
    "acted": {"act": "member-set", "target": "ada", "details": {"role": "admin"}},
}


def published() -> list[type[Event]]:
    """Every event class that stands for one published type and version."""
    modules = (run_events, benchmark_events, audit_events)
    classes = [value for module in modules for value in vars(module).values()]
    return [
        one
        for one in classes
        if isinstance(one, type)
        and issubclass(one, Event)
        and isinstance(one.model_fields["type"].default, str)
    ]


def golden_path(event: type[Event]) -> Path:
    """Where the golden file of an event version lies."""
    kind, version = event.model_fields["type"].default, event.model_fields["version"].default
    return GOLDEN / f"{event.stream.lower()}.{kind}.v{version}.json"


def example(event: type[Event]) -> Event:
    """One event of a class, with fields that show its shape."""
    owners = {"RUNS": {"run": UUID(int=7)}, "BENCHMARKS": {"benchmark": UUID(int=7)}}
    return event.model_validate(
        {
            "id": UUID(int=1),
            "workspace": "default",
            "occurred_at": AT,
            "actor": "admin",
            "correlation_id": UUID(int=2),
            "causation_id": UUID(int=3),
            **owners.get(event.stream, {}),
            "data": DATA[event.model_fields["type"].default],
        }
    )


def main() -> None:
    """Write what is missing."""
    GOLDEN.mkdir(exist_ok=True)
    for event in published():
        path = golden_path(event)
        if not path.exists():
            path.write_text(example(event).model_dump_json(indent=1) + "\n")
            sys.stdout.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
