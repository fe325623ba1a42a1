"""The client against a real HTTP server: requests, answers, errors, retries."""

import socket

import pytest

from assay_client.api import AssayClient
from assay_client.errors import (
    ApiError,
    InvalidInputError,
    NoAnswerError,
    ServerUnreachableError,
    UnexpectedAnswerError,
)
from assay_contracts.http import (
    AddBenchmark,
    EventPage,
    LogPage,
    Replay,
    SetSecret,
    StopRun,
    SubmitRun,
    SystemStatus,
)
from assay_contracts.run_config import ConfigIssue
from assay_contracts.values import FolderSource


@pytest.fixture
def client(server):
    with AssayClient(server.url, token="the-token", workspace="team") as made:
        yield made


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_every_request_carries_the_token_and_the_workspace(server, client, make):
    server.answers("GET", "/api/v1/runs", make.page())
    client.runs(limit=5, offset=10, benchmark="hle")
    (seen,) = server.seen
    assert seen.headers["Authorization"] == "Bearer the-token"
    assert seen.headers["X-Assay-Workspace"] == "team"
    assert seen.query == {"limit": ["5"], "offset": ["10"], "benchmark": ["hle"]}


def test_filters_that_may_be_repeated_are_sent_each_and_absent_ones_are_not(server, client, make):
    server.answers("GET", "/api/v1/runs", make.page())
    server.answers("GET", "/api/v1/runs/r/results", make.page())
    client.runs(statuses=["failed", "stopped"], harness="codex", cursor="abc")
    client.run_results("r", agents=[0, 2], outcomes=["errored"], sort="cost", order="desc")
    assert server.seen[0].query == {
        "limit": ["50"],
        "cursor": ["abc"],
        "status": ["failed", "stopped"],
        "harness": ["codex"],
    }
    assert server.seen[1].query == {
        "agent": ["0", "2"],
        "outcome": ["errored"],
        "sort": ["cost"],
        "order": ["desc"],
        "limit": ["50"],
    }


def test_a_reference_with_slashes_is_one_segment_of_the_path(server, client, make):
    path = "/api/v1/benchmarks/acme%2Ftiny%403%20%25"
    server.answers("GET", path, make.benchmark())
    assert client.benchmark("acme/tiny@3 %") == make.benchmark()


def test_a_reference_of_dots_does_not_climb(server, client):
    with pytest.raises(ApiError):
        client.run("..")
    assert server.seen[0].path == "/api/v1/runs/%2E%2E"


def test_a_blank_reference_is_refused_before_anything_is_sent(server, client):
    with pytest.raises(InvalidInputError):
        client.remove_benchmark(" ")
    assert server.seen == []


def test_each_route_sends_what_the_contract_says_and_returns_its_model(server, client, make):
    detail, entry, stored = make.run(), make.run_entry(), make.event(7)
    status = SystemStatus(ready=True, version="0.1.0", services=[], missing=[])
    server.answers("DELETE", "/api/v1/benchmarks/b", None, 204)
    server.answers("GET", "/api/v1/benchmarks/b/leaderboard", make.board(make.standing(1)))
    server.answers("POST", "/api/v1/runs", entry, 201)
    server.answers("GET", "/api/v1/runs/r", detail)
    server.answers("GET", "/api/v1/runs/r/results", make.page())
    server.answers("GET", "/api/v1/runs/r/events", EventPage(items=[stored], next_after=None))
    server.answers("GET", "/api/v1/runs/r/logs", LogPage(items=[], next_after=3))
    server.answers("POST", "/api/v1/runs/r/stop", entry)
    server.answers("GET", "/api/v1/system/status", status)
    server.answers("POST", "/api/v1/system/replay", [])
    server.answers("DELETE", "/api/v1/secrets/A", None, 204)

    client.remove_benchmark("b")
    assert client.leaderboard("b", metric="cost") == make.board(make.standing(1))
    assert client.submit_run(SubmitRun(config={"a": 1}, secrets={"A": "value"})) == entry
    assert client.run("r") == detail
    assert client.run_results("r") == make.page()
    assert client.run_events("r", after=6, limit=1).items == [stored]
    assert client.run_logs("r").next_after == 3
    assert client.stop_run("r", StopRun(reason="enough")) == entry
    assert client.system_status() == status
    assert client.replay(Replay(verify=False, service="grader")) == []
    client.delete_secret("A", scope="workspace")
    bodies = {seen.path: seen.body for seen in server.seen if seen.body is not None}
    assert bodies == {
        "/api/v1/runs": {"config": {"a": 1}, "environment": None, "secrets": {"A": "value"}},
        "/api/v1/runs/r/stop": {"reason": "enough"},
        "/api/v1/system/replay": {"verify": False, "service": "grader"},
    }
    assert server.requests("GET", "/api/v1/runs/r/events")[0].query == {
        "after": ["6"],
        "limit": ["1"],
    }
    assert server.requests("DELETE", "/api/v1/secrets/A")[0].query == {"scope": ["workspace"]}


def test_a_benchmark_is_added_with_its_source(server, client, make):
    entry = make.benchmark_entry()
    server.answers("POST", "/api/v1/benchmarks", entry)
    request = AddBenchmark(source=FolderSource(path="/tasks"), name="Mine")
    assert client.add_benchmark(request) == entry
    assert server.seen[0].body == {
        "source": {"kind": "folder", "path": "/tasks"},
        "name": "Mine",
    }


def test_a_problem_becomes_an_error_with_everything_it_says(server, client, make):
    issue = ConfigIssue(key="agents[0].harness", message="unknown", key_correction="codex")
    told = make.problem(
        422, "VALIDATION", "invalid", detail="mend it", issues=[issue], details={"field": "x"}
    )
    server.answers("POST", "/api/v1/runs", told)
    with pytest.raises(ApiError) as caught:
        client.submit_run(SubmitRun(config={}))
    error = caught.value
    assert (error.status, error.code, error.title, error.detail) == (
        422,
        "VALIDATION",
        "invalid",
        "mend it",
    )
    assert (error.issues, error.details) == ((issue,), {"field": "x"})


def test_an_error_without_a_problem_document_is_told_by_its_status(server, client, make):
    page = b"<html>Bad gateway</html>"
    server.replies("GET", "/api/v1/runs/r", make.reply(502, page, "text/html"))
    with pytest.raises(ApiError, match="502") as caught:
        client.run("r")
    assert caught.value.code == "HTTP_502"


def test_a_problem_of_a_newer_server_still_tells_what_it_can(server, client, make):
    told = b'{"title": "no quota", "detail": "wait", "code": "QUOTA", "status": 429, "new": 1}'
    server.replies("GET", "/api/v1/runs/r", make.reply(429, told, "application/problem+json"))
    with pytest.raises(ApiError) as caught:
        client.run("r")
    error = caught.value
    assert (error.code, error.title, error.detail) == ("QUOTA", "no quota", "wait")


@pytest.mark.parametrize("identity", [{"token": "a\nb"}, {"token": "é"}, {"workspace": "Ü"}])
def test_a_token_or_workspace_that_fits_no_header_is_refused(server, identity):
    with pytest.raises(InvalidInputError):
        AssayClient(server.url, **identity)


def test_an_answer_of_another_shape_is_an_error_of_its_own(server, client, make):
    server.replies("GET", "/api/v1/runs/r", make.reply(200, b'{"id": 3}'))
    with pytest.raises(UnexpectedAnswerError, match="shape"):
        client.run("r")


def test_nobody_listening_is_told_with_the_way_to_start_a_server():
    address = f"http://127.0.0.1:{free_port()}"
    with AssayClient(address) as client, pytest.raises(ServerUnreachableError) as caught:
        client.runs()
    assert str(caught.value) == f"no server answers at {address}; start one with: assay up"


def test_reading_is_repeated_where_the_connection_breaks(server, client, make):
    cut, detail = make.reply(is_cut=True), make.reply(200, make.to_bytes(make.run()))
    server.replies("GET", "/api/v1/runs/r", cut, cut, detail)
    assert client.run("r") == make.run()
    assert len(server.seen) == 3


def test_a_post_is_sent_again_under_its_key_where_the_connection_breaks(server, client, make):
    cut, entry = make.reply(is_cut=True), make.reply(200, make.to_bytes(make.run_entry()))
    server.replies("POST", "/api/v1/runs/r/stop", cut, entry, entry)
    client.stop_run("r")
    client.stop_run("r")
    first, again, another = (one.headers["Idempotency-Key"] for one in server.seen)
    assert first == again
    assert another != first


def test_any_other_change_is_sent_once_even_where_the_connection_breaks(server, client, make):
    server.replies("DELETE", "/api/v1/secrets/A", make.reply(is_cut=True))
    with pytest.raises(NoAnswerError):
        client.delete_secret("A")
    assert len(server.seen) == 1


def test_a_refusal_is_not_repeated(server, client, make):
    server.answers("GET", "/api/v1/runs/r", make.problem(503, "UNAVAILABLE", "starting"))
    with pytest.raises(ApiError) as caught:
        client.run("r")
    assert caught.value.is_temporary
    assert len(server.seen) == 1


def test_the_value_of_a_secret_is_blotted_out_of_what_the_server_says(server, client, make):
    issue = ConfigIssue(key="secrets.hunter2", message="hunter2 is bad")
    told = make.problem(
        422,
        "VALIDATION",
        "hunter2?",
        detail="not hunter2",
        issues=[issue],
        details={"hunter2": ["hunter2"]},
    )
    server.answers("POST", "/api/v1/runs", told)
    server.answers("PUT", "/api/v1/secrets/A", told)
    for change in (
        lambda: client.submit_run(SubmitRun(config={}, secrets={"A": "hunter2"})),
        lambda: client.set_secret("A", SetSecret(value="hunter2")),
    ):
        with pytest.raises(ApiError) as caught:
            change()
        assert "hunter2" not in f"{caught.value!r} {caught.value.issues} {caught.value.details}"
        assert caught.value.detail == "not [secret]"


def test_health_is_asked_for_without_a_token(server, client, make):
    server.replies("GET", "/healthz", make.reply(200))
    server.replies("GET", "/readyz", make.reply(503))
    assert (client.is_alive(), client.is_ready()) == (True, False)
    assert all("Authorization" not in seen.headers for seen in server.seen)


def test_live_events_arrive_in_order_and_resume_after_the_last_one(server, client, make):
    first, second = make.event(5), make.event(6, "started")
    path = "/api/v1/runs/r/events"
    server.replies("GET", f"{path}#live", make.reply(events=[first, second]))
    with client.live_run_events("r", after=4) as events:
        assert list(events) == [first, second]
    assert server.seen[0].headers["Last-Event-ID"] == "4"
    assert server.seen[0].headers["Authorization"] == "Bearer the-token"


def test_an_answer_that_is_no_stream_is_told_as_such(server, client, make):
    server.replies("GET", "/api/v1/runs/r/events#live", make.reply(200, b"{}"))
    with pytest.raises(UnexpectedAnswerError), client.live_run_events("r") as events:
        list(events)


def test_a_refused_stream_is_the_servers_problem(server, client):
    with pytest.raises(ApiError) as caught, client.live_run_events("nobody") as events:
        list(events)
    assert caught.value.is_not_found
