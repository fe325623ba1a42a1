"""Tables and pages as they look on a narrow terminal and in a pipe."""

from datetime import timedelta
from io import StringIO

import pytest

from assay_client.boundary import run_command
from assay_contracts.http import NotRanked

NARROW = 80


@pytest.fixture
def shown(environment, monkeypatch, capsys):
    """What the command prints in 80 columns; it must succeed and stay inside them."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", str(NARROW))
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments):
        assert run_command(arguments) == 0, capsys.readouterr().err
        output = capsys.readouterr().out
        assert max(len(line) for line in output.splitlines()) <= NARROW
        assert "\x1b" not in output
        return output

    return run


def squeezed(output):
    """The words of an output, whatever lines they fell on."""
    return " ".join(output.split())


def test_a_leaderboard_fits_eighty_columns_and_keeps_every_interval_whole(server, shown, make):
    board = make.board(
        make.standing(1, tied=True, model="anthropic/claude-sonnet-4-6", harness="mini-swe-agent"),
        make.standing(1, tied=True, task_set="parity"),
        make.standing(3, harness="oracle", model="none", cost_per_task=None),
    )
    server.answers("GET", "/api/v1/benchmarks/b/leaderboard", board)
    output = shown("leaderboard", "b")
    assert output.count("(71.9–78.1)") == 6
    assert output.count("#1*") == 2
    assert "#3 " in output
    assert "[parity]" in output
    assert "* tied for first: shares rank 1" in output
    assert "Pass@4" in output


@pytest.mark.parametrize("width", [NARROW, 120])
def test_a_progress_bar_stays_on_one_line(monkeypatch, width):
    from rich.console import Console

    from assay_client.render import meter

    console = Console(width=width, file=StringIO(), force_terminal=True, color_system=None)
    monkeypatch.setattr(meter, "make_console", lambda **_: console)
    monkeypatch.setenv("TERM", "xterm")
    bar = meter.Meter("results", silent=False)
    bar.update("wooden-wildcat running", 123, 126, "100 passed, 20 failed, 3 errored")
    drawn = Console(width=width, file=StringIO(), color_system=None)
    with drawn.capture() as captured:
        drawn.print(bar._bar.get_renderable())
    (line,) = captured.get().strip().splitlines()
    assert "━" in line
    assert "123 of 126 results" in line
    assert ("20 failed" in line) == (width > NARROW)


def test_without_a_tie_no_caption_explains_one(server, shown, make):
    server.answers("GET", "/api/v1/benchmarks/b/leaderboard", make.board(make.standing(1)))
    assert "tied" not in shown("leaderboard", "b")


def test_a_column_in_which_nobody_has_a_number_is_left_out(server, shown, make):
    one = make.standing(1, cost_per_task=None, tokens_per_task=None, pass_at_k=[])
    server.answers("GET", "/api/v1/benchmarks/b/leaderboard", make.board(one))
    output = shown("leaderboard", "b")
    assert "Time/" in output
    assert "Cost/" not in output
    assert "Tokens/" not in output
    assert "Pass@4" not in output


def test_an_empty_leaderboard_says_what_it_takes_and_why_others_do_not_rank(server, shown, make):
    run = make.run()
    left_out = NotRanked(
        run_id=run.id,
        run_name="calm-heron",
        agent=0,
        harness="codex",
        model="openai/gpt-5.2",
        imported=False,
        reason="the run covers 3 chosen tasks and not the full list",
    )
    server.answers("GET", "/api/v1/benchmarks/b/leaderboard", make.board(not_ranked=[left_out]))
    output = squeezed(shown("leaderboard", "b"))
    assert "Nothing ranks on Tiny Bench yet" in output
    assert "calm-heron the run covers 3 chosen tasks and not the full list" in output


def test_a_runs_page_tells_versions_metrics_and_the_reason_of_each_outcome(server, shown, make):
    problems = [
        make.result("acme/sort-a-list", "failed", "capability", "2 of 5 checks passed"),
        make.result("acme/parse", "errored", "sandbox", "no space left on the device", attempt=2),
        make.result("acme/late", "cancelled", "cancelled", "the run was stopped"),
    ]
    server.answers("GET", "/api/v1/runs/bright-otter", make.run(problems=problems))
    output = squeezed(shown("run", "info", "bright-otter"))
    for part in (
        "Status running",
        "Progress 2 of 4 results (50%)",
        "Version 3",
        f"sha256:{'ab' * 27}",
        "OPENAI_API_KEY (personal, overrides workspace)",
        "all: 4 tasks",
        "75.0% (71.9–78.1)",
        "$0.00 54s 12.3k $0.1234 1.1M / 950",
        "2 of 5 checks passed",
        "no space left on the device",
        "agent 0, attempt 2",
    ):
        assert part in output
    for word in ("failed", "capability", "errored", "sandbox", "cancelled"):
        assert word in output


def test_a_runs_page_tells_what_was_spent_on_what_and_why_results_are_no_pass(server, shown, make):
    categories = [make.category("algebra", 0.5), make.category(None, 0.25)]
    causes = [{"outcome": "failed", "cause": "agent-timeout", "count": 17}]
    first = make.agent(categories=categories, causes=causes)
    second = make.agent(index=1, pass_hat_k=[], categories=categories[:1])
    server.answers("GET", "/api/v1/runs/r", make.run(agents=[first, second], imported=make.source))
    output = squeezed(shown("run", "info", "r"))
    for part in (
        "Imported a table of results, sha256:abab",
        "Pass^4",
        "5.1 points of pass@1",
        "5 $0.1500 1.3M / 1.1k",
        "algebra 12 50% 50%",
        "(none) 12 25% –",
        "failed agent-timeout 17",
    ):
        assert part in output


def test_a_task_cannot_write_to_the_terminal_through_its_reason(server, shown, make):
    hostile = make.result("t", "failed", "capability", "\x1b[2J\x1b]0;owned\x07[bold]red[/bold]")
    server.answers("GET", "/api/v1/runs/r", make.run(problems=[hostile]))
    output = shown("run", "info", "r")
    assert "[bold]red[/bold]" in output
    assert "owned" not in output


def test_each_state_of_a_benchmark_is_told_in_its_row(server, shown, make):
    entries = [
        make.benchmark_entry(name="Fresh"),
        make.benchmark_entry(
            name="Used",
            last_run_status="finished",
            last_run_name="bright-otter",
            last_run_at=make.then,
        ),
        make.benchmark_entry(name="Waits", sync_status="pending", task_count=None),
        make.benchmark_entry(
            name="Reads",
            sync_status="syncing",
            task_count=None,
            synced_task_count=500,
            syncing_task_count=2500,
        ),
        make.benchmark_entry(
            name="Broken", sync_status="failed", task_count=None, sync_error="no such dataset"
        ),
    ]
    server.answers("GET", "/api/v1/benchmarks", make.page(*entries, next_offset=5))
    output = squeezed(shown("benchmark", "list"))
    for part in (
        "no runs yet 1,234",
        "Finished ·",
        "· bright-otter",
        "Queued · waiting to start –",
        "Syncing · 500 / 2,500 tasks –",
        "Failed · no such dataset unavailable",
        "Broken: no such dataset; retry: assay benchmark sync acme/tiny@3",
        "go on with --offset 5",
    ):
        assert part in output


def test_a_benchmarks_page_tells_its_rules(server, shown, make):
    found = make.benchmark(
        rules={"default_harness": "terminus-2", "requires_judge_api_key": True},
        categories=[{"name": "security", "task_count": 3}],
        task_sets=[{"name": "parity", "task_count": 249, "recommended": True, "description": None}],
        tasks=[
            {"name": "gone", "category": None, "difficulty": None, "unavailable": "no image"},
        ],
    )
    server.answers("GET", "/api/v1/benchmarks/b", found)
    output = squeezed(shown("benchmark", "info", "b"))
    for part in (
        "registry: acme/tiny@3",
        "security (3)",
        "parity (249, recommended)",
        "Required (default: terminus-2)",
        "API key only (pinned grader)",
        "gone no image",
    ):
        assert part in output


def test_a_benchmark_with_runs_shows_them_under_its_leaderboard(server, shown, make):
    found = make.benchmark(run_count=1)
    server.answers("GET", "/api/v1/benchmarks/b", found)
    board = make.board(make.standing(1))
    server.answers("GET", f"/api/v1/benchmarks/{found.id}/leaderboard", board)
    server.answers("GET", "/api/v1/runs", make.page(make.run_entry()))
    output = shown("benchmark", "info", "b")
    assert output.index("\nLeaderboard\n") < output.index("#1 ") < output.index("\nRuns\n")
    assert server.requests("GET", "/api/v1/runs")[0].query["benchmark"] == [str(found.id)]


def test_runs_are_listed_with_progress_and_score(server, shown, make):
    other = make.run_entry(
        "failed", name="calm-heron", best_pass_at_1=None, submitted_at=make.then - timedelta(days=1)
    )
    server.answers("GET", "/api/v1/runs", make.page(make.run_entry("running"), other))
    output = squeezed(shown("run", "list"))
    assert "bright-otter running 2/4 Tiny Bench 75.0%" in output
    assert "calm-heron failed 2/4 Tiny Bench –" in output


def test_results_are_listed_with_a_legend_of_the_agents(server, shown, make):
    row = make.result("acme/parse", "failed", "capability", "no")
    server.answers("GET", "/api/v1/runs/r/results", make.page(row))
    server.answers("GET", "/api/v1/runs/r/agents", make.run().agents)
    output = squeezed(shown("run", "results", "r"))
    assert "acme/parse 0 1 1 failed capability 0 12s" in output
    assert "agent 0: openai/gpt-5.2 (terminus-2)" in output
