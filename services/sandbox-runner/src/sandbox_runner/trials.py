"""One Harbor trial: from what is to be tried to what came of it.

Harbor's `Trial` does the work; here its configuration is built, and its result read into plain
values with the exception that decides, and where it came from. Known secret values are
masked in everything that leaves: messages, names and kept files.
"""

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from assay_contracts.values import Phase

os.environ.setdefault("HARBOR_TELEMETRY", "0")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from harbor.models.environment_type import EnvironmentType
from harbor.models.task.config import TaskConfig as HarborTaskConfig
from harbor.models.task.verifier_mode import task_has_any_separate_verifier
from harbor.models.trial.config import (
    AgentConfig,
    EnvironmentConfig,
    TaskConfig,
    TrialConfig,
    VerifierConfig,
)
from harbor.models.trial.result import ExceptionInfo, TrialResult
from harbor.trial.hooks import TrialEvent
from harbor.trial.trial import Trial

from assay_kernel.masking import Mask
from assay_scoring.trials import (
    REWARD_TOO_LARGE,
    Located,
    afterwards,
    as_float,
    decisive,
    durations_of,
    exit_code_of,
    located_exceptions,
    message_of,
    reward_counts,
)
from sandbox_runner.environments.errors import OUR_ERROR_POLICY
from sandbox_runner.environments.open_sandboxes import (
    Death,
    close_all,
    take_death,
    to_the_end,
    wait_for_death,
)
from sandbox_runner.environments.ownership import FILE as OWNER_FILE
from sandbox_runner.environments.ownership import Owner
from sandbox_runner.host_variables import refuse_host_variables, verifier_variables
from sandbox_runner.memory_watch import MemoryWatch

_SCRIPTED = "sandbox_runner.agents.scripted:ScriptedAgent"
_OURS = {
    "docker": "sandbox_runner.environments.docker:DockerEnvironment",
    "local": "sandbox_runner.environments.local:LocalEnvironment",
}
_BATCHED_VERIFIER = "sandbox_runner.verifying:BatchedVerifier"
_TRACEBACK_LENGTH = 8000
_MAX_FILES = 2000
_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_TOTAL_BYTES = 512 * 1024 * 1024

log = structlog.get_logger(__name__)


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

    @property
    def trial_dir(self) -> Path:
        """Where the trial's files lie."""
        return self.trials_dir / self.trial_name


@dataclass(frozen=True)
class TrialException:
    """The decisive exception of a trial, with the end of its traceback.

    `step` is the step that it ended, in a trial of several; `exit_code` that of the command that
    failed, 137 where the sandbox lost a process to its memory limit and nothing else is known.
    """

    type: str
    message: str
    phase: Phase
    traceback: str
    step: str | None = None
    exit_code: int | None = None


_TOO_LARGE = TrialException(
    type=REWARD_TOO_LARGE.type,
    message=REWARD_TOO_LARGE.message,
    phase=REWARD_TOO_LARGE.phase,
    traceback="",
)


@dataclass(frozen=True)
class TrialOutcome:
    """What came of a trial. Durations in seconds, None for a part that was not reached.

    `rewards` are finite; `reward_valid` is false where they measure less than the whole task.
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
    trial_dir = spec.trial_dir
    mask = Mask(spec.secret_values)
    try:
        await asyncio.to_thread(_prepare, spec, trial_dir)
        trial = await Trial.create(_config(spec))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the trial's outcome
        return _unprepared(spec, error, began, mask)
    memory = MemoryWatch(spec.labels)
    if spec.environment == "docker":
        trial.add_hook(TrialEvent.AGENT_END, memory.look)
    try:
        result = await _run_while_alive(trial, trial_dir)
    finally:
        await to_the_end(close_all(trial_dir))
        death = take_death(trial_dir)
    if death is not None:
        _end_by(death, result)
    kept = await asyncio.to_thread(_kept_files, trial_dir, mask)
    return _outcome(spec, result, memory, kept, mask)


async def _run_while_alive(trial: Trial, trial_dir: Path) -> TrialResult:
    """Run the trial to its end, or until one of its sandboxes has died."""
    running = asyncio.ensure_future(trial.run())
    watching = asyncio.ensure_future(wait_for_death(trial_dir))
    try:
        await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for ending in (running, watching):
            ending.cancel()
        await to_the_end(_ended([running, watching]))
    if running.cancelled():
        watching.result()
        return trial.result
    return running.result()


async def _ended(tasks: Sequence[asyncio.Future[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _end_by(death: Death, result: TrialResult) -> None:
    """Make a sandbox's end what decides, unless the last verifier had finished before it."""
    error = ExceptionInfo.from_exception(
        death.error, override_error_policy=OUR_ERROR_POLICY
    ).model_copy(update={"occurred_at": death.at})
    steps = result.step_results or []
    ran = [result.verifier, *(step.verifier for step in steps)]
    last = max((one.finished_at for one in ran if one and one.finished_at), default=None)
    if result.verifier_result is not None and last is not None and last <= death.at:
        begun = [step.agent_execution for step in steps if step.agent_execution]
        if all(one.started_at is None or one.started_at <= last for one in begun):
            return
    result.exception_info, result.verifier_result = error, None


def _prepare(spec: TrialSpec, trial_dir: Path) -> None:
    refuse_host_variables(spec.task_dir, spec.verifier_env)
    Owner.of_this_process(spec.labels).make_folder(trial_dir)


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
        verifier=_verifier(spec),
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


def _verifier(spec: TrialSpec) -> VerifierConfig:
    variables = verifier_variables(spec.task_dir, spec.verifier_env)
    if spec.environment != "docker" or _has_verifier_of_its_own(spec.task_dir):
        return VerifierConfig(env=variables)
    return VerifierConfig(env=variables, import_path=_BATCHED_VERIFIER)


def _has_verifier_of_its_own(task_dir: Path) -> bool:
    """Whether tests run in a sandbox apart, whose image may hold them already."""
    text = (task_dir / "task.toml").read_text()
    return task_has_any_separate_verifier(HarborTaskConfig.model_validate_toml(text))


def _unprepared(spec: TrialSpec, error: Exception, began: datetime, mask: Mask) -> TrialOutcome:
    info = ExceptionInfo.from_exception(error)
    return TrialOutcome(
        rewards=None,
        reward_valid=False,
        should_retry=False,
        exception=_exception(
            Located(info, Phase.PREPARATION),
            spec.trial_dir,
            mask,
            exit_code=exit_code_of(error),
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
        trial_dir=spec.trial_dir,
        artifacts=(),
    )


def _outcome(
    spec: TrialSpec, result: TrialResult, memory: MemoryWatch, kept: Sequence[Path], mask: Mask
) -> TrialOutcome:
    if (late := afterwards(result)) is not None:
        said = mask.in_text(late.exception_message)
        log.warning("trial-ended-badly", type=late.exception_type, error=said)
    exceptions = located_exceptions(result)
    deciding = decisive(exceptions)
    exception = (
        None
        if deciding is None
        else _exception(deciding, spec.trial_dir, mask, exit_code=memory.code_of(deciding))
    )
    rewards = _rewards(result, mask)
    if rewards is not None and not all(map(math.isfinite, rewards.values())):
        rewards, deciding, exception = None, None, _TOO_LARGE
    input_tokens, cached_tokens, output_tokens, cost_usd = result.compute_token_cost_totals()
    spent = durations_of(result)
    now = datetime.now(UTC)
    return TrialOutcome(
        rewards=rewards,
        reward_valid=rewards is not None and reward_counts(result, exceptions),
        should_retry=deciding is not None and deciding.info.policy.should_retry,
        exception=exception,
        agent_version=mask.in_text(result.agent_info.version),
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
        cost_usd=cost_usd,
        started_at=result.started_at or now,
        finished_at=result.finished_at or now,
        environment_setup_sec=spent.environment_setup,
        agent_setup_sec=spent.agent_setup,
        agent_sec=spent.agent,
        verifier_sec=spent.verifier,
        environment=spec.environment,
        trial_dir=spec.trial_dir,
        artifacts=kept,
    )


def _rewards(result: TrialResult, mask: Mask) -> dict[str, float] | None:
    verified = result.verifier_result
    if verified is None or not verified.rewards:
        return None
    return {mask.in_text(name): as_float(reward) for name, reward in verified.rewards.items()}


def _exception(
    located: Located, trial_dir: Path, mask: Mask, *, exit_code: int | None
) -> TrialException:
    return TrialException(
        type=located.info.exception_type,
        # Paths of this machine tell a reader nothing, and where a file is kept they do.
        message=mask.in_text(message_of(located.info).replace(f"{trial_dir}/", "")),
        phase=located.phase,
        traceback=mask.in_text(located.info.exception_traceback)[-_TRACEBACK_LENGTH:],
        step=None if located.step is None else mask.in_text(located.step),
        exit_code=exit_code,
    )


def _kept_files(trial_dir: Path, mask: Mask) -> list[Path]:
    """The regular files that a trial left, within limits, with secrets masked in place."""
    kept: list[Path] = []
    total = 0
    for path in sorted(trial_dir.rglob("*")):
        name = path.relative_to(trial_dir)
        if path.is_symlink() or not path.is_file() or name == Path(OWNER_FILE):
            continue
        total += path.stat().st_size
        if path.stat().st_size > _MAX_FILE_BYTES or total > _MAX_TOTAL_BYTES:
            total -= path.stat().st_size
            continue
        if mask.in_text(str(name)) != str(name) or len(kept) >= _MAX_FILES:
            continue
        mask.in_file(path)
        kept.append(name)
    return kept
