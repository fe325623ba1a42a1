"""Builds one image, as a program: `python -m sandbox_runner.environments.image_build`.

Killing it ends its connection, and then the engine gives the build up and removes what it began.
One process of this machine builds a tag at a time; the next finds the image there.
"""

import fcntl
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker import DockerClient
from docker.errors import APIError, ImageNotFound

_LAST_LINES = 20


class _BuildFailedError(Exception):
    """The engine could not build; the message ends with the last lines of the build."""


def build(client: DockerClient, folder: str, tag: str, *, force: bool) -> None:
    """Build `folder` as `tag`, unless the image is there and `force` is not given."""
    with _one_at_a_time(tag):
        if not force:
            try:
                client.images.get(tag)
            except ImageNotFound:
                pass
            else:
                return
        lines: deque[str] = deque(maxlen=_LAST_LINES)
        for step in client.api.build(
            path=folder, tag=tag, rm=True, forcerm=True, nocache=force, decode=True, timeout=None
        ):
            lines.extend(str(step.get("stream", "")).splitlines())
            if "error" in step:
                raise _BuildFailedError("\n".join([str(step["error"]), *lines]))


@contextmanager
def _one_at_a_time(tag: str) -> Iterator[None]:
    name = f"assay-build-{os.geteuid()}-{tag.replace('/', '-').replace(':', '-')}.lock"
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
    lock = os.open(Path(tempfile.gettempdir()) / name, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def main() -> int:
    """Build what the command line names."""
    folder, tag, force = sys.argv[1:]
    client = docker.from_env(timeout=120)
    try:
        build(client, folder, tag, force=bool(force))
    except (_BuildFailedError, APIError, OSError, TypeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        client.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
