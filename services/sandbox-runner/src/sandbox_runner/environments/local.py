"""The `local` environment: a sandbox of Linux namespaces, for machines without Docker.

For trusted tasks. It starts from the host's own root file system, with an empty work folder; a task
whose image has to be built cannot run in it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import uuid
from pathlib import Path
from typing import Any, override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.environments.definition import should_upload_environment_dir

from sandbox_runner.environments import archives
from sandbox_runner.environments.errors import SandboxDiedError
from sandbox_runner.environments.local_namespace import Namespace, NamespaceError, NamespaceSpec

_DEFAULT_WORKDIR = "/app"
_TIMED_OUT = 124


class LocalEnvironment(BaseEnvironment):
    """Namespaces over a private copy-on-write view of the host's root file system.

    Memory and CPU are not limited: the tasks are trusted.
    """

    def __init__(
        self,
        *args: Any,
        scratch: str,
        hidden: list[str] | None = None,
        labels: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """`scratch` is where sandboxes keep their writes; `hidden` are folders that are covered."""
        super().__init__(*args, **kwargs)
        self._scratch = Path(scratch) / f"local-{uuid.uuid4().hex}"
        self._hidden = [Path(folder) for folder in hidden or []]
        self._labels = labels or {}
        self._namespace: Namespace | None = None

    @staticmethod
    @override
    def type() -> str:
        """The environment's name."""
        return "local"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        """A network can be cut off; nothing is mounted from the host."""
        return EnvironmentCapabilities(disable_internet=True)

    @override
    def _validate_definition(self) -> None:
        dockerfile = self.environment_dir / "Dockerfile"
        compose = self.environment_dir / "docker-compose.yaml"
        if (dockerfile.exists() and not self.task_env_config.docker_image) or compose.exists():
            raise NamespaceError(
                "the task builds its own image, which needs Docker; "
                "run it in the docker environment"
            )

    @property
    def _workdir(self) -> str:
        return self.task_env_config.workdir or _DEFAULT_WORKDIR

    @override
    async def start(self, force_build: bool) -> None:
        """Make the namespaces and bring the task's loose files in."""
        spec = NamespaceSpec(
            scratch=self._scratch.resolve(),
            hidden=self._hidden,
            public_network=self._network_is_public,
            workdir=self._workdir,
        )
        self._namespace = await Namespace.open(spec)
        label = self._scratch / "labels"
        label.write_text("\n".join(f"{name}={value}" for name, value in self._labels.items()))
        await self.ensure_dirs(self._log_folders())
        if should_upload_environment_dir(
            self.environment_dir, docker_image=self.task_env_config.docker_image
        ):
            await self.upload_dir(self.environment_dir, self._workdir)

    def _log_folders(self) -> list[str]:
        return [str(mount["target"]) for mount in self._mounts] or [
            "/logs/agent",
            "/logs/verifier",
            "/logs/artifacts",
        ]

    @override
    async def stop(self, delete: bool) -> None:
        """End everything in the sandbox and remove what it wrote."""
        namespace, self._namespace = self._namespace, None
        if namespace is not None:
            await namespace.close()
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)

    def _alive(self) -> Namespace:
        if self._namespace is None or not self._namespace.is_alive:
            raise SandboxDiedError("the local sandbox is gone")
        return self._namespace

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a shell command; a command that takes too long is killed with all it started."""
        namespace = self._alive()
        process = await namespace.start(
            ["bash", "-c", command],
            cwd=cwd,
            env=self._merge_env(env),
            user=self._resolve_user(user),
        )
        try:
            async with asyncio.timeout(timeout_sec):
                stdout, stderr = await process.communicate()
        except TimeoutError:
            await _kill_group(process)
            return ExecResult(
                stdout="",
                stderr=f"the command was killed after {timeout_sec} seconds",
                return_code=_TIMED_OUT,
            )
        except asyncio.CancelledError:
            await _kill_group(process)
            raise
        self._alive()
        return ExecResult(
            stdout=stdout.decode(errors="replace"),
            stderr=stderr.decode(errors="replace"),
            return_code=process.returncode or 0,
        )

    async def _pipe(self, command: list[str], data: bytes = b"") -> bytes:
        """Run a command as root with `data` on its standard input; returns its output."""
        process = await self._alive().start(command, cwd="/", user="root")
        stdout, stderr = await process.communicate(data)
        if process.returncode != 0:
            self._alive()
            said = stderr.decode(errors="replace").strip()
            raise FileNotFoundError(f"{command[0]} failed in the sandbox: {said}")
        return stdout

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file into the sandbox."""
        target = Path(target_path)
        archive = await asyncio.to_thread(archives.pack_file, Path(source_path), target.name)
        await self._unpack_inside(str(target.parent), archive)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy what is in a folder into the sandbox."""
        archive = await asyncio.to_thread(archives.pack_folder, Path(source_dir))
        await self._unpack_inside(target_dir, archive)

    async def _unpack_inside(self, folder: str, archive: bytes) -> None:
        script = 'mkdir -p -- "$0" && tar -xf - --no-same-owner -C "$0"'
        await self._pipe(["sh", "-c", script, folder], archive)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file out of the sandbox, following no link out of it."""
        path = Path(source_path)
        archive = await self._pipe(["tar", "-cf", "-", "-h", "-C", str(path.parent), path.name])
        await asyncio.to_thread(archives.unpack_one, archive, Path(target_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy what is in a folder out of the sandbox."""
        archive = await self._pipe(["tar", "-cf", "-", "-C", source_dir, "."])
        await asyncio.to_thread(archives.unpack, archive, Path(target_dir))


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a command and what it started; the sandbox itself goes on."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
