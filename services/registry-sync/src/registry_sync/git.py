"""Cloning a git repository at a branch, tag or commit, without ever asking for a password."""

import asyncio
import os
from pathlib import Path

from registry_sync.registries import SourceError

_TIMEOUT_SECONDS = 600.0


async def clone(url: str, ref: str | None, target: Path) -> tuple[Path, str]:
    """Clone `url` at `ref` (default: its main branch) into `target`.

    Returns:
        The folder, and the full hash of the commit.

    Raises:
        SourceError: the repository or the ref cannot be had.
    """
    await asyncio.to_thread(target.mkdir, parents=True)
    await _git(target, "init", "--quiet")
    wanted = ref or "HEAD"
    code, said = await _run(target, "fetch", "--quiet", "--depth", "1", "--", url, wanted)
    if code != 0:
        raise SourceError(_why(url, wanted, said))
    await _git(target, "checkout", "--quiet", "FETCH_HEAD")
    _, commit = await _run(target, "rev-parse", "HEAD")
    return target, commit.strip()


def _why(url: str, ref: str, said: str) -> str:
    last = said.strip().splitlines()[-1] if said.strip() else "git gave no reason"
    if "couldn't find remote ref" in said or "not our ref" in said:
        return f"{url} has no branch, tag or commit {ref}"
    if "terminal prompts disabled" in said or "Authentication failed" in said:
        return f"{url} wants credentials, or does not exist; give an address that git can read"
    return f"{url} cannot be cloned ({last}); check the address and the network"


async def _git(folder: Path, *arguments: str) -> None:
    code, said = await _run(folder, *arguments)
    if code != 0:
        raise SourceError(f"git {arguments[0]} failed: {said.strip()}")


async def _run(folder: Path, *arguments: str) -> tuple[int, str]:
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            "-C",
            str(folder),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise SourceError("git is not installed on the server") from error
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise SourceError(f"git {arguments[0]} took longer than {_TIMEOUT_SECONDS:g} s") from error
    return process.returncode or 0, output.decode(errors="replace")
