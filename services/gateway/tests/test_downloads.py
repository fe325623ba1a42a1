"""Downloads of a run: tables, log, configuration, artifacts, signed addresses, ranges, the zip."""

import csv
import hashlib
import io
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pyarrow.parquet
import pytest

from assay_contracts.http import DownloadManifest, DownloadType, DownloadUrls
from assay_contracts.identifiers import new_id
from assay_contracts.run_config import parse_run_config_toml
from gateway.downloads.addresses import AddressRefusedError, Owner, Signer
from gateway.downloads.columns import RESULTS, SUMMARY
from gateway.downloads.endpoints import find
from gateway.downloads.files import exports, find_file, rendered_files
from gateway.downloads.names import attachment, fit_path
from gateway.downloads.sweep import AGE
from gateway.downloads.writers import Layout

FORMULA = '=HYPERLINK("https://example.com")\nand, more'
TASKS = (
    {"name": "fix-roman", "category": "numbers", "difficulty": "easy"},
    {"name": "-fix-greek"},
)


@pytest.fixture
async def run(stage):
    """A run of two agents on two tasks, in two attempts each, that has begun."""
    await stage.add_benchmark(tasks=TASKS)
    submitted = await stage.submit(
        agents=[{"harness": "oracle"}, {"harness": "nop"}],
        execution={"attempts_per_task": 2, "budget_usd": 5},
        env={"LANG": "C"},
    )
    await stage.decide(submitted["id"], "queued", "started")
    return submitted


async def keep_artifacts(stage, **files):
    """The manifest of files that a try left, by path."""
    listed = [
        {"path": path, "size": len(content), "sha256": await stage.blobs.keep(content)}
        for path, content in files.items()
    ]
    sha256 = await stage.blobs.keep(orjson.dumps({"files": listed}))
    total = sum(len(content) for content in files.values())
    return {"sha256": sha256, "files": len(listed), "bytes": total}


async def manifest_of(http, run, **query):
    answer = await http.get(f"/runs/{run['name']}/downloads", params=query)
    assert answer.status_code == 200, answer.text
    return DownloadManifest.model_validate(answer.json())


async def urls_of(http, run, items):
    answer = await http.post(f"/runs/{run['name']}/downloads/urls", json={"items": items})
    assert answer.status_code == 200, answer.text
    return DownloadUrls.model_validate(answer.json())


async def contents(stage, http, run, **query):
    """Every file of the manifest by path, through signed addresses and with no token."""
    listed = await manifest_of(http, run, **query)
    items = [{"path": one.path, "token": one.token} for one in listed.files]
    urls = await urls_of(http, run, items)
    found = {}
    async with stage.client(token="none") as stranger:
        for file, made in zip(listed.files, urls.items, strict=True):
            answer = await stranger.get(urlsplit(made.url).path.removeprefix("/api/v1"))
            assert answer.status_code == 200, answer.text
            assert (len(answer.content), file.path) == (file.size, made.path)
            assert hashlib.sha256(answer.content).hexdigest() == file.sha256
            assert answer.headers["content-type"] == file.media_type
            found[file.path] = answer.content
    return found


async def finish(stage, run):
    """All results of both agents, and the run's end."""
    artifacts = await keep_artifacts(stage, **{"agent/log.txt": b"hello", "a b/ü.txt": b"12345678"})
    for agent in (0, 1):
        for attempt in (1, 2):
            await stage.result(
                run["id"],
                "fix-roman",
                agent=agent,
                attempt=attempt,
                rewards={"tests": 1.0},
                usage={"input_tokens": 1000, "output_tokens": 10, "cost_usd": 0.25},
                artifacts=artifacts if agent == 0 else None,
            )
            await stage.result(
                run["id"],
                "-fix-greek",
                "failed",
                agent=agent,
                attempt=attempt,
                graded={"cause": "capability", "reason": FORMULA},
            )
    await stage.decide(run["id"], "finished")


def documented(table):
    """The columns that docs/downloads.md lists under a heading, with their kinds."""
    text = (Path(__file__).parents[3] / "docs" / "downloads.md").read_text()
    part = text.split(f"\n### {table}\n")[1].split("\n#")[0]
    rows = [line.split("|")[1:3] for line in part.splitlines() if line.startswith("| `")]
    return [(name.strip("` "), kind.strip()) for names, kind in rows for name in names.split(",")]


@pytest.mark.parametrize(("table", "columns"), [("summary", SUMMARY), ("results", RESULTS)])
def test_every_column_is_documented_in_its_place(table, columns):
    assert documented(table) == [(one.name, one.kind.value) for one in columns]


async def test_all_formats_hold_the_same_rows(stage, http, run):
    await finish(stage, run)
    plain = await contents(stage, http, run, types="summary,results", format="csv")
    lines = await contents(stage, http, run, types="summary,results", format="jsonl")
    parquet = await contents(stage, http, run, types="summary,results", format="parquet")
    for name, columns, rows in (("summary", SUMMARY, 2), ("results", RESULTS, 8)):
        names = [one.name for one in columns]
        told = [orjson.loads(line) for line in lines[f"{name}.jsonl"].splitlines()]
        cells = list(csv.DictReader(io.StringIO(plain[f"{name}.csv"].decode(), newline="")))
        table = pyarrow.parquet.read_table(io.BytesIO(parquet[f"{name}.parquet"]))
        assert len(told) == len(cells) == table.num_rows == rows
        assert list(told[0]) == list(cells[0]) == table.column_names == names
        for column in columns:
            if column.kind.value in {"integer", "number"}:
                values = [one[column.name] for one in told]
                assert values == table[column.name].to_pylist(), column
                assert values == [
                    None if one[column.name] == "" else float(one[column.name]) for one in cells
                ], column
    first, greek = [orjson.loads(one) for one in lines["results.jsonl"].splitlines()][2:0:-1]
    assert (first["task"], first["category"], first["difficulty"]) == (
        "fix-roman",
        "numbers",
        "easy",
    )
    assert (first["rewards"], first["cost_usd"], first["artifact_bytes"]) == (
        {"tests": 1.0},
        0.25,
        13,
    )
    assert (greek["task"], greek["reason"], greek["run_status"]) == (
        "-fix-greek",
        FORMULA,
        "finished",
    )
    oracle = orjson.loads(lines["summary.jsonl"].splitlines()[0])
    assert (oracle["harness"], oracle["passed"], oracle["failed"]) == ("oracle", 2, 2)
    assert (oracle["pass_at_1"], oracle["k"], oracle["pass_at_k"]) == (0.5, 2, 0.5)
    assert oracle["pass_at_1_ci_low"] < 0.5 < oracle["pass_at_1_ci_high"]
    assert [one["k"] for one in oracle["pass_hat_every_k"]] == [1, 2]
    assert oracle["causes"] == [{"outcome": "failed", "cause": "capability", "count": 2}]


async def test_a_text_that_a_spreadsheet_would_run_is_guarded_in_csv_and_nowhere_else(
    stage, http, run
):
    await finish(stage, run)
    guarded = (await contents(stage, http, run, types="results"))["results.csv"].decode()
    row = next(csv.DictReader(io.StringIO(guarded, newline="")))
    assert (row["task"], row["reason"]) == ("'-fix-greek", f"'{FORMULA}")
    found = await find(stage.desk, "default", run["name"])
    [plain] = await rendered_files(found, [DownloadType.RESULTS], Layout.PLAIN_CSV, stage.desk)
    assert plain.path == "results.csv"
    text = (await exports(stage.blobs).read(plain.sha256)).decode()
    row = next(csv.DictReader(io.StringIO(text, newline="")))
    assert (row["task"], row["reason"]) == ("-fix-greek", FORMULA)


async def test_log_configuration_and_artifacts_are_files_too(stage, http, run):
    await finish(stage, run)
    found = await contents(stage, http, run)
    slots = {path.split("/")[1] for path in found if path.startswith("artifacts/")}
    assert len(slots) == 2
    assert set(found) == {
        "summary.csv",
        "results.csv",
        "logs.txt",
        "config.toml",
        *(f"artifacts/{slot}/{name}" for slot in slots for name in ("agent/log.txt", "a b/ü.txt")),
    }
    lines = found["logs.txt"].decode().splitlines()
    assert len(lines) == len(await stage.events(run["id"]))
    assert "submitted: admin asks for 2 agents on 2 tasks of toy" in lines[0]
    assert "every slot has its result" in lines[-1]
    config = parse_run_config_toml(found["config.toml"].decode())
    assert (config.execution.attempts_per_task, config.execution.budget_usd) == (2, 5)
    again = await http.post("/runs", json={"config": config.model_dump(exclude_none=True)})
    assert again.status_code == 201, again.text
    details = [(await http.get(f"/runs/{one}")).json() for one in (run["id"], again.json()["id"])]
    assert details[0]["config"] == details[1]["config"]


async def test_a_run_that_goes_on_gives_snapshots_that_stay_as_they_are(stage, http, run):
    await stage.result(run["id"], "fix-roman")
    listed = await manifest_of(http, run, types="results,logs,config")
    assert (listed.snapshot, listed.run_status) == (True, "running")
    await stage.result(run["id"], "-fix-greek", "failed")
    items = [{"path": one.path, "token": one.token} for one in listed.files]
    bare = [{"path": one.path} for one in listed.files]
    pinned = (await urls_of(http, run, items)).items
    fresh = (await urls_of(http, run, bare)).items
    for file, old, new in zip(listed.files, pinned, fresh, strict=True):
        answers = [
            await http.get(urlsplit(one.url).path.removeprefix("/api/v1")) for one in (old, new)
        ]
        assert len(answers[0].content) == file.size
        assert answers[0].headers["etag"] == f'"{file.sha256}"'
        changed = file.type.value != "config"
        assert (answers[0].content != answers[1].content) is changed, file.path
        assert answers[0].headers.get("x-assay-snapshot") == ("true" if changed else None)
    assert b",running," in (await contents(stage, http, run, types="results"))["results.csv"]
    log = (await contents(stage, http, run, types="logs"))["logs.txt"].decode()
    assert log.endswith("# snapshot: the run goes on, and so does its log\n")


async def test_a_run_that_has_ended_is_not_rendered_again_until_something_happens(
    stage, http, run, tmp_path
):
    await finish(stage, run)
    [first] = (await manifest_of(http, run, types="results")).files
    blob = tmp_path / "blobs" / "exports" / first.sha256[:2] / first.sha256[2:]
    rendered = blob.stat().st_mtime_ns
    [second] = (await manifest_of(http, run, types="results")).files
    assert (second, blob.stat().st_mtime_ns) == (first, rendered)
    blob.unlink()
    assert (await manifest_of(http, run, types="results")).files == [first]
    assert blob.exists()
    await stage.result(run["id"], "fix-roman", "errored", try_number=2)
    rendered = blob.stat().st_mtime_ns
    assert (await manifest_of(http, run, types="results")).files == [first]
    assert blob.stat().st_mtime_ns > rendered


async def test_a_run_that_has_yet_to_begin_has_nothing_to_download(stage, http):
    await stage.add_benchmark()
    run = await stage.submit()
    for status in ("pending", "queued"):
        for answer in (
            await http.get(f"/runs/{run['name']}/downloads"),
            await http.get(f"/runs/{run['name']}/downloads/artifacts.zip"),
            await http.post(
                f"/runs/{run['name']}/downloads/urls", json={"items": [{"path": "logs.txt"}]}
            ),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
            assert f"the run is {status}" in answer.json()["detail"]
            assert f"assay run watch {run['name']}" in answer.json()["detail"]
        if status == "pending":
            await stage.decide(run["id"], "queued")


async def test_ranges_are_answered_and_the_hash_is_the_etag(stage, http, run):
    await finish(stage, run)
    [file] = (await manifest_of(http, run, types="results")).files
    [made] = (await urls_of(http, run, [{"path": file.path, "token": file.token}])).items
    path = urlsplit(made.url).path.removeprefix("/api/v1")
    whole = (await http.get(path)).content
    size, etag = len(whole), f'"{file.sha256}"'
    for asked, expected in (
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=100-", (100, size)),
        ("bytes=-7", (size - 7, size)),
        (f"bytes=5-{size * 10}", (5, size)),
        (f"bytes=-{size * 10}", (0, size)),
    ):
        answer = await http.get(path, headers={"Range": asked})
        first, end = expected
        assert (answer.status_code, answer.content) == (206, whole[first:end]), asked
        assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/{size}"
        assert answer.headers["content-length"] == str(end - first)
    for headers in (
        {"Range": "bytes=10-19", "If-Range": '"another"'},
        {"Range": "bytes=0-1,5-6"},
        {"Range": "bytes=9-3"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=-"},
    ):
        answer = await http.get(path, headers=headers)
        assert (answer.status_code, answer.content) == (200, whole), headers
    answer = await http.get(path, headers={"Range": "bytes=10-19", "If-Range": etag})
    assert answer.status_code == 206
    for asked in (f"bytes={size}-", "bytes=-0"):
        answer = await http.get(path, headers={"Range": asked})
        assert (answer.status_code, answer.json()["code"]) == (416, "RANGE_NOT_SATISFIABLE")
        assert answer.headers["content-range"] == f"bytes */{size}"
    known = await http.get(path, headers={"If-None-Match": f'"x", {etag}'})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", etag)
    disposition = f'attachment; filename="{run["name"]}-results.csv"'
    assert known.headers["content-disposition"] == disposition


async def test_an_address_is_of_one_file_of_one_run_for_a_quarter_of_an_hour(stage, http, run):
    await finish(stage, run)
    found = await find(stage.desk, "default", run["name"])
    file = await find_file(found, "logs.txt", Layout.CSV, stage.desk)
    signer, now = Signer(stage.vault), datetime.now(UTC)
    owner = Owner("default", found["id"], run["name"])
    signed = signer.address(owner, file, now)
    assert signer.addressed(signed, now + timedelta(seconds=899)).file == file
    with pytest.raises(AddressRefusedError, match="expired"):
        signer.addressed(signed, now + timedelta(seconds=901))
    with pytest.raises(AddressRefusedError):
        signer.addressed(signer.pin(owner, file), now)
    token = signer.pin(owner, file)
    assert signer.pinned(owner, "logs.txt", token) == file
    for other, path in (
        (Owner("default", new_id(), run["name"]), "logs.txt"),
        (Owner("elsewhere", found["id"], run["name"]), "logs.txt"),
        (owner, "summary.csv"),
    ):
        with pytest.raises(AddressRefusedError):
            signer.pinned(other, path, token)
    old = signer.address(owner, file, now - timedelta(minutes=16))
    body, _, mac = signed.rpartition(".")
    flipped = f"{body}.{'A' if mac[0] != 'A' else 'B'}{mac[1:]}"
    for wrong in (old, flipped, body, "x", signed[5:]):
        answer = await http.get(f"/downloads/{wrong}")
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN"), wrong
    foreign = await http.post(
        f"/runs/{run['name']}/downloads/urls",
        json={"items": [{"path": "summary.csv", "token": token}]},
    )
    assert (foreign.status_code, foreign.json()["code"]) == (422, "VALIDATION")


async def test_what_is_not_there_is_said_and_another_workspace_sees_nothing(stage, http, run):
    await finish(stage, run)
    paths = ["nothing.txt", f"artifacts/{new_id()}/x", "artifacts/x/y", "../../etc/passwd"]
    answer = await http.post(
        f"/runs/{run['name']}/downloads/urls", json={"items": [{"path": one} for one in paths]}
    )
    assert (answer.status_code, answer.json()["details"]) == (404, {"paths": paths})
    for items in ([], [{"path": "logs.txt"}] * 501):
        path = f"/runs/{run['name']}/downloads/urls"
        assert (await http.post(path, json={"items": items})).status_code == 422
    for query in ({"types": "results,nothing"}, {"types": ""}, {"format": "xlsx"}):
        path = f"/runs/{run['name']}/downloads"
        assert (await http.get(path, params=query)).status_code == 422, query
    async with stage.client(workspace="elsewhere") as other:
        for path in ("", "/artifacts.zip"):
            assert (await other.get(f"/runs/{run['id']}/downloads{path}")).status_code == 404
        body = {"items": [{"path": "logs.txt"}]}
        assert (await other.post(f"/runs/{run['id']}/downloads/urls", json=body)).status_code == 404
    async with stage.client(token="none") as stranger:
        assert (await stranger.get(f"/runs/{run['id']}/downloads")).status_code == 401


async def test_artifacts_come_in_pages_of_whole_results(stage, http, run):
    await finish(stage, run)
    whole = await manifest_of(http, run, types="artifacts")
    assert whole.next_after is None
    assert (whole.totals["artifacts"].files, whole.totals["artifacts"].bytes) == (4, 26)
    first = await manifest_of(http, run, types="results,artifacts", limit=1)
    assert [one.path.split("/")[0] for one in first.files] == ["results.csv", *["artifacts"] * 2]
    found, after = first.files[1:], first.next_after
    while after is not None:
        part = await manifest_of(http, run, types="results,artifacts", limit=1, after=str(after))
        assert part.totals == {}
        found, after = found + part.files, part.next_after
    assert found == whole.files


async def test_the_zip_holds_every_artifact_under_a_path_that_leads_nowhere_else(stage, http, run):
    files = {
        "verifier/out put.txt": b"fine",
        "../../etc/passwd": b"climbs",
        "/root/key": b"absolute",
        "C:\\windows\\x": b"drive",
        "a\x1b[31m.txt": b"escape",
        "Log.txt": b"first",
        "log.txt": b"second",
    }
    artifacts = await keep_artifacts(stage, **files)
    slot = await stage.result(run["id"], "fix-roman", artifacts=artifacts)
    answer = await http.get(f"/runs/{run['name']}/downloads/artifacts.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["x-assay-snapshot"] == "true"
    name = f'attachment; filename="{run["name"]}-artifacts.zip"'
    assert answer.headers["content-disposition"] == name
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    fit = (
        *("verifier/out put.txt", "_/_/etc/passwd", "root/key", "C__windows_x", "a_[31m.txt"),
        *("Log.txt", "log.txt~2"),
    )
    assert archive.namelist() == [f"artifacts/{slot}/{one}" for one in fit]
    assert [archive.read(one) for one in archive.namelist()] == list(files.values())
    listed = await manifest_of(http, run, types="artifacts")
    assert [one.path for one in listed.files] == archive.namelist()


async def test_the_zip_says_which_files_are_gone(stage, http, run):
    kept = await stage.blobs.keep(b"here")
    listed = [
        {"path": "gone.txt", "size": 4, "sha256": "a" * 64},
        {"path": "here.txt", "size": 4, "sha256": kept},
    ]
    sha256 = await stage.blobs.keep(orjson.dumps({"files": listed}))
    artifacts = {"sha256": sha256, "files": 2, "bytes": 8}
    slot = await stage.result(run["id"], "fix-roman", artifacts=artifacts)
    answer = await http.get(f"/runs/{run['name']}/downloads/artifacts.zip")
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.namelist() == [f"artifacts/{slot}/here.txt", "artifacts/MISSING.txt"]
    assert archive.read("artifacts/MISSING.txt").decode() == f"artifacts/{slot}/gone.txt\n"
    path = f"artifacts/{slot}/gone.txt"
    [made] = (await urls_of(http, run, [{"path": path}])).items
    answer = await http.get(urlsplit(made.url).path.removeprefix("/api/v1"))
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


async def test_rendered_files_are_swept_after_a_day_and_artifacts_never(stage, http, run):
    await finish(stage, run)
    listed = await manifest_of(http, run, types="logs,artifacts")
    items = [{"path": one.path, "token": one.token} for one in listed.files[:2]]
    urls = (await urls_of(http, run, items)).items
    assert await exports(stage.blobs).sweep(datetime.now(UTC) - AGE) == 0
    assert await exports(stage.blobs).sweep(datetime.now(UTC) + timedelta(minutes=1)) == 1
    answers = [await http.get(urlsplit(one.url).path.removeprefix("/api/v1")) for one in urls]
    assert [one.status_code for one in answers] == [404, 200]
    assert "ask for the run's downloads again" in answers[0].json()["detail"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("out.txt", 'attachment; filename="out.txt"'),
        ("a/b/out put.txt", 'attachment; filename="out put.txt"'),
        ('x"; y\r\nSet-Cookie: a=b', None),
        ("ü.txt", "attachment; filename=\"_.txt\"; filename*=UTF-8''%C3%BC.txt"),
        ("x" * 500 + ".txt", f'attachment; filename="{"x" * 196}.txt"'),
    ],
)
def test_a_name_of_a_sandbox_cannot_write_headers(name, said):
    found = attachment(name)
    assert found.isprintable()
    assert found.count('"') == 2
    assert said in {None, found}


@pytest.mark.parametrize(
    ("path", "fit"),
    [
        ("a/b.txt", "a/b.txt"),
        ("a//./b", "a/b"),
        ("..", "_"),
        ("", "_"),
        ("\u202etxt.exe", "_txt.exe"),
        ("...", "..."),
    ],
)
def test_a_path_of_a_sandbox_leads_nowhere_else(path, fit):
    assert fit_path(path) == fit
