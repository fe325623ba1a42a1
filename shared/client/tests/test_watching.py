"""Following a run through a stream that works, breaks, lags or is not there."""

import pytest

from assay_client import watching
from assay_client.api import AssayClient
from assay_client.errors import ApiError, NoAnswerError
from assay_client.watching import watch_run, watch_sync

RUN = "/api/v1/runs/r"
LIVE = f"{RUN}/events#live"


@pytest.fixture
def client(server):
    with AssayClient(server.url) as made:
        yield made


@pytest.fixture
def hurried(monkeypatch):
    """The same waiting, in less time."""
    monkeypatch.setattr(watching, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(watching, "_ECHO_SECONDS", 0.02)


def test_a_run_that_has_ended_is_told_at_once_and_nothing_is_listened_to(server, client, make):
    server.answers("GET", RUN, make.run("finished"))
    assert list(watch_run(client, "r", is_new=False)) == [make.run("finished")]
    assert len(server.seen) == 1


def test_a_live_event_is_reason_to_look_long_before_the_quiet_time_is_over(server, client, make):
    server.answers("GET", RUN, make.run("running"))
    server.answers("GET", RUN, make.run("finished"))
    server.replies("GET", LIVE, make.reply(events=[make.event(1)], stays_open=True))
    statuses = [run.status for run in watch_run(client, "r", is_new=False)]
    assert (statuses[0], statuses[-1]) == ("running", "finished")


@pytest.mark.usefixtures("hurried")
def test_a_read_model_that_lags_behind_the_stream_is_looked_at_again(server, client, make):
    for status in ("running", "running", "running", "finished"):
        server.answers("GET", RUN, make.run(status))
    server.replies("GET", LIVE, make.reply(events=[make.event(1)], stays_open=True))
    statuses = [run.status for run in watch_run(client, "r", is_new=False)]
    assert statuses[-1] == "finished"


@pytest.mark.usefixtures("hurried")
def test_a_stream_that_breaks_is_resumed_from_the_last_event(server, client, make):
    server.answers("GET", RUN, make.run("running"))
    server.replies(
        "GET",
        LIVE,
        make.reply(events=[make.event(7)]),
        make.reply(events=[make.event(9)], stays_open=True),
    )
    follow = watch_run(client, "r", is_new=False)
    next(follow)
    while len(server.requests("GET", f"{RUN}/events")) < 2:
        next(follow)
    follow.close()
    first, second = server.requests("GET", f"{RUN}/events")[:2]
    assert "Last-Event-ID" not in first.headers
    assert second.headers["Last-Event-ID"] == "7"


@pytest.mark.usefixtures("hurried")
def test_a_server_without_a_stream_is_asked_again_and_again(server, client, make):
    for status in ("pending", "running", "running", "stopped"):
        server.answers("GET", RUN, make.run(status))
    statuses = [run.status for run in watch_run(client, "r", is_new=False)]
    assert statuses == ["pending", "running", "running", "stopped"]


@pytest.mark.usefixtures("hurried")
def test_a_server_that_restarts_is_waited_for(server, client, make):
    server.answers("GET", RUN, make.run("running"))
    server.answers("GET", RUN, make.problem(503, "UNAVAILABLE", "starting"))
    server.answers("GET", RUN, make.run("finished"))
    statuses = [run.status for run in watch_run(client, "r", is_new=False)]
    assert statuses == ["running", "finished"]


@pytest.mark.usefixtures("hurried")
def test_a_server_that_stays_away_is_given_up_on_at_the_deadline(server, client, make):
    server.answers("GET", RUN, make.run("running"))
    server.replies("GET", RUN, make.reply(is_cut=True))
    with pytest.raises(NoAnswerError):
        list(watch_run(client, "r", is_new=False, patience_seconds=0.1))


@pytest.mark.usefixtures("hurried")
def test_a_run_just_submitted_may_take_a_moment_to_appear(server, client, make):
    server.answers("GET", RUN, make.problem(404, "NOT_FOUND", "no such run"))
    server.answers("GET", RUN, make.run("finished"))
    assert [run.status for run in watch_run(client, "r", is_new=True)] == ["finished"]


def test_a_run_that_does_not_exist_is_told_at_once(server, client):
    with pytest.raises(ApiError) as caught:
        list(watch_run(client, "r", is_new=False))
    assert caught.value.is_not_found
    assert len(server.seen) == 1


@pytest.mark.usefixtures("hurried")
def test_a_synchronisation_is_followed_until_it_is_ready_or_failed(server, client, make):
    path = f"/api/v1/benchmarks/{make.benchmark().id}"
    server.answers("GET", path, make.benchmark(sync_status="pending", task_count=None))
    server.answers("GET", path, make.benchmark(sync_status="syncing", synced_task_count=10))
    server.answers("GET", path, make.benchmark(sync_status="failed", sync_error="gone"))
    asked = make.benchmark_entry(sync_status="pending")
    statuses = [found.sync_status for found in watch_sync(client, asked)]
    assert statuses == ["pending", "syncing", "failed"]


@pytest.mark.usefixtures("hurried")
def test_the_end_of_an_earlier_synchronisation_is_not_taken_for_this_ones(server, client, make):
    path = f"/api/v1/benchmarks/{make.benchmark().id}"
    server.answers("GET", path, make.benchmark(sync_status="failed", sync_error="of last time"))
    server.answers("GET", path, make.benchmark(sync_status="syncing"))
    server.answers("GET", path, make.benchmark())
    asked = make.benchmark_entry(sync_status="pending")
    statuses = [found.sync_status for found in watch_sync(client, asked)]
    assert statuses == ["syncing", "ready"]
