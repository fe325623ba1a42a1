"""What an agent does with a secret that it was given: nothing that leaves a trial tells it."""

import base64
import json
from pathlib import Path

import pytest

from sandbox_runner.trials import run_trial

VALUE = 'sk-hush/"quoted" & more-than-thirty-two-characters'

WRITES = {
    "plain": 'printf %s "$TOOL_HINT"',
    "base64 in lines": 'printf "user:%s" "$TOOL_HINT" | base64 -w 20',
    "hexadecimal": 'printf %s "$TOOL_HINT" | od -An -v -tx1 | tr -d " \\n"',
    "JSON": "python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'",
    "Python": "python3 -c 'import os; print(repr(dict(os.environ)))'",
    "address": "python3 -c 'import os, urllib.parse as u\nprint(u.urlencode(os.environ))'",
    "environment": "env",
    "xtrace": '(set -x; : "$TOOL_HINT") 2>&1',
    "folded": 'printf %s "$TOOL_HINT" | fold -w 7',
}
TRACES = [
    "sk-hush",
    "more-than-thirty",
    base64.b64encode(VALUE.encode()).decode()[4:30],
    base64.b64encode(f"user:{VALUE}".encode()).decode()[8:30],
    VALUE.encode().hex()[:20],
]


def spec_of(make_spec, task, environment):
    return make_spec(
        task,
        environment,
        agent_env={"TOOL_HINT": VALUE},
        verifier_env={"TOOL_HINT": VALUE},
        secret_values=(VALUE,),
    )


def told(outcome):
    """Everything that leaves a trial, without line breaks: its files, and its outcome."""
    kept = b"".join((outcome.trial_dir / path).read_bytes() for path in outcome.artifacts)
    plain = kept.decode(errors="replace") + repr(outcome) + " ".join(map(str, outcome.artifacts))
    return plain.replace("\n", "").replace("\r", "")


@pytest.mark.parametrize("way", WRITES)
async def test_what_an_agent_prints_and_leaves_as_files_is_masked(
    make_task, make_spec, environment, way
):
    write = WRITES[way]
    task = make_task(
        solve=f"{write} | tee /logs/agent/left.txt; echo; touch /app/done",
    )
    outcome = await run_trial(spec_of(make_spec, task, environment))
    assert outcome.rewards == {"reward": 1.0}, outcome.exception
    everything = told(outcome)
    assert "********" in everything
    assert (outcome.trial_dir / "agent" / "left.txt").read_bytes().count(b"********") >= 1
    for trace in TRACES:
        assert trace not in everything


async def test_what_a_failing_command_says_is_masked_though_it_was_cut(
    make_task, make_spec, environment
):
    noise = "x" * 470
    task = make_task(
        solve=f'printf "{noise}%s{noise}{noise}%s{noise}" "$TOOL_HINT" "$TOOL_HINT" >&2; exit 3',
        verify='echo "$TOOL_HINT"; exit 1',
    )
    outcome = await run_trial(spec_of(make_spec, task, environment))
    everything = told(outcome)
    for trace in TRACES:
        assert trace not in everything


async def test_names_of_rewards_are_masked(make_task, make_spec, environment):
    reward = json.dumps({"reward": 1.0})
    verify = (
        "python3 -c 'import json, os; "
        'json.dump({"reward": 1.0, os.environ["TOOL_HINT"]: 0.5}, '
        'open("/logs/verifier/reward.json", "w"))\''
    )
    task = make_task(verify=verify)
    toml = (task / "task.toml").read_text()
    (task / "task.toml").write_text(f'{toml}\n[verifier.env]\nTOOL_HINT = "${{TOOL_HINT}}"\n')
    outcome = await run_trial(spec_of(make_spec, task, environment))
    assert outcome.rewards == {**json.loads(reward), "********": 0.5}
    assert not any(trace in told(outcome) for trace in TRACES)
    assert Path("verifier/reward.json") in outcome.artifacts
