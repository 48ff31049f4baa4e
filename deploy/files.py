"""Files that only their owner may read and that are there whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deploy.errors import DirectoryUnusableError

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIRECTORY_MODE = 0o700


def private_directory(path: Path) -> Path:
    """Create ``path`` for its owner alone, and take others' rights away where it exists.

    Raises DirectoryUnusableError.
    """
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
        path.chmod(PRIVATE_DIRECTORY_MODE)
    except OSError as exc:
        raise DirectoryUnusableError(path, exc.strerror or type(exc).__name__) from exc
    return path


def write_private(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically and durably by ``content`` with mode 0600."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # creates it with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise


def write_private_json(path: Path, document: Mapping[str, object]) -> None:
    """``write_private`` for a JSON object."""
    write_private(path, (json.dumps(document, indent=2, sort_keys=True) + "\n").encode())
