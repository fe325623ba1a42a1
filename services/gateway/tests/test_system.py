"""The platform by HTTP: status, readiness, replay; and what every request and answer passes."""

from uuid import UUID

import httpx
import pytest
from jsonschema import Draft202012Validator
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

import assay_contracts.http
from assay_contracts.commands import SERVICES, replay_subject, status_subject
from assay_contracts.http import ReplayReport, ServiceStatus, SystemStatus
from assay_contracts.problems import Problem
from gateway.app import build_app
from gateway.openapi import shape_of
from gateway.settings import GatewaySettings
from gateway.system import REPLAYED


@pytest.fixture
def answering(stage):
    """Lets stand-ins for some services answer requests for their status."""

    async def answer(*services, ready=True):
        for service in services:
            status = ServiceStatus(service=service, ready=ready, version="1", instance="here")

            async def told(message, status=status):
                await message.respond(status.model_dump_json().encode())

            await stage.store.client.subscribe(status_subject(service), cb=told)

    return answer


@pytest.fixture
async def outside(stage):
    """A client without a token, outside of the API."""
    transport = httpx.ASGITransport(stage.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


async def test_the_platform_is_ready_when_every_service_and_store_answers(
    stage, outside, http, answering, monkeypatch
):
    await answering(*SERVICES)
    ready = await outside.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "missing": []})
    status = SystemStatus.model_validate((await http.get("/system/status")).json())
    assert (status.ready, len(status.services)) == (True, len(SERVICES))

    def gone():
        raise OperationalError("select 1", None, Exception("gone"))

    monkeypatch.setattr(stage.desk, "reading", gone)
    ready = await outside.get("/readyz")
    assert (ready.status_code, ready.json()["missing"]) == (503, ["database"])


async def test_what_does_not_answer_or_is_not_ready_is_named(outside, http, answering):
    await answering(*SERVICES[2:])
    await answering(SERVICES[1], ready=False)
    ready = await outside.get("/readyz")
    assert ready.status_code == 503
    assert ready.json() == {"ready": False, "missing": list(SERVICES[:2])}
    status = SystemStatus.model_validate((await http.get("/system/status")).json())
    assert (status.ready, status.missing) == (False, list(SERVICES[:2]))


async def test_a_replay_asks_each_service_that_folds_or_one_alone(stage, http):
    asked = []

    def answer(service):
        async def told(message):
            asked.append((service, message.data))
            report = ReplayReport(
                service=service,
                projection="p",
                sequence=1,
                events=1,
                rows={},
                identical=True,
                swapped=False,
                differences=[],
                seconds=0.1,
            )
            await message.respond(f"[{report.model_dump_json()}]".encode())

        return told

    for service in REPLAYED:
        await stage.store.client.subscribe(replay_subject(service), cb=answer(service))
    reports = (await http.post("/system/replay", json={})).json()
    assert [one["service"] for one in reports] == list(REPLAYED)
    one = await http.post("/system/replay", json={"service": "grader", "verify": False})
    assert [report["service"] for report in one.json()] == ["grader"]
    assert b'"verify":false' in asked[-1][1]
    unknown = (await http.post("/system/replay", json={"service": "nobody"})).json()
    assert (unknown["status"], unknown["issues"][0]["key"]) == (422, "service")


async def test_a_service_that_cannot_replay_is_named(stage, http):
    absent = await http.post("/system/replay", json={"service": "grader"})
    assert (absent.status_code, absent.json()["code"]) == (503, "UNAVAILABLE")
    assert "grader" in absent.json()["detail"]

    async def nonsense(message):
        await message.respond(b"oops")

    await stage.store.client.subscribe(replay_subject("leaderboard"), cb=nonsense)
    answer = await http.post("/system/replay", json={"service": "leaderboard"})
    assert "leaderboard could not replay" in answer.json()["detail"]


async def test_without_a_token_only_health_and_the_document_answer(outside):
    for path in ("/healthz", "/openapi.json"):
        assert (await outside.get(path)).status_code == 200
    for path in ("/docs", "/redoc"):  # pages that would fetch scripts from elsewhere
        assert (await outside.get(path)).status_code == 404
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
        answer = await outside.get("/api/v1/runs", headers=headers)
        problem = Problem.model_validate(answer.json())
        assert (answer.status_code, problem.code) == (401, "AUTH_REQUIRED")
        assert "ASSAY_TOKEN" in problem.detail
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_the_document_describes_every_route_and_its_errors(stage, outside):
    document = (await outside.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            if path.startswith("/api/"):
                for status in ("401", "404", "409", "413", "422", "500", "503"):
                    content = operation["responses"][status]["content"]
                    assert list(content) == ["application/problem+json"], (method, path)
    assert not [path for path in document["paths"] if "internal" in path]
    runs = document["paths"]["/api/v1/runs"]
    assert "Idempotency-Key" in {one["name"] for one in runs["post"]["parameters"]}
    assert "If-None-Match" in {one["name"] for one in runs["get"]["parameters"]}
    assert runs["get"]["responses"]["304"]["headers"].keys() == {"ETag"}
    named = build_app(stage.desk, stage.app.state.tokens, stage.closing, public_url="https://a.b")
    assert named.openapi()["servers"] == [{"url": "https://a.b"}]


async def test_every_answer_has_the_requests_id_and_security_headers(outside, http):
    given = "01890000-0000-7000-8000-000000000001"
    large = b"x" * (1024 * 1024 + 1)
    for answering in (
        outside.get("/healthz", headers={"X-Request-ID": given}),
        http.get("/runs", headers={"X-Request-ID": given}),
        http.get("/runs/none", headers={"X-Request-ID": given}),
        http.post("/runs", content=large, headers={"X-Request-ID": given}),
        http.post("/runs", content=b"{", headers={"X-Request-ID": given}),
    ):
        answer = await answering
        assert answer.headers["X-Request-ID"] == given
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        is_tagged = "ETag" in answer.headers
        wanted = "private, no-cache" if is_tagged else "no-store"
        assert answer.headers["Cache-Control"] == wanted
    made = await http.get("/runs", headers={"X-Request-ID": "not an id"})
    assert UUID(made.headers["X-Request-ID"]).version == 7


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "code"),
    [
        ("GET", "/nothing", {}, 404, "NOT_FOUND"),
        ("GET", "/runs/none", {}, 404, "NOT_FOUND"),
        ("PATCH", "/runs", {}, 405, "VALIDATION"),
        ("GET", "/runs?limit=0", {}, 422, "VALIDATION"),
        ("GET", "/runs?offset=99999999999999999999", {}, 422, "VALIDATION"),
        ("GET", "/runs?status=lost", {}, 422, "VALIDATION"),
        ("GET", "/runs?benchmark=%00", {}, 422, "VALIDATION"),
        ("GET", "/runs/a%00b", {}, 422, "VALIDATION"),
        ("GET", "/runs/none/results?agent=99999999999", {}, 422, "VALIDATION"),
        ("GET", "/runs/none/events?after=99999999999999999999", {}, 422, "VALIDATION"),
        ("GET", "/runs/none/results/no-uuid/artifacts", {}, 422, "VALIDATION"),
        ("GET", "/runs?benchmark=none", {}, 404, "NOT_FOUND"),
        ("POST", "/runs", {"content": b"{"}, 422, "VALIDATION"),
        ("POST", "/runs", {"json": []}, 422, "VALIDATION"),
        ("POST", "/runs", {"content": b"x" * (1024 * 1024 + 1)}, 413, "TOO_LARGE"),
        ("GET", "/runs", {"headers": {"X-Assay-Workspace": "Not A Slug"}}, 422, "VALIDATION"),
        ("GET", "/runs", {"headers": {"X-Assay-Workspace": "managed"}}, 404, "NOT_FOUND"),
    ],
)
async def test_every_refusal_is_a_problem(http, method, path, more, status, code):
    answer = await http.request(method, path, **more)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = Problem.model_validate(answer.json())
    assert (answer.status_code, problem.status, problem.code) == (status, status, code)
    assert problem.detail
    if status == 405:
        assert answer.headers["Allow"]


async def test_while_another_service_has_no_tables_yet_the_answer_is_unavailable(stage, http):
    async with stage.engine.begin() as connection:
        await connection.exec_driver_sql("DROP SCHEMA registry_sync CASCADE")
    answer = await http.get("/benchmarks")
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["X-Request-ID"]


async def test_the_unexpected_is_logged_and_answered_with_the_requests_id_alone(http, monkeypatch):
    async def broken(*_args, **_more):
        raise ZeroDivisionError("hush, an inner detail")

    monkeypatch.setattr("gateway.runs.run_lists.list_runs", broken)
    with capture_logs() as logs:
        answer = await http.get("/runs")
    problem = Problem.model_validate(answer.json())
    assert (answer.status_code, problem.code) == (500, "INTERNAL")
    assert answer.headers["X-Request-ID"] in problem.detail
    assert "hush" not in answer.text
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["internal-error"]


def test_settings_come_from_variables_and_print_no_secret(monkeypatch):
    monkeypatch.setenv("ASSAY_HTTP_PORT", "8401")
    monkeypatch.setenv("ASSAY_MASTER_KEY_FILE", "/run/secrets/master")
    monkeypatch.setenv("ASSAY_DATABASE_URL", "postgresql://me:hush@db/assay")
    settings = GatewaySettings()
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 8401)
    assert "hush" not in repr(settings) + str(settings.model_dump(mode="json"))


async def test_every_request_body_is_described_with_an_example_that_is_right(stage):
    document = stage.app.openapi()
    assert document["openapi"].startswith("3.1")
    missing = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody")
            if body is None:
                continue
            schema = body["content"]["application/json"]["schema"]
            one = next((part for part in schema.get("anyOf", [schema]) if "$ref" in part), schema)
            name = one["$ref"].rpartition("/")[2]
            examples = document["components"]["schemas"][name].get("examples")
            if not examples:
                missing.append(f"{method} {path}: {name}")
                continue
            shape = getattr(assay_contracts.http, name)
            for example in examples:
                shape.model_validate(example)
    assert missing == []


async def test_a_parameter_that_an_address_does_not_have_changes_nothing_unseen(stage, http):
    await stage.add_benchmark()
    body = {"config": {"experiment": {"benchmark": "toy"}, "agents": [{"harness": "oracle"}]}}
    answer = await http.post("/runs?validate_only=true", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION")
    assert await stage.nothing_happened()
    listed = await http.get("/runs", params={"statuss": "running", "limits": 3})
    assert [one["key"] for one in listed.json()["issues"]] == ["query.limits", "query.statuss"]
    assert "did you mean status" in listed.json()["detail"]


NOT_SHOWN = {"RetriedRun": "a run with errored results, which a platform that works has none of"}
"""Answers without an example, and what it would take to have one."""


async def test_every_answer_has_an_example_that_is_one(stage):
    document = stage.app.openapi()
    without = set()
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                content = answer.get("content", {}).get("application/json", {})
                schema = content.get("schema") or {}
                if not status.startswith("2") or not shape_of(schema):
                    continue
                if "example" not in content:
                    without.add(shape_of(schema))
                    continue
                within = schema | {"components": document["components"]}
                Draft202012Validator(within).validate(content["example"])
    assert without == set(NOT_SHOWN)
