"""The `scripted` harness: plays back a recorded session, command by command.

No model is called. What the session typed, and the tokens it is said to have used, stand in
`solution/scripted.toml` of the task, with one entry for each attempt and in it one for each try, so
that a recording can succeed in some attempts only, or lose its connection in a first try. A task
without a recording gets no commands.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, override
from uuid import uuid4

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import (
    Agent,
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError

RECORDING = Path("solution", "scripted.toml")
_VERSION = "1.0.0"


class NetworkConnectionError(ConnectionError):
    """The recorded session lost its connection; Harbor's error policy knows the name."""


class InvalidRecordingError(ValueError):
    """A recording does not have the right shape; the message names the file and the key."""


class RecordedTry(BaseModel):
    """What one try types, the tokens it is said to have used, and how it broke off, if it did."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    commands: tuple[str, ...]
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    error: str | None = Field(default=None, min_length=1)


class RecordedAttempt(BaseModel):
    """The tries of one attempt; a later try than are recorded plays the last."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tries: tuple[RecordedTry, ...] = Field(min_length=1)


class Recording(BaseModel):
    """The attempts of a session; attempts beyond them begin again with the first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attempts: tuple[RecordedAttempt, ...] = Field(min_length=1)

    def played(self, attempt: int, try_number: int) -> RecordedTry:
        """What is played in a try; both numbers count from 1."""
        tries = self.attempts[(attempt - 1) % len(self.attempts)].tries
        return tries[min(try_number, len(tries)) - 1]


def read_recording(task_dir: Path) -> Recording | None:
    """The recording of the task in `task_dir`, or None where it has none.

    Raises:
        InvalidRecordingError: it is not a recording.
    """
    path = task_dir / RECORDING
    if not path.exists():
        return None
    name = Path(task_dir.name) / RECORDING
    try:
        return Recording.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        raise InvalidRecordingError(f"{name}: {_mistakes(error)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRecordingError(f"{name}: {error}") from error


def _mistakes(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)
    )


class ScriptedAgent(BaseAgent):
    """Types what was recorded."""

    capabilities = AgentCapabilities(atif=True)

    def __init__(
        self, *args: Any, task_dir: str, attempt: int, try_number: int, **kwargs: Any
    ) -> None:
        """`task_dir` holds the recording; `attempt` and `try_number` count from 1."""
        super().__init__(*args, **kwargs)
        self._recording = read_recording(Path(task_dir))
        self._attempt = attempt
        self._try_number = try_number

    @staticmethod
    @override
    def name() -> str:
        """The harness's name."""
        return "scripted"

    @override
    def version(self) -> str:
        """The version of the recordings' format."""
        return _VERSION

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Nothing has to be installed."""

    @override
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        """Type the recorded commands one after the other.

        What was typed until then is in the trajectory also when this is cut short.

        Raises:
            NetworkConnectionError: the recording breaks off here.
        """
        if self._recording is None:
            return
        played = self._recording.played(self._attempt, self._try_number)
        context.n_input_tokens = played.input_tokens
        context.n_output_tokens = played.output_tokens
        seen: list[tuple[str, ExecResult]] = []
        try:
            for command in played.commands:
                seen.append((command, await environment.exec(command)))
        finally:
            trajectory = _trajectory(instruction, played, seen)
            (self.logs_dir / "trajectory.json").write_text(
                trajectory.model_dump_json(exclude_none=True)
            )
        if played.error is not None:
            raise NetworkConnectionError(played.error)


def _trajectory(
    instruction: str, played: RecordedTry, seen: Sequence[tuple[str, ExecResult]]
) -> Trajectory:
    steps = [Step(step_id=1, source="user", message=instruction)]
    for number, (command, result) in enumerate(seen, start=1):
        call = f"call-{number}"
        output = f"{result.stdout or ''}{result.stderr or ''}"
        steps.append(
            Step(
                step_id=number + 1,
                source="agent",
                message="",
                tool_calls=[
                    ToolCall(
                        tool_call_id=call, function_name="bash", arguments={"command": command}
                    )
                ],
                observation=Observation(
                    results=[
                        ObservationResult(
                            source_call_id=call,
                            content=output,
                            extra={"exit_code": result.return_code},
                        )
                    ]
                ),
            )
        )
    return Trajectory(
        session_id=uuid4().hex,
        agent=Agent(name="scripted", version=_VERSION),
        steps=steps,
        notes="A recording that was played back; no model was called.",
        final_metrics=FinalMetrics(
            total_prompt_tokens=played.input_tokens,
            total_completion_tokens=played.output_tokens,
            total_steps=len(steps),
        ),
    )
