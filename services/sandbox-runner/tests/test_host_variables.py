"""The runner's own variables stay the runner's own."""

import pytest

from sandbox_runner.host_variables import (
    HostVariableRefusedError,
    refuse_host_variables,
    verifier_variables,
    withhold_secrets,
)


def test_secrets_are_withheld_and_what_programs_need_is_kept():
    variables = {
        "ASSAY_DATABASE_URL": "x",
        "OPENAI_API_KEY": "x",
        "GITHUB_TOKEN": "x",
        "DAYTONA_API_KEY": "x",
        "PATH": "/bin",
        "DOCKER_HOST": "unix:///run/d.sock",
        "HTTPS_PROXY": "http://proxy",
    }
    withhold_secrets(variables, "auto")
    assert set(variables) == {"PATH", "DOCKER_HOST", "HTTPS_PROXY"}


def test_what_a_harbor_environment_is_reached_with_is_kept():
    variables = {"DAYTONA_API_KEY": "x", "E2B_API_KEY": "x", "ASSAY_X": "x"}
    withhold_secrets(variables, "daytona")
    assert set(variables) == {"DAYTONA_API_KEY"}


@pytest.mark.parametrize(
    "toml",
    [
        '[environment.env]\nA = "${HOST_VALUE}"',
        '[verifier.env]\nA = "prefix-${HOST_VALUE:-x}"',
        '[solution.env]\nA = "${HOST_VALUE}"',
        '[[steps]]\nname = "one"\n[steps.verifier.env]\nA = "${HOST_VALUE}"',
        '[[environment.mcp_servers]]\nheaders = { A = "Bearer ${HOST_VALUE}" }',
    ],
)
def test_a_task_that_takes_one_is_refused(tmp_path, monkeypatch, toml):
    monkeypatch.setenv("HOST_VALUE", "hush")
    (tmp_path / "task.toml").write_text(toml)
    with pytest.raises(HostVariableRefusedError, match="HOST_VALUE"):
        refuse_host_variables(tmp_path, ())


def test_a_task_that_takes_none_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HOST_VALUE", "hush")
    (tmp_path / "task.toml").write_text('[verifier.env]\nA = "${HOST_VALUE}"\nB = "$HOST_VALUE"')
    refuse_host_variables(tmp_path, {"A"})
    refuse_host_variables(tmp_path / "none", ())


def test_a_verifiers_variable_can_be_made_of_a_secret_of_another_name(tmp_path):
    (tmp_path / "task.toml").write_text('[verifier.env]\nA = "${KEY}"\nB = "${OTHER:-x}"')
    assert verifier_variables(tmp_path, {"KEY": "k"}) == {"A": "k", "KEY": "k"}
