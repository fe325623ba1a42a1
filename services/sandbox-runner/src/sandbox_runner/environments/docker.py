"""The `docker` environment: one hardened container a sandbox, through the Docker SDK.

Capabilities are cut to what installing packages needs, no process can gain more, memory (without
swap), CPU and processes are limited, nothing of the host is mounted, and there is no network unless
the task asks for a public one. Every container carries the labels that a reaper looks for.
"""

import asyncio
import contextlib
import uuid
from pathlib import Path
from typing import Any, override

from docker.models.containers import Container
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.environments.definition import (
    require_agent_environment_definition,
    should_upload_environment_dir,
)

from sandbox_runner.environments import archives
from sandbox_runner.environments.engine import (
    APIError,
    NotFound,
    engine,
    ensure_built,
    ensure_image,
    off_loop,
)
from sandbox_runner.environments.errors import SandboxDiedError, SandboxLikelyOutOfMemoryError

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
_MOST_PROCESSES = 4096
_MARK = "ASSAY_EXEC"
_TIMED_OUT = 124
_KILLED = 137
_MEGABYTE = 1024 * 1024
_CONFLICT = 409


class DockerEnvironment(BaseEnvironment):
    """A container of the task's image, or of one built from its Dockerfile."""

    def __init__(
        self,
        *args: Any,
        labels: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """`labels` are put on everything that is made for this sandbox."""
        super().__init__(*args, **kwargs)
        self._labels = labels or {}
        self._container: Container | None = None

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
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

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
        image = await self._image(force_build=force_build)
        # A cancellation must not split this: a container without an owner would stay.
        making = asyncio.ensure_future(off_loop(lambda: self._run(image)))
        try:
            self._container = await asyncio.shield(making)
        except asyncio.CancelledError:
            self._container = await making
            await self.stop(delete=True)
            raise
        await self.ensure_dirs([mount["target"] for mount in self._mounts] or _LOG_FOLDERS)
        if should_upload_environment_dir(
            self.environment_dir, docker_image=self.task_env_config.docker_image
        ):
            workdir = self.task_env_config.workdir or self._image_workdir()
            await self.upload_dir(self.environment_dir, workdir)

    async def _image(self, *, force_build: bool) -> str:
        named = self.task_env_config.docker_image
        if named and not (force_build and (self.environment_dir / "Dockerfile").exists()):
            return await ensure_image(named)
        tag = f"assay-task:{self.environment_id.removeprefix('sha256:')[:32]}"
        return await ensure_built(self.environment_dir, tag, force=force_build)

    def _run(self, image: str) -> Container:
        config = self.task_env_config
        memory = None if config.memory_mb is None else config.memory_mb * _MEGABYTE
        container = engine().containers.create(
            image,
            command=["sh", "-c", "sleep infinity"],
            labels=self._labels,
            working_dir=config.workdir,
            environment=self._startup_env(),
            network_mode="bridge" if self._network_is_public else "none",
            cap_drop=["ALL"],
            cap_add=_KEPT_CAPABILITIES,
            security_opt=["no-new-privileges:true"],
            pids_limit=_MOST_PROCESSES,
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=None if config.cpus is None else int(config.cpus * 1_000_000_000),
            init=True,
            stdin_open=False,
            tty=False,
        )
        try:
            container.start()
        except APIError:
            container.remove(force=True, v=True)
            raise
        return container

    def _image_workdir(self) -> str:
        attributes: dict[str, Any] = self._alive().attrs or {}
        return str(attributes.get("Config", {}).get("WorkingDir") or "/")

    @override
    async def stop(self, delete: bool) -> None:
        """Kill and remove the container and its volumes; harmless when it is gone already."""
        container, self._container = self._container, None
        if container is None:
            return

        def remove() -> None:
            with contextlib.suppress(NotFound):
                container.remove(force=True, v=True)

        await off_loop(remove)

    def _alive(self) -> Container:
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
        """Run a shell command; one that takes too long is killed with all it started."""
        container = self._alive()
        mark = uuid.uuid4().hex
        resolved = self._resolve_user(user)
        # Here, and not in the thread: Harbor keeps part of it in a context variable.
        variables = {**(self._merge_env(env) or {}), _MARK: mark}
        running = asyncio.ensure_future(
            off_loop(
                lambda: _exec(
                    container,
                    ["bash", "-c", command],
                    cwd=cwd or self.task_env_config.workdir,
                    env=variables,
                    user="" if resolved is None else str(resolved),
                )
            )
        )
        try:
            async with asyncio.timeout(timeout_sec):
                code, stdout, stderr = await asyncio.shield(running)
        except TimeoutError:
            await self._kill_marked(container, mark, running)
            return ExecResult(
                stdout="",
                stderr=f"the command was killed after {timeout_sec} seconds",
                return_code=_TIMED_OUT,
            )
        except asyncio.CancelledError:
            await self._kill_marked(container, mark, running)
            raise
        if code == _KILLED:
            await off_loop(lambda: _require_running(container))
        return ExecResult(
            stdout=stdout.decode(errors="replace"),
            stderr=stderr.decode(errors="replace"),
            return_code=code,
        )

    async def _kill_marked(
        self, container: Container, mark: str, running: "asyncio.Future[Any]"
    ) -> None:
        """Kill every process that carries the command's mark in its environment."""
        script = (
            f'for p in /proc/[0-9]*; do if grep -q "{_MARK}={mark}" "$p/environ" 2>/dev/null; '
            'then kill -9 "${p#/proc/}" 2>/dev/null; fi; done; true'
        )
        with contextlib.suppress(SandboxDiedError):
            await off_loop(
                lambda: _exec(container, ["sh", "-c", script], cwd="/", env={}, user="0")
            )
        await asyncio.wait([running])
        running.exception()  # looked at: a killed command's error is no news

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file into the container."""
        name = target_path.lstrip("/")
        archive = await asyncio.to_thread(archives.pack_file, Path(source_path), name)
        await self._put(archive)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy what is in a folder into the container."""
        prefix = target_dir.lstrip("/")
        archive = await asyncio.to_thread(archives.pack_folder, Path(source_dir), prefix)
        await self._put(archive)

    async def _put(self, archive: bytes) -> None:
        container = self._alive()
        try:
            await off_loop(lambda: container.put_archive("/", archive))
        except (NotFound, APIError) as error:
            raise _translated(error) from error

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file out of the container, following no link out of it."""
        archive = await self._get(source_path)
        await asyncio.to_thread(archives.unpack_one, archive, Path(target_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy what is in a folder out of the container."""
        archive = await self._get(source_dir)
        await asyncio.to_thread(lambda: archives.unpack(archive, Path(target_dir), strip=1))

    async def _get(self, path: str) -> bytes:
        container = self._alive()

        def read() -> bytes:
            stream, _ = container.get_archive(path)
            return b"".join(stream)

        try:
            return await off_loop(read)
        except NotFound as error:
            raise FileNotFoundError(f"{path} is not in the sandbox") from error
        except APIError as error:
            raise _translated(error) from error


_LOG_FOLDERS = ["/logs/agent", "/logs/verifier", "/logs/artifacts"]


def _exec(
    container: Container, command: list[str], *, cwd: str | None, env: dict[str, str], user: str
) -> tuple[int, bytes, bytes]:
    """Run a command to its end; blocks. Variables go through the engine, not the command line."""
    api = engine().api
    try:
        made = api.exec_create(
            container.id, command, workdir=cwd, environment=env, user=user, stdout=True, stderr=True
        )
        stdout, stderr = api.exec_start(made["Id"], demux=True)
        code = api.exec_inspect(made["Id"])["ExitCode"]
    except (NotFound, APIError) as error:
        raise _translated(error) from error
    if code is None:
        _require_running(container)
        raise SandboxDiedError("the command ended without an exit code")
    return int(code), stdout or b"", stderr or b""


def _require_running(container: Container) -> None:
    """Raise where the container itself is what ended."""
    try:
        container.reload()
    except NotFound as error:
        raise SandboxDiedError("the container was removed") from error
    state: dict[str, Any] = (container.attrs or {}).get("State", {})
    if state.get("OOMKilled"):
        raise SandboxLikelyOutOfMemoryError("the sandbox went over its memory limit")
    if not state.get("Running"):
        raise SandboxDiedError(f"the container ended with code {state.get('ExitCode')}")


def _translated(error: APIError) -> Exception:
    """What an engine's refusal means: a container that is gone, or a fault of its own."""
    if isinstance(error, NotFound) or error.status_code == _CONFLICT:
        return SandboxDiedError(f"the container is gone: {error.explanation or error}")
    return error
