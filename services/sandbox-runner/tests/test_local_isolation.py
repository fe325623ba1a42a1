"""The local sandbox on this machine: what it hides, and what is left when its runner is killed."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from sandbox_runner.environments.local import LocalEnvironment
from sandbox_runner.environments.local_namespace import remove_tree
from sandbox_runner.reap import abandoned_by, reap_local

OPEN = """
import asyncio, sys
from pathlib import Path
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths
from sandbox_runner.environments.local import LocalEnvironment

async def main():
    folder = Path(sys.argv[1])
    (folder / "environment").mkdir(parents=True)
    (folder / "trials" / "t").mkdir(parents=True)
    sandbox = LocalEnvironment(
        environment_dir=folder / "environment", environment_name="toy", session_id="toy",
        trial_paths=TrialPaths(folder / "trials" / "t"),
        task_env_config=EnvironmentConfig(docker_image="any"),
        network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
        scratch=str(folder / "scratch"),
    )
    await sandbox.start(force_build=False)
    result = await sandbox.exec(sys.argv[2])
    print(result.return_code, result.stdout, result.stderr, flush=True)
    if len(sys.argv) > 3:
        await asyncio.Event().wait()
    await sandbox.stop(delete=True)

asyncio.run(main())
"""


@pytest.fixture
def visible_place(tmp_path: Path) -> Iterator[Path]:
    """A folder that a sandbox shows unless it is covered; for a user without one, any folder."""
    if os.geteuid() != 0:
        (tmp_path / "place").mkdir()
        yield tmp_path / "place"
        return
    folder = Path(tempfile.mkdtemp(prefix="assay-test-", dir="/opt"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def sandbox_in(folder: Path, task: Path, hidden: list[Path], workdir: str) -> LocalEnvironment:
    for name in ("trials/mine", "trials/other", "scratch/local-other"):
        (folder / name).mkdir(parents=True)
        (folder / name / "private").write_text("hush")
    (task / "environment").mkdir(parents=True)
    (task / "solution").mkdir()
    (task / "solution" / "solve.sh").write_text("hush")
    return LocalEnvironment(
        environment_dir=task / "environment",
        environment_name="toy",
        session_id="toy",
        trial_paths=TrialPaths(folder / "trials" / "mine"),
        task_env_config=EnvironmentConfig(docker_image="any", workdir=workdir),
        network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
        scratch=str(folder / "scratch"),
        hidden=[str(path) for path in hidden],
    )


async def test_tasks_trials_other_sandboxes_and_hidden_folders_are_covered(visible_place):
    folder = visible_place
    (folder / "data").mkdir()
    (folder / "data" / "admin-token").write_text("hush")
    (folder / "shown").write_text("shown")
    sandbox = sandbox_in(folder, folder / "task", [folder / "data"], "/app")
    await sandbox.start(force_build=False)
    found = await sandbox.exec(f"cat {folder}/shown; grep -rl hush {folder}; true")
    broken = await sandbox.exec(f"echo broken > {folder}/shown; echo new > {folder}/data/new")
    await sandbox.stop(delete=True)
    assert found.stdout == "shown"
    assert (folder / "shown").read_text() == "shown"
    assert [path.name for path in (folder / "data").iterdir()] == ["admin-token"]
    assert broken.return_code in (0, 1)


@pytest.mark.parametrize("workdir", ["/root", "/root/project", "/home/dev/project", "/"])
async def test_any_work_folder_can_be_written_to(tmp_path, workdir):
    sandbox = sandbox_in(tmp_path, tmp_path / "task", [], workdir)
    await sandbox.start(force_build=False)
    result = await sandbox.exec("pwd && touch /app/made && echo x > /tmp/made && ls /root /home")
    await sandbox.stop(delete=True)
    assert result.return_code == 0
    assert (result.stdout or "").startswith(f"{workdir}\n")


async def test_what_the_host_shows_to_root_alone_is_not_shown(tmp_path):
    sandbox = sandbox_in(tmp_path, tmp_path / "task", [], "/app")
    await sandbox.start(force_build=False)
    passwords = await sandbox.exec("cut -d: -f2 /etc/shadow | sort -u")
    others = await sandbox.exec(
        "find /etc /var -type f ! -perm -o=r -size +0 ! -path '/etc/sudoers*' ! -name '*shadow'"
    )
    outside = await sandbox.exec(
        "cd / && for name in *; do case $name in "
        "bin|sbin|lib*|usr|etc|var|opt|nix|gnu|proc|dev|sys) ;; *) find $name ! -type d -size +0;; "
        "esac; done"
    )
    await sandbox.stop(delete=True)
    assert (passwords.stdout or "").strip() in ("*", "")
    assert others.stdout == ""
    assert outside.stdout == ""


async def test_nothing_runs_on_when_the_runner_is_killed(tmp_path, running):
    script = "nohup setsid sleep 3331 >/dev/null 2>&1 & echo started"
    runner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OPEN, str(tmp_path), script, "stay"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert runner.stdout is not None
    assert (await runner.stdout.readline()).startswith(b"0 started")
    assert running("sleep 3331")
    assert reap_local(tmp_path / "scratch", abandoned_by("another")) == 0
    runner.send_signal(signal.SIGKILL)
    await runner.wait()
    async with asyncio.timeout(60):
        while running("sleep 3331") or running("sandbox_runner.environments.supervisor"):
            await asyncio.sleep(0.02)
    assert reap_local(tmp_path / "scratch", abandoned_by("another")) == 1
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_an_ordinary_user_has_sandboxes_too(tmp_path_factory):
    script = (
        "set -e; id -u; echo made > /app/made; cat /app/made; ls -A /root /home /tmp; "
        "! touch /usr/made 2>/dev/null; ! touch /etc/made 2>/dev/null; "
        "! python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 1)' 2>/dev/null"
    )
    command = [sys.executable, "-c", OPEN]
    folder = Path(tempfile.mkdtemp(prefix="assay-test-"))
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        # Reading is allowed, since the interpreter may lie in root's home.
        reading = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
        ids = ("--reuid", "65534", "--regid", "65534", "--clear-groups")
        command = ["setpriv", *ids, *reading, *command]
    user = await asyncio.create_subprocess_exec(
        *command, str(folder / "f"), script, stdout=asyncio.subprocess.PIPE, cwd=folder
    )
    said, _ = await user.communicate()
    assert said.decode().split()[:3] == ["0", "0", "made"]
    assert list((folder / "f" / "scratch").iterdir()) == []
    remove_tree(folder)


async def test_harbor_leaves_the_home_folder_alone(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    runner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OPEN, str(tmp_path / "f"), "true"),
        env={**os.environ, "HOME": str(home)},
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await runner.wait() == 0
    assert list(home.rglob("*")) == []
