"""Benchmarks read from registries, git and folders, and what is said when they cannot be."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from assay_contracts.values import FolderSource, GitSource, RegistrySource
from assay_kernel.blobs import BlobStore
from assay_local.embedded import free_port
from registry_sync.archives import UnfitTaskError, pack_task
from registry_sync.catalogue import InvalidCatalogueError, load_catalogue
from registry_sync.source_errors import SourceError
from registry_sync.sources import ReadTasks, open_source, read_tasks


def write_task(folder: Path, *, category: str | None = "toy", difficulty: str = "Easy") -> Path:
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    metadata = f'difficulty = "{difficulty}"\n' + (f'category = "{category}"\n' if category else "")
    (folder / "task.toml").write_text(
        f'version = "1.0"\n[metadata]\n{metadata}[environment]\ndocker_image = "x"\n'
    )
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "tests" / "test.sh").write_text("#!/bin/bash\n")
    (folder / "tests" / "test.sh").chmod(0o755)
    (folder / "solution" / "solve.sh").write_text("#!/bin/bash\n")
    return folder


@pytest.fixture
def blobs(tmp_path):
    return BlobStore(f"file://{tmp_path}/blobs")


@pytest.fixture
def read(blobs, tmp_path):
    async def everything(source):
        work = tmp_path / f"work-{len(list(tmp_path.glob('work-*')))}"
        work.mkdir()
        opened = await open_source(source, work)
        total = ReadTasks()
        entries = [one async for page in read_tasks(opened, blobs, work, total) for one in page]
        return opened, entries, total.digest

    return everything


@pytest.fixture
def repository(tmp_path):
    """A git repository with two tasks, tagged v1."""
    folder = tmp_path / "repository"
    write_task(folder / "tasks" / "one")
    write_task(folder / "tasks" / "two", category=None, difficulty="impossible")

    def git(*arguments):
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(
            ("git", *identity, "-C", folder, *arguments), check=True, capture_output=True
        )

    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("commit", "--quiet", "-m", "tasks")
    git("tag", "v1")
    return folder


def registry_file(tmp_path, repository, **changes):
    tasks = [
        {"name": "one", "git_url": str(repository), "git_commit_id": None, "path": "tasks/one"},
        {"name": "two", "git_url": str(repository), "git_commit_id": None, "path": "tasks/two"},
    ]
    path = tmp_path / "registry.json"
    spec = {"name": "pair", "version": "1.0", "description": "Two tasks", "tasks": tasks}
    path.write_text(json.dumps([spec | changes, spec | {"version": "0.9"}]))
    return path


async def test_a_folder_of_tasks_is_read_with_what_each_says_of_itself(read, blobs, tmp_path):
    folder = tmp_path / "set"
    write_task(folder / "b", category=None, difficulty="quite hard")
    write_task(folder / "a", difficulty="HARD")
    _, entries, digest = await read(FolderSource(path=str(folder)))
    assert [(one.name, one.category, one.difficulty) for one in entries] == [
        ("a", "toy", "hard"),
        ("b", None, None),
    ]
    assert digest.startswith("sha256:")
    assert entries[0].location is not None
    archive = await blobs.read(entries[0].location.sha256)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        modes = {member.name: member.mode for member in opened}
    assert modes["tests/test.sh"] == 0o755
    assert modes["instruction.md"] == 0o644


async def test_the_same_files_give_the_same_digest_and_one_changed_byte_another(read, tmp_path):
    folder = tmp_path / "set"
    task = write_task(folder / "a")
    _, _, first = await read(FolderSource(path=str(folder)))
    (task / "instruction.md").touch()
    _, _, second = await read(FolderSource(path=str(folder)))
    (task / "instruction.md").write_text("Do it!\n")
    _, _, third = await read(FolderSource(path=str(folder)))
    assert first == second
    assert third != first


async def test_a_registry_file_names_a_git_repository(read, repository, tmp_path):
    path = registry_file(tmp_path, repository)
    opened, entries, _ = await read(RegistrySource(dataset="pair", registry=str(path)))
    assert (opened.version, opened.key, opened.description) == ("1.0", "pair@1.0", "Two tasks")
    assert [(one.name, one.difficulty, one.unavailable) for one in entries] == [
        ("one", "easy", None),
        ("two", None, None),
    ]


async def test_a_version_can_be_asked_for(read, repository, tmp_path):
    path = registry_file(tmp_path, repository)
    source = RegistrySource(dataset="pair", version="0.9", registry=str(path))
    opened, _, _ = await read(source)
    assert opened.version == "0.9"


async def test_a_task_that_is_not_there_stays_in_the_list_with_the_reason(
    read, repository, tmp_path
):
    tasks = [
        {"name": "one", "git_url": str(repository), "git_commit_id": None, "path": "tasks/one"},
        {"name": "gone", "git_url": str(repository), "git_commit_id": None, "path": "tasks/gone"},
    ]
    path = registry_file(tmp_path, repository, tasks=tasks)
    _, entries, _ = await read(RegistrySource(dataset="pair", registry=str(path)))
    assert [one.name for one in entries] == ["one", "gone"]
    assert entries[0].unavailable is None
    assert entries[1].unavailable
    assert entries[1].location is None


async def test_a_broken_task_and_a_second_of_one_name_are_unavailable(read, tmp_path):
    folder = tmp_path / "set"
    write_task(folder / "a")
    broken = write_task(folder / "b")
    (broken / "task.toml").write_text("not toml [")
    for name in ("c", "d"):
        task = write_task(folder / name)
        toml = (task / "task.toml").read_text()
        (task / "task.toml").write_text(f'{toml}\n[task]\nname = "org/same"\n')
    _, entries, _ = await read(FolderSource(path=str(folder)))
    assert [one.unavailable is None for one in entries] == [True, False, True, False]
    assert entries[3].unavailable == "another task is called org/same too"


async def test_a_git_repository_is_pinned_to_its_commit(read, repository):
    opened, entries, _ = await read(GitSource(url=str(repository), ref="v1", path="tasks"))
    assert len(opened.version) == 40
    assert [one.name for one in entries] == ["one", "two"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (FolderSource(path="/no/such/folder"), "there is no folder /no/such/folder"),
        (GitSource(url="/no/such/repository"), "there is no git repository at /no/such/repository"),
        (RegistrySource(dataset="x", registry="/no/such.json"), "there is no registry file"),
    ],
)
async def test_what_is_not_there_is_said(read, source, message):
    with pytest.raises(SourceError, match=message):
        await read(source)


async def test_an_unknown_ref_dataset_or_version_is_told_with_what_there_is(
    read, repository, tmp_path
):
    path = str(registry_file(tmp_path, repository))
    for source, message in (
        (GitSource(url=str(repository), ref="v9"), "no branch, tag or commit v9"),
        (RegistrySource(dataset="pear", registry=path), "no dataset pear; did you mean pair"),
        (
            RegistrySource(dataset="pair", version="3", registry=path),
            "no version 3; it has 0.9, 1.0",
        ),
    ):
        with pytest.raises(SourceError, match=message):
            await read(source)


async def test_a_registry_that_cannot_be_reached_is_said_with_its_address(read):
    address = f"http://127.0.0.1:{free_port()}/registry.json"
    with pytest.raises(SourceError, match=f"{address} cannot be reached"):
        await read(RegistrySource(dataset="x", registry=address))


async def test_a_file_that_is_no_registry_is_said(read, tmp_path):
    path = tmp_path / "registry.json"
    path.write_text('{"nothing": 1}')
    with pytest.raises(SourceError, match="is not a registry JSON"):
        await read(RegistrySource(dataset="x", registry=str(path)))


async def test_a_folder_without_tasks_is_said(read, tmp_path):
    with pytest.raises(SourceError, match="holds no task"):
        await read(FolderSource(path=str(tmp_path)))


def test_a_link_out_of_a_task_is_refused(tmp_path):
    task = write_task(tmp_path / "a")
    (task / "environment" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(UnfitTaskError, match="environment/passwd is a link"):
        pack_task(task)


def test_the_catalogue_is_sound_and_a_mistake_in_one_is_named(tmp_path):
    demo = load_catalogue().entry("demo")
    assert demo is not None
    assert load_catalogue().entry("unheard-of") is None
    path = tmp_path / "catalogue.toml"
    path.write_text('[[benchmarks]]\nkey = "x"\nsurprise = 1\n')
    with pytest.raises(InvalidCatalogueError, match=r"catalogue.toml(.|\n)*surprise"):
        load_catalogue(path)
