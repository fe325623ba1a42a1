"""The real `assay` command: exit codes, JSON, errors, secrets, interruption."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from assay_client.logins import read_logins
from assay_contracts.http import (
    Billing,
    BillingAmount,
    BillingMode,
    EventPage,
    LogLine,
    LogPage,
    ReplayReport,
    RetriedRun,
    RotatedKeys,
    SandboxEntry,
    SandboxList,
    SecretEntry,
    ServiceStatus,
    SystemStatus,
    WorkspaceEntry,
    WorkspaceEvent,
    WorkspaceEventPage,
)
from assay_contracts.identity import Role
from assay_contracts.run_config import ConfigIssue
from assay_local.folder import DataFolder

THEN = "2026-03-01T12:00:00Z"
RUN = "/api/v1/runs/bright-otter"
GOOD = """
[experiment]
benchmark = "acme/tiny@3"
[secrets]
required = ["FIRST", "SECOND", "THIRD"]
[[agents]]
harness = "oracle"
"""


@pytest.fixture
def config(tmp_path):
    """A configuration without mistakes."""
    file = tmp_path / "run.toml"
    file.write_text(GOOD)
    return str(file)


def error_of(done):
    """The error that a command told as JSON, and nothing else, on stderr."""
    (line,) = done.stderr.splitlines()
    return json.loads(line)["error"]


def test_done_is_exit_code_zero_and_json_is_the_one_document_of_the_api(server, assay, make):
    server.answers("GET", "/api/v1/runs", make.page(make.run_entry()))
    done = assay("run", "list", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == make.page(make.run_entry()).model_dump(mode="json")


def test_a_refusal_is_exit_code_one_with_what_to_do(server, assay, make):
    told = make.problem(409, "CONFLICT", "the run has ended", detail="nothing is left to stop")
    server.answers("POST", f"{RUN}/stop", told)
    done = assay("run", "stop", "bright-otter")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "assay: the run has ended\n  nothing is left to stop\n"


def test_a_refusal_with_json_is_json_on_stderr(server, assay, make):
    issue = ConfigIssue(key="agents", message="too many")
    told = make.problem(422, "VALIDATION", "invalid", issues=[issue], details={"a": 1})
    server.answers("GET", RUN, told)
    done = assay("run", "info", "bright-otter", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert error_of(done) == {
        "code": "VALIDATION",
        "title": "invalid",
        "detail": "",
        "status": 422,
        "issues": [{"key": "agents", "message": "too many", "key_correction": None}],
        "details": {"a": 1},
    }


def test_a_pause_says_what_is_paused_and_how_it_goes_on(server, assay, make):
    pauses = [
        {"agent": None, "reason": "look first", "paused_by": "ada", "since": THEN, "until": None},
        {"agent": 1, "reason": "busy", "paused_by": "run-scheduler", "since": THEN, "until": THEN},
    ]
    paused = make.run_entry("running", pauses=pauses)
    server.answers("POST", f"{RUN}/pause", paused)
    server.answers("POST", f"{RUN}/resume", make.run_entry("running"))
    server.answers("GET", RUN, make.run(pauses=pauses))
    done = assay("run", "pause", "bright-otter", "--agent", "codex", "--reason", "look first")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "bright-otter: the run is paused by ada: look first; "
        "go on with: assay run resume bright-otter",
        "bright-otter: agent 1 is paused by run-scheduler: busy; goes on by itself in 0.0s",
    ]
    assert "agent 1 is paused by run-scheduler: busy" in assay("run", "info", "bright-otter").stdout
    done = assay("run", "resume", "bright-otter")
    assert (done.returncode, done.stdout) == (0, "bright-otter goes on\n")
    bodies = [server.requests("POST", f"{RUN}/{verb}")[0].body for verb in ("pause", "resume")]
    assert bodies == [
        {"agent": "codex", "reason": "look first"},
        {"agent": None, "reason": "resumed by a user"},
    ]


def test_a_run_that_is_under_way_says_about_how_long_it_will_take_yet(server, assay, make):
    server.answers("GET", RUN, make.run(seconds_left=125.0))
    server.answers("GET", RUN, make.run("finished"))
    assert "about 2m 05s left" in assay("run", "info", "bright-otter").stdout
    assert "left" not in assay("run", "info", "bright-otter").stdout


def test_a_retry_names_agents_and_tasks_and_takes_its_secrets_again(server, assay, make):
    detail = make.run(config={"secrets": {"required": ["FIRST", "SECOND"]}})
    server.answers("GET", RUN, detail)
    again = RetriedRun(**make.run_entry(name="bright-otter").model_dump(), slots=2)
    server.answers("POST", f"{RUN}/retry", again)
    chosen = ("--agent", "codex", "--agent", "1", "--task", "a", "--secrets-file", "-")
    done = assay("run", "retry", "bright-otter", *chosen, given="FIRST=1", SECOND="2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("bright-otter: 2 errored results to run again\n")
    [seen] = server.requests("POST", f"{RUN}/retry")
    assert seen.body == {
        "agents": ["codex", "1"],
        "tasks": ["a"],
        "reason": "retried by a user",
        "secrets": {"FIRST": "1", "SECOND": "2"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["run", "info"],
        ["run", "list", "--limit", "many"],
        ["benchmark", "add"],
        ["benchmark", "add", "x", "--folder", "y"],
        ["benchmark", "add", "x@"],
        ["benchmark", "add", "x", "--ref", "main"],
        ["benchmark", "add", "--git", "https://me:hunter2@example.com/x.git"],
        ["secret", "set", "lower"],
        ["leaderboard", "b", "--metric", "luck"],
        ["run", "submit", "absent.toml"],
    ],
)
def test_wrong_usage_is_exit_code_two(server, environment, monkeypatch, capsys, arguments):
    from assay_client.boundary import run_command

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run_command([*arguments, "--json"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert json.loads(output.err)["error"]["code"] == "USAGE"
    assert "hunter2" not in output.err
    assert server.seen == []


@pytest.mark.parametrize(
    ("option", "given", "sent"),
    [
        (["x", "--registry"], "./absent.json", "{here}/absent.json"),
        (["x", "--registry"], "https://r.example/r.json", "https://r.example/r.json"),
        (["--folder"], "tasks", "{here}/tasks"),
        (["--git"], "../absent", "{above}/absent"),
        (["--git"], "git@git.example:team/tasks.git", "git@git.example:team/tasks.git"),
    ],
)
def test_a_relative_path_is_sent_whole_whether_or_not_it_is_there(
    server, environment, monkeypatch, tmp_path, make, option, given, sent
):
    from assay_client.boundary import run_command

    server.answers("POST", "/api/v1/benchmarks", make.benchmark_entry())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert run_command(["benchmark", "add", *option, given, "--no-wait"]) == 0
    source = server.seen[0].body["source"]
    place = {"registry": "registry", "folder": "path", "git": "url"}[source["kind"]]
    assert source[place] == sent.format(here=tmp_path, above=tmp_path.parent)


def test_wrong_usage_of_the_real_command_names_the_help(assay):
    done = assay("run", "submit")
    assert done.returncode == 2
    assert "see: assay run submit --help" in done.stderr


def test_a_server_that_is_not_there_is_told_with_the_way_to_start_one(assay):
    done = assay("status", ASSAY_SERVER="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "assay: no server answers at http://127.0.0.1:9; start one with: assay up\n"
    )
    done = assay("status", "--json", ASSAY_SERVER="http://127.0.0.1:9")
    assert error_of(done)["code"] == "UNREACHABLE"


def test_a_configuration_with_three_mistakes_lists_all_three(server, assay, tmp_path):
    (tmp_path / "run.toml").write_text(
        """
[experiment]
benchmrk = "x"
[execution]
attempts_per_task = 101
[[agents]]
harness = "codx"
model = {type = "provider", model = "m", api_key_secret = "KEY"}
"""
    )
    done = assay("run", "submit", "run.toml")
    assert done.returncode == 1
    told = done.stderr
    assert "did you mean benchmark?" in told
    assert "execution.attempts_per_task: " in told
    assert "agents[0].harness: no harness is called codx (did you mean codex?)" in told
    issues = error_of(assay("run", "submit", "run.toml", "--json"))["issues"]
    assert {"execution.attempts_per_task", "agents[0].harness"} < {one["key"] for one in issues}
    assert server.seen == []


def test_a_file_that_is_no_toml_is_told_with_the_place(assay, tmp_path):
    (tmp_path / "run.toml").write_text("a = = 1")
    done = assay("run", "submit", "run.toml")
    assert done.returncode == 1
    assert "file: not TOML: " in done.stderr
    assert "line 1" in done.stderr


def test_secrets_come_from_the_file_and_then_from_the_environment(server, assay, make, config):
    server.answers("POST", "/api/v1/runs", make.run_entry(), 201)
    arguments = ("run", "submit", config, "--environment", "docker", "--secrets-file", "-")
    done = assay(*arguments, given="FIRST='from file'\n", FIRST="no", SECOND="from environment")
    assert done.returncode == 0, done.stderr
    assert "assay run watch bright-otter" in done.stdout
    (seen,) = server.seen
    assert seen.body["secrets"] == {"FIRST": "from file", "SECOND": "from environment"}
    assert seen.body["environment"] == "docker"
    assert seen.body["config"]["agents"] == [{"harness": "oracle"}]


def test_missing_secrets_are_told_with_the_commands_that_keep_them(server, assay, make, config):
    told = make.problem(
        422, "MISSING_SECRETS", "two secrets are missing", details={"missing": ["FIRST", "THIRD"]}
    )
    server.answers("POST", "/api/v1/runs", told)
    done = assay("run", "submit", config)
    assert done.returncode == 1
    assert "  assay secret set FIRST\n  assay secret set THIRD\n" in done.stderr


def test_mistakes_that_the_server_also_tells_as_text_are_listed_once(server, assay, make):
    issues = [ConfigIssue(key="service", message="is unknown"), ConfigIssue(key="b", message="no")]
    told = make.problem(
        422, "VALIDATION", "Invalid", detail="service: is unknown; b: no", issues=issues
    )
    server.answers("POST", "/api/v1/system/replay", told)
    done = assay("replay", "--service", "x")
    assert done.stderr.splitlines()[-3:] == [
        "assay: Invalid",
        "  service: is unknown",
        "  b: no",
    ]


def test_advice_that_the_server_gives_itself_is_not_repeated(server, assay, make, config):
    told = make.problem(
        404,
        "MISSING_SECRETS",
        "Not Found",
        detail="set them with: assay secret set FIRST; assay secret set SECOND_KEY",
        details={"missing": ["FIRST", "SECOND"]},
    )
    server.answers("POST", "/api/v1/runs", told)
    told_lines = assay("run", "submit", config).stderr.splitlines()
    assert told_lines[1:] == [f"  {told.detail}", "  assay secret set SECOND"]


def test_a_submitted_run_that_is_watched_and_fails_is_exit_code_one(server, assay, make, config):
    failed = make.run("failed", reason="no capacity")
    server.answers("POST", "/api/v1/runs", make.run_entry(), 201)
    server.answers("GET", f"/api/v1/runs/{failed.id}", failed)
    done = assay("run", "submit", config, "--watch", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout) == failed.model_dump(mode="json")


def test_a_watched_run_that_finishes_is_exit_code_zero_without_control_codes(server, assay, make):
    server.answers("GET", RUN, make.run("running"))
    server.answers("GET", RUN, make.run("finished"))
    server.replies("GET", f"{RUN}/events#live", make.reply(events=[make.event(1)]))
    done = assay("run", "watch", "bright-otter")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("bright-otter running: 2 of 4 results · 1 passed")
    assert "Status       finished" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_ctrl_c_is_one_line_and_exit_code_130(server, environment, make):
    server.answers("GET", RUN, make.run("running"))
    server.replies("GET", f"{RUN}/events#live", make.reply(events=[], stays_open=True))
    assay = Path(sys.executable).with_name("assay")
    process = subprocess.Popen(
        [assay, "run", "watch", "bright-otter", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    make.wait_until(lambda: len(server.requests("GET", f"{RUN}/events")) > 0)
    process.send_signal(signal.SIGINT)
    output, told = process.communicate(timeout=20)
    assert (process.returncode, output) == (130, "")
    (line,) = told.splitlines()
    assert json.loads(line)["error"]["code"] == "INTERRUPTED"


def test_ctrl_c_tells_a_person_that_the_run_goes_on(server, environment, make):
    server.answers("GET", RUN, make.run("running"))
    server.replies("GET", f"{RUN}/events#live", make.reply(events=[], stays_open=True))
    assay = Path(sys.executable).with_name("assay")
    process = subprocess.Popen(
        [assay, "run", "watch", "bright-otter"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    make.wait_until(lambda: len(server.requests("GET", f"{RUN}/events")) > 0)
    process.send_signal(signal.SIGINT)
    output, told = process.communicate(timeout=20)
    assert (process.returncode, output) == (130, "")
    assert told.splitlines()[1:] == [
        "assay: interrupted; the run goes on; assay run watch bright-otter"
    ]


def test_a_benchmark_that_cannot_be_read_fails_with_the_reason(server, assay, make):
    failed = make.benchmark(sync_status="failed", sync_error="no dataset acme/tny", task_count=None)
    server.answers("POST", "/api/v1/benchmarks", make.benchmark_entry(sync_status="pending"))
    server.answers("GET", f"/api/v1/benchmarks/{failed.id}", failed)
    done = assay("benchmark", "add", "acme/tny@2", "--as", "Tiny")
    assert done.returncode == 1
    assert "could not be read" in done.stderr
    assert "no dataset acme/tny" in done.stderr
    assert server.seen[0].body == {
        "source": {"kind": "registry", "dataset": "acme/tny", "version": "2", "registry": None},
        "name": "Tiny",
    }


def test_the_value_of_a_secret_comes_from_a_variable_or_from_stdin(server, assay, make):
    entry = SecretEntry(
        name="KEY", scope="workspace", created_at=make.then, updated_at=make.then, updated_by="me"
    )
    server.answers("PUT", "/api/v1/secrets/KEY", entry)
    done = assay("secret", "set", "KEY", "--scope", "workspace", "--env", "MINE", MINE="from env")
    assert (done.returncode, done.stdout) == (0, "Kept KEY (workspace)\n")
    for scope in ("personal", "user"):
        assert assay("secret", "set", "KEY", "--scope", scope, given="two\nlines\n").returncode == 0
    assert [seen.body for seen in server.seen] == [
        {"value": "from env", "scope": "workspace"},
        {"value": "two\nlines", "scope": "user"},
        {"value": "two\nlines", "scope": "user"},
    ]


ROTATED = RotatedKeys(
    key="b" * 16,
    keys=["a" * 16, "b" * 16],
    rewrapped=2,
    records=5,
    unreadable=0,
    unreadable_names=[],
)


def test_a_rotation_tells_what_is_under_the_newest_key(server, assay):
    server.answers("POST", "/api/v1/secrets/rotate", ROTATED)
    done = assay("secret", "rotate")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "5 secrets under the key bbbbbbbbbbbbbbbb, 2 of them newly so",
            "1 older key not needed any more, but by backups of the database",
        ],
    )


def test_a_rotation_fails_where_a_secret_opens_with_no_key(server, assay):
    lost = ROTATED.model_copy(update={"unreadable": 1, "unreadable_names": ["KEY"]})
    server.answers("POST", "/api/v1/secrets/rotate", lost)
    done = assay("secret", "rotate")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1] == "1 secret with no key that is there; set again: KEY"


def test_a_new_key_is_made_in_the_data_folder_of_the_server_that_is_asked(
    server, assay, environment, tmp_path
):
    folder = DataFolder.prepare(tmp_path / "data")
    first = folder.secret("master-key")
    refused = assay("secret", "rotate", "--new-key", ASSAY_DATA=str(folder.root))
    assert refused.returncode == 1
    assert "was not started on the data folder" in refused.stderr
    assert server.seen == []
    assert folder.secret("master-key") == first
    folder.announce(environment["ASSAY_SERVER"])
    server.answers("POST", "/api/v1/secrets/rotate", ROTATED)
    done = assay("secret", "rotate", "--new-key", ASSAY_DATA=str(folder.root))
    assert done.returncode == 0, done.stderr
    kept = folder.secret("master-key").split()
    assert kept[0] == first
    assert len(kept[1]) >= 32


def test_a_proof_is_checked_from_stdin_too_and_a_file_that_is_not_there_is_told(assay):
    void = assay("run", "verify", "-", given="no proof\n")
    assert (void.returncode, void.stderr) == (1, "")
    assert void.stdout.startswith("The proof is void\n  it is no proof of a run")
    missing = assay("run", "verify", "nowhere.jsonl")
    assert missing.returncode == 2
    assert "nowhere.jsonl" in missing.stderr


def test_a_secret_without_a_value_is_refused(server, assay):
    done = assay("secret", "set", "KEY", "--env", "ABSENT")
    assert done.returncode == 1
    assert done.stderr == "assay: the variable ABSENT holds no value for KEY\n"
    assert server.seen == []


@pytest.mark.parametrize(
    ("arguments", "path", "query", "document"),
    [
        (["benchmark", "remove", "a/b"], "/benchmarks/a%2Fb", {}, {"removed": "a/b"}),
        (
            ["secret", "delete", "KEY", "--scope", "workspace"],
            "/secrets/KEY",
            {"scope": ["workspace"]},
            {"deleted": "KEY", "scope": "workspace"},
        ),
    ],
)
def test_what_has_no_answer_still_prints_one_document(
    server, environment, monkeypatch, capsys, arguments, path, query, document
):
    from assay_client.boundary import run_command

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    server.answers("DELETE", f"/api/v1{path}", None, 204)
    assert run_command([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert server.seen[0].query == query


def test_secrets_are_listed_without_their_values(server, assay, make):
    entry = SecretEntry(
        name="KEY", scope="user", created_at=make.then, updated_at=make.then, updated_by="me"
    )
    server.answers("GET", "/api/v1/secrets", make.page(entry))
    done = assay("secret", "list")
    assert done.stdout.splitlines()[0].split() == ["Name", "Scope", "Updated", "Updated", "By"]
    assert done.stdout.splitlines()[2].split()[:2] == ["KEY", "personal"]


def test_events_as_json_are_one_stored_event_a_line_over_all_pages(server, assay, make):
    first, second = make.event(5), make.event(9)
    path = f"{RUN}/events"
    for page in (
        EventPage(items=[first], next_after=5),
        EventPage(items=[second], next_after=None),
    ):
        server.answers("GET", path, page)
    done = assay("run", "events", "bright-otter", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [first.model_dump(), second.model_dump()]
    assert server.requests("GET", path)[1].query["after"] == ["5"]


def test_followed_events_are_each_told_once_until_the_run_ends(server, assay, make):
    first, second, third = make.event(5), make.event(6), make.event(7)
    path = f"{RUN}/events"
    server.answers("GET", path, EventPage(items=[first], next_after=None))
    server.answers("GET", path, EventPage(items=[third], next_after=None))
    server.replies("GET", f"{path}#live", make.reply(events=[first, second]))
    server.answers("GET", RUN, make.run("finished"))
    done = assay("run", "events", "bright-otter", "--follow")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["5", "6", "7"]
    assert "2026-03-01 12:00:00  queued           4 results to come" in done.stdout


def test_a_workspace_that_is_chosen_is_meant_from_then_on_and_the_usual_server_stays(
    server, assay, make, tmp_path
):
    lab = WorkspaceEntry(
        name="lab", repository=None, role=Role.OWNER, created_at=make.then, created_by="me"
    )
    server.answers("GET", "/api/v1/workspaces", make.page(lab))
    server.answers("GET", "/api/v1/runs", make.page())
    config = tmp_path / "config"
    done = assay("workspace", "use", "lab", ASSAY_CONFIG=str(config))
    assert (done.returncode, done.stdout) == (0, "lab is meant from now on\n")
    assert assay("run", "list", ASSAY_CONFIG=str(config)).returncode == 0
    [asked] = server.requests("GET", "/api/v1/runs")
    assert asked.headers["X-Assay-Workspace"] == "lab"
    assert read_logins(config / "logins.json").usual is None


def test_the_workspace_is_followed_over_an_interruption(server, assay, make):
    first, second = make.event(5), make.event(6, "started")
    server.replies(
        "GET",
        "/api/v1/events#live",
        make.reply(events=[first]),
        make.reply(events=[second], stays_open=True),
    )
    done = assay("events", "--type", "queued", "--type", "started", "--limit", "2", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{**first.model_dump(), "id": "5"}, {**second.model_dump(), "id": "6"}]
    begun, resumed = server.requests("GET", "/api/v1/events")
    assert "Last-Event-ID" not in begun.headers
    assert resumed.headers["Last-Event-ID"] == "5"
    assert begun.query["type"] == resumed.query["type"] == ["queued", "started"]


def test_a_server_that_ends_the_stream_is_quoted(server, assay, make):
    refusal = make.problem(403, "FORBIDDEN", "Forbidden", detail="no longer a member")
    server.answers("GET", "/api/v1/events#live", refusal)
    done = assay("events")
    assert done.returncode == 1
    assert "no longer a member" in done.stderr


def test_stored_events_of_the_workspace_say_what_they_are_about(server, assay, make):
    stored = make.event(5)
    event = WorkspaceEvent(id="runs:5", **stored.model_dump())
    page = WorkspaceEventPage(items=[event], position="runs:5", next_after=None)
    server.answers("GET", "/api/v1/events", page)
    done = assay("events", "--no-follow", "--stream", "runs")
    assert done.returncode == 0, done.stderr
    run = stored.event["run"]
    assert done.stdout == f"2026-03-01 12:00:00  run {run}  queued           4 results to come\n"
    [asked] = server.requests("GET", "/api/v1/events")
    assert (asked.query["after"], asked.query["stream"]) == (["0"], ["runs"])


def test_logs_are_lines_with_level_and_step(server, assay, make):
    line = LogLine(
        sequence=3, timestamp=make.then, level="warning", step="dispatch", message="slow"
    )
    server.answers("GET", f"{RUN}/logs", LogPage(items=[line], next_after=None))
    done = assay("run", "logs", "bright-otter")
    assert done.stdout == "2026-03-01 12:00:00  warning  dispatch: slow\n"


def test_a_system_that_is_not_ready_is_exit_code_one(server, assay):
    grader = ServiceStatus(
        service="grader", ready=True, version="0.1.0", instance="g1", projections={"verdicts": 42}
    )
    found = SystemStatus(ready=False, version="0.1.0", services=[grader], missing=["leaderboard"])
    server.answers("GET", "/api/v1/system/status", found)
    done = assay("status")
    assert done.returncode == 1
    assert "is not ready" in done.stdout
    assert "verdicts 42" in done.stdout
    assert "Missing: leaderboard" in done.stdout


def test_sandboxes_are_listed_with_what_they_were_made_for(server, assay):
    run, slot = uuid4(), uuid4()
    entry = SandboxEntry(
        id="0123456789ab",
        environment="docker",
        runner="runner-1",
        run=run,
        slot=slot,
        try_number=2,
        state="left",
        began_at=datetime.now(UTC) - timedelta(minutes=5),
    )
    told = SandboxList(sandboxes=[entry], runners=["runner-1"], trouble={})
    server.answers("GET", "/api/v1/sandboxes", told)
    done = assay("sandbox", "list")
    assert done.returncode == 0
    [row] = [line for line in done.stdout.splitlines() if "0123456789ab" in line]
    for cell in ("docker", str(run), str(slot), "runner-1", "left", "5 minutes ago"):
        assert cell in row


def test_sandboxes_that_a_runner_cannot_see_are_exit_code_one(server, assay):
    told = SandboxList(sandboxes=[], runners=["r"], trouble={"r": "the runner does not answer"})
    server.answers("GET", "/api/v1/sandboxes", told)
    done = assay("sandbox", "list", "--json")
    assert (done.returncode, json.loads(done.stdout)["trouble"]) == (1, told.trouble)
    assert "r does not tell all" in assay("sandbox", "list").stdout


@pytest.mark.parametrize(("identical", "code"), [(True, 0), (False, 1)])
def test_a_replay_that_finds_a_difference_is_exit_code_one(server, assay, identical, code):
    difference = {"table": "runs", "key": {"id": 1}, "columns": ["status"], "problem": "differs"}
    report = ReplayReport(
        service="grader",
        projection="verdicts",
        sequence=42,
        events=40,
        rows={"results": 12},
        identical=identical,
        swapped=False,
        differences=[] if identical else [difference],
        seconds=1.5,
    )
    server.answers("POST", "/api/v1/system/replay", [report])
    done = assay("replay", "--service", "grader", "--json")
    assert done.returncode == code
    assert json.loads(done.stdout) == [report.model_dump()]
    assert server.seen[0].body == {"verify": True, "service": "grader"}


def test_the_local_commands_get_folder_and_port_and_give_their_exit_code(assay, tmp_path):
    package = tmp_path / "stand_in" / "assay_local"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "commands.py").write_text(
        """
import sys

def up(data, port, detach):
    sys.stdout.write(f"up {data.name} {port} {detach}\\n")
    return 3

def demo(data, port, json_output):
    sys.stdout.write(f'{{"port": {port}, "json": "{json_output}"}}\\n')
    return 0

def down(data):
    sys.stdout.write(f"down {data.name}\\n")
    return 0
"""
    )
    path = str(package.parent)
    done = assay("up", "--port", "8500", "--detach", PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (3, "up data 8500 True\n")
    done = assay("demo", "--data", "elsewhere", "--no-keep", "--json", PYTHONPATH=path)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"port": 8400, "json": "True"})
    assert done.stderr == "down elsewhere\n"


def test_without_the_local_package_its_commands_say_so(assay, tmp_path):
    package = tmp_path / "stand_in" / "assay_local"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    done = assay("down", PYTHONPATH=str(package.parent))
    assert done.returncode == 1
    assert "assay down needs the package assay-local" in done.stderr


def test_a_reader_that_closes_the_pipe_causes_no_traceback(server, environment, make):
    entries = [make.run_entry(name=f"bright-otter-{number}") for number in range(2000)]
    server.answers("GET", "/api/v1/runs", make.page(*entries))
    assay = Path(sys.executable).with_name("assay")
    process = subprocess.Popen(
        [assay, "run", "list"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    process.wait(60)
    assert told == b""


MONTH = Billing(
    mode="budget",
    month="2026-12",
    resets_at="2027-01-01T00:00:00Z",
    usd_limit=100,
    sandbox_hours_limit=None,
    usd=BillingAmount(limit=100, spent=61.2, reserved=20, left=18.8),
    sandbox_hours=BillingAmount(limit=None, spent=7.5, reserved=2, left=None),
    tries_without_cost=3,
    updated_at=THEN,
    updated_by="admin",
)


def test_a_month_is_shown_with_what_is_left_and_what_is_not_counted(server, assay):
    server.answers("GET", "/api/v1/billing", MONTH)
    done = assay("billing", "show")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["2026-12", "(UTC)", "Limit", "Spent", "Reserved", "Left"]
    assert lines[2:] == [
        ["Money", "$100.00", "$61.20", "$20.00", "$18.80"],
        ["Sandbox-hours", "no", "limit", "7.50", "2.00", "–"],
        ["Tries", "that", "reported", "no", "cost,", "and", "count", "as", "none:", "3"],
        ["It", "starts", "anew", "on", "2027-01-01", "at", "00:00", "UTC"],
    ]


def test_a_month_that_nobody_counts_says_so(server, assay):
    nothing = {
        "mode": BillingMode.OFF,
        "usd": None,
        "sandbox_hours": None,
        "tries_without_cost": None,
    }
    server.answers("GET", "/api/v1/billing", MONTH.model_copy(update=nothing))
    done = assay("billing", "show")
    assert done.stdout.splitlines()[-1].startswith("Nothing is counted")
    assert done.stdout.splitlines()[2].split() == ["Money", "$100.00", "–", "–", "–"]


def test_one_limit_is_set_and_the_other_stays(server, assay):
    server.answers("GET", "/api/v1/billing", MONTH)
    server.answers("PUT", "/api/v1/billing", MONTH)
    assert assay("billing", "set", "--sandbox-hours", "12.5").returncode == 0
    assert assay("billing", "set", "--usd", "none", "--json").returncode == 0
    bodies = [seen.body for seen in server.seen if seen.method == "PUT"]
    assert bodies == [
        {"usd": 100, "sandbox_hours": 12.5},
        {"usd": None, "sandbox_hours": None},
    ]


@pytest.mark.parametrize(
    "arguments", [[], ["--usd", "-1"], ["--usd", "much"], ["--sandbox-hours", "nan"]]
)
def test_a_limit_that_is_none_is_refused(server, assay, arguments):
    assert assay("billing", "set", *arguments).returncode != 0
    assert server.seen == []
