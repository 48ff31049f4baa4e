"""One supervisor for each data directory, found by its pid, and nothing stale is believed."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy import (
    AlreadyRunningError,
    DataDirectoryLock,
    StopTimedOutError,
    free_ports,
    holder,
    read_state,
    stop_running,
)

HOLDING = """
import signal, sys
from pathlib import Path
from deploy import DataDirectoryLock

def end(number, frame):
    raise SystemExit

signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in sys.argv else end)
with DataDirectoryLock(Path(sys.argv[1])):
    print("held", flush=True)
    signal.pause()
"""


@contextmanager
def another_process_holding(directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", HOLDING, str(directory), *words]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_held_directory_is_refused_with_the_pid_of_its_holder(tmp_path: Path) -> None:
    with another_process_holding(tmp_path) as process:
        with pytest.raises(AlreadyRunningError, match=f"process {process.pid}") as caught, DataDirectoryLock(tmp_path):
            pass
        assert caught.value.pid == process.pid
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == process.pid


def test_also_within_one_process(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path), pytest.raises(AlreadyRunningError), DataDirectoryLock(tmp_path):
        pass


def test_the_refused_one_takes_nothing_from_the_holder(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path) as lock:
        state = lock.write_state({"opa": 1}, {})
        with pytest.raises(AlreadyRunningError), DataDirectoryLock(tmp_path):
            pass
        assert read_state(tmp_path) == state


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    with another_process_holding(tmp_path) as process:
        process.kill()
        process.wait()
    assert json.loads((tmp_path / "run" / "lock").read_text())["pid"] == process.pid
    assert holder(tmp_path) is None
    with DataDirectoryLock(tmp_path):
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == os.getpid()


def test_a_text_that_names_a_live_process_which_does_not_hold_the_lock_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").write_text(json.dumps({"pid": os.getppid(), "started_at": "2020-01-01T00:00:00+00:00"}))
    assert holder(tmp_path) is None
    with DataDirectoryLock(tmp_path):
        assert holder(tmp_path) is not None


def test_a_lock_file_cut_short_by_a_crash_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").write_text('{"pid": 12')
    assert holder(tmp_path) is None
    with DataDirectoryLock(tmp_path):
        pass


def test_nothing_is_left_after_release(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path) as lock:
        lock.write_state({}, {})
    assert list((tmp_path / "run").iterdir()) == []
    assert holder(tmp_path) is None
    assert read_state(tmp_path) is None


def test_state_and_lock_are_for_the_owner_only(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path) as lock:
        lock.write_state({"a": 1}, {"a": "127.0.0.1:2"})
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in lock.run_directory.iterdir()}
        assert modes == {"lock": 0o600, "state.json": 0o600}
        assert stat.S_IMODE(lock.run_directory.stat().st_mode) == 0o700


def test_the_state_of_a_killed_holder_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "state.json").write_text(json.dumps({"pid": 1, "started_at": "x"}))
    assert read_state(tmp_path) is None


def test_only_the_holder_writes_state(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        DataDirectoryLock(tmp_path).write_state({}, {})


async def test_stop_running_ends_the_holder_and_waits_for_it(tmp_path: Path) -> None:
    with another_process_holding(tmp_path) as process:
        assert await stop_running(tmp_path, timeout_s=10) == process.pid
        assert holder(tmp_path) is None
        assert process.wait(timeout=10) in (0, -signal.SIGTERM)


async def test_stop_running_says_when_nothing_runs(tmp_path: Path) -> None:
    assert await stop_running(tmp_path) is None


async def test_stop_running_says_when_the_holder_does_not_go(tmp_path: Path) -> None:
    with another_process_holding(tmp_path, "deaf") as process, pytest.raises(StopTimedOutError, match=str(process.pid)):
        await stop_running(tmp_path, timeout_s=0.2)


def test_free_ports_are_distinct() -> None:
    ports = free_ports(200)
    assert len(set(ports)) == 200
    assert all(1024 <= port < 65536 for port in ports)
