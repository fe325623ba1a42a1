"""From a task folder to a verdict: real tries in the local sandbox, their results, and what they
are judged to be.

The harness that crashes is Harbor's own for Claude Code; the program that it starts is a script of
the task, which the task's health check puts in place before the harness looks for it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from assay_contracts.identifiers import Slot, new_id
from assay_contracts.run_config import Agent
from assay_contracts.run_events import ResultIngestedData
from assay_contracts.values import ArchivedTask, CauseClass, Outcome, Phase
from assay_contracts.work import WorkOrder
from assay_kernel.blobs import BlobStore
from assay_kernel.secret_claims import SecretClaims
from assay_scoring.verdicts import Verdict, judge
from sandbox_runner.attempts import AttemptRunner
from sandbox_runner.environments import archives
from sandbox_runner.locate import TaskShelf
from sandbox_runner.settings import RunnerSettings

type Tried = tuple[ResultIngestedData, Verdict]
type Try = Callable[..., Awaitable[Tried]]

ZERO = "echo 0 > /logs/verifier/reward.txt"
ONE = "echo 1 > /logs/verifier/reward.txt"


@pytest.fixture
def tried(tmp_path: Path) -> Try:
    """Runs one try of a task folder as a runner does; returns its result and the verdict."""

    async def run(
        folder: Path,
        harness: str = "oracle",
        *,
        reward_key: str | None = None,
        environment: str = "local",
    ) -> Tried:
        blobs = BlobStore(f"file://{tmp_path}/blobs")
        archive = tmp_path / "task.tar"
        with archive.open("w+b") as opened:
            archives.pack_folder(opened, folder)
        sha256, size = await blobs.keep_file(archive)
        order = WorkOrder(
            workspace="default",
            run=new_id(),
            slot=Slot(agent=0, task=folder.name, attempt=1),
            try_number=1,
            benchmark="toy",
            agent=Agent(harness=harness, env={"ANTHROPIC_API_KEY": "sk-nothing"}),
            location=ArchivedTask(sha256=sha256, size=size),
            task_digest=None,
            correlation_id=new_id(),
            causation_id=new_id(),
        )
        settings = RunnerSettings(
            scratch_dir=tmp_path / "scratch", installation=f"test-{tmp_path.name}", instance="r"
        )
        runner = AttemptRunner(
            settings,
            blobs,
            TaskShelf(tmp_path / "shelf", blobs),
            SecretClaims("http://127.0.0.1:9", None),
            environment,
        )
        result = await runner.run(order, 1)
        told = runner.ingested(order, result).model_dump_json()  # as it lies in the stream
        read = type(runner.ingested(order, result)).model_validate_json(told).data
        assert read == result
        return read, judge(read, pass_threshold=1.0, reward_key=reward_key)

    return run


@pytest.fixture
def cli_task(make_task: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a task whose harness finds `script` as its program, and other programs by name."""

    def make(script: str, *, verify: str = ZERO, **programs: str) -> Path:
        program = f'#!/bin/bash\n[ "$1" != --version ] || {{ echo 2.0.0; exit; }}\n{script}\n'
        programs["claude"] = program
        folder = make_task(verify=verify, loose=programs)
        toml = folder / "task.toml"
        install = f"cd /app && install -m 755 {' '.join(programs)} /usr/local/bin"
        toml.write_text(f'{toml.read_text()}\n[environment.healthcheck]\ncommand = "{install}"\n')
        return folder

    return make


@pytest.fixture
def steps_task(make_task: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a task of two steps; each is a dict with its `solve`, `verify` and `setup` scripts."""

    def make(one: dict[str, str], two: dict[str, str], more: str = "") -> Path:
        folder = make_task()
        toml = folder / "task.toml"
        names = "".join(f'[[steps]]\nname = "{step}"\n{more}' for step in ("one", "two"))
        toml.write_text(f"{toml.read_text()}{names}")
        for step, scripts in (("one", one), ("two", two)):
            place = folder / "steps" / step
            for part in ("solution", "tests", "workdir"):
                (place / part).mkdir(parents=True)
            (place / "instruction.md").write_text("Go on.\n")
            solve, verify = scripts.get("solve", "true"), scripts.get("verify", ONE)
            (place / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{solve}\n")
            (place / "tests" / "test.sh").write_text(f"#!/bin/bash\n{verify}\n")
            if "setup" in scripts:
                (place / "workdir" / "setup.sh").write_text(f"{scripts['setup']}\n")
        return folder

    return make


def is_(verdict: Verdict, outcome: Outcome, cause: CauseClass | None) -> bool:
    return (verdict.outcome, verdict.cause) == (outcome, cause)


@pytest.mark.parametrize(
    ("verify", "reason"),
    [
        ("true", "RewardFileNotFoundError in verifier: No reward file found at verifier/rew"),
        ("exit 3", "RewardFileNotFoundError in verifier: No reward file found at verifier/rew"),
        (": > /logs/verifier/reward.txt", "RewardFileEmptyError in verifier: Reward file is empty"),
        ("echo passed > /logs/verifier/reward.txt", "VerifierOutputParseError in verifier: Failed"),
        ("echo nan > /logs/verifier/reward.txt", "VerifierOutputParseError in verifier: Non-fin"),
        ("echo '{' > /logs/verifier/reward.json", "VerifierOutputParseError in verifier: Failed"),
        ("echo 1 > /logs/verifier/reward.json", "ValidationError in verifier: 1 validation error"),
        (
            "echo '[1]' > /logs/verifier/reward.json",
            "VerifierOutputParseError in verifier: Non-numeric reward [1] in JSON file verifier/re",
        ),
        (
            """echo '{"reward": "1"}' > /logs/verifier/reward.json""",
            "VerifierOutputParseError in verifier: Non-numeric reward '1'",
        ),
        (
            """echo '{"reward": Infinity}' > /logs/verifier/reward.json""",
            "VerifierOutputParseError in verifier: Non-finite reward inf",
        ),
        (
            """printf '{"reward": 1%0400d}' 0 > /logs/verifier/reward.json""",
            "VerifierOutputParseError in verifier: the verifier's reward is a number beyond",
        ),
        ("echo '{}' > /logs/verifier/reward.json", "the verifier wrote no reward"),
    ],
)
async def test_a_verifier_that_writes_nothing_or_junk_is_errored(make_task, tried, verify, reason):
    result, verdict = await tried(make_task(verify=verify))
    assert is_(verdict, Outcome.ERRORED, CauseClass.VERIFIER)
    assert verdict.reason is not None
    assert verdict.reason.startswith(reason)
    assert (verdict.reward, verdict.retryable, result.reward_valid) == (None, False, False)


async def test_a_verifier_that_exits_badly_after_its_reward_has_given_it(make_task, tried):
    _, verdict = await tried(make_task(verify=f"{ONE}; exit 7"))
    assert is_(verdict, Outcome.PASSED, None)


async def test_a_verifier_past_its_time_is_errored(make_task, tried):
    folder = make_task(verify="sleep 7771")
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace("timeout_sec = 60", "timeout_sec = 1"))
    result, verdict = await tried(folder)
    assert is_(verdict, Outcome.ERRORED, CauseClass.VERIFIER)
    assert result.exception is not None
    assert result.exception.type == "VerifierTimeoutError"


async def test_rewards_are_drawn_by_the_benchmarks_key_or_else_the_mean(make_task, tried):
    verify = """echo '{"speed": 12.5, "style": 0}' > /logs/verifier/reward.json"""
    folder = make_task(verify=verify)
    _, by_key = await tried(folder, reward_key="style")
    _, by_mean = await tried(folder)
    _, missing = await tried(folder, reward_key="safety")
    assert (by_key.outcome, by_key.reward_rule) == (Outcome.FAILED, "the benchmark's reward style")
    assert (by_mean.reward, by_mean.reward_rule) == (6.25, "the mean of 2 rewards")
    assert is_(missing, Outcome.ERRORED, CauseClass.VERIFIER)
    assert missing.reason == "the verifier wrote no reward called safety, but speed, style"


async def test_an_agent_past_its_time_fails_on_what_was_done(make_task, tried):
    folder = make_task(solve="sleep 7772", agent_timeout=1)
    result, verdict = await tried(folder)
    assert is_(verdict, Outcome.FAILED, CauseClass.AGENT_TIMEOUT)
    assert verdict.reward == 0.0
    assert result.exception is not None
    assert result.exception.phase is Phase.AGENT


async def test_an_agent_past_its_time_that_was_done_passes(make_task, tried):
    _, verdict = await tried(make_task(solve="touch done; sleep 7773", agent_timeout=1))
    assert is_(verdict, Outcome.PASSED, None)


async def test_no_reward_after_an_agents_timeout_is_the_verifiers_fault(make_task, tried):
    _, verdict = await tried(make_task(solve="sleep 7774", verify="true", agent_timeout=1))
    assert is_(verdict, Outcome.ERRORED, CauseClass.VERIFIER)
    assert verdict.reason is not None
    assert verdict.reason.startswith("the verifier wrote no reward, after AgentTimeoutError")


@pytest.mark.parametrize(
    ("script", "code", "cause"),
    [
        ("exit 1", 1, CauseClass.CAPABILITY),
        ("kill -SEGV $$", 139, CauseClass.CAPABILITY),
        ("kill -KILL $$", 137, CauseClass.OUT_OF_MEMORY),
        ("timeout 0.1 sleep 5", 124, CauseClass.AGENT_TIMEOUT),
    ],
)
async def test_an_agent_that_crashes_fails_with_its_exit_code(cli_task, tried, script, code, cause):
    result, verdict = await tried(cli_task(script), "claude-code")
    assert result.exception is not None
    assert (result.exception.type, result.exception.exit_code, result.exception.phase) == (
        "NonZeroAgentExitCodeError",
        code,
        Phase.AGENT,
    )
    assert is_(verdict, Outcome.FAILED, cause)
    assert (verdict.reward, verdict.retryable) == (0.0, False)


@pytest.mark.docker
async def test_an_agent_that_goes_over_the_tasks_memory_fails_for_that(cli_task, tried):
    hog = cli_task("exec python3 -c 'bytes(range(200)) * (3 << 20)'")
    result, verdict = await tried(hog, "claude-code", environment="docker")
    assert result.exception is not None
    assert result.exception.exit_code == 137
    assert is_(verdict, Outcome.FAILED, CauseClass.OUT_OF_MEMORY)


@pytest.mark.docker
async def test_an_image_that_is_nowhere_is_errored(make_task, tried):
    folder = make_task(image="registry.invalid/no/such:image")
    _, verdict = await tried(folder, environment="docker")
    assert is_(verdict, Outcome.ERRORED, CauseClass.IMAGE)
    assert verdict.retryable


async def test_an_agent_that_crashes_after_it_was_done_passes(cli_task, tried):
    _, verdict = await tried(cli_task("exit 9", verify=ONE), "claude-code")
    assert is_(verdict, Outcome.PASSED, None)


@pytest.mark.parametrize(
    ("words", "kind", "cause"),
    [
        ("Invalid API key", "AgentAuthenticationError", CauseClass.PROVIDER),
        ("API Error: 429 rate_limit_error", "ApiRateLimitError", CauseClass.PROVIDER),
        ("API Error: Overloaded", "ApiOverloadedError", CauseClass.PROVIDER),
        ("Your credit balance is too low", "ApiUsageLimitError", CauseClass.BUDGET),
        ("Could not resolve host: api.anthropic.com", "NetworkConnectionError", CauseClass.NETWORK),
    ],
)
async def test_a_harness_that_could_not_reach_its_model_is_no_zero(
    cli_task, tried, words, kind, cause
):
    result, verdict = await tried(cli_task(f"echo '{words}'; exit 1"), "claude-code")
    assert result.exception is not None
    assert (result.exception.type, result.exception.exit_code) == (kind, 1)
    assert is_(verdict, Outcome.ERRORED, cause)
    assert verdict.reward is None


async def test_a_prompt_that_is_too_long_is_the_agents_failure(cli_task, tried):
    words = "prompt is too long: 250000 tokens > 200000 maximum"
    result, verdict = await tried(cli_task(f"echo '{words}'; exit 1"), "claude-code")
    assert result.exception is not None
    assert result.exception.type == "ContextWindowExceededError"
    assert is_(verdict, Outcome.FAILED, CauseClass.CAPABILITY)


async def test_a_disk_that_is_full_is_not_the_agents_failure(cli_task, tried):
    """The harness's preparations, unlike its program, tell their errors apart from their output."""
    full = """#!/bin/bash
case "$*" in *shell-snapshots*) echo "mkdir: $1: No space left on device" >&2; exit 1;; esac
exec /usr/bin/mkdir "$@"
"""
    result, verdict = await tried(cli_task("true", mkdir=full), "claude-code")
    assert result.exception is not None
    assert result.exception.type == "NonZeroAgentExitCodeError"
    assert (result.rewards, result.reward_valid) == ({"reward": 0.0}, True)
    assert is_(verdict, Outcome.ERRORED, CauseClass.SANDBOX)


async def test_a_harness_that_cannot_be_installed_is_errored(make_task, tried):
    """There is no network in the sandbox, so nothing can be downloaded."""
    result, verdict = await tried(make_task(), "claude-code")
    assert result.exception is not None
    assert result.exception.phase is Phase.AGENT_SETUP
    assert verdict.outcome is Outcome.ERRORED
    assert verdict.cause in {CauseClass.NETWORK, CauseClass.SANDBOX}


async def test_a_recorded_session_that_loses_its_connection_is_errored(make_task, tried):
    folder = make_task()
    (folder / "solution" / "scripted.toml").write_text(
        "[[attempts]]\n[[attempts.tries]]\ncommands = []\ninput_tokens = 1\noutput_tokens = 1\n"
        'error = "the connection to the model was lost"\n'
    )
    _, verdict = await tried(folder, "scripted")
    assert is_(verdict, Outcome.ERRORED, CauseClass.NETWORK)
    assert verdict.retryable


async def test_a_sandbox_that_is_killed_while_the_agent_runs_is_errored(make_task, tried, tmp_path):
    folder = make_task()
    (folder / "solution" / "scripted.toml").write_text(
        '[[attempts]]\n[[attempts.tries]]\ncommands = ["sleep 7775"]\n'
        "input_tokens = 1\noutput_tokens = 1\n"
    )
    trying = asyncio.ensure_future(tried(folder, "scripted"))
    async with asyncio.timeout(60):
        while not (found := ancestors_of("sleep 7775")):
            await asyncio.sleep(0.02)
    os.kill(found[-1], signal.SIGKILL)
    result, verdict = await trying
    assert result.exception is not None
    assert (result.exception.type, result.exception.phase) == ("SandboxDiedError", Phase.AGENT)
    assert is_(verdict, Outcome.ERRORED, CauseClass.SANDBOX)
    assert verdict.retryable


def ancestors_of(command: str) -> list[int]:
    """The processes from the one that runs `command` up to, not with, this one."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
            if words != command:
                continue
            line = [int(entry.name)]
            while (parent := parent_of(line[-1])) != os.getpid():
                if parent <= 1:
                    break
                line.append(parent)
            else:
                return line
        except OSError:
            continue
    return []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_a_step_that_fails_is_graded_with_the_others(steps_task, tried):
    result, verdict = await tried(steps_task({}, {"verify": ZERO}))
    assert is_(verdict, Outcome.FAILED, CauseClass.CAPABILITY)
    assert (verdict.reward, result.exception) == (0.5, None)


async def test_a_step_that_runs_out_of_time_is_named(steps_task, tried):
    folder = steps_task({}, {"solve": "sleep 7776", "verify": ZERO})
    toml = folder / "task.toml"
    toml.write_text(f"{toml.read_text()}[steps.agent]\ntimeout_sec = 1\n")
    result, verdict = await tried(folder)
    assert result.exception is not None
    assert (result.exception.step, result.exception.phase) == ("two", Phase.AGENT)
    assert is_(verdict, Outcome.FAILED, CauseClass.AGENT_TIMEOUT)
    assert verdict.reason is not None
    assert "AgentTimeoutError in agent of step two" in verdict.reason


async def test_a_step_that_breaks_before_its_agent_leaves_no_pass_on_the_others(steps_task, tried):
    """Harbor's mean runs over the first step alone, and is 1."""
    result, verdict = await tried(steps_task({}, {"setup": "echo no such luck >&2; exit 3"}))
    assert result.exception is not None
    assert (result.exception.step, result.exception.exit_code) == ("two", 3)
    assert result.exception.phase is Phase.ENVIRONMENT_SETUP
    assert (result.rewards, result.reward_valid) == ({"reward": 1.0}, False)
    assert is_(verdict, Outcome.ERRORED, CauseClass.SANDBOX)
    assert verdict.reason is not None
    assert verdict.reason.startswith("RuntimeError in environment-setup of step two")


async def test_a_step_whose_verifier_writes_no_reward_is_errored(steps_task, tried):
    result, verdict = await tried(steps_task({}, {"verify": "true"}))
    assert result.exception is not None
    assert (result.exception.step, result.exception.phase) == ("two", Phase.VERIFIER)
    assert is_(verdict, Outcome.ERRORED, CauseClass.VERIFIER)


async def test_no_pass_on_the_first_step_where_the_second_timed_out_ungraded(steps_task, tried):
    folder = steps_task({}, {"solve": "sleep 7777", "verify": "true"})
    toml = folder / "task.toml"
    toml.write_text(f"{toml.read_text()}[steps.agent]\ntimeout_sec = 1\n")
    result, verdict = await tried(folder)
    assert result.rewards == {"reward": 1.0}
    assert verdict.outcome is Outcome.ERRORED


async def test_a_task_that_this_sandbox_cannot_run_is_errored(make_task, tried):
    result, verdict = await tried(make_task(dockerfile="FROM scratch\n"))
    assert result.exception is not None
    assert result.exception.phase is Phase.PREPARATION
    assert is_(verdict, Outcome.ERRORED, CauseClass.SANDBOX)
