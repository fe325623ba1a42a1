"""Removing what no live runner owns: containers, networks and scratch folders of this installation.

A local sandbox dies with its runner and leaves a folder at most. Containers live on when a runner
is killed; they carry the installation's name, and one runner per installation and machine owns them
all. `python -m sandbox_runner.reap` does the same from outside, after the runner has ended.
"""

import argparse
import shutil
import sys
from pathlib import Path

import docker
from docker.errors import DockerException, NotFound

_LABEL = "assay.installation"


def reap(scratch: Path, installation: str, *, docker_too: bool) -> int:
    """Remove every leftover; returns how many there were. No try may be running here."""
    removed = 0
    for folder in (scratch, scratch / "trials"):
        if folder.is_dir():
            leftovers = [*folder.glob("local-*")]
            if folder.name == "trials":
                leftovers = [*folder.iterdir()]
            for leftover in leftovers:
                shutil.rmtree(leftover, ignore_errors=True)
                removed += 1
    return removed + (reap_containers(installation) if docker_too else 0)


def reap_containers(installation: str) -> int:
    """Remove the installation's containers and networks; returns how many there were."""
    removed = 0
    client = docker.from_env(timeout=60)
    try:
        wanted: dict[str, str | list[str] | bool] = {"label": f"{_LABEL}={installation}"}
        for container in client.containers.list(all=True, filters=wanted, ignore_removed=True):
            try:
                container.remove(force=True, v=True)
                removed += 1
            except NotFound:
                continue
        for network in client.networks.list(filters=wanted):
            try:
                network.remove()
                removed += 1
            except NotFound:
                continue
    finally:
        client.close()
    return removed


def main() -> int:
    """Reap from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--installation", required=True)
    chosen = parser.parse_args()
    try:
        client = docker.from_env(timeout=5)
        client.ping()
        client.close()
        docker_too = True
    except DockerException:
        docker_too = False
    removed = reap(chosen.scratch, chosen.installation, docker_too=docker_too)
    sys.stdout.write(f"removed {removed}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
