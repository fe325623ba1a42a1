"""The `docker` environment: one hardened container a sandbox, through the Docker SDK.

Capabilities are cut to what installing packages needs, no process can gain more, memory (without
swap), CPU and processes are limited, nothing of the host is mounted, and there is no network unless
the task asks for a public one; sandboxes on it do not reach each other. Every container carries the
labels that a reaper looks for, and ends by itself after a day.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import IO, Any, override

from docker.errors import APIError, ImageNotFound, NotFound
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.environments.definition import (
    require_agent_environment_definition,
    should_upload_environment_dir,
)

from sandbox_runner.environments import archives, container_exec, open_sandboxes
from sandbox_runner.environments.captured import Captured
from sandbox_runner.environments.engine import (
    build,
    engine,
    join_network,
    leave_network,
    off_loop,
    pull,
)
from sandbox_runner.environments.errors import EngineError, SandboxDiedError, TooLargeError
from sandbox_runner.environments.ownership import Owner

_KEPT_CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
]
_INSTALLATION = "assay.installation"
_MOST_PROCESSES = 4096
_LIFE_SECONDS = 86_400
_LOG_FOLDERS = ("/logs/agent", "/logs/artifacts", "/logs/verifier")
_TIMED_OUT = 124
_MEGABYTE = 1024 * 1024
_REMOVAL_UNDER_WAY = 409
_REMOVAL_SECONDS = 60.0
_REMOVAL_POLL_SECONDS = 0.05
_KILL_SECONDS = 15.0


class DockerEnvironment(BaseEnvironment):
    """A container of the task's image, or of one built from its Dockerfile."""

    def __init__(
        self,
        *args: Any,
        labels: dict[str, str] | None = None,
        runtime: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`labels` are put on what is made for this sandbox; `runtime` is one of the engine's."""
        super().__init__(*args, **kwargs)
        labels = labels or {}
        self._labels = {**labels, **Owner.of_this_process(labels).to_labels()}
        self._runtime = runtime
        self._container: str | None = None
        self._stopping = asyncio.Lock()

    @staticmethod
    @override
    def type() -> str:
        """The environment's name."""
        return "docker"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        """A network can be cut off; nothing is mounted from the host."""
        return EnvironmentCapabilities(disable_internet=True)

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """CPU and memory are hard limits."""
        return EnvironmentResourceCapabilities(
            cpu_limit=True, memory_limit=True, fractional_cpus=True
        )

    @override
    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise ValueError(
                "the task is made of several containers (docker-compose.yaml), "
                "which this environment cannot run"
            )
        require_agent_environment_definition(
            self.environment_dir, docker_image=self.task_env_config.docker_image
        )

    @override
    async def start(self, force_build: bool) -> None:
        """Have the image, start the container, bring the task's loose files in."""
        open_sandboxes.note_opening(self)
        if force_build:
            await self._obtain_image(force_build=True)
        try:
            await self._create_and_start()
        except ImageNotFound:
            await self._obtain_image()
            await self._create_and_start()
        await self._bring_files_in()

    @property
    def _image(self) -> str:
        return self.task_env_config.docker_image or f"assay-task:{self.environment_id}"

    async def _obtain_image(self, *, force_build: bool = False) -> None:
        is_built = self.task_env_config.docker_image is None
        if is_built:
            await build(self.environment_dir, self._image, force=force_build)
        else:
            await pull(self._image)

    async def _create_and_start(self) -> None:
        try:
            await self._create_and_start_on(await self._network())
        except ImageNotFound:
            raise
        except NotFound:
            # Another runner removed the network between our look and our start.
            await self._remove()
            await self._create_and_start_on(await self._network())
        except APIError as error:
            raise container_exec.meaning_of(error) from error

    async def _create_and_start_on(self, network: str) -> None:
        # Not split by a cancellation: a container that nobody knows would stay.
        await open_sandboxes.to_the_end(off_loop(lambda: self._create(network)))
        container = self._alive()
        await off_loop(lambda: engine().api.start(container))

    async def _network(self) -> str:
        if not self._network_is_public:
            return "none"
        labels = {_INSTALLATION: self._installation}
        return await join_network(self._network_name, labels, self.session_id)

    @property
    def _installation(self) -> str:
        return self._labels.get(_INSTALLATION, "assay")

    @property
    def _network_name(self) -> str:
        return f"{self._installation}-sandboxes"

    def _create(self, network: str) -> None:
        api, config = engine().api, self.task_env_config
        memory = None if config.memory_mb is None else config.memory_mb * _MEGABYTE
        limits = api.create_host_config(
            network_mode=network,
            cap_drop=["ALL"],
            cap_add=_KEPT_CAPABILITIES,
            security_opt=["no-new-privileges:true"],
            pids_limit=_MOST_PROCESSES,
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=None if config.cpus is None else int(config.cpus * 1_000_000_000),
            init=True,
            runtime=self._runtime,
            auto_remove=True,
        )
        made = api.create_container(
            self._image,
            command=["sh", "-c", f"sleep {_LIFE_SECONDS}"],
            labels=self._labels,
            working_dir=config.workdir,
            environment=self._startup_env(),
            host_config=limits,
        )
        self._container = str(made["Id"])

    async def _bring_files_in(self) -> None:
        """The folders for logs and the task's loose files, in one archive."""
        loose = self._enable_environment_dir_upload and should_upload_environment_dir(
            self.environment_dir, docker_image=self.task_env_config.docker_image
        )
        source = self.environment_dir if loose else None
        place = await self._workdir() if loose else "/"
        with archives.opened() as archive:
            await asyncio.to_thread(
                lambda: archives.pack_folder(
                    archive, source, place[1:], open_folders=self._log_folders
                )
            )
            await self._put(archive)

    @property
    def _log_folders(self) -> Sequence[str]:
        return [str(mount["target"]) for mount in self._mounts] or _LOG_FOLDERS

    async def _workdir(self) -> str:
        if self.task_env_config.workdir is not None:
            return self.task_env_config.workdir
        container = self._alive()
        known = await off_loop(lambda: engine().api.inspect_container(container))
        return str(known["Config"]["WorkingDir"] or "/")

    @override
    async def stop(self, delete: bool) -> None:
        """Kill and remove the container and its volumes; harmless when that is done."""
        async with self._stopping:
            await self._remove()
            if self._network_is_public:
                await leave_network(self._network_name, self.session_id)
            open_sandboxes.note_closed(self)

    async def _remove(self) -> None:
        if self._container is not None:
            container = self._container
            await off_loop(lambda: _remove(container))
            self._container = None

    def _alive(self) -> str:
        if self._container is None:
            raise SandboxDiedError("the container is gone")
        return self._container

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a shell command; one that takes too long is killed with all it started.

        What a command leaves in the background runs on until the sandbox ends.
        """
        container, name = self._alive(), uuid.uuid4().hex
        resolved = self._resolve_user(user)
        out, err = Captured(), Captured()
        took = self._taking(out, err)
        # Here, and not in the thread: Harbor keeps part of it in a context variable.
        variables = self._merge_env(env) or {}
        running = asyncio.ensure_future(
            off_loop(
                lambda: container_exec.run(
                    engine().api,
                    container,
                    container_exec.named_command(name, command),
                    user="" if resolved is None else str(resolved),
                    folder=cwd or self.task_env_config.workdir,
                    variables=variables,
                    took=took,
                )
            )
        )
        try:
            async with asyncio.timeout(timeout_sec):
                code = await asyncio.shield(running)
        except TimeoutError:
            await self._kill(container, name, running)
            said = f"the command was killed after {timeout_sec} seconds"
            return ExecResult(stdout="", stderr=said, return_code=_TIMED_OUT)
        except asyncio.CancelledError:
            await self._kill(container, name, running)
            raise
        return ExecResult(stdout=out.text(), stderr=err.text(), return_code=code)

    def _taking(self, out: Captured, err: Captured) -> container_exec.Took:
        tell, loop = self._output_callback(), asyncio.get_running_loop()

        def took(chunk: bytes, of_stderr: bool) -> None:
            text = (err if of_stderr else out).add(chunk)
            if tell is not None and text:
                telling = tell(text, "stderr" if of_stderr else "stdout")
                asyncio.run_coroutine_threadsafe(_awaited(telling), loop).result()

        return took

    async def _kill(self, container: str, name: str, running: asyncio.Future[int]) -> None:
        with contextlib.suppress(SandboxDiedError, EngineError):
            await off_loop(lambda: container_exec.kill(engine().api, container, name))
        await asyncio.wait([running], timeout=_KILL_SECONDS)
        if running.done():
            running.exception()  # looked at: a killed command's error is no news

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file into the container."""
        with archives.opened() as archive:
            name = target_path.lstrip("/")
            await asyncio.to_thread(archives.pack_file, archive, Path(source_path), name)
            await self._put(archive)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy what is in a folder into the container."""
        if target_dir in self._log_folders and archives.is_empty(Path(source_dir)):
            return  # they are there, and each archive costs a tenth of a second
        with archives.opened() as archive:
            prefix = target_dir.lstrip("/")
            await asyncio.to_thread(archives.pack_folder, archive, Path(source_dir), prefix)
            await self._put(archive)

    async def _put(self, archive: IO[bytes]) -> None:
        container = self._alive()
        try:
            await off_loop(lambda: engine().api.put_archive(container, "/", archive))
        except APIError as error:
            raise container_exec.meaning_of(error) from error

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file out of the container."""
        with archives.opened() as archive:
            await self._get(source_path, archive)
            await asyncio.to_thread(archives.unpack_one, archive, Path(target_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy what is in a folder out of the container."""
        with archives.opened() as archive:
            await self._get(source_dir, archive)
            await asyncio.to_thread(lambda: archives.unpack(archive, Path(target_dir), strip=1))

    async def _get(self, path: str, archive: IO[bytes]) -> None:
        container = self._alive()
        try:
            await off_loop(lambda: _read_archive(container, path, archive))
        except NotFound as error:
            raise FileNotFoundError(f"{path} is not in the sandbox") from error
        except APIError as error:
            raise container_exec.meaning_of(error) from error


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _read_archive(container: str, path: str, archive: IO[bytes]) -> None:
    api = engine().api
    chunks, about = api.get_archive(container, path)
    if about["linkTarget"]:
        chunks, _ = api.get_archive(container, about["linkTarget"])
    for chunk in chunks:
        archive.write(chunk)
        if archive.tell() > archives.MOST_BYTES:
            raise TooLargeError(f"more than is kept of {path} in the sandbox")


def _remove(container: str) -> None:
    """Remove a container, and return when it is gone."""
    api = engine().api
    try:
        api.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != _REMOVAL_UNDER_WAY:
            raise EngineError(str(error.explanation or error)) from error
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while time.monotonic() < deadline:
        try:
            api.inspect_container(container)
        except NotFound:
            return
        time.sleep(_REMOVAL_POLL_SECONDS)
    raise EngineError(f"the container {container[:12]} was not removed in time")
