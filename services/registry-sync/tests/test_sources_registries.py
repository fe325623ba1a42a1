"""Registries that are wrong, from elsewhere, or hosted; and tasks that cannot be used."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from assay_contracts.values import FolderSource, RegistrySource
from assay_kernel.blobs import BlobStore
from registry_sync.git import Repositories
from registry_sync.registries import ListedTask
from registry_sync.source_errors import (
    CredentialsNeededError,
    MalformedRegistryError,
    SourceError,
    UnknownDatasetError,
    UnknownVersionError,
    UnreachableError,
)
from registry_sync.sources import PAGE_BYTES, OpenSource, ReadTasks, open_source, read_tasks
from registry_sync.task_folders import find_task_folders


def write_task(folder: Path, toml: str = '[environment]\ndocker_image = "x"\n') -> Path:
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text(toml)
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "tests" / "test.sh").write_text("#!/bin/bash\n")
    return folder


def dataset(*tasks: dict[str, object], **fields: object) -> dict[str, object]:
    return {"name": "set", "version": "1.0", "description": "", "tasks": list(tasks)} | fields


@pytest.fixture
def read(tmp_path):
    async def everything(source):
        work = tmp_path / f"work-{len(list(tmp_path.glob('work-*')))}"
        opened = await open_source(source, work)
        blobs = BlobStore(f"file://{tmp_path}/blobs")
        pages = read_tasks(opened, blobs, work, ReadTasks())
        return opened, [one async for page in pages for one in page]

    return everything


@pytest.fixture
def web():
    """Answers by path: (status, JSON), or a function of the query; and the server's address."""
    answers: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            answer = answers.get(parts.path, (404, {"message": "no"}))
            status, body = answer(parse_qs(parts.query)) if callable(answer) else answer
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield answers, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def hosted(monkeypatch):
    """Points Harbor's clients at an address."""

    def point(address: str) -> None:
        monkeypatch.delenv("HARBOR_API_KEY", raising=False)
        monkeypatch.setattr("registry_sync.hub.SUPABASE_URL", address)
        monkeypatch.setattr("harbor.auth.client.SUPABASE_URL", address)
        for module in ("config", "harbor"):
            older = f"harbor.registry.client.harbor.{module}.HARBOR_SUPABASE_URL"
            monkeypatch.setattr(older, address)
        monkeypatch.setattr("harbor.auth.client.resolve_api_key", lambda: None)

    return point


async def test_a_registry_from_elsewhere_cannot_name_this_servers_disk(read, web, tmp_path):
    write_task(tmp_path / "secret")
    answers, address = web
    answers["/registry.json"] = (
        200,
        [
            dataset(
                {"name": "a", "path": str(tmp_path / "secret")},
                {"name": "b", "git_url": str(tmp_path), "path": "secret"},
                {"name": "c", "git_url": f"file://{tmp_path}", "path": "secret"},
            )
        ],
    )
    _, entries = await read(RegistrySource(dataset="set", registry=f"{address}/registry.json"))
    assert [one.location for one in entries] == [None, None, None]
    assert all("this server's disk" in (one.unavailable or "") for one in entries)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CredentialsNeededError), (404, SourceError), (503, UnreachableError)],
)
async def test_what_a_registry_answers_is_told_apart(read, web, status, error):
    answers, address = web
    answers["/registry.json"] = (status, {})
    with pytest.raises(SourceError, match=f"answered {status}") as raised:
        await read(RegistrySource(dataset="set", registry=f"{address}/registry.json"))
    assert type(raised.value) is error


async def test_the_place_of_a_mistake_in_a_registry_is_said(read, tmp_path):
    path = tmp_path / "registry.json"
    path.write_text(json.dumps([dataset({"name": "a", "path": "a"}, {"name": "b"})]))
    with pytest.raises(MalformedRegistryError, match=r"\[0\]\.tasks\[1\]\.path: Field required"):
        await read(RegistrySource(dataset="set", registry=str(path)))
    path.write_text('[\n{"name": }]')
    with pytest.raises(MalformedRegistryError, match="line 2"):
        await read(RegistrySource(dataset="set", registry=str(path)))


async def test_a_task_listed_twice_is_one_and_bad_ones_stay_with_the_reason(read, tmp_path):
    write_task(tmp_path / "tasks" / "a")
    tasks = [
        {"name": "a", "path": "tasks/a"},
        {"name": "a", "path": "tasks/a"},
        {"name": "b", "path": "tasks/b"},
        {"name": "c", "git_url": "/no/repository", "git_commit_id": "main", "path": "c"},
        {"name": "d", "git_url": "/no/repository", "path": "../d"},
    ]
    path = tmp_path / "registry.json"
    path.write_text(json.dumps([dataset(*tasks)]))
    _, entries = await read(RegistrySource(dataset="set@1.0", registry=str(path)))
    assert [(one.name, one.unavailable) for one in entries] == [
        ("a", None),
        ("b", "the folder of the task is not there"),
        ("c", "there is no git repository at /no/repository"),
        ("d", "the path '../d' does not stay within the repository"),
    ]


async def test_tasks_of_one_name_are_told_apart_and_only_the_first_can_run(read, tmp_path):
    toml = '[task]\nname = "org/same"\n[environment]\ndocker_image = "x"\n'
    for folder in ("a", "b", "c"):
        write_task(tmp_path / "set" / folder, toml)
    _, entries = await read(FolderSource(path=str(tmp_path / "set")))
    assert [one.name for one in entries] == ["org/same", "org/same~2", "org/same~3"]
    assert [one.location is None for one in entries] == [False, True, True]


async def test_a_broken_task_keeps_its_labels_and_its_reason_names_no_place(read, tmp_path):
    labels = '[metadata]\ncategory = "math"\ndifficulty = "HARD "\n'
    write_task(tmp_path / "set" / "a", labels)
    write_task(tmp_path / "set" / "b", f"{labels}[agent]\ntimeout_sec = 'soon'\n")
    write_task(tmp_path / "set" / "c", "[metadata")
    (write_task(tmp_path / "set" / "d") / "instruction.md").unlink()
    _, entries = await read(FolderSource(path=str(tmp_path / "set")))
    assert [(one.category, one.difficulty) for one in entries] == [
        ("math", "hard"),
        ("math", "hard"),
        (None, None),
        (None, None),
    ]
    a, b, c, d = (one.unavailable or "" for one in entries)
    assert a == "the task has neither an environment folder nor a docker_image"
    assert b.startswith("task.toml is wrong at agent.timeout_sec")
    assert c.startswith("task.toml cannot be read")
    assert d == "the task is missing instruction.md."


def test_folders_of_tasks_are_found_at_any_depth_but_not_in_tasks(tmp_path):
    for place in ("b", "group/a", ".hidden/x", "b/environment/y", "1/2/3/4/5"):
        write_task(tmp_path / place)
    assert find_task_folders(tmp_path) == ["b", "group/a"]
    assert find_task_folders(tmp_path / "b") == ["."]


async def test_a_page_stays_under_its_size(tmp_path):
    tasks = [ListedTask(f"{n:03}", None, "o" * 900, unavailable="u" * 900) for n in range(120)]
    opened = OpenSource("1", "k", "", None, tasks, Repositories(tmp_path))
    blobs = BlobStore(f"file://{tmp_path}/blobs")
    pages = [page async for page in read_tasks(opened, blobs, tmp_path, ReadTasks())]
    assert [one.name for page in pages for one in page] == [task.name for task in tasks]
    for page in pages:
        assert len(page) <= 50
        assert sum(len(one.model_dump_json()) + 1 for one in page) <= PAGE_BYTES


@pytest.mark.parametrize("name", ["org/set", "set"])
async def test_a_hosted_registry_that_does_not_answer_is_said_with_its_address(
    read, hosted, unused_tcp_port, name
):
    address = f"http://127.0.0.1:{unused_tcp_port}"
    hosted(address)
    for version in (None, "1"):
        with pytest.raises(UnreachableError, match=f"{address} cannot be reached"):
            await read(RegistrySource(dataset=name, version=version))


async def test_a_hosted_dataset_is_pinned_to_its_revision(web, hosted, tmp_path):
    answers, address = web
    hosted(address)
    version = {"id": "v", "content_hash": "ab" * 32, "description": "Two tasks", "yanked_at": None}
    package = {"id": "p", "type": "dataset", "name": "set", "org": {"name": "org"}}

    def task(name):
        edge = {"name": name, "org": {"name": "org"}}
        return {
            "task_version_id": name,
            "task_version": {"content_hash": "cd" * 32, "package": edge},
        }

    def packages(query):
        return 200, [package] if query["name"] == ["eq.set"] else []

    def tags(query):
        if query["tag"] != ["eq.latest"]:
            return 200, []
        return 200, [{"package": package, "dataset_version": version}]

    def versions(query):
        if "package_id" in query:
            row = {"revision": 3, "tags": [{"tag": "latest"}], "content_hash": "ab" * 32}
            return 200, [row]
        row = {"content_hash": "ab" * 32, "description": "", "package": package}
        return 200, [row | {"dataset_version_task": []}]

    answers["/rest/v1/package"] = packages
    answers["/rest/v1/dataset_version_tag"] = tags
    answers["/rest/v1/dataset_version"] = versions
    answers["/rest/v1/dataset_version_task"] = (200, [task("a"), task("b")])
    answers["/rest/v1/dataset_version_file"] = (200, [])
    opened = await open_source(RegistrySource(dataset="org/set"), tmp_path)
    assert (opened.version, opened.key, opened.description) == ("3", "org/set@3", "Two tasks")
    assert [(task.name, task.origin) for task in opened.tasks] == [
        (f"org/{name}", f"org/{name}@sha256:{'cd' * 32}") for name in ("a", "b")
    ]
    with pytest.raises(UnknownVersionError, match="no version beta; it has 3, latest"):
        await open_source(RegistrySource(dataset="org/set", version="beta"), tmp_path)
    with pytest.raises(UnknownDatasetError, match=r"no dataset org/sat .* did you mean org/set\?"):
        await open_source(RegistrySource(dataset="org/sat"), tmp_path)
    answers["/rest/v1/dataset_version_task"] = (200, [{"task_version_id": "x"}])
    with pytest.raises(CredentialsNeededError, match="1 tasks of the dataset are not open"):
        await open_source(RegistrySource(dataset="org/set"), tmp_path)
