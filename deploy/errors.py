"""Errors of this room; each text says what happened and what the operator can do.

DeployError
├── EngineError
│   ├── UnknownEngineError         a name that the pins do not list
│   ├── PinsInvalidError           pins.toml cannot be read as pins
│   ├── EngineUnusableError        an explicitly named binary is absent, not executable or of another version
│   ├── GoMissingError             an engine must be built and there is no Go that could
│   └── BuildFailedError           Go ran and did not produce the pinned engine
├── SupervisionError
│   ├── ChildDiedError             a child ended although nobody asked it to
│   ├── ChildNotReadyError         a child did not become ready within its time
│   └── StopRequestedError         SIGINT, SIGTERM or request_stop() came while children were starting
├── DirectoryError
│   ├── DirectoryUnusableError     it cannot be made, or made its owner's alone
│   ├── AlreadyRunningError        another process holds the data directory
│   └── StopTimedOutError          the process that was asked to stop still holds the data directory
└── CredentialsUnusableError       the credentials file is damaged or readable by others
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class DeployError(Exception):
    """Root of everything that this room raises on purpose."""


class EngineError(DeployError):
    """An engine's binary cannot be had."""


class UnknownEngineError(EngineError):
    """A name that the pins do not list."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no engine named {name!r}; the pinned ones are {', '.join(known)}")
        self.name = name


class PinsInvalidError(EngineError):
    """The pins file does not hold what it must."""


class EngineUnusableError(EngineError):
    """A binary that the operator named cannot be used."""

    def __init__(self, engine: str, variable: str, reason: str) -> None:
        super().__init__(f"{variable} names a binary of {engine} that cannot be used: {reason}")
        self.engine = engine
        self.reason = reason


class GoMissingError(EngineError):
    """An engine is not there and cannot be built."""

    def __init__(self, engine: str, version: str, binary: str, go_minimum: str, reasons: Sequence[str]) -> None:
        found = "".join(f"\n  - {reason}" for reason in reasons)
        super().__init__(
            f"{engine} {version} is not built yet and cannot be built here:{found}\n"
            f"Do one of these:\n"
            f"  - install Go {go_minimum} or newer, then build again;\n"
            f"  - put {binary} of version {version} on PATH, or name it in {binary_variable(engine)};\n"
            f"  - start {engine} elsewhere and set its address in the settings."
        )
        self.engine = engine
        self.reasons = tuple(reasons)


class BuildFailedError(EngineError):
    """Go ran and did not produce the pinned engine."""

    def __init__(self, engine: str, version: str, reason: str, log_path: Path) -> None:
        super().__init__(f"building {engine} {version} failed: {reason}\nThe whole output is in {log_path}")
        self.engine = engine
        self.log_path = log_path


class SupervisionError(DeployError):
    """The set of children is not, or no longer, complete."""


class ChildDiedError(SupervisionError):
    """A child ended although nobody asked it to; ``exit_code`` is negative when a signal ended it."""

    def __init__(self, name: str, exit_code: int, log_path: Path, log_tail: str) -> None:
        how = f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"
        super().__init__(f"{name} died ({how}). {_tail_text(log_path, log_tail)}")
        self.name = name
        self.exit_code = exit_code
        self.log_path = log_path
        self.log_tail = log_tail


class ChildNotReadyError(SupervisionError):
    """A child runs but did not become ready within its time."""

    def __init__(self, name: str, waited_s: float, log_path: Path, log_tail: str) -> None:
        super().__init__(f"{name} was not ready after {waited_s:g} s. {_tail_text(log_path, log_tail)}")
        self.name = name
        self.log_path = log_path
        self.log_tail = log_tail


class StopRequestedError(SupervisionError):
    """The operator asked to stop before everything was ready; not a failure."""

    def __init__(self) -> None:
        super().__init__("asked to stop")


class DirectoryError(DeployError):
    """The data directory does not allow what was asked."""


class DirectoryUnusableError(DirectoryError):
    """A folder cannot be made, or made its owner's alone."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be used as a folder of ours alone: {reason}; choose another data directory")
        self.path = path


class AlreadyRunningError(DirectoryError):
    """Another live process holds the data directory; ``pid`` is None while it has not written it yet."""

    def __init__(self, data_directory: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{data_directory} is in use by {who}; stop that one first or choose another data directory")
        self.data_directory = data_directory
        self.pid = pid


class StopTimedOutError(DirectoryError):
    """The process that was asked to stop still holds the data directory."""

    def __init__(self, data_directory: Path, pid: int | None, waited_s: float) -> None:
        super().__init__(f"process {pid} still holds {data_directory} after {waited_s:g} s")
        self.data_directory = data_directory
        self.pid = pid


class CredentialsUnusableError(DeployError):
    """The credentials file is damaged or readable by others."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; delete the file and start again to have new credentials generated")
        self.path = path


def binary_variable(engine: str) -> str:
    """Name of the environment variable that points to an engine's binary."""
    return f"MUNIMENT_{engine.upper()}_BIN"


def _tail_text(log_path: Path, log_tail: str) -> str:
    if not log_tail:
        return f"Its log {log_path} is empty."
    return f"The last lines of {log_path}:\n{log_tail}"
