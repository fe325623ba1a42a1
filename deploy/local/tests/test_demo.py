"""The demo's steps, against a client whose answers are written here."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from assay_contracts.run_config import parse_run_config
from assay_contracts.values import RunStatus, SyncStatus
from assay_local import demo
from assay_local.demo import DemoError, demo_config

RUN = UUID(int=1)


class Client:
    """Gives each answer in turn, and the last one from then on."""

    server = "http://127.0.0.1:1"

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def _next(self, *_: object) -> object:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    run = leaderboard = benchmarks = _next


def _run(status: RunStatus, results: int = 0, reason: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        id=RUN,
        name="brave-otter",
        status=status,
        reason=reason,
        ingested_results=results,
        expected_results=9,
    )


def _benchmarks(status: SyncStatus, error: str | None = None) -> SimpleNamespace:
    entry = SimpleNamespace(key="demo", sync_status=status, sync_error=error)
    return SimpleNamespace(items=[SimpleNamespace(key="other"), entry])


def _board(*runs: UUID) -> SimpleNamespace:
    standings = [SimpleNamespace(run_id=run, rank=place) for place, run in enumerate(runs, 1)]
    refused = SimpleNamespace(harness="nop", reason="2 results are missing")
    return SimpleNamespace(standings=standings, not_ranked=[refused])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(demo, "_SYNC_SECONDS", 0.0)
    monkeypatch.setattr(demo, "_RANK_SECONDS", 0.0)


def test_the_configuration_is_valid_and_has_three_agents_without_keys():
    config = parse_run_config(demo_config())

    assert [agent.harness for agent in config.agents] == ["oracle", "nop", "scripted"]
    assert config.required_secrets() == ()
    assert config.execution.attempts_per_task == 3
    assert config.execution.max_retries == 1
    assert 2 <= config.execution.max_concurrent_attempts <= 8


def test_progress_is_told_once_for_each_change():
    told: list[str] = []
    running = _run(RunStatus.RUNNING, 3)
    client = Client(_run(RunStatus.QUEUED), running, running, _run(RunStatus.FINISHED, 9))

    assert demo._watch(client, "brave-otter", told.append).status is RunStatus.FINISHED

    assert [" ".join(line.split()) for line in told] == [
        "queued 0 of 9 results",
        "running 3 of 9 results",
        "finished 9 of 9 results",
    ]


def test_a_run_that_fails_is_an_error_with_its_reason():
    client = Client(_run(RunStatus.FAILED, reason="no runner"))

    with pytest.raises(DemoError, match="the run brave-otter failed: no runner"):
        demo._watch(client, "brave-otter", lambda _: None)


def test_a_benchmark_that_could_not_be_read_is_an_error_with_its_reason():
    with pytest.raises(DemoError, match="could not be read: no such folder"):
        demo._await_benchmark(Client(_benchmarks(SyncStatus.FAILED, "no such folder")))


def test_a_benchmark_that_does_not_get_ready_is_an_error():
    with pytest.raises(DemoError, match=r"is not ready \(syncing\)"):
        demo._await_benchmark(Client(_benchmarks(SyncStatus.SYNCING)))


def test_the_leaderboard_counts_when_three_entrants_of_this_run_are_ranked(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(demo, "_RANK_SECONDS", 10.0)
    older = UUID(int=2)
    complete = _board(RUN, RUN, RUN)

    found = demo._await_standings(
        Client(_board(older, older, older), _board(RUN, older, RUN), complete), _run("finished")
    )

    assert found is complete


def test_entrants_that_are_not_ranked_are_an_error_with_the_reason():
    with pytest.raises(DemoError, match="2 of 3 entrants are ranked; nop: 2 results are missing"):
        demo._await_standings(Client(_board(RUN, RUN)), _run(RunStatus.FINISHED))
