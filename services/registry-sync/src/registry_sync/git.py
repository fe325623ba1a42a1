"""Git repositories: resolving references to commits, and checking out no more than is asked for.

Fetches are shallow, without blobs, and checked out sparsely, as Harbor fetches tasks; unlike
there every command has a deadline, asks nobody for a password, and ends with its caller.
"""

import asyncio
import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from registry_sync.source_errors import (
    CredentialsNeededError,
    SourceError,
    UnknownVersionError,
    UnreachableError,
    near_names,
    refuse_secrets,
    without_secrets,
)

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WITHOUT_LAZY_BLOBS = ("huggingface.co",)
"""Hosts that cannot serve single blobs later, so that a checkout needs all of them at once."""

_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.autocrlf", "false"),
    ("core.symlinks", "true"),
    ("core.quotePath", "false"),
    ("advice.detachedHead", "false"),
    ("gc.auto", "0"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
)
_COMPLAINTS: tuple[tuple[str, type[SourceError], str], ...] = (
    (
        r"not our ref|couldn't find remote ref|unadvertised object|no such remote ref|"
        r"not a valid object|does not exist in|unable to read tree|invalid reference",
        UnknownVersionError,
        "the repository {url} does not have {what}",
    ),
    (
        r"could not read username|could not read password|authentication failed|"
        r"permission denied|error: 40[13]|host key verification",
        CredentialsNeededError,
        "the repository {url} does not exist or needs credentials; give this server's git a "
        "credential helper or key that may read it",
    ),
    (
        r"could not resolve host|failed to connect|connection refused|timed out|unable to connect|"
        r"network is unreachable|no route to host|early eof|rpc failed|connection reset|"
        r"unable to access|hung up",
        UnreachableError,
        "the repository {url} cannot be reached ({said}); check the address and the network",
    ),
    (
        r"not found|does not exist|not appear to be a git repository|no such file",
        SourceError,
        "there is no git repository at {url}",
    ),
)


class Repositories:
    """The repositories read in one synchronisation, fetched into folders below `folder`."""

    def __init__(self, folder: Path, *, timeout: float = 900.0) -> None:
        """`timeout` is the deadline of one git command, in seconds."""
        self._folder = folder
        self._timeout = timeout
        self._clones: dict[tuple[str, str], Path] = {}

    async def resolve(self, url: str, ref: str | None) -> str:
        """The full hash of the commit behind a branch, tag or commit (None: the main branch).

        Raises:
            UnknownVersionError: the repository has no such reference.
            SourceError: the repository cannot be read.
        """
        if ref is None or ref in {"", "HEAD"}:
            known = await self._references(url, "HEAD")
            if "HEAD" not in known:
                raise SourceError(f"the repository {url} has no commit on its main branch")
            return known["HEAD"]
        if _COMMIT.fullmatch(ref.lower()):
            return ref.lower()
        known = await self._references(url, "--heads", "--tags")
        short = ref.removeprefix("refs/").removeprefix("heads/").removeprefix("tags/")
        for name in (ref, f"refs/heads/{short}", f"refs/tags/{short}"):
            if name in known:
                return known.get(f"{name}^{{}}", known[name])
        raise UnknownVersionError(_no_such_reference(url, ref, known))

    async def files(self, url: str, commit: str, below: str | None = None) -> list[str]:
        """Paths of the files at a commit, relative to `below`.

        Raises:
            SourceError: there is no such folder, or the repository cannot be read.
        """
        clone = await self._clone(url, commit)
        tree = commit if below is None else f"{commit}:{below}"
        if below is not None:
            kind = await self._git(url, f"the folder '{below}'", "cat-file", "-t", tree, cwd=clone)
            if kind.strip() != "tree":
                raise SourceError(f"'{below}' of {url} is a file; name the folder that holds it")
        listing = await self._git(url, commit, "ls-tree", "-rz", "--name-only", tree, cwd=clone)
        return [path for path in listing.split("\0") if path]

    async def check_out(self, url: str, commit: str, paths: Sequence[str]) -> Path:
        """The folder of the repository at `commit`, holding `paths` and nothing else.

        The next call for the same repository and commit changes what the folder holds.

        Raises:
            SourceError: the repository cannot be read, or does not have the commit.
        """
        clone = await self._clone(url, commit)
        patterns = "\n".join(_pattern(path) for path in paths)
        await self._git(
            *(url, commit, "sparse-checkout", "set", "--no-cone", "--stdin"),
            cwd=clone,
            stdin=patterns.encode(),
        )
        await self._git(url, commit, "checkout", "--quiet", "--detach", commit, cwd=clone)
        return clone

    async def _references(self, url: str, *what: str) -> dict[str, str]:
        flags = [argument for argument in what if argument.startswith("--")]
        names = [argument for argument in what if not argument.startswith("--")]
        listing = await self._git(url, "it", "ls-remote", *flags, "--", url, *names)
        lines = (line.split("\t", 1) for line in listing.splitlines() if "\t" in line)
        return {name: commit for commit, name in lines}

    async def _clone(self, url: str, commit: str) -> Path:
        known = self._clones.get((url, commit))
        if known is not None:
            return known
        clone = self._folder / f"repository-{len(self._clones)}"
        await self._git(url, "it", "init", "--quiet", "--", str(clone))
        await self._git(url, "it", "remote", "add", "--", "origin", url, cwd=clone)
        partial = [] if _host(url) in _WITHOUT_LAZY_BLOBS else ["--filter=blob:none"]
        await self._git(
            *(url, f"the commit {commit}", "fetch", "--quiet", "--no-tags", "--depth=1"),
            *(*partial, "origin", commit),
            cwd=clone,
        )
        self._clones[url, commit] = clone
        return clone

    async def _git(
        self, url: str, what: str, *arguments: str, cwd: Path | None = None, stdin: bytes = b""
    ) -> str:
        command = ["git", *(part for key, value in _SETTINGS for part in ("-c", f"{key}={value}"))]
        try:
            async with asyncio.timeout(self._timeout):
                status, output, complaint = await _run([*command, *arguments], cwd, stdin)
        except TimeoutError as error:
            raise UnreachableError(
                f"the repository {url} did not answer within {self._timeout:.0f} seconds; check "
                "the address and the network"
            ) from error
        except FileNotFoundError as error:
            raise SourceError("git is not installed on the server; install it") from error
        if status != 0:
            raise _complaint(url, what, complaint)
        return output


def check_address(url: str, *, local: bool = True) -> None:
    """Refuse what is no address of a repository, or carries a secret.

    Args:
        url: the address, or where `local` an absolute path.
        local: whether repositories on the server's own disk may be named.

    Raises:
        SourceError: it is refused.
    """
    refuse_secrets(url, "repository")
    scheme = urlsplit(url).scheme
    if is_local(url):
        if not local:
            raise SourceError(f"a registry elsewhere names {url}, a path on this server's disk")
        if scheme != "file" and not Path(url).is_absolute():
            raise SourceError(f"'{url}' is no address; give it in full, or an absolute path")
    elif url.startswith("-") or scheme not in {"", "http", "https", "ssh", "git"}:
        raise SourceError(f"'{url}' is no address of a git repository that can be read")


def is_local(url: str) -> bool:
    """Whether a repository's address is a path on this machine's disk."""
    scp_like = re.match(r"[^/:]+:(?!//)", url) is not None
    return url.startswith("file:") or ("://" not in url and not scp_like)


def _no_such_reference(url: str, ref: str, known: Mapping[str, str]) -> str:
    names = {
        name.removeprefix("refs/heads/").removeprefix("refs/tags/").removesuffix("^{}")
        for name in known
    }
    sentence = f"the repository {url} has no branch, tag or commit {ref}; {near_names(ref, names)}"
    if re.fullmatch(r"[0-9a-f]{4,39}", ref.lower()):
        sentence += " A commit has to be given with all its 40 digits."
    return sentence


def _complaint(url: str, what: str, said: str) -> SourceError:
    said = without_secrets(said)
    lines = [line for line in said.splitlines() if re.match(r"(fatal|error|remote):", line)]
    last = re.sub(r"^(fatal|error|remote): *", "", (lines or said.splitlines() or [""])[-1])
    for pattern, error, sentence in _COMPLAINTS:
        if re.search(pattern, said.lower()):
            return error(sentence.format(url=url, what=what, said=last.rstrip(".")))
    return SourceError(f"git cannot read {url}: {last}")


def _pattern(path: str) -> str:
    """The sparse-checkout pattern that stands for one file, or one folder and what is in it."""
    if path == ".":
        return "/*"
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", path)


def _host(url: str) -> str | None:
    return urlsplit(url).hostname


def _environment() -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_DIR")}
    for key in ("GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"):
        own.pop(key, None)
    own.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=30")
    return own | {
        "LC_ALL": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_LFS_SKIP_SMUDGE": "1",  # a pointer names its content's hash: enough for a digest
        "GIT_OPTIONAL_LOCKS": "0",
    }


async def _run(command: list[str], cwd: Path | None, stdin: bytes) -> tuple[int, str, str]:
    """Run a command to its end; where the caller ends first, so does everything it started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, complaint = await process.communicate(stdin)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return (
        process.returncode or 0,
        output.decode("utf-8", errors="replace"),
        complaint.decode("utf-8", errors="replace"),
    )
