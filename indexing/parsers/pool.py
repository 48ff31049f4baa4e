"""Parsing without trust: text formats in this process, PDF and DOCX in worker processes that can be killed."""

import asyncio
import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from core.document import ParsedDocument, ParseState
from core.errors import MunimentFault
from indexing.parsers import wire
from indexing.parsers.formats import CONVERTED, parse
from indexing.parsers.outcome import ParseLimits, refused

POOL_VERSION = "pool/1"
MEMORY_BYTES = 4 * 1024**3  # of address space: native libraries and thread stacks map far more than they touch
START_TIMEOUT_S = 30.0
INLINE_BYTES = 128 * 1024  # larger texts are read in a thread, so that the loop goes on
_ATTEMPTS = 2  # a worker may have died of something that was not this document
_ROOT = Path(__file__).resolve().parents[2]

_log = structlog.get_logger(__name__)


class ParserUnavailable(MunimentFault):
    """No worker could be started, or the pool is closed: the document is not at fault and may be tried again."""


class _WorkerDied(Exception):
    """The worker ended or broke the protocol; `signal_number` is what ended it, 0 if nothing did."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"signal {signal_number}")
        self.signal_number = signal_number


@dataclass(eq=False)
class _Worker:
    process: asyncio.subprocess.Process
    requests: asyncio.StreamWriter
    answers: asyncio.StreamReader

    async def receive(self) -> bytes:
        """The next message of the worker."""
        prefix = await self.answers.readexactly(wire.LENGTH_BYTES)
        return await self.answers.readexactly(wire.length_of(prefix))

    async def ask(self, head: bytes, data: bytes) -> ParsedDocument:
        """The answer to a request, or _WorkerDied."""
        try:
            self.requests.write(wire.framed(head) + wire.framed(data))
            await self.requests.drain()
            return wire.decode_document(await self.receive())
        except (asyncio.IncompleteReadError, ConnectionError, wire.BrokenMessage) as exc:
            self.kill()
            raise _WorkerDied(-min(0, await self.process.wait())) from exc

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self.process.returncode is None:
            self.process.kill()


@dataclass
class ParserPool:
    """At most `size` workers, started when needed and used again; each document has `timeout_s` seconds.

    Cancelling `parse` kills the worker that reads. `network_removed` is None before the first worker has started.
    """

    size: int
    timeout_s: float
    memory_bytes: int = MEMORY_BYTES
    network_removed: bool | None = None
    _idle: list[_Worker] = field(default_factory=list)
    _busy: set[_Worker] = field(default_factory=set)
    _ending: set[asyncio.Task[int]] = field(default_factory=set)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.size)

    async def parse(
        self, media_type: str, filename: str, data: bytes, limits: ParseLimits | None = None
    ) -> ParsedDocument:
        """The parsed document, whose `state` tells every fault of the document; ParserUnavailable for ours.

        TIMED_OUT past `timeout_s`, CORRUPT with the warning `parser_crashed` when the reader dies of it twice.
        """
        limits = limits or ParseLimits()
        if media_type not in CONVERTED or not data or len(data) > limits.max_bytes:
            if len(data) <= INLINE_BYTES or len(data) > limits.max_bytes:
                return parse(media_type, filename, data, limits)
            return await asyncio.to_thread(parse, media_type, filename, data, limits)
        head = wire.encode_request(media_type, filename, limits, max(1, round(self.timeout_s)))
        async with self._slots:
            for _ in range(_ATTEMPTS):
                try:
                    return await self._attempt(head, data)
                except _WorkerDied as died:
                    if died.signal_number == signal.SIGXCPU:
                        return refused(ParseState.TIMED_OUT, POOL_VERSION)
        return refused(ParseState.CORRUPT, POOL_VERSION, "parser_crashed")

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that wait or read, in order."""
        return tuple(sorted(worker.process.pid for worker in [*self._idle, *self._busy]))

    async def close(self) -> None:
        """Kill every worker and wait for its end; documents being read raise ParserUnavailable."""
        self._closed = True
        for worker in [*self._idle, *self._busy]:
            self._end(worker)
        self._idle.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _attempt(self, head: bytes, data: bytes) -> ParsedDocument:
        worker = self._idle.pop() if self._idle else await self._start()
        self._busy.add(worker)
        answered = False
        try:
            async with asyncio.timeout(self.timeout_s):
                document = await worker.ask(head, data)
            answered = True
        except TimeoutError:
            return refused(ParseState.TIMED_OUT, POOL_VERSION)
        else:
            return document
        finally:
            self._busy.discard(worker)
            if answered and not self._closed:
                self._idle.append(worker)
            else:
                self._end(worker)

    async def _start(self) -> _Worker:
        if self._closed:
            raise ParserUnavailable("the parser pool is closed")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-s", "-m", "indexing.parsers.worker", str(self.memory_bytes),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # what a native library says of a document is the document's content
            env={"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
            cwd="/",
            start_new_session=True,  # Ctrl-C at the terminal is for the parent, which closes the pool
        )  # fmt: skip
        if process.stdin is None or process.stdout is None:
            raise ParserUnavailable("a parser process has no pipes")
        worker = _Worker(process, process.stdin, process.stdout)
        started = False
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                hello = json.loads(await worker.receive())
            started = True
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ValueError, wire.BrokenMessage) as exc:
            raise ParserUnavailable("a parser process did not start") from exc
        finally:
            if not started:
                self._end(worker)
        removed = hello.get("network_removed") is True
        if self.network_removed is None and not removed:
            _log.warning("parser_network_kept", why="the kernel does not let this user make a network namespace")
        self.network_removed = removed
        return worker

    def _end(self, worker: _Worker) -> None:
        """Kill now; the wait for its end goes on in the background and is awaited by `close`."""
        worker.kill()
        task = asyncio.ensure_future(_ended(worker))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _ended(worker: _Worker) -> int:
    worker.requests.close()
    return await worker.process.wait()
