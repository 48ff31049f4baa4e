"""Children run as one: all ready, or all stopped, and nothing is ever left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from deploy import (
    ChildDiedError,
    ChildNotReadyError,
    ChildSpec,
    DataDirectoryLock,
    StopRequestedError,
    Supervisor,
    free_ports,
    http_ready,
    read_state,
    supervise,
    tcp_ready,
)
from deploy.errors import SupervisionError

Alive = Callable[[int], bool]
Probe = Callable[[], Awaitable[bool]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]

ENV = {"PATH": os.environ["PATH"]}


def python_child(tmp_path: Path, name: str, code: str, ready: Probe, **limits: float) -> ChildSpec:
    argv = (sys.executable, "-u", "-c", code)
    return ChildSpec(name, argv, ENV, tmp_path / "log" / f"{name}.log", ready, **limits)


def sleeper(tmp_path: Path, name: str, ready: Probe) -> ChildSpec:
    return ChildSpec(name, ("sleep", "600"), ENV, tmp_path / "log" / f"{name}.log", ready)


def says(path: Path, text: str) -> Callable[[], bool]:
    return lambda: path.exists() and text in path.read_text()


def prints(path: Path, text: str) -> Probe:
    async def probe() -> bool:
        return says(path, text)()

    return probe


def ignored_signals(pid: int) -> set[int]:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line for line in status.split("\n") if line.startswith("SigIgn")).split()[1], 16)
    return {number for number in range(1, 65) if mask & (1 << (number - 1))}


def in_group(leader: int) -> set[int]:
    """Pids of a process group other than its leader's, zombies left out."""
    listing = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.split("\n") if line]
    return {int(pid) for pid, group, state in rows if int(group) == leader and state[0] != "Z"} - {leader}


async def test_starts_in_order_each_only_when_the_one_before_is_ready_and_stops_in_reverse(
    tmp_path: Path, always_ready: Probe
) -> None:
    events: list[tuple[str, str]] = []
    async with Supervisor(on_event=lambda name, event: events.append((name, event))) as supervisor:
        await supervisor.start_all([sleeper(tmp_path, name, always_ready) for name in ("a", "b")])
        assert list(supervisor.children) == ["a", "b"]
    assert events == [
        ("a", "starting"),
        ("a", "ready"),
        ("b", "starting"),
        ("b", "ready"),
        ("b", "stopping"),
        ("b", "stopped"),
        ("a", "stopping"),
        ("a", "stopped"),
    ]


async def test_leaving_the_context_by_an_error_stops_every_child(
    tmp_path: Path, always_ready: Probe, alive: Alive
) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with Supervisor() as supervisor:
            pids = [await supervisor.start(sleeper(tmp_path, name, always_ready)) for name in ("a", "b")]
            raise ZeroDivisionError
    assert not any(alive(pid) for pid in pids)


async def test_waits_until_a_tcp_port_accepts(tmp_path: Path) -> None:
    [port] = free_ports(1)
    code = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
    async with Supervisor() as supervisor:
        await supervisor.start(python_child(tmp_path, "server", code, tcp_ready(port)))
        socket.create_connection(("127.0.0.1", port)).close()


async def test_an_http_probe_is_ready_only_on_a_2xx(tmp_path: Path) -> None:
    [port] = free_ports(1)
    (tmp_path / "there").write_text("")
    argv = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path), str(port))
    spec = ChildSpec("web", argv, ENV, tmp_path / "log" / "web.log", http_ready(port, "/there"))
    assert await http_ready(port, "/there")() is False
    async with Supervisor() as supervisor:
        await supervisor.start(spec)
        assert await http_ready(port, "/absent")() is False


async def test_an_http_probe_survives_a_peer_that_does_not_speak_http() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 hello\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        assert await http_ready(server.sockets[0].getsockname()[1], "/")() is False


async def test_a_child_that_dies_while_starting_is_named_with_exit_code_and_last_log_lines(tmp_path: Path) -> None:
    code = "import sys; print('first'); print('the disk is full', file=sys.stderr); sys.exit(3)"
    with pytest.raises(ChildDiedError) as caught:
        async with Supervisor() as supervisor:
            await supervisor.start(python_child(tmp_path, "store", code, tcp_ready(1)))
    assert (caught.value.name, caught.value.exit_code) == ("store", 3)
    assert "store died (exit code 3)" in str(caught.value)
    assert "the disk is full" in str(caught.value)


async def test_a_program_that_does_not_exist_is_a_child_that_died(tmp_path: Path) -> None:
    spec = ChildSpec("ghost", ("/no/such/program",), ENV, tmp_path / "ghost.log", tcp_ready(1))
    with pytest.raises(ChildDiedError, match="cannot execute /no/such/program") as caught:
        async with Supervisor() as supervisor:
            await supervisor.start(spec)
    assert caught.value.exit_code == 127


async def test_the_death_of_one_running_child_ends_the_wait_and_stops_the_others(
    tmp_path: Path, always_ready: Probe, alive: Alive
) -> None:
    with pytest.raises(ChildDiedError) as caught:  # noqa: PT012
        async with Supervisor() as supervisor:
            first, second = [await supervisor.start(sleeper(tmp_path, name, always_ready)) for name in ("a", "b")]
            os.kill(first, signal.SIGKILL)
            await supervisor.wait()
    assert (caught.value.name, caught.value.exit_code) == ("a", -signal.SIGKILL)
    assert "signal 9" in str(caught.value)
    assert not alive(second)


async def test_the_death_of_an_earlier_child_ends_the_start_of_a_later_one(
    tmp_path: Path, always_ready: Probe, alive: Alive
) -> None:
    log = tmp_path / "log" / "b.log"
    with pytest.raises(ChildDiedError) as caught:  # noqa: PT012
        async with Supervisor() as supervisor:
            first = await supervisor.start(sleeper(tmp_path, "a", always_ready))
            code = f"import os, time; os.kill({first}, 9); print(os.getpid()); time.sleep(600)"
            await supervisor.start(python_child(tmp_path, "b", code, tcp_ready(1)))
    assert caught.value.name == "a"
    assert not (says(log, "\n")() and alive(int(log.read_text())))


async def test_a_child_that_never_gets_ready_is_named_and_stopped(tmp_path: Path, alive: Alive) -> None:
    log = tmp_path / "log" / "slow.log"
    code = "import os, time; print(os.getpid()); time.sleep(600)"

    async def never() -> bool:
        return False

    with pytest.raises(ChildNotReadyError, match=r"slow was not ready after 0\.5 s"):
        async with Supervisor() as supervisor:
            await supervisor.start(python_child(tmp_path, "slow", code, never, ready_timeout_s=0.5))
    assert not alive(int(log.read_text()))


async def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path, alive: Alive) -> None:
    events: list[tuple[str, str]] = []
    log = tmp_path / "log" / "deaf.log"
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    async with Supervisor(on_event=lambda name, event: events.append((name, event))) as supervisor:
        pid = await supervisor.start(python_child(tmp_path, "deaf", code, prints(log, "deaf"), grace_s=0.2))
    assert events[-1] == ("deaf", "killed")
    assert not alive(pid)


async def test_what_a_child_started_and_left_behind_goes_with_it(tmp_path: Path, eventually: Eventually) -> None:
    log = tmp_path / "log" / "parent.log"
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('started'); time.sleep(600)"
    async with Supervisor() as supervisor:
        pid = await supervisor.start(python_child(tmp_path, "parent", code, prints(log, "started")))
        assert in_group(pid)
    await eventually(lambda: not in_group(pid))


async def test_a_stop_asked_for_while_a_child_starts_ends_the_start(
    tmp_path: Path, alive: Alive, eventually: Eventually
) -> None:
    log = tmp_path / "log" / "slow.log"
    code = "import os, time; print(os.getpid()); time.sleep(600)"
    with pytest.raises(StopRequestedError):  # noqa: PT012
        async with Supervisor() as supervisor:
            start = asyncio.create_task(supervisor.start(python_child(tmp_path, "slow", code, tcp_ready(1))))
            await eventually(says(log, "\n"))
            supervisor.request_stop()
            await start
    assert not alive(int(log.read_text()))


async def test_guarded_work_ends_with_its_result_or_with_the_first_death(tmp_path: Path, always_ready: Probe) -> None:
    async def answer() -> int:
        return 42

    with pytest.raises(ChildDiedError):  # noqa: PT012
        async with Supervisor() as supervisor:
            pid = await supervisor.start(sleeper(tmp_path, "a", always_ready))
            assert await supervisor.guard(answer()) == 42
            os.kill(pid, signal.SIGKILL)
            await supervisor.guard(asyncio.Event().wait())


async def test_two_children_of_one_name_are_refused(tmp_path: Path, always_ready: Probe) -> None:
    async with Supervisor() as supervisor:
        await supervisor.start(sleeper(tmp_path, "a", always_ready))
        with pytest.raises(SupervisionError, match="named a"):
            await supervisor.start(sleeper(tmp_path, "a", always_ready))


async def test_logs_are_private_and_the_run_before_is_kept(tmp_path: Path, always_ready: Probe) -> None:
    log = tmp_path / "log" / "one.log"
    for word in ("earlier", "later"):
        async with Supervisor() as supervisor:
            code = f"import time; print('{word}'); time.sleep(600)"
            await supervisor.start(python_child(tmp_path, "one", code, prints(log, word)))
    assert log.read_text() == "later\n"
    assert log.with_name("one.log.previous").read_text() == "earlier\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_a_child_gets_its_own_environment_and_default_signals_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "x")
    log = tmp_path / "log" / "env.log"
    spec = ChildSpec("env", ("sh", "-c", "env; sleep 600"), {**ENV, "MINE": "y"}, log, prints(log, "MINE=y"))
    async with Supervisor() as supervisor:
        pid = await supervisor.start(spec)
        ignored = ignored_signals(pid)
    assert "SECRET_OF_THE_PARENT" not in log.read_text()
    assert signal.SIGPIPE not in ignored


def test_a_spec_does_not_show_its_environment(tmp_path: Path, always_ready: Probe) -> None:
    assert "hunter2" not in repr(ChildSpec("a", ("a",), {"KEY": "hunter2"}, tmp_path, always_ready))


async def test_a_second_request_to_stop_cuts_the_grace_short(tmp_path: Path, alive: Alive) -> None:
    log = tmp_path / "log" / "deaf.log"
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    async with asyncio.timeout(10), Supervisor() as supervisor:
        pid = await supervisor.start(python_child(tmp_path, "deaf", code, prints(log, "deaf"), grace_s=600))
        supervisor.request_stop()
        supervisor.request_stop()
    assert not alive(pid)


SUPERVISING = """
import asyncio, sys
from pathlib import Path
from deploy import ChildSpec, DataDirectoryLock, supervise

async def ready():
    return True

async def main(directory):
    specs = [ChildSpec(n, ("sleep", "600"), {"PATH": "/usr/bin:/bin"}, directory / f"{n}.log", ready) for n in "ab"]
    with DataDirectoryLock(directory) as lock:
        await supervise(lock, specs, {"api": "127.0.0.1:1"}, on_event=lambda n, e: print(n, e, flush=True))

asyncio.run(main(Path(sys.argv[1])))
"""


def run_supervising(directory: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISING, str(directory)], cwd=root, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_children_in_reverse_and_leaves_no_orphan_lock_or_state(
    tmp_path: Path, number: signal.Signals, eventually: Eventually, alive: Alive
) -> None:
    with run_supervising(tmp_path) as process:
        await eventually(lambda: read_state(tmp_path) is not None)
        state = read_state(tmp_path)
        assert state is not None
        assert state.addresses == {"api": "127.0.0.1:1"}
        assert stat.S_IMODE((tmp_path / "run" / "state.json").stat().st_mode) == 0o600
        process.send_signal(number)
        out, _ = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 0
    assert [line for line in out.split("\n") if line.endswith("stopped")] == ["b stopped", "a stopped"]
    assert not any(alive(pid) for pid in state.children.values())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == []


async def test_killing_the_supervisor_leaves_no_orphan_and_the_directory_can_be_taken(
    tmp_path: Path, eventually: Eventually, alive: Alive
) -> None:
    with run_supervising(tmp_path) as process:
        await eventually(lambda: read_state(tmp_path) is not None)
        state = read_state(tmp_path)
        assert state is not None
        assert all(alive(pid) for pid in state.children.values())
        process.kill()
        process.wait()
        await eventually(lambda: not any(alive(pid) for pid in state.children.values()))
    assert read_state(tmp_path) is None
    with DataDirectoryLock(tmp_path):
        assert not (tmp_path / "run" / "state.json").exists()


async def test_supervise_publishes_no_state_when_a_child_dies_at_start(tmp_path: Path, always_ready: Probe) -> None:
    specs = [
        sleeper(tmp_path, "good", always_ready),
        ChildSpec("bad", ("false",), ENV, tmp_path / "bad.log", tcp_ready(1)),
    ]
    ready: list[object] = []
    with DataDirectoryLock(tmp_path) as lock:
        with pytest.raises(ChildDiedError, match="bad died"):
            await supervise(lock, specs, {}, on_ready=ready.append)
        assert not ready
        assert not (lock.run_directory / "state.json").exists()
