"""What a sandbox promises to Harbor and to the host: commands, files, limits, and a clean end."""

import asyncio
import contextlib
import os
import time

import docker
import pytest
from harbor.models.task.config import NetworkMode

from sandbox_runner.environments import archives
from sandbox_runner.environments.errors import SandboxDiedError, TooLargeError
from sandbox_runner.trials import run_trial


def networks_of(installation: str) -> list[str]:
    with contextlib.closing(docker.from_env()) as client:
        wanted = {"label": f"assay.installation={installation}"}
        return [network.name or "" for network in client.networks.list(filters=wanted)]


async def test_a_command_tells_its_code_and_keeps_its_outputs_apart(make_sandbox):
    async with make_sandbox() as sandbox:
        result = await sandbox.exec("echo out; echo err >&2; exit 3")
        killed = await sandbox.exec("kill -TERM $$")
    assert (result.stdout, result.stderr, result.return_code) == ("out\n", "err\n", 3)
    assert killed.return_code == 128 + 15


async def test_a_command_runs_where_it_is_told_to(make_sandbox):
    async with make_sandbox() as sandbox:
        assert (await sandbox.exec("pwd")).stdout == "/app\n"
        assert (await sandbox.exec("pwd", cwd="/usr")).stdout == "/usr\n"
        missing = await sandbox.exec("pwd", cwd="/no/such")
    assert missing.return_code in (126, 127)


async def test_a_command_runs_as_whom_it_is_told_to(make_sandbox):
    async with make_sandbox() as sandbox:
        as_root = await sandbox.exec("id -un")
        by_name = await sandbox.exec("id -un; touch /app/mine", user="nobody")
        by_number = await sandbox.exec("id -u", user=65534)
        with sandbox.with_default_user("nobody"):
            by_default = await sandbox.exec("id -un")
        owner = await sandbox.exec("stat -c %U /logs/agent; chown nobody /logs/agent")
    assert as_root.stdout == "root\n"
    assert by_name.stdout == by_default.stdout == "nobody\n"
    assert by_number.stdout == "65534\n"
    assert (owner.stdout, owner.return_code) == ("root\n", 0)


async def test_a_command_gets_its_variables_and_none_of_the_hosts(make_sandbox, monkeypatch):
    monkeypatch.setenv("HOST_SECRET", "hush")
    async with make_sandbox() as sandbox:
        result = await sandbox.exec("env", env={"GIVEN": "a b\nc=d"})
    assert "GIVEN=a b\nc=d\n" in (result.stdout or "")
    assert "hush" not in (result.stdout or "")


async def test_variables_are_on_no_command_line_of_the_host(make_sandbox, running):
    async with make_sandbox() as sandbox:
        command = asyncio.create_task(sandbox.exec("sleep 5555", env={"KEY": "s3cret-on-the-line"}))
        async with asyncio.timeout(60):
            while not running("sleep 5555"):
                await asyncio.sleep(0.02)
        assert running("s3cret-on-the-line") == []
        command.cancel()
        await asyncio.wait([command])


async def test_a_command_that_takes_too_long_is_killed_with_all_it_started(make_sandbox, running):
    script = "setsid sleep 6661 & (sleep 6662 & sleep 6663) & su nobody -s /bin/sh -c 'sleep 6664'"
    async with make_sandbox() as sandbox:
        result = await sandbox.exec(script, timeout_sec=2)
        async with asyncio.timeout(60):
            while any(running(f"sleep 666{number}") for number in (1, 2, 3, 4)):
                await asyncio.sleep(0.02)
        assert (await sandbox.exec("echo alive")).stdout == "alive\n"
    assert result.return_code == 124
    assert "killed after 2 seconds" in (result.stderr or "")


async def test_a_command_of_another_user_is_killed_too(make_sandbox, running):
    async with make_sandbox() as sandbox:
        await sandbox.exec("sleep 6665", user="nobody", timeout_sec=1)
        assert running("sleep 6665") == []


async def test_what_runs_in_the_background_stays_and_blocks_nothing(make_sandbox, running):
    async with make_sandbox() as sandbox:
        began = time.monotonic()
        result = await sandbox.exec("sleep 7771 & echo started")
        assert time.monotonic() - began < 10
        assert result.stdout == "started\n"
        assert running("sleep 7771")
    assert running("sleep 7771") == []


async def test_much_output_is_cut_in_the_middle(make_sandbox):
    async with make_sandbox() as sandbox:
        result = await sandbox.exec(
            "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo last"
        )
    said = result.stdout or ""
    assert said.startswith("first\n")
    assert said.endswith("last\n")
    assert "bytes left out]" in said
    assert len(said) < 9_000_000


async def test_commands_run_at_the_same_time(make_sandbox):
    async with make_sandbox() as sandbox:
        results = await asyncio.gather(*(sandbox.exec(f"echo {n}; sleep 0.2") for n in range(10)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(10)]


async def test_output_can_be_followed_as_it_comes(make_sandbox):
    heard = []

    async def hear(text, stream):
        heard.append((stream, text))

    async with make_sandbox() as sandbox:
        with sandbox.scoped_output_callback(hear):
            await sandbox.exec("echo one; echo two >&2")
    assert sorted(heard) == [("stderr", "two\n"), ("stdout", "one\n")]


async def test_files_go_in_and_come_out(make_sandbox, tmp_path):
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "data.bin").write_bytes(bytes(range(256)) * 4000)
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    async with make_sandbox() as sandbox:
        await sandbox.upload_dir(source, "/some/where")
        await sandbox.upload_file(source / "run.sh", "/else/where/go.sh")
        assert (await sandbox.exec("/some/where/run.sh; /else/where/go.sh")).stdout == "ran\nran\n"
        await sandbox.download_dir("/some/where", tmp_path / "back")
        await sandbox.download_file("/some/where/deep/data.bin", tmp_path / "one" / "data.bin")
        with pytest.raises(FileNotFoundError):
            await sandbox.download_file("/no/such/file", tmp_path / "nothing")
        with pytest.raises(FileNotFoundError):
            await sandbox.download_dir("/no/such/folder", tmp_path / "nothing")
    expected = (source / "deep" / "data.bin").read_bytes()
    assert (tmp_path / "back" / "deep" / "data.bin").read_bytes() == expected
    assert (tmp_path / "one" / "data.bin").read_bytes() == expected
    assert os.access(tmp_path / "back" / "run.sh", os.X_OK)


async def test_nothing_hostile_comes_out(make_sandbox, tmp_path):
    script = """
mkdir -p /logs/agent/closed && cd /logs/agent && echo kept > closed/kept && chmod 000 closed
mkfifo pipe; ln -s /etc/passwd link; ln -s / all; ln closed/kept hard; touch -- '--checkpoint=1'
"""
    async with make_sandbox() as sandbox:
        assert (await sandbox.exec(script)).return_code == 0
        await sandbox.download_dir("/logs/agent", tmp_path / "out" / "agent")
    found = {path.name for path in (tmp_path / "out" / "agent").rglob("*")}
    assert {"closed", "kept", "--checkpoint=1"} <= found
    assert not {"pipe", "link", "all"} & found


async def test_too_much_does_not_come_out(make_sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 1_000_000)
    async with make_sandbox() as sandbox:
        await sandbox.exec("head -c 3000000 /dev/zero > /logs/agent/big")
        with pytest.raises(TooLargeError):
            await sandbox.download_dir("/logs/agent", tmp_path / "out")


async def test_stopping_twice_is_harmless_and_no_command_runs_afterwards(make_sandbox, tmp_path):
    async with make_sandbox() as sandbox:
        await sandbox.stop(delete=True)
        await sandbox.stop(delete=True)
        with pytest.raises(SandboxDiedError):
            await sandbox.exec("true")
    assert not list((tmp_path / "scratch").glob("*"))


async def test_root_inside_has_no_power_over_the_host(make_sandbox):
    attempts = {
        "mount": "mount -t tmpfs none /mnt",
        "unmount": "umount /proc/sys",
        "device": "mknod /app/disk b 8 0",
        "kernel setting": "echo x > /proc/sys/kernel/core_pattern",
        "restart": "test -w /proc/sysrq-trigger && echo > /proc/sysrq-trigger",
        "address": "ip link add dummy0 type dummy",
        "clock": "date -s 2000-01-01",
        "first process": 'cat /proc/1/root/etc/passwd && test -n "$(ls -A /proc/1/root/work)"',
        "kernel memory": "head -c 1 /proc/kcore | grep -q .",
    }
    async with make_sandbox() as sandbox:
        succeeded = [
            name
            for name, attempt in attempts.items()
            if (await sandbox.exec(attempt)).return_code == 0
        ]
        kept = await sandbox.exec("grep -e CapBnd -e NoNewPrivs /proc/self/status")
    assert succeeded == []
    assert (kept.stdout or "").split() == ["CapBnd:", "00000000000404fb", "NoNewPrivs:", "1"]


async def test_a_program_replaced_inside_gains_nothing_from_the_next_command(make_sandbox):
    """What starts commands from outside must run nothing of the sandbox with more privileges."""
    trap = "#!/bin/bash\ngrep CapEff /proc/self/status >> /app/caught\nexec /usr/bin/true\n"
    script = "\n".join(
        f"mv /usr/bin/{name} /usr/bin/{name}.kept; cp /app/trap /usr/bin/{name}"
        for name in ("setpriv", "nsenter", "env", "mount")
    )
    async with make_sandbox() as sandbox:
        await sandbox.exec(f"cat > /app/trap <<'END'\n{trap}END\nchmod 755 /app/trap\n{script}")
        await sandbox.exec("true")
        await sandbox.exec("id", user="nobody")
        caught = await sandbox.exec("cat /app/caught 2>/dev/null")
        terminal = await sandbox.exec("python3 -c 'import os; print(len(os.openpty()))'")
    assert "000000" not in (caught.stdout or "").replace("00000000000404fb", "")
    assert terminal.stdout == "2\n"


@pytest.mark.parametrize("environment", [pytest.param("docker", marks=pytest.mark.docker)])
async def test_sandboxes_on_a_public_network_do_not_reach_each_other(make_sandbox, tmp_path):
    serve = "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1; hostname -i"
    async with make_sandbox(NetworkMode.PUBLIC) as one, make_sandbox(NetworkMode.PUBLIC) as two:
        address = ((await one.exec(serve)).stdout or "").strip()
        probe = f"python3 -c 'import socket; socket.create_connection((\"{address}\", 8000), 2)'"
        assert (await one.exec(probe)).return_code == 0
        assert (await two.exec(probe)).return_code != 0
    left = await asyncio.to_thread(networks_of, f"test-{tmp_path.name}")
    assert left == []


async def test_an_allowlist_is_refused_with_a_reason(make_task, make_spec, environment):
    task = make_task()
    toml = (task / "task.toml").read_text()
    listed = 'network_mode = "allowlist"\nallowed_hosts = ["example.com"]'
    (task / "task.toml").write_text(toml.replace('network_mode = "no-network"', listed))
    outcome = await run_trial(make_spec(task, environment))
    assert outcome.exception is not None
    assert "allowlist" in outcome.exception.message
