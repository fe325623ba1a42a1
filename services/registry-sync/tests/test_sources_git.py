"""Repositories that are slow, gone, hostile or odd."""

import asyncio
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from assay_contracts.values import GitSource
from assay_kernel.blobs import BlobStore
from registry_sync.git import Repositories
from registry_sync.source_errors import (
    CredentialsNeededError,
    SourceError,
    UnknownVersionError,
    UnreachableError,
)
from registry_sync.sources import ReadTasks, open_source, read_tasks


def write_task(folder: Path, toml: str = '[environment]\ndocker_image = "x"\n') -> Path:
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text(toml)
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "tests" / "test.sh").write_text("#!/bin/bash\n")
    return folder


class Repository:
    """A git repository on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        done = subprocess.run(
            ("git", *identity, "-C", self.folder, *arguments),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "tasks")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


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
def silent():
    """The port of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_an_annotated_tag_a_branch_and_a_commit_each_give_the_commit(
    read, repository, tmp_path
):
    write_task(repository.folder / "tasks" / "one")
    first = repository.commit()
    repository.git("tag", "--annotate", "-m", "release", "v1")
    write_task(repository.folder / "tasks" / "two")
    second = repository.commit()
    url = f"file://{repository.folder}"
    for ref, commit, count in (
        ("v1", first, 1),
        (first, first, 1),
        ("main", second, 2),
        ("refs/heads/main", second, 2),
        (None, second, 2),
    ):
        opened, entries = await read(GitSource(url=url, ref=ref))
        assert (opened.version, len(entries)) == (commit, count)
        assert entries[0].origin == f"{url} at {commit}, tasks/one"


async def test_a_commit_that_the_repository_does_not_have_is_said(read, repository):
    write_task(repository.folder / "one")
    commit = repository.commit()
    with pytest.raises(UnknownVersionError, match=f"does not have the commit {'0' * 40}"):
        await read(GitSource(url=str(repository.folder), ref="0" * 40))
    with pytest.raises(UnknownVersionError, match="given with all its 40 digits"):
        await read(GitSource(url=str(repository.folder), ref=commit[:7]))


async def test_tasks_are_found_below_the_path_else_below_tasks_else_anywhere(read, repository):
    for place in ("loose", "tasks/one", "tasks/group/two", "other/odd [name] #1"):
        write_task(repository.folder / place)
    write_task(repository.folder / "tasks" / "one" / "environment" / "nested")
    repository.commit()

    async def names(path):
        _, entries = await read(GitSource(url=str(repository.folder), path=path))
        assert [one.unavailable for one in entries] == [None] * len(entries)
        return [one.name for one in entries]

    assert await names(None) == ["two", "one"]
    assert await names("other/") == ["odd [name] #1"]
    assert await names("tasks/one") == ["one"]
    for path, message in (
        ("nowhere", "does not have the folder 'nowhere'"),
        ("../elsewhere", "leaves the repository"),
        ("loose/task.toml", "is a file"),
        ("tasks/one/tests", "holds no task"),
    ):
        with pytest.raises(SourceError, match=message):
            await names(path)


async def test_a_link_of_the_repository_leads_nowhere(read, repository, tmp_path):
    write_task(tmp_path / "secret")
    task = write_task(repository.folder / "tasks" / "one")
    (task / "tests" / "passwd").symlink_to("/etc/passwd")
    (repository.folder / "tasks" / "two").symlink_to(tmp_path / "secret")
    repository.commit()
    _, entries = await read(GitSource(url=str(repository.folder)))
    assert [one.name for one in entries] == ["one"]
    assert entries[0].location is None
    assert "passwd" in (entries[0].unavailable or "")


@pytest.mark.parametrize(
    "url", ["https://someone:s3cret@git.example/r", "https://s3cret@git.example/r"]
)
async def test_an_address_with_a_secret_is_refused_without_repeating_it(read, url):
    with pytest.raises(CredentialsNeededError) as refusal:
        await read(GitSource(url=url))
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["ext::sh -c id", "--upload-pack=id", "relative/path", "ftp://git.example/r"]
)
async def test_what_is_no_address_is_refused_before_git_sees_it(read, url):
    with pytest.raises(SourceError, match="is no address"):
        await read(GitSource(url=url))


async def test_a_server_that_is_not_there_is_unreachable(read, unused_tcp_port):
    url = f"http://127.0.0.1:{unused_tcp_port}/r.git"
    with pytest.raises(UnreachableError, match=f"{url} cannot be reached"):
        await read(GitSource(url=url))


async def test_a_server_that_says_nothing_is_given_up_and_git_ends(tmp_path, silent):
    repositories = Repositories(tmp_path, timeout=0.5)
    with pytest.raises(UnreachableError, match="did not answer within"):
        await repositories.resolve(f"git://127.0.0.1:{silent}/r", None)
    assert not _gits()


async def test_git_ends_with_the_one_who_asked(tmp_path, silent):
    asking = asyncio.create_task(
        Repositories(tmp_path).resolve(f"git://127.0.0.1:{silent}/r", None)
    )
    async with asyncio.timeout(60):
        while not _gits():
            await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not _gits()


def _gits() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "git" in child.name()]
