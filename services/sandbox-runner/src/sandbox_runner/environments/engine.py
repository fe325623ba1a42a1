"""The Docker engine as the environment needs it: one client, blocking calls off the event loop.

The SDK blocks; a command in a sandbox may block for an hour. So calls run in threads of their own,
many more than the default pool has, and never hold up the event loop.
"""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import structlog
from docker import DockerClient
from docker.errors import APIError, BuildError, DockerException, ImageNotFound, NotFound
from harbor.environments.base import SandboxBuildFailedError

from sandbox_runner.environments.errors import ImageUnavailableError

_THREADS = 256
_TIMEOUT_SECONDS = 120
_LOG_LINES = 20

log = structlog.get_logger(__name__)
_pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="docker")
_building: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)


@functools.cache
def engine() -> DockerClient:
    """The one client of this process."""
    return docker.from_env(timeout=_TIMEOUT_SECONDS, max_pool_size=_THREADS)


async def off_loop[T](call: Callable[[], T]) -> T:
    """Run a blocking call of the SDK in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


async def ensure_image(name: str) -> str:
    """The image called `name`, pulled if it is not here.

    Raises:
        ImageUnavailableError: it cannot be pulled.
    """
    async with _building[name]:
        try:
            await off_loop(lambda: engine().images.get(name))
        except ImageNotFound:
            log.info("image-pull", image=name)
            try:
                await off_loop(lambda: engine().images.pull(name))
            except DockerException as error:
                raise ImageUnavailableError(
                    f"the image {name} is not on this machine and cannot be pulled: {error}"
                ) from error
    return name


async def ensure_built(folder: Path, tag: str, *, force: bool) -> str:
    """The image `tag`, built from the folder's Dockerfile if it is not here.

    Raises:
        SandboxBuildFailedError: with the last lines of the build.
    """
    async with _building[tag]:
        if not force:
            try:
                await off_loop(lambda: engine().images.get(tag))
            except ImageNotFound:
                pass
            else:
                return tag
        log.info("image-build", image=tag)
        try:
            await off_loop(
                lambda: engine().images.build(path=str(folder), tag=tag, rm=True, forcerm=True)
            )
        except BuildError as error:
            lines = [str(line.get("stream", line.get("error", ""))) for line in error.build_log]
            tail = "".join(lines[-_LOG_LINES:]).strip()
            raise SandboxBuildFailedError(f"{error.msg}\n{tail}") from error
        except APIError as error:
            raise SandboxBuildFailedError(str(error.explanation or error)) from error
    return tag


__all__ = ["APIError", "NotFound", "engine", "ensure_built", "ensure_image", "off_loop"]
