"""The master keys, under which the data key of every secret is wrapped: where they come from.

They are lines of text, from a file, from the output of a command (such as one that asks a KMS), or
from both; the last line is the newest key, and those before it still open what was wrapped under
them. What a line holds is stretched to a key of 256 bits and never stored. A key's id follows from
the key, so that keys need no names, and a record says which one it needs.
"""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_SHORTEST = 32
_KEY_BYTES = 32
_ID_BYTES = 8
_MOST_BYTES = 64 * 1024


class NoMasterKeyError(RuntimeError):
    """The gateway has no usable master key, so it can keep no secrets."""


@dataclass(frozen=True)
class MasterKeys:
    """The keys (32 bytes each) by their ids (16 hexadecimal digits), the newest last."""

    by_id: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, lines: Sequence[str]) -> "MasterKeys":
        """Stretch each line to a key; a line that comes again counts where it stands last."""
        keys: dict[str, bytes] = {}
        for line in lines:
            name = _stretched(line, b"assay master key id", _ID_BYTES).hex()
            keys.pop(name, None)
            keys[name] = _stretched(line, b"assay secrets", _KEY_BYTES)
        return cls(keys)

    @property
    def newest(self) -> tuple[str, bytes]:
        """The id and the key that new records are wrapped under.

        Raises:
            NoMasterKeyError: there is none.
        """
        self._require_one()
        name = list(self.by_id)[-1]
        return name, self.by_id[name]

    def candidates(self, name: str | None) -> Sequence[bytes]:
        """The key called `name`, if it is there; every key for a record that names none.

        Raises:
            NoMasterKeyError: there is no key at all.
        """
        self._require_one()
        if name is None:
            return list(self.by_id.values())
        return [self.by_id[name]] if name in self.by_id else []

    def _require_one(self) -> None:
        if not self.by_id:
            raise NoMasterKeyError(
                "secrets cannot be kept: start the gateway with ASSAY_MASTER_KEY_FILE or "
                "ASSAY_MASTER_KEY_COMMAND"
            )


@dataclass(frozen=True)
class KeySource:
    """Where the master keys are read from; the command's are newer than the file's.

    `command` is split as a shell would, and run without one; it has `seconds` to answer.
    """

    file: Path | None = None
    command: str | None = field(default=None, repr=False)
    seconds: float = 30.0

    async def read(self) -> MasterKeys:
        """Read all keys.

        Raises:
            NoMasterKeyError: a key is too short, or the command does not give one.
        """
        lines: list[str] = []
        if self.file is not None:
            text = await asyncio.to_thread(self.file.read_text)
            lines += _keys(text, f"the master key file {self.file.name}")
        if self.command is not None:
            output = await _output(self.command, self.seconds)
            try:
                text = output.decode()
            except UnicodeDecodeError:
                raise NoMasterKeyError(
                    "ASSAY_MASTER_KEY_COMMAND gives no text; let it print the key in base64"
                ) from None
            lines += _keys(text, "the output of ASSAY_MASTER_KEY_COMMAND")
        return MasterKeys.of(lines)


def _keys(text: str, where: str) -> Iterator[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise NoMasterKeyError(f"{where} holds no key")
    for number, line in enumerate(lines, 1):
        if len(line) < _SHORTEST:
            raise NoMasterKeyError(
                f"a master key is shorter than {_SHORTEST} characters: line {number} of {where}"
            )
        yield line


async def _output(command: str, seconds: float) -> bytes:
    """What a command prints, in full. It is shown nowhere, nor is what it writes to stderr."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise NoMasterKeyError(f"ASSAY_MASTER_KEY_COMMAND cannot be read: {error}") from None
    if not argv:
        raise NoMasterKeyError("ASSAY_MASTER_KEY_COMMAND is empty")
    program = Path(argv[0]).name
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise NoMasterKeyError(
            f"ASSAY_MASTER_KEY_COMMAND cannot be run: {program}: {error.strerror}"
        ) from None
    try:
        async with asyncio.timeout(seconds):
            output = await _bounded(process)
            status = await process.wait()
    except TimeoutError:
        raise NoMasterKeyError(
            f"ASSAY_MASTER_KEY_COMMAND gave no key within {seconds:g} s: {program}"
        ) from None
    finally:
        # Whatever it started goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if status != 0:
        raise NoMasterKeyError(
            f"ASSAY_MASTER_KEY_COMMAND failed: {program} ended with {status}; what it printed is "
            "not shown, so run it by hand to see it"
        )
    if len(output) > _MOST_BYTES:
        raise NoMasterKeyError(f"ASSAY_MASTER_KEY_COMMAND prints more than {_MOST_BYTES} bytes")
    return output


async def _bounded(process: asyncio.subprocess.Process) -> bytes:
    """Everything that is printed, or a little more than is allowed; the rest is read and dropped.

    A full pipe would hold the command up, and its time limit would be told instead of the cause.
    """
    if process.stdout is None:  # pragma: no cover  it was opened as a pipe
        raise RuntimeError("the command has no output")
    kept = bytearray()
    while piece := await process.stdout.read(_MOST_BYTES):
        kept += piece[: _MOST_BYTES + 1 - len(kept)]
    return bytes(kept)


def _stretched(line: str, purpose: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(line.encode())
