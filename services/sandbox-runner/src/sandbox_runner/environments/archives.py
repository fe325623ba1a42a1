"""Files in and out of a sandbox travel as tar archives, so that no path of the host is followed.

What comes out was written by an agent: it is unpacked with the data filter, which keeps every
member inside the target folder, and special files are left out.
"""

import io
import tarfile
from pathlib import Path, PurePosixPath


def pack_file(source: Path, name: str) -> bytes:
    """An archive of one file, under the path `name` (relative to where it will be unpacked)."""
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(source, arcname=name, recursive=False, filter=_owned_by_root)
        return buffer.getvalue()


def pack_folder(source: Path, prefix: str = "") -> bytes:
    """An archive of what is in a folder, under the path `prefix`, without the folder itself."""
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for entry in sorted(source.iterdir()):
                name = (PurePosixPath(prefix) / entry.name).as_posix()
                archive.add(entry, arcname=name, filter=_owned_by_root)
        return buffer.getvalue()


def unpack(archive: bytes, target: Path, *, strip: int = 0) -> None:
    """Unpack an archive that came out of a sandbox into `target`.

    `strip` leading parts of each member's path are left out, and the members that have no more.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            parts = PurePosixPath(member.name).parts
            if len(parts) <= strip:
                continue
            member.name = PurePosixPath(*parts[strip:]).as_posix()
            safe = _safe_member(member, str(target))
            if safe is not None:
                opened.extract(safe, target, filter="data")


def unpack_one(archive: bytes, target: Path) -> None:
    """Write the one file of an archive to `target`.

    Raises:
        FileNotFoundError: the archive holds no regular file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isfile() else None
            if content is not None:
                target.write_bytes(content.read())
                return
    raise FileNotFoundError(f"no regular file for {target.name} in the sandbox")


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _safe_member(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    if member.isdev() or member.issym() or member.islnk():
        return None  # special files hold nothing, and no link may lead out of the folder
    try:
        return tarfile.data_filter(member, path)
    except tarfile.FilterError:
        return None
