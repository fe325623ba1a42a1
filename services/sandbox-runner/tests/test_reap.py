"""What is left of sandboxes is removed, and what a live runner owns is not."""

import contextlib
import subprocess
import sys

import docker
import pytest

from sandbox_runner.environments.ownership import FILE, Owner
from sandbox_runner.reap import abandoned_by, everything, reap_docker, reap_local

IMAGE = "python:3.12-slim-bookworm"


def ended_owner(runner: str = "gone") -> Owner:
    """The owner that a process was which has ended."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from sandbox_runner.environments.ownership import Owner; "
            "print(Owner.of_this_process({}).mark)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return Owner(told.stdout.strip(), runner)


def test_an_owner_is_told_by_folder_and_by_labels(tmp_path):
    mine = Owner.of_this_process({"assay.runner": "me"})
    mine.to_folder(tmp_path)
    assert Owner.from_folder(tmp_path) == mine
    assert Owner.from_labels({"assay.runner": "me", **mine.to_labels()}) == mine
    assert not mine.has_ended
    assert ended_owner().has_ended
    assert Owner.from_folder(tmp_path / "none").has_ended


def test_nothing_is_sure_of_a_process_in_another_place():
    elsewhere = Owner("another-boot-1/1/5", "")
    assert not elsewhere.has_ended


def test_folders_without_a_living_owner_are_removed(tmp_path):
    mine = Owner.of_this_process({"assay.runner": "me"})
    for name, owner in (
        ("local-a", ended_owner()),
        ("local-b", mine),
        ("trials/c", ended_owner()),
        ("trials/d", mine),
        ("trials/e", None),
        ("tasks/ab", None),
    ):
        (tmp_path / name).mkdir(parents=True)
        if owner is not None:
            owner.to_folder(tmp_path / name)
    (tmp_path / "local-a" / "closed").mkdir(mode=0o000)
    assert reap_local(tmp_path, abandoned_by("another")) == 3
    left = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob(FILE)}
    assert left == {"local-b", "trials/d"}
    assert reap_local(tmp_path, abandoned_by("me")) == 2
    assert (tmp_path / "tasks" / "ab").is_dir()


@pytest.mark.docker
def test_containers_without_a_living_owner_are_removed(tmp_path):
    installation = f"test-{tmp_path.name}"
    with contextlib.closing(docker.from_env()) as client:

        def start(owner: Owner, of: str = installation) -> str:
            labels = {"assay.installation": of, "assay.runner": owner.runner, **owner.to_labels()}
            return str(
                client.containers.run(IMAGE, ["sleep", "600"], labels=labels, detach=True).id
            )

        mine = Owner.of_this_process({"assay.runner": "me"})
        kept, other = start(mine), start(ended_owner(), "another-installation")
        gone = start(ended_owner())
        network = client.networks.create(
            f"{installation}-sandboxes", labels={"assay.installation": installation}
        )
        try:
            assert reap_docker(client, installation, abandoned_by("another")) == 1
            found = {one.id for one in client.containers.list(all=True)}
            assert {kept, other} <= found
            assert gone not in found
            assert network.id not in {one.id for one in client.networks.list()}
            assert reap_docker(client, installation, everything) == 1
        finally:
            client.api.remove_container(other, force=True)
