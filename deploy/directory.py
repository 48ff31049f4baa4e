"""Who runs on a data directory: one lock, and a state file while all is ready.

``run/lock`` is held with flock by the one supervisor and says who that is; the kernel lets go of it when the process
dies, however it dies, so a stale file is only a leftover text. ``run/state.json`` exists from "all is ready" to stop.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deploy.errors import AlreadyRunningError, StopTimedOutError
from deploy.files import PRIVATE_FILE_MODE, private_directory, write_private_json

# A reader looks whether the lock is held by taking it for an instant (shared), and a new holder needs an instant to
# write its pid: a refusal before this time would be premature.
_SETTLE_S = 0.5
_POLL_S = 0.02


@dataclass(frozen=True)
class LockHolder:
    """The process that holds a data directory; ``started_at`` is when it took the lock (UTC, ISO 8601)."""

    pid: int
    started_at: str


@dataclass(frozen=True)
class RunState:
    """What runs on a data directory: children's pids and serving addresses (``host:port``), each by name."""

    pid: int
    started_at: str
    children: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)


class DataDirectoryLock:
    """The right to run on a data directory, as a context manager.

    Raises AlreadyRunningError on entry when a live process has it. The text of a dead holder and its state file are
    taken over. On exit the state file goes first, then the lock.
    """

    def __init__(self, data_directory: Path) -> None:
        self._directory = data_directory
        self._descriptor: int | None = None
        self._started_at = ""

    @property
    def run_directory(self) -> Path:
        """Where what belongs to this run is kept."""
        return run_directory(self._directory)

    def __enter__(self) -> Self:
        private_directory(self.run_directory)
        self._descriptor = self._acquire()
        self._started_at = datetime.now(UTC).isoformat()
        record = json.dumps({"pid": os.getpid(), "started_at": self._started_at})
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, record.encode(), 0)
        _state_path(self._directory).unlink(missing_ok=True)  # left by a holder that was killed
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor is None:
            return
        _state_path(self._directory).unlink(missing_ok=True)
        _lock_path(self._directory).unlink()  # before letting go, so that a next holder's file is never removed
        os.close(self._descriptor)
        self._descriptor = None

    def write_state(self, children: Mapping[str, int], addresses: Mapping[str, str]) -> RunState:
        """Publish that all is ready; readable by the owner only."""
        if self._descriptor is None:
            raise RuntimeError("only the holder of a data directory may write its state")
        state = RunState(os.getpid(), self._started_at, dict(children), dict(addresses))
        write_private_json(_state_path(self._directory), asdict(state))
        return state

    def _acquire(self) -> int:
        deadline = time.monotonic() + _SETTLE_S
        while True:
            descriptor = _open_locked(_lock_path(self._directory))
            if descriptor is not None:
                return descriptor
            if time.monotonic() >= deadline:
                written = _read_holder(_lock_path(self._directory))
                raise AlreadyRunningError(self._directory, written.pid if written is not None else None)
            time.sleep(_POLL_S)


def run_directory(data_directory: Path) -> Path:
    """Where lock, state, credentials and generated engine configuration of a data directory live."""
    return data_directory / "run"


def holder(data_directory: Path) -> LockHolder | None:
    """The live process that holds the data directory, None when there is none."""
    path = _lock_path(data_directory)
    deadline = time.monotonic() + _SETTLE_S
    while _is_held(path):
        found = _read_holder(path)
        if found is not None or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL_S)
    return None


def read_state(data_directory: Path) -> RunState | None:
    """What runs on the data directory; None while nothing does or not all of it is ready."""
    if holder(data_directory) is None:
        return None
    document = _read_json(_state_path(data_directory))
    return None if document is None else RunState(**document)


async def stop_running(data_directory: Path, timeout_s: float = 60.0) -> int | None:
    """Ask the holder of the data directory to stop and wait until it let go.

    Returns its pid, or None when nothing ran. Raises StopTimedOutError.
    """
    found = holder(data_directory)
    if found is None:
        return None
    try:
        os.kill(found.pid, signal.SIGTERM)
    except ProcessLookupError:
        return None  # it ended in between, and with it its hold
    deadline = time.monotonic() + timeout_s
    while holder(data_directory) == found:
        if time.monotonic() >= deadline:
            raise StopTimedOutError(data_directory, found.pid, timeout_s)
        await asyncio.sleep(_POLL_S)
    return found.pid


def _open_locked(path: Path) -> int | None:
    """Descriptor of the locked file, None when another has it. Not inherited by children (PEP 446)."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it between open and lock: that file guards nothing any more


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_holder(path: Path) -> LockHolder | None:
    document = _read_json(path)
    return None if document is None else LockHolder(pid=int(document["pid"]), started_at=str(document["started_at"]))


def _read_json(path: Path) -> dict[str, Any] | None:
    """None when the file is not there or, being written in place by a new holder, not whole yet."""
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return document


def _lock_path(data_directory: Path) -> Path:
    return run_directory(data_directory) / "lock"


def _state_path(data_directory: Path) -> Path:
    return run_directory(data_directory) / "state.json"
