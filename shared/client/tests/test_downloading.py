"""Downloading from servers that are slow, broken or hostile: what is written, retried, refused."""

import hashlib
import json
import time
from uuid import UUID

import pytest

from assay_client.api import AssayClient
from assay_client.downloading import Order, download_run
from assay_client.errors import UnexpectedAnswerError
from assay_contracts.http import (
    DownloadFile,
    DownloadManifest,
    DownloadTotals,
    DownloadType,
    DownloadUrl,
    DownloadUrls,
    TableFormat,
)

RUN = UUID("01890000-0000-7000-8000-000000000001")
BASE = "/api/v1/runs/r/downloads"
SLOT = "artifacts/0f2b9a52-1111-5222-8333-123456789abc"
CONTENT = bytes(range(256)) * 1000


def listed(path=f"{SLOT}/a.bin", content=CONTENT, **changes):
    """A file as the server lists it."""
    standard = {
        "path": path,
        "type": "artifacts",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "media_type": "application/octet-stream",
        "token": f"pin of {path}",
    }
    return DownloadFile(**standard | changes)


def offer(server, *files, addressed=None):
    """Let the server list files, and give an address `/f/<place>` of each, or of those named."""
    total = DownloadTotals(files=len(files), bytes=sum(one.size for one in files))
    manifest = DownloadManifest(
        run_id=RUN,
        run_name="bright-otter",
        run_status="finished",
        snapshot=False,
        files=list(files),
        totals={"artifacts": total},
        next_after=None,
    )
    server.answers("GET", BASE, manifest)
    urls = [
        DownloadUrl(path=one.path, url=f"{server.url}/f/{at}")
        for at, one in enumerate(files if addressed is None else addressed)
    ]
    server.answers("POST", f"{BASE}/urls", DownloadUrls(items=urls, expires_in=900))


@pytest.fixture
def download(server, tmp_path):
    """Downloads the artifacts of the run `r` into `out`; returns the report."""

    def run(*, overwrite=False):
        order = Order("r", [DownloadType.ARTIFACTS], TableFormat.CSV, overwrite)
        with AssayClient(server.url, token="t0ken") as client:
            return download_run(client, order, tmp_path / "out", lambda _: None)

    run.folder = tmp_path / "out"
    return run


def files_in(folder):
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())


def errors(report):
    return {one.path: one.error for one in report.files_failed}


def test_a_cut_off_file_goes_on_where_it_was_and_no_token_is_sent(server, download, make):
    offer(server, listed())
    cut = make.reply(200, CONTENT[:100_000], promised=len(CONTENT))
    server.replies("GET", "/f/0", cut, make.reply(206, CONTENT[100_000:]))
    report = download()
    assert (errors(report), report.files_downloaded) == ({}, 1)
    assert (download.folder / SLOT / "a.bin").read_bytes() == CONTENT
    first, second = server.requests("GET", "/f/0")
    assert "Range" not in first.headers
    assert second.headers["Range"] == "bytes=100000-"
    assert second.headers["If-Range"] == f'"{listed().sha256}"'
    assert "Authorization" not in first.headers
    assert "X-Assay-Workspace" not in first.headers
    [asked] = server.requests("POST", f"{BASE}/urls")
    assert asked.body == {"items": [{"path": listed().path, "token": listed().token}]}


def test_a_server_that_sends_the_whole_again_is_understood(server, download, make):
    offer(server, listed())
    cut = make.reply(200, b"x" * 100_000, promised=len(CONTENT))
    server.replies("GET", "/f/0", cut, make.reply(200, CONTENT))
    assert errors(download()) == {}
    assert (download.folder / SLOT / "a.bin").read_bytes() == CONTENT


def test_an_address_that_has_expired_is_asked_for_anew(server, download, make):
    offer(server, listed())
    expired = make.problem(403, "FORBIDDEN", "Forbidden")
    server.replies("GET", "/f/0", make.reply(403, make.to_bytes(expired)), make.reply(200, CONTENT))
    assert errors(download()) == {}
    assert len(server.requests("POST", f"{BASE}/urls")) == 2


def test_a_server_that_is_asked_too_often_is_given_the_time_that_it_asks_for(
    server, download, make
):
    offer(server, listed())
    limited = make.to_bytes(make.problem(429, "RATE_LIMITED", "Too Many Requests"))
    server.replies("GET", "/f/0", make.reply(429, limited, retry_after=2), make.reply(200, CONTENT))
    begun = time.monotonic()
    assert errors(download()) == {}
    assert time.monotonic() - begun >= 2
    assert len(server.requests("GET", "/f/0")) == 2


def test_one_that_fails_is_listed_without_its_address_and_the_others_are_there(
    server, download, make
):
    broken, fine, gone = (listed(f"{SLOT}/{name}") for name in ("broken", "fine", "gone"))
    offer(server, broken, fine, gone)
    server.replies("GET", "/f/0", make.reply(200, b"y" * len(CONTENT)))
    server.replies("GET", "/f/1", make.reply(200, CONTENT))
    report = download()
    assert set(errors(report)) == {broken.path, gone.path}
    assert "not the 256000 that were listed" in errors(report)[broken.path]
    assert server.url not in json.dumps(errors(report))
    assert len(server.requests("GET", "/f/0")) == 3
    assert len(server.requests("GET", "/f/2")) == 1
    assert files_in(download.folder) == [fine.path]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../evil", "leads elsewhere"),
        ("artifacts/../../evil", "leads elsewhere"),
        (f"{SLOT}/../x", "leads elsewhere"),
        ("/etc/evil", "leads elsewhere"),
        (f"{SLOT}\\..\\evil", "leads elsewhere"),
        (f"{SLOT}//a", "leads elsewhere"),
        (f"{SLOT}/a\0b", "leads elsewhere"),
        ("artifacts/a", "none of what was asked for"),
        ("results.csv", "none of what was asked for"),
        ("elsewhere/a/b", "none of what was asked for"),
    ],
)
def test_a_path_off_the_layout_is_refused_and_nothing_is_fetched(
    server, download, make, path, said, tmp_path
):
    offer(server, listed(path))
    server.replies("GET", "/f/0", make.reply(200, CONTENT))
    report = download()
    assert said in errors(report)[path]
    assert server.requests("GET", "/f/0") == []
    assert files_in(tmp_path) == []


def test_a_type_that_was_not_asked_for_and_a_path_listed_twice_are_refused(server, download, make):
    offer(server, listed(), listed(), listed("logs.txt", type="logs"), addressed=[listed()])
    server.replies("GET", "/f/0", make.reply(200, CONTENT))
    report = download()
    assert {one.error for one in report.files_failed} == {
        "its path is listed twice",
        "its path is none of what was asked for",
    }
    assert files_in(download.folder) == [listed().path]


@pytest.mark.parametrize("link", ["artifacts", SLOT, f"{SLOT}/a.bin"])
def test_a_symbolic_link_that_leads_elsewhere_is_not_followed(
    server, download, make, link, tmp_path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = download.folder / link
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere / "target" if link.endswith("bin") else elsewhere)
    offer(server, listed())
    server.replies("GET", "/f/0", make.reply(200, CONTENT))
    assert "symbolic link" in errors(download(overwrite=True))[listed().path]
    assert files_in(elsewhere) == []


def test_addresses_of_other_files_are_an_error_of_the_server(server, download):
    offer(server, listed(), addressed=[listed(f"{SLOT}/other")])
    with pytest.raises(UnexpectedAnswerError, match="other files"):
        download()


def test_pages_are_followed_to_the_last(server, download, make):
    files = [listed(f"{SLOT}/{number}", bytes([number])) for number in range(3)]
    slot = UUID(SLOT.split("/")[1])
    for at, file in enumerate(files):
        page = DownloadManifest(
            run_id=RUN,
            run_name="bright-otter",
            run_status="running",
            snapshot=True,
            files=[file],
            totals={"artifacts": DownloadTotals(files=3, bytes=3)} if at == 0 else {},
            next_after=slot if at < 2 else None,
        )
        server.answers("GET", BASE if at == 0 else f"/api/v1/runs/{RUN}/downloads", page)
        made = DownloadUrl(path=file.path, url=f"{server.url}/f/{at}")
        server.answers("POST", f"{BASE}/urls", DownloadUrls(items=[made], expires_in=900))
        server.replies("GET", f"/f/{at}", make.reply(200, bytes([at])))
    report = download()
    assert (report.files_downloaded, report.total_files, report.snapshot) == (3, 3, True)
    assert files_in(download.folder) == sorted(one.path for one in files)
    second = server.requests("GET", f"/api/v1/runs/{RUN}/downloads")[0]
    assert second.query["after"] == [str(slot)]
