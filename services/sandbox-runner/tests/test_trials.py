"""Whole trials through Harbor in both sandboxes: what counts, what errs, what is left behind."""

import asyncio
from pathlib import Path

import docker
import pytest
from harbor.models.agent.name import AgentName

from assay_contracts.harnesses import HARNESSES
from assay_contracts.values import Phase
from sandbox_runner.trials import run_trial


def leftovers(tmp_path: Path, environment: str) -> list[str]:
    """What a trial left behind: folders, and containers and networks by their label."""
    found = [str(path) for path in (tmp_path / "scratch").glob("*")]
    if environment == "docker":
        client = docker.from_env()
        wanted = {"label": f"assay.installation=test-{tmp_path.name}"}
        found += [one.name or "" for one in client.containers.list(all=True, filters=wanted)]
        found += [one.name or "" for one in client.networks.list(filters=wanted)]
        client.close()
    return found


async def test_the_oracle_solves_and_doing_nothing_fails(
    make_task, make_spec, environment, tmp_path
):
    task = make_task()
    solved = await run_trial(make_spec(task, environment, "oracle"))
    idle = await run_trial(make_spec(task, environment, "nop"))
    assert (solved.rewards, solved.reward_valid, solved.exception) == ({"reward": 1.0}, True, None)
    assert (idle.rewards, idle.reward_valid, idle.exception) == ({"reward": 0.0}, True, None)
    assert solved.environment == environment
    assert solved.verifier_sec is not None
    assert Path("verifier/reward.txt") in solved.artifacts
    assert solved.input_tokens is None
    assert leftovers(tmp_path, environment) == []


async def test_loose_files_are_in_the_work_folder(make_task, make_spec, environment):
    task = make_task(
        solve="grep -q treasure /app/map.txt && touch done", loose={"map.txt": "treasure"}
    )
    outcome = await run_trial(make_spec(task, environment))
    assert outcome.rewards == {"reward": 1.0}


async def test_several_rewards_arrive_by_name(make_task, make_spec, environment):
    task = make_task(verify="""echo '{"speed": 0.25, "style": 1}' > /logs/verifier/reward.json""")
    outcome = await run_trial(make_spec(task, environment))
    assert outcome.rewards == {"speed": 0.25, "style": 1.0}


async def test_a_verifier_that_writes_no_reward_is_not_a_zero(make_task, make_spec, environment):
    outcome = await run_trial(make_spec(make_task(verify="true"), environment))
    assert (outcome.rewards, outcome.reward_valid, outcome.should_retry) == (None, False, False)
    assert outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.phase) == (
        "RewardFileNotFoundError",
        Phase.VERIFIER,
    )


async def test_a_task_past_its_timeout_is_graded_on_what_was_done(
    make_task, make_spec, environment, running, tmp_path
):
    task = make_task(solve="sleep 7777", agent_timeout=1)
    outcome = await run_trial(make_spec(task, environment))
    assert outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.phase) == ("AgentTimeoutError", Phase.AGENT)
    assert (outcome.rewards, outcome.reward_valid) == ({"reward": 0.0}, True)
    assert running("sleep 7777") == []
    assert leftovers(tmp_path, environment) == []


async def test_a_cancelled_trial_leaves_nothing(
    make_task, make_spec, environment, running, tmp_path
):
    task = make_task(solve="sleep 8888")
    trial = asyncio.create_task(run_trial(make_spec(task, environment)))
    async with asyncio.timeout(60):
        while not running("sleep 8888"):
            await asyncio.sleep(0.02)
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert running("sleep 8888") == []
    assert leftovers(tmp_path, environment) == []


async def test_a_process_left_in_the_background_ends_with_the_trial(
    make_task, make_spec, environment, running, tmp_path
):
    task = make_task(solve="nohup setsid sleep 9999 >/dev/null 2>&1 & touch /app/done")
    outcome = await run_trial(make_spec(task, environment))
    assert outcome.rewards == {"reward": 1.0}
    assert running("sleep 9999") == []
    assert leftovers(tmp_path, environment) == []


async def test_there_is_no_network_unless_the_task_asks_for_it(make_task, make_spec, environment):
    probe = "python3 -c 'import socket; socket.create_connection((\"{}\", {}), 2)'"
    server = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    address = "127.0.0.1" if environment == "local" else "172.17.0.1"
    script = f"{probe.format(address, port)} && touch /app/done || true"
    async with server:
        cut = await run_trial(make_spec(make_task("cut", solve=script), environment))
        task = make_task("public", solve=script, network="public")
        reached = await run_trial(make_spec(task, environment))
    assert cut.rewards == {"reward": 0.0}
    assert reached.rewards == {"reward": 1.0}


async def test_a_local_server_inside_can_be_reached_without_a_network(
    make_task, make_spec, environment
):
    solve = """
python3 -m http.server 8123 >/dev/null 2>&1 &
python3 - <<'END'
import time, urllib.request
for _ in range(100):
    try:
        urllib.request.urlopen("http://127.0.0.1:8123").read()
        open("/app/done", "w").close()
        break
    except OSError:
        time.sleep(0.05)
END
"""
    outcome = await run_trial(make_spec(make_task(solve=solve), environment))
    assert outcome.rewards == {"reward": 1.0}


async def test_the_host_is_neither_visible_nor_writable_from_inside(
    make_task, make_spec, environment, tmp_path
):
    secret = tmp_path / "data" / "admin-token"
    secret.parent.mkdir()
    secret.write_text("hush")
    marker = Path("/usr/local/assay-marker-of-a-test")
    solve = f"""
seen=""
[ ! -e {secret} ] || seen="$seen data"
[ -z "$(ls -A /home 2>/dev/null)" ] || seen="$seen home"
[ -z "$(ls -A /root/.ssh /root/.cache 2>/dev/null)" ] || seen="$seen root"
[ ! -e {tmp_path} ] || [ -z "$(find {tmp_path} -type f 2>/dev/null)" ] || seen="$seen tmp"
[ -z "$HOST_SECRET" ] || seen="$seen env"
mount -t tmpfs none /mnt 2>/dev/null && seen="$seen mount"
touch {marker} 2>/dev/null || true
echo "$seen" > /logs/agent/seen
[ -n "$seen" ] || touch /app/done
"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOST_SECRET", "hush")
        outcome = await run_trial(make_spec(make_task(solve=solve), environment))
    seen = (outcome.trial_dir / "agent" / "seen").read_text().strip()
    assert seen == ""
    assert outcome.rewards == {"reward": 1.0}
    assert not await asyncio.to_thread(marker.exists)


async def test_a_link_out_of_the_sandbox_is_not_followed(make_task, make_spec, environment):
    task = make_task(
        solve="ln -s /etc/hostname /logs/agent/link; ln -s / /logs/agent/all; touch done"
    )
    outcome = await run_trial(make_spec(task, environment))
    assert outcome.rewards == {"reward": 1.0}
    assert not any("all" in path.parts for path in outcome.artifacts)


async def test_a_trial_cancelled_again_and_again_leaves_nothing(
    make_task, make_spec, environment, running, tmp_path
):
    task = make_task(solve="sleep 8889")
    trial = asyncio.create_task(run_trial(make_spec(task, environment)))
    async with asyncio.timeout(60):
        while not running("sleep 8889"):
            await asyncio.sleep(0.02)
    while not trial.done():
        trial.cancel()
        await asyncio.sleep(0)
    assert trial.cancelled()
    assert running("sleep 8889") == []
    assert leftovers(tmp_path, environment) == []


async def test_a_trial_cancelled_while_its_sandbox_starts_leaves_nothing(
    make_task, make_spec, environment, tmp_path
):
    for number in range(12):
        spec = make_spec(make_task(), environment, trial_name=f"early-{number}")
        trial = asyncio.create_task(run_trial(spec))
        await asyncio.wait([trial], timeout=0.02 * number)
        trial.cancel()
        await asyncio.wait([trial])
    assert leftovers(tmp_path, environment) == []


async def test_the_rewards_of_several_steps_are_combined_as_the_task_says(
    make_steps_task, make_spec, environment
):
    mean = await run_trial(make_spec(make_steps_task("mean", "mean"), environment))
    final = await run_trial(make_spec(make_steps_task("final", "final"), environment))
    assert (mean.rewards, mean.reward_valid, mean.exception) == ({"reward": 0.5}, True, None)
    assert (final.rewards, final.reward_valid, final.exception) == ({"reward": 1.0}, True, None)


async def test_an_exception_is_told_with_the_end_of_its_traceback(make_task, make_spec):
    outcome = await run_trial(make_spec(make_task(verify="true"), "local"))
    assert outcome.exception is not None
    assert "RewardFileNotFoundError" in outcome.exception.traceback
    assert len(outcome.exception.traceback) <= 8000


async def test_a_task_may_not_take_the_runners_own_variables(make_task, make_spec, monkeypatch):
    monkeypatch.setenv("HOST_SECRET", "hush")
    task = make_task()
    toml = (task / "task.toml").read_text()
    (task / "task.toml").write_text(f'{toml}\n[environment.env]\nTAKEN = "${{HOST_SECRET}}"\n')
    outcome = await run_trial(make_spec(task, "local"))
    assert outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.phase) == (
        "HostVariableRefusedError",
        Phase.PREPARATION,
    )


async def test_a_verifier_gets_the_secrets_that_it_names(make_task, make_spec, environment):
    verify = '[ "$JUDGE_KEY" = s3cret-value ] && echo 1 > /logs/verifier/reward.txt'
    task = make_task(verify=verify)
    toml = (task / "task.toml").read_text()
    (task / "task.toml").write_text(f'{toml}\n[verifier.env]\nJUDGE_KEY = "${{PROVIDER_KEY}}"\n')
    given = {"PROVIDER_KEY": "s3cret-value"}
    outcome = await run_trial(make_spec(task, environment, verifier_env=given))
    assert outcome.rewards == {"reward": 1.0}


async def test_secrets_are_masked_in_everything_that_leaves(make_task, make_spec, environment):
    task = make_task(solve="echo got $TOOL_HINT; touch /app/done")
    outcome = await run_trial(
        make_spec(
            task,
            environment,
            agent_env={"TOOL_HINT": "sk-hush-hush"},
            secret_values=("sk-hush-hush",),
        )
    )
    kept = b"".join((outcome.trial_dir / path).read_bytes() for path in outcome.artifacts)
    assert b"sk-hush-hush" not in kept
    assert b"got ********" in kept


@pytest.mark.docker
async def test_a_task_with_a_dockerfile_is_built_in_docker(make_task, make_spec, tmp_path):
    dockerfile = "FROM python:3.12-slim-bookworm\nWORKDIR /app\nRUN echo built > /built\n"
    task = make_task(dockerfile=dockerfile, solve="grep -q built /built && touch /app/done")
    outcome = await run_trial(make_spec(task, "docker"))
    assert outcome.rewards == {"reward": 1.0}
    assert leftovers(tmp_path, "docker") == []


@pytest.mark.docker
async def test_a_build_that_is_cancelled_ends(make_task, make_spec, running, tmp_path):
    task = make_task(dockerfile="FROM python:3.12-slim-bookworm\nRUN echo 7 && sleep 4321\n")
    trial = asyncio.create_task(run_trial(make_spec(task, "docker")))
    async with asyncio.timeout(60):
        while not running("sleep 4321"):
            await asyncio.sleep(0.05)
    trial.cancel()
    await asyncio.wait([trial])
    assert trial.cancelled()
    async with asyncio.timeout(60):
        while running("sleep 4321"):
            await asyncio.sleep(0.05)
    assert leftovers(tmp_path, "docker") == []


@pytest.mark.docker
async def test_a_build_that_fails_tells_its_last_lines(make_task, make_spec):
    dockerfile = "FROM python:3.12-slim-bookworm\nRUN echo the reason && false\n"
    spec = make_spec(make_task(dockerfile=dockerfile), "docker")
    outcome = await run_trial(spec)
    assert outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.phase) == (
        "SandboxBuildFailedError",
        Phase.ENVIRONMENT_SETUP,
    )
    assert "the reason" in outcome.exception.message
    assert Path("build.log") in outcome.artifacts
    assert "the reason" in (spec.trial_dir / "build.log").read_text()


async def test_a_task_with_a_dockerfile_is_refused_where_nothing_can_be_built(make_task, make_spec):
    task = make_task(dockerfile="FROM python:3.12-slim-bookworm\n")
    outcome = await run_trial(make_spec(task, "local"))
    assert outcome.exception is not None
    assert "needs Docker" in outcome.exception.message
    assert (outcome.exception.phase, outcome.reward_valid) == (Phase.PREPARATION, False)


@pytest.mark.docker
async def test_an_image_that_cannot_be_had_is_an_error_of_the_environment(make_task, make_spec):
    task = make_task(image="registry.invalid/no/such:image")
    outcome = await run_trial(make_spec(task, "docker"))
    assert outcome.exception is not None
    assert outcome.exception.phase is Phase.ENVIRONMENT_SETUP
    assert "registry.invalid/no/such:image" in outcome.exception.message


def test_the_harness_names_are_harbors():
    assert {name.value for name in AgentName} | {"scripted"} == set(HARNESSES)


async def test_a_reward_file_of_no_valid_shape_is_no_zero_and_no_second_chance(
    make_task, make_spec, environment
):
    task = make_task(verify="echo 1 > /logs/verifier/reward.json")
    outcome = await run_trial(make_spec(task, environment))
    assert (outcome.rewards, outcome.reward_valid, outcome.should_retry) == (None, False, False)
    assert outcome.exception is not None
    assert outcome.exception.phase is Phase.VERIFIER
