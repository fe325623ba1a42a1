"""The scripted harness: which recording it plays, what it leaves, and what it says of a bad one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory

from assay_contracts.values import Phase
from sandbox_runner.agents.scripted import (
    InvalidRecordingError,
    RecordedAttempt,
    RecordedTry,
    Recording,
    ScriptedAgent,
    read_recording,
)
from sandbox_runner.trials import TrialOutcome, run_trial

SESSION = """
[[attempts]]
[[attempts.tries]]
commands = ["echo half > /app/note"]
input_tokens = 400
output_tokens = 30
error = "the connection to the model was lost"

[[attempts.tries]]
commands = ["ls /app/nowhere", '''
cat > /app/done <<'TEXT'
several
lines
TEXT''', "cat done"]
input_tokens = 812
output_tokens = 74

[[attempts]]
[[attempts.tries]]
commands = ["touch /app/almost"]
input_tokens = 500
output_tokens = 41
"""


def one_try(name: str) -> RecordedTry:
    return RecordedTry(commands=(name,), input_tokens=1, output_tokens=1)


def recording(*attempts: tuple[str, ...]) -> Recording:
    return Recording(
        attempts=tuple(
            RecordedAttempt(tries=tuple(one_try(name) for name in tries)) for tries in attempts
        )
    )


@pytest.fixture
def recorded_task(make_task: Callable[..., Path]) -> Callable[[str], Path]:
    """Writes a task with a recording."""

    def write(text: str) -> Path:
        folder = make_task()
        (folder / "solution" / "scripted.toml").write_text(text)
        return folder

    return write


@pytest.fixture
def play(make_spec) -> Callable[..., object]:
    """Plays one try of a task in the local sandbox."""

    async def run(task: Path, attempt: int = 1, try_number: int = 1) -> TrialOutcome:
        return await run_trial(
            make_spec(
                task,
                "local",
                "scripted",
                attempt=attempt,
                try_number=try_number,
                trial_name=f"{task.name}-{attempt}-{try_number}",
            )
        )

    return run


def trajectory_of(outcome: TrialOutcome) -> Trajectory:
    assert Path("agent/trajectory.json") in outcome.artifacts
    return Trajectory.model_validate_json(
        (outcome.trial_dir / "agent" / "trajectory.json").read_text()
    )


@pytest.mark.parametrize(
    ("attempt", "try_number", "wanted"),
    [
        (1, 1, "a1"),
        (1, 2, "a2"),
        (1, 9, "a2"),
        (2, 1, "b1"),
        (2, 2, "b1"),
        (3, 2, "a2"),
        (4, 1, "b1"),
    ],
)
def test_attempts_begin_again_and_tries_stay_at_the_last(attempt, try_number, wanted):
    played = recording(("a1", "a2"), ("b1",)).played(attempt, try_number)
    assert played == one_try(wanted)


def test_a_task_without_a_recording_has_none(make_task):
    assert read_recording(make_task()) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "attempts: Field required"),
        ("attempts = []", "attempts: Tuple should have at least 1 item"),
        ("[[attempts]]\ntries = []", "attempts.0.tries: Tuple should have at least 1 item"),
        (SESSION.replace("812", "-1"), "attempts.0.tries.1.input_tokens: Input should be greater"),
        (SESSION.replace("812", '"many"'), "attempts.0.tries.1.input_tokens: Input should be a"),
        (SESSION.replace("output_tokens = 41", ""), "attempts.1.tries.0.output_tokens: Field req"),
        (SESSION + "cost = 1", "attempts.1.tries.0.cost: Extra inputs are not permitted"),
        ("[[attempts]", "Expected ']]'"),
    ],
)
def test_a_malformed_recording_is_refused_with_its_file_and_key(recorded_task, text, complaint):
    with pytest.raises(InvalidRecordingError) as refused:
        read_recording(recorded_task(text))
    message = str(refused.value)
    assert message.startswith(f"toy/solution/scripted.toml: {complaint}")
    assert "\n" not in message


def test_a_recording_that_is_no_text_is_refused_with_its_file(recorded_task):
    task = recorded_task("")
    (task / "solution" / "scripted.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRecordingError, match=r"^toy/solution/scripted\.toml: "):
        read_recording(task)


async def test_a_try_is_typed_counted_and_kept_as_a_trajectory(recorded_task, play):
    outcome = await play(recorded_task(SESSION), try_number=2)
    assert (outcome.rewards, outcome.exception) == ({"reward": 1.0}, None)
    assert (outcome.input_tokens, outcome.output_tokens) == (812, 74)
    assert (outcome.cost_usd, outcome.cached_tokens) == (None, None)
    trajectory = trajectory_of(outcome)
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent", "agent"]
    assert trajectory.steps[0].message == "Make the file /app/done.\n"
    results = [
        result
        for step in trajectory.steps
        if step.observation is not None
        for result in step.observation.results
    ]
    assert [(result.extra or {})["exit_code"] for result in results] == [2, 0, 0]
    assert "/app/nowhere" in str(results[0].content)
    assert results[2].content == "several\nlines\n"
    assert trajectory.final_metrics is not None
    assert trajectory.final_metrics.total_cost_usd is None


async def test_a_lost_connection_is_worth_another_try_and_no_reward(recorded_task, play):
    outcome = await play(recorded_task(SESSION))
    assert outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.message, outcome.exception.phase) == (
        "NetworkConnectionError",
        "the connection to the model was lost",
        Phase.AGENT,
    )
    assert (outcome.reward_valid, outcome.should_retry) == (False, True)
    assert (outcome.input_tokens, outcome.output_tokens) == (400, 30)
    assert len(trajectory_of(outcome).steps) == 2


async def test_another_attempt_plays_another_entry(recorded_task, play):
    outcome = await play(recorded_task(SESSION), attempt=2)
    assert (outcome.rewards, outcome.exception) == ({"reward": 0.0}, None)
    assert (outcome.input_tokens, outcome.output_tokens) == (500, 41)


async def test_without_a_recording_nothing_is_typed(make_task, play):
    outcome = await play(make_task())
    assert (outcome.rewards, outcome.exception) == ({"reward": 0.0}, None)
    assert (outcome.input_tokens, outcome.output_tokens) == (None, None)


async def test_a_malformed_recording_is_the_preparation_s_error_and_not_a_zero(recorded_task, play):
    outcome = await play(recorded_task("attempts = []"))
    assert outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.phase) == (
        "InvalidRecordingError",
        Phase.PREPARATION,
    )
    assert (outcome.rewards, outcome.reward_valid, outcome.should_retry) == (None, False, False)


async def test_a_session_that_is_cut_short_keeps_what_was_typed(recorded_task, tmp_path):
    class Failing:
        async def exec(self, command: str) -> object:
            raise TimeoutError(command)

    logs = tmp_path / "logs"
    logs.mkdir()
    task = recorded_task(SESSION)
    agent = ScriptedAgent(logs, task_dir=str(task), attempt=1, try_number=2)
    context = AgentContext()
    with pytest.raises(TimeoutError):
        await agent.run("Do it.", Failing(), context)  # type: ignore[arg-type]
    trajectory = Trajectory.model_validate_json((logs / "trajectory.json").read_text())
    assert [step.message for step in trajectory.steps] == ["Do it."]
    assert (context.n_input_tokens, context.n_output_tokens) == (812, 74)
