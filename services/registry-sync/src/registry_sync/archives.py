"""Task folders as archives that are the same bytes for the same files.

A plain tar in the order of names: no times, no owners, and of the modes only whether a file can be
executed. Links and special files are refused, since a task must not reach out of its folder.
"""

import hashlib
import io
import tarfile
from pathlib import Path

_SKIPPED = {".git", "__pycache__", ".DS_Store"}


class UnfitTaskError(ValueError):
    """The folder cannot be kept as a task; the message says why."""


def pack_task(folder: Path) -> bytes:
    """The archive of a task folder.

    Raises:
        UnfitTaskError: it holds a link that leads out of it, or a special file.
    """
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in _members(folder):
                _add(archive, path, path.relative_to(folder).as_posix(), folder)
        return buffer.getvalue()


def digest_of(parts: list[tuple[str, str]]) -> str:
    """`sha256:…` over ordered (name, digest) pairs, as a task list is pinned."""
    digest = hashlib.sha256()
    for name, value in parts:
        digest.update(f"{name}\0{value}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _members(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if not _SKIPPED.intersection(path.relative_to(folder).parts)
    )


def _add(archive: tarfile.TarFile, path: Path, name: str, folder: Path) -> None:
    member = tarfile.TarInfo(name)
    if path.is_symlink():
        target = path.resolve()
        if not target.is_relative_to(folder.resolve()) or not target.is_file():
            raise UnfitTaskError(f"{name} is a link that does not lead to a file of the task")
        path = target
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(member)
        return
    if not path.is_file():
        raise UnfitTaskError(f"{name} is neither a file nor a folder")
    content = path.read_bytes()
    member.size = len(content)
    member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    archive.addfile(member, io.BytesIO(content))
