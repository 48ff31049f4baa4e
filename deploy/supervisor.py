"""Runs a set of child processes as one: all ready, or all stopped.

Each child has its own session, so that a terminal's Ctrl-C reaches the supervisor alone, which then stops the children
in reverse order; on Linux the kernel ends a child when the supervisor is killed (see ``launcher``). The kernel ties
that to the thread that started the child: run a supervisor's event loop in the thread that lives longest, the main one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from deploy.directory import DataDirectoryLock, RunState
from deploy.errors import ChildDiedError, ChildNotReadyError, StopRequestedError, SupervisionError
from deploy.files import PRIVATE_FILE_MODE, private_directory
from deploy.probes import ReadinessProbe

Event = Literal["starting", "ready", "stopping", "stopped", "killed", "died"]
EventSink = Callable[[str, Event], None]

_T = TypeVar("_T")

_LAUNCHER = Path(__file__).with_name("launcher.py")
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PROBE_INTERVAL_S = 0.05
_TAIL_BYTES = 8192
_TAIL_LINES = 20


@dataclass(frozen=True)
class ChildSpec:
    """One child process.

    ``env`` is its whole environment: nothing is inherited, so nothing leaks. ``log_path`` gets its standard output and
    error; what an earlier run left there is kept beside it as ``*.previous``. ``grace_s`` is the time between SIGTERM
    and SIGKILL.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    log_path: Path
    ready: ReadinessProbe = field(repr=False)
    ready_timeout_s: float = 30.0
    grace_s: float = 10.0


@dataclass(frozen=True)
class _Child:
    spec: ChildSpec
    process: asyncio.subprocess.Process
    exited: asyncio.Task[int]


class Supervisor:
    """Starts children in order, watches them, and stops them in reverse; an async context manager.

    ``start`` and ``wait`` raise ChildDiedError as soon as any child ends. Leaving the context stops every child,
    whatever the reason. SIGINT, SIGTERM and SIGHUP ask for a stop (a second one cuts the grace short) unless
    ``handle_signals`` is off.
    """

    def __init__(self, *, on_event: EventSink | None = None, handle_signals: bool = True) -> None:
        self._on_event: EventSink = on_event if on_event is not None else _ignore_event
        self._handle_signals = handle_signals
        self._handled: list[signal.Signals] = []
        self._children: list[_Child] = []
        self._stop_asked = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def children(self) -> Mapping[str, int]:
        """Pids by name, in starting order."""
        return {child.spec.name: child.process.pid for child in self._children}

    async def __aenter__(self) -> Self:
        if self._handle_signals:
            # Ignored signals (SIGHUP under nohup) stay ignored.
            self._handled = [each for each in _STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
            for number in self._handled:
                asyncio.get_running_loop().add_signal_handler(number, self.request_stop)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        finally:
            for number in self._handled:
                asyncio.get_running_loop().remove_signal_handler(number)

    def request_stop(self) -> None:
        """Ask for an orderly stop; asked again, children are killed without further grace."""
        if self._stop_asked.is_set():
            self._hurry.set()
        self._stop_asked.set()

    async def start(self, spec: ChildSpec) -> int:
        """Start one child, wait until it is ready and return its pid.

        Raises ChildNotReadyError, ChildDiedError (of this or any earlier child) or StopRequestedError.
        """
        if spec.name in self.children:
            raise SupervisionError(f"a child named {spec.name} runs already")
        self._raise_if_over()
        self._on_event(spec.name, "starting")
        child = await _spawn(spec)
        self._children.append(child)
        await self.guard(_until_ready(spec))
        self._on_event(spec.name, "ready")
        return child.process.pid

    async def start_all(self, specs: Sequence[ChildSpec]) -> None:
        """Start one after the other, each only when the one before is ready."""
        for spec in specs:
            await self.start(spec)

    async def guard(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await ``work``, but no longer than all children live and nobody asks to stop."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self._stop_asked.wait())
        try:
            exits = [child.exited for child in self._children]
            await asyncio.wait([task, asked, *exits], return_when=asyncio.FIRST_COMPLETED)
            self._raise_if_over()
            return await task
        finally:
            for pending in (task, asked):
                pending.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)

    async def wait(self) -> None:
        """Return when a stop is asked for; raise ChildDiedError when a child ends before that."""
        try:
            await self.guard(asyncio.Event().wait())
        except StopRequestedError:
            return

    async def stop(self) -> None:
        """Stop all children in reverse order; afterwards none of them or of their process groups is left."""
        try:
            while self._children:
                await self._stop_child(self._children[-1])
                self._children.pop()
        finally:
            for child in self._children:  # only when stopping was itself cut short
                _signal_group(child, signal.SIGKILL)

    async def _stop_child(self, child: _Child) -> None:
        by_itself = child.exited.done()
        if not by_itself:
            self._on_event(child.spec.name, "stopping")
            _signal_group(child, signal.SIGTERM)
            hurry = asyncio.ensure_future(self._hurry.wait())
            await asyncio.wait([child.exited, hurry], timeout=child.spec.grace_s, return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
        killed = not child.exited.done()
        _signal_group(child, signal.SIGKILL)  # also what the child itself started and left behind
        await child.exited
        if not by_itself:
            self._on_event(child.spec.name, "killed" if killed else "stopped")

    def _raise_if_over(self) -> None:
        if self._stop_asked.is_set():  # first: once asked, an exit is nobody's fault
            raise StopRequestedError
        for child in self._children:
            if child.exited.done():
                self._on_event(child.spec.name, "died")
                raise ChildDiedError(
                    child.spec.name, child.exited.result(), child.spec.log_path, _log_tail(child.spec.log_path)
                )


async def supervise(
    lock: DataDirectoryLock,
    specs: Sequence[ChildSpec],
    addresses: Mapping[str, str],
    *,
    on_ready: Callable[[RunState], None] | None = None,
    on_event: EventSink | None = None,
) -> None:
    """Run ``specs`` under a held data directory until a signal asks to stop.

    Publishes the state when all is ready and returns after everything stopped. Raises ChildDiedError and
    ChildNotReadyError.
    """
    async with Supervisor(on_event=on_event) as supervisor:
        try:
            await supervisor.start_all(specs)
        except StopRequestedError:
            return
        state = lock.write_state(supervisor.children, addresses)
        if on_ready is not None:
            on_ready(state)
        await supervisor.wait()


async def _spawn(spec: ChildSpec) -> _Child:
    private_directory(spec.log_path.parent)
    if spec.log_path.exists():
        spec.log_path.replace(spec.log_path.with_name(spec.log_path.name + ".previous"))
    log = os.open(spec.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE_MODE)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *spec.argv),
            env=dict(spec.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    return _Child(spec, process, asyncio.ensure_future(process.wait()))


async def _until_ready(spec: ChildSpec) -> None:
    begin = time.monotonic()
    while not await spec.ready():
        if time.monotonic() - begin > spec.ready_timeout_s:
            raise ChildNotReadyError(spec.name, spec.ready_timeout_s, spec.log_path, _log_tail(spec.log_path))
        await asyncio.sleep(_PROBE_INTERVAL_S)


def _signal_group(child: _Child, number: signal.Signals) -> None:
    try:
        os.killpg(child.process.pid, number)  # a session leader's pid is its group's id
    except ProcessLookupError:
        return  # nobody is left in the group


def _log_tail(path: Path) -> str:
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TAIL_BYTES))
        lines = stream.read().decode(errors="replace").split("\n")
    return "\n".join(lines[-_TAIL_LINES - 1 :]).strip()


def _ignore_event(name: str, event: Event) -> None:
    """The sink of who does not want to hear."""
