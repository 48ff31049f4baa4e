"""`muniment up` as people run it: one set of processes per data directory, all ready or all stopped."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from app.layout import Endpoints, Layout, NotRunning
from deploy import RunState, holder, read_state

READY_S = 180.0
COMMAND = (sys.executable, "-P", "-m", "app.cli")


async def eventually(condition: Callable[[], bool], timeout_s: float = READY_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"did not hold within {timeout_s} s"
        await asyncio.sleep(0.05)


def _environment() -> dict[str, str]:
    return {n: v for n, v in os.environ.items() if not n.startswith("MUNIMENT_") or n.endswith("_BIN")}


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, env=_environment()
    )


@contextmanager
def started(data_dir: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`muniment up` in the foreground, with its output in files; killed at the end if it still runs."""
    log = data_dir.with_name(f"{data_dir.name}.out")
    with log.open("w") as out:
        process = subprocess.Popen(
            [*COMMAND, "up", "--data-dir", str(data_dir), *arguments],
            stdout=out,
            stderr=out,
            text=True,
            env=_environment(),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@asynccontextmanager
async def ready(data_dir: Path) -> AsyncIterator[tuple["subprocess.Popen[str]", RunState]]:
    with started(data_dir) as process:
        await eventually(lambda: read_state(data_dir) is not None or process.poll() is not None)
        state = read_state(data_dir)
        assert state is not None, output_of(data_dir)
        yield process, state


def output_of(data_dir: Path) -> str:
    return data_dir.with_name(f"{data_dir.name}.out").read_text()


def alive(pid: int) -> bool:
    """A zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def assert_nothing_is_left(data_dir: Path, state: RunState) -> None:
    assert [name for name, pid in state.children.items() if alive(pid)] == []
    assert [name for name, address in state.addresses.items() if listening(address)] == []
    assert holder(data_dir) is None
    assert not (data_dir / "run" / "lock").exists()
    assert not (data_dir / "run" / "state.json").exists()
    with pytest.raises(NotRunning):
        Endpoints.read(data_dir)


async def test_one_data_directory_has_one_set_of_processes_and_a_dead_one_stops_all(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with ready(data_dir) as (process, state):
        assert state.pid == process.pid
        assert set(state.children) == {"opa", "weaviate", "indexer", "gateway"}
        assert all(alive(pid) for pid in state.children.values())
        assert all(listening(address) for address in state.addresses.values())
        assert all(Layout(data_dir).log(name).exists() for name in state.children)

        second = await asyncio.to_thread(run, "up", "--data-dir", data_dir)
        assert second.returncode == 1
        assert f"process {process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert process.poll() is None

        status = await asyncio.to_thread(run, "status", "--data-dir", data_dir, "--json")
        told = json.loads(status.stdout)
        assert (status.returncode, told["condition"], told["pid"]) == (0, "ready", process.pid)
        assert told["children"] == dict(state.children)

        os.kill(state.children["indexer"], signal.SIGKILL)
        await eventually(lambda: process.poll() is not None)
        assert process.returncode == 1
        assert "indexer died (signal 9)" in output_of(data_dir)
        assert str(Layout(data_dir).log("indexer")) in output_of(data_dir)
        assert "Traceback" not in output_of(data_dir)
        assert_nothing_is_left(data_dir, state)


async def test_ctrl_c_stops_all_and_what_was_stored_is_there_again(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    page = tmp_path / "leave.md"
    page.write_text("# Annual leave\n\nEverybody gets 25 days of annual leave a year.\n")
    asks = ("--as", "admin", "--data-dir", data_dir)
    async with ready(data_dir) as (process, state):
        created = await asyncio.to_thread(run, "sources", "create", "handbook", "--public", *asks)
        assert created.returncode == 0, created.stderr
        put = await asyncio.to_thread(run, "ingest", page, "--source", "handbook", "--json", *asks)
        assert json.loads(put.stdout)["stored"] == 1, put.stderr
        process.send_signal(signal.SIGINT)
        await eventually(lambda: process.poll() is not None)
        assert process.returncode == 0, output_of(data_dir)
        assert_nothing_is_left(data_dir, state)

    detached = await asyncio.to_thread(run, "up", "--detach", "--data-dir", data_dir)
    assert detached.returncode == 0, detached.stderr
    state_again = read_state(data_dir)
    assert state_again is not None
    try:
        found = await asyncio.to_thread(run, "answer", "How many days of annual leave?", "--json", *asks)
        events = [json.loads(line) for line in found.stdout.split("\n") if line]
        assert [event["claim"]["text"] for event in events if "claim" in event] == [
            "Everybody gets 25 days of annual leave a year."
        ]
        again = await asyncio.to_thread(run, "ingest", page, "--source", "handbook", "--json", *asks)
        assert (json.loads(again.stdout)["unchanged"], json.loads(again.stdout)["snapshot"]) == (1, "")
    finally:
        down = await asyncio.to_thread(run, "down", "--data-dir", data_dir)
    assert down.stdout == f"Stopped process {state_again.pid}.\n"
    assert_nothing_is_left(data_dir, state_again)


async def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with started(data_dir) as process:
        await eventually(lambda: "weaviate   starting" in output_of(data_dir))
        process.send_signal(signal.SIGINT)
        await eventually(lambda: process.poll() is not None)

    assert process.returncode == 130
    assert "Traceback" not in output_of(data_dir)
    assert holder(data_dir) is None
    assert not (data_dir / "run" / "lock").exists()


async def test_tenants_of_the_first_start_are_kept(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with started(data_dir, "--tenant", "acme", "--tenant", "apex") as process:
        await eventually(lambda: "weaviate   starting" in output_of(data_dir))
        process.send_signal(signal.SIGINT)
        await eventually(lambda: process.poll() is not None)
    refused = await asyncio.to_thread(run, "token", "somebody", "--data-dir", data_dir)

    assert "acme, apex" in refused.stderr
    with started(data_dir, "--tenant", "apex", "--tenant", "acme") as process:  # the same ones again are welcome
        await eventually(lambda: "weaviate   starting" in output_of(data_dir))
        process.send_signal(signal.SIGINT)
        await eventually(lambda: process.poll() is not None)


async def test_a_port_that_is_taken_is_told_in_the_last_line_of_a_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "muniment.toml").write_text(f"[gateway]\nport = {taken.getsockname()[1]}\n")
        done = await asyncio.to_thread(run, "up", "--data-dir", tmp_path)

    assert done.returncode == 1
    assert "is the port taken" in done.stderr
    assert "Traceback" not in done.stderr
