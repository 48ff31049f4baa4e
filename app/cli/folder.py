"""Which files of a folder are ingested, and under which document ids."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 1 << 30  # the gateway's own limit is far lower; more than this must not be read into memory to ask


@dataclass(frozen=True)
class File:
    """A file with its id, the path below the folder with `/`; `fault` says why it can't be read, "" when it can."""

    path: Path
    document_id: str
    fault: str = ""


def files_of(path: Path) -> list[File]:
    """The file itself, or every file below a folder, by id.

    Names that begin with a dot are passed over: they are tools' own. Symbolic links are refused, not followed: they
    may lead out of the folder.
    """
    if not path.is_dir():
        return [_file(path, path.name)]
    return sorted(_below(path, path), key=lambda file: file.document_id)


def _below(folder: Path, root: Path) -> Iterator[File]:
    try:
        entries = list(os.scandir(folder))
    except OSError as exc:
        yield File(folder, _id_of(folder.relative_to(root).as_posix()), f"can't be listed: {exc.strerror}")
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path, root)
        else:
            yield _file(path, path.relative_to(root).as_posix())


def _file(path: Path, name: str) -> File:
    return File(path, _id_of(name), _fault(path, name))


def _fault(path: Path, name: str) -> str:
    try:
        name.encode()
        status = path.lstat()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except OSError as exc:
        return f"can't be read: {exc.strerror}"
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_size > MAX_FILE_BYTES:
        return f"is larger than {MAX_FILE_BYTES} bytes"
    return "" if os.access(path, os.R_OK) else "can't be read: permission denied"


def _id_of(name: str) -> str:
    """Bytes that are not UTF-8 are written out, so that the name can be shown."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
