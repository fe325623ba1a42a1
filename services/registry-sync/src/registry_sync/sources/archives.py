"""Task folders as tar archives: the one format in which a task travels through the blob store.

The format, which whoever unpacks may rely on:

- An uncompressed POSIX tar (`tarfile.PAX_FORMAT`: plain ustar headers, with extended ones only
  where a name needs them), closed by zero blocks to a multiple of 10,240 bytes.
- Members are regular files and directories alone: no links, no devices. A link that stays within
  the task is replaced by what it points at, as Harbor does; any other makes the task unavailable.
- Names are relative to the task folder, with `/` between parts, in the order of their code
  points; a directory comes before what it holds. `task.toml` lies at the top.
- Mode 0755 for directories and for files that their owner may execute, 0644 for other files;
  time 0; user and group 0 without names.
- The files are those that Harbor's packager publishes: what its content hash, kept as the task's
  `digest`, covers.

So one task gives one archive, byte for byte, on every machine, and unpacking it with
`tarfile.extractall(folder, filter="data")` gives a folder with the same content hash.
"""

import io
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path


def pack_task(folder: Path, files: Iterable[Path]) -> bytes:
    """The archive of a task.

    Args:
        folder: the task's folder.
        files: the files to pack, all below `folder`.
    """
    members = {file.relative_to(folder) for file in files}
    parents = {parent for member in members for parent in member.parents}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted((members | parents) - {Path()}, key=Path.as_posix):
            if name in parents:
                archive.addfile(_directory(name))
                continue
            with (folder / name).open("rb") as file:
                archive.addfile(_file(name, folder / name), file)
    return packed.getvalue()


def unpack_task(archive: bytes, folder: Path) -> None:
    """Unpack what `pack_task` packed into `folder`, which is made if it is not there.

    Raises:
        tarfile.TarError: it is no tar archive, or a member would leave the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        opened.extractall(folder, filter="data")


def _directory(name: Path) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name.as_posix())
    member.type = tarfile.DIRTYPE
    member.mode = 0o755
    return member


def _file(name: Path, path: Path) -> tarfile.TarInfo:
    found = path.stat()
    member = tarfile.TarInfo(name.as_posix())
    member.size = found.st_size
    member.mode = 0o755 if found.st_mode & stat.S_IXUSR else 0o644
    return member
