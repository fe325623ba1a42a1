"""One Harbor trial: from what is to be tried to what came of it.

Harbor's `Trial` does the work; here its configuration is built, and its result read into plain
values with the part of the trial that the decisive exception came from. Known secret values are
masked in everything that leaves: messages and kept files.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay_contracts.values import Phase

os.environ.setdefault("HARBOR_TELEMETRY", "0")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from harbor.models.environment_type import EnvironmentType
from harbor.models.trial.config import (
    AgentConfig,
    EnvironmentConfig,
    TaskConfig,
    TrialConfig,
    VerifierConfig,
)
from harbor.models.trial.result import ExceptionInfo, StepResult, TimingInfo, TrialResult
from harbor.trial.trial import Trial

from sandbox_runner.environments.errors import OUR_ERROR_POLICY

_SCRIPTED = "sandbox_runner.agents.scripted:ScriptedAgent"
_OURS = {
    "docker": "sandbox_runner.environments.docker:DockerEnvironment",
    "local": "sandbox_runner.environments.local:LocalEnvironment",
}
_MASK = b"********"
_SHORTEST_SECRET = 4
_MAX_FILES = 2000
_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_TOTAL_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class TrialSpec:
    """What is to be tried, on what, by whom, and where.

    `agent_env` and `verifier_env` may hold secrets; `secret_values` are those values, to be masked.
    """

    task_dir: Path
    task_name: str
    harness: str
    environment: str
    trials_dir: Path
    trial_name: str
    attempt: int
    try_number: int
    model: str | None = None
    model_base_url: str | None = None
    agent_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    verifier_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_values: Sequence[str] = field(default=(), repr=False)
    timeout_multiplier: float = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)
    scratch: Path | None = None
    hidden: Sequence[Path] = ()


@dataclass(frozen=True)
class TrialException:
    """The decisive exception of a trial."""

    type: str
    message: str
    phase: Phase


@dataclass(frozen=True)
class TrialOutcome:
    """What came of a trial. Durations in seconds, None for a part that was not reached.

    `artifacts` are the kept files, relative to `trial_dir`.
    """

    rewards: Mapping[str, float] | None
    reward_valid: bool
    should_retry: bool
    exception: TrialException | None
    agent_version: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    started_at: datetime
    finished_at: datetime
    environment_setup_sec: float | None
    agent_setup_sec: float | None
    agent_sec: float | None
    verifier_sec: float | None
    environment: str
    trial_dir: Path
    artifacts: Sequence[Path]


async def run_trial(spec: TrialSpec) -> TrialOutcome:
    """Run one trial. Its sandbox is gone when this returns, raises or is cancelled.

    A trial that Harbor cannot even set up (an unknown harness, a task that its configuration
    forbids) is an outcome too, with the exception in the phase `preparation`.
    """
    began = datetime.now(UTC)
    trial_dir = spec.trials_dir / spec.trial_name
    try:
        trial = await Trial.create(_config(spec))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the trial's outcome
        return _unprepared(spec, error, began, trial_dir)
    result = await trial.run()
    kept = await asyncio.to_thread(_kept_files, trial_dir, spec.secret_values)
    return _outcome(spec, result, trial_dir, kept)


def _config(spec: TrialSpec) -> TrialConfig:
    agent: dict[str, Any] = {
        "model_name": spec.model,
        "base_url": spec.model_base_url,
        "env": dict(spec.agent_env),
    }
    if spec.harness == "scripted":
        agent["import_path"] = _SCRIPTED
        agent["kwargs"] = {
            "task_dir": str(spec.task_dir),
            "attempt": spec.attempt,
            "try_number": spec.try_number,
        }
    else:
        agent["name"] = spec.harness
    return TrialConfig(
        task=TaskConfig(path=spec.task_dir),
        trial_name=spec.trial_name,
        trials_dir=spec.trials_dir,
        timeout_multiplier=spec.timeout_multiplier,
        agent=AgentConfig.model_validate(agent),
        environment=_environment(spec),
        verifier=VerifierConfig(env=dict(spec.verifier_env)),
        override_error_policy=OUR_ERROR_POLICY,
    )


def _environment(spec: TrialSpec) -> EnvironmentConfig:
    ours = _OURS.get(spec.environment)
    if ours is None:
        return EnvironmentConfig(type=EnvironmentType(spec.environment))
    kwargs: dict[str, Any] = {"labels": dict(spec.labels)}
    if spec.environment == "local":
        kwargs["scratch"] = str(spec.scratch or spec.trials_dir)
        kwargs["hidden"] = [str(folder) for folder in spec.hidden]
    return EnvironmentConfig(import_path=ours, kwargs=kwargs)


def _unprepared(
    spec: TrialSpec, error: Exception, began: datetime, trial_dir: Path
) -> TrialOutcome:
    info = ExceptionInfo.from_exception(error)
    return TrialOutcome(
        rewards=None,
        reward_valid=False,
        should_retry=False,
        exception=TrialException(
            info.exception_type, _masked(info.exception_message, spec), Phase.PREPARATION
        ),
        agent_version=None,
        input_tokens=None,
        cached_tokens=None,
        output_tokens=None,
        cost_usd=None,
        started_at=began,
        finished_at=datetime.now(UTC),
        environment_setup_sec=None,
        agent_setup_sec=None,
        agent_sec=None,
        verifier_sec=None,
        environment=spec.environment,
        trial_dir=trial_dir,
        artifacts=(),
    )


def _outcome(
    spec: TrialSpec, result: TrialResult, trial_dir: Path, kept: Sequence[Path]
) -> TrialOutcome:
    exceptions = result.recorded_exceptions()
    decisive = next((one for one in exceptions if not one.policy.has_valid_reward), None)
    decisive = decisive or (exceptions[0] if exceptions else None)
    input_tokens, cached_tokens, output_tokens, cost_usd = result.compute_token_cost_totals()
    steps = result.step_results or []
    rewards = None if result.verifier_result is None else result.verifier_result.rewards
    now = datetime.now(UTC)
    return TrialOutcome(
        rewards=None if not rewards else {key: float(value) for key, value in rewards.items()},
        reward_valid=result.reward_valid,
        should_retry=decisive is not None and decisive.policy.should_retry,
        exception=None
        if decisive is None
        else TrialException(
            decisive.exception_type,
            _masked(decisive.exception_message, spec),
            _phase(result, decisive),
        ),
        agent_version=result.agent_info.version,
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
        cost_usd=cost_usd,
        started_at=result.started_at or now,
        finished_at=result.finished_at or now,
        environment_setup_sec=_seconds([result.environment_setup]),
        agent_setup_sec=_seconds([result.agent_setup]),
        agent_sec=_seconds([result.agent_execution, *(step.agent_execution for step in steps)]),
        verifier_sec=_seconds([result.verifier, *(step.verifier for step in steps)]),
        environment=spec.environment,
        trial_dir=trial_dir,
        artifacts=kept,
    )


def _phase(result: TrialResult, exception: ExceptionInfo) -> Phase:
    """The part of the trial that was under way when the exception occurred."""
    at = exception.occurred_at
    parts: list[tuple[Phase, TimingInfo | None]] = [
        (Phase.ENVIRONMENT_SETUP, result.environment_setup),
        (Phase.AGENT_SETUP, result.agent_setup),
    ]
    whole: list[TrialResult | StepResult] = [result, *(result.step_results or [])]
    for one in whole:
        parts += [(Phase.AGENT, one.agent_execution), (Phase.VERIFIER, one.verifier)]
    begun = [
        (timing.started_at, phase)
        for phase, timing in parts
        if timing is not None and timing.started_at is not None and timing.started_at <= at
    ]
    return max(begun)[1] if begun else Phase.PREPARATION


def _seconds(timings: Sequence[TimingInfo | None]) -> float | None:
    spent = [
        (timing.finished_at - timing.started_at).total_seconds()
        for timing in timings
        if timing is not None and timing.started_at is not None and timing.finished_at is not None
    ]
    return sum(spent) if spent else None


def _masked(text: str, spec: TrialSpec) -> str:
    return mask_secrets(text.encode(errors="replace"), spec.secret_values).decode(errors="replace")


def mask_secrets(data: bytes, values: Sequence[str]) -> bytes:
    """`data` with every occurrence of a known secret value replaced."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            data = data.replace(value.encode(), _MASK)
    return data


def _kept_files(trial_dir: Path, secrets: Sequence[str]) -> list[Path]:
    """The regular files that a trial left, within limits, with secrets masked in place."""
    kept: list[Path] = []
    total = 0
    for path in sorted(trial_dir.rglob("*")):
        if path.is_symlink() or not path.is_file() or len(kept) >= _MAX_FILES:
            continue
        size = path.stat().st_size
        if size > _MAX_FILE_BYTES or total + size > _MAX_TOTAL_BYTES:
            continue
        if secrets:
            before = path.read_bytes()
            after = mask_secrets(before, secrets)
            if after != before:
                path.write_bytes(after)
                size = len(after)
        total += size
        kept.append(path.relative_to(trial_dir))
    return kept
