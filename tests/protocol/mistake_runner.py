"""Runs one test in each of several copies of the code, a process each: `mistake_runner.py FOLDER=TEST ...`.

The libraries are imported once, before the processes part, and none of our rooms is: each process imports its copy's.
Writes `outcome` (pytest's exit code) and `output` into each folder.
"""

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path

import pytest

LIBRARIES = (
    "aiohttp", "alembic.command", "alembic.config", "cryptography.hazmat.primitives.ciphers.aead", "numpy",
    "onnxruntime", "sqlalchemy.dialects.sqlite", "Stemmer", "structlog", "tokenizers",
    "uuid_utils",
)  # fmt: skip
LONGEST_S = 60


def main(arguments: list[str]) -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    for argument in arguments:
        folder, _, test = argument.partition("=")
        child = os.fork()
        if child == 0:
            run(Path(folder), test)
        _, status = os.waitpid(child, 0)
        (Path(folder) / "outcome").write_text(str(os.waitstatus_to_exitcode(status)))


def run(folder: Path, test: str) -> None:
    """In a process of its own, which ends here."""
    code = 3
    try:
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        sys.path[:0] = [str(folder)]
        origin = importlib.util.find_spec("core")
        assert origin is not None
        assert str(origin.origin).startswith(str(folder)), origin
        options = ["-q", f"--timeout={LONGEST_S}", "-o", "cache_dir=cache", "--rootdir", str(folder)]
        # What a failing test leaves behind for the collector says nothing about the mistake.
        options += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
        code = int(pytest.main([*options, str(folder / test)]))
    except BaseException:  # whatever it is, the table shows it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
