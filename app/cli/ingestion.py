"""One folder, one build: every file is put into it, then all are published together, or nothing is."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from muniment import (
    Access,
    AsyncClient,
    FailedPrecondition,
    InvalidArgument,
    MunimentError,
    OperationFailed,
    Provenance,
    ResourceExhausted,
    Unavailable,
)
from muniment.v1 import operation_pb2

from app.cli.folder import File
from app.cli.messages import failure_text

T = TypeVar("T")
R = TypeVar("R")
Outcome = Literal["stored", "unchanged", "refused"]
# Told each phase at its begin with how many steps it has (putting, publishing), each step ("put", "read": ready to be
# published), and, when all ended early, what became of the build (abandoned, published, left open).
Progress = Callable[[str, int], None]

CONCURRENT_PUTS = 16
PUBLISH_TIMEOUT_S = 24 * 3_600.0  # embedding a large folder takes long; Ctrl-C ends it at any time
ABANDON_TIMEOUT_S = 10.0
READ_WINDOW = 32
READ_EVERY_S = 0.5
ATTEMPTS = 4
COLLECTED_VIA = "muniment ingest"
# Faults of one file; all others would meet every file, and end the build.
_FILE_REASONS = ("UNSUPPORTED_FORMAT", "OLDER_SOURCE_VERSION", "TOO_LARGE")


@dataclass(frozen=True)
class Put:
    """What became of a file; `reason` says why it was refused."""

    document_id: str
    outcome: Outcome
    reason: str = ""
    operation_id: str = ""


@dataclass(frozen=True)
class Report:
    """In order of document id; `snapshot` is the one that serves it, "" when nothing was to be published."""

    puts: tuple[Put, ...]
    snapshot: str = ""
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", Counter(put.outcome for put in self.puts))

    def __str__(self) -> str:
        counts = self.counts
        return (
            f"{len(self.puts)} files = {counts['stored']} stored + {counts['unchanged']} unchanged"
            f" + {counts['refused']} refused"
        )


async def ingest_files(
    client: AsyncClient,
    source_id: str,
    files: Sequence[File],
    access: Access | None = None,
    *,
    language: str = "",
    on_progress: Progress = lambda _what, _steps: None,
) -> Report:
    """Put and publish. Whatever ends it early, Ctrl-C included, abandons the build; raises MunimentError."""
    build = await client.begin_build(source_id)
    try:
        on_progress("putting", len(files))
        puts = await _put_all(client, source_id, build.build_id, files, access, language, on_progress)
        on_progress("publishing", sum(put.outcome == "stored" for put in puts))
        operation = await client.publish_build(build.build_id)
        ended = await _published(client, operation.operation_id, puts, on_progress)
    except BaseException as exc:
        on_progress(await _abandoned(client, build.build_id, exc), 0)
        raise
    if ended.state == operation_pb2.OPERATION_STATE_FAILED:
        raise OperationFailed(ended)
    puts = await _settled(client, puts)
    stored = any(put.outcome == "stored" for put in puts)
    return Report(tuple(puts), ended.snapshot if stored else "")


async def _put_all(
    client: AsyncClient,
    source_id: str,
    build_id: str,
    files: Sequence[File],
    access: Access | None,
    language: str,
    on_progress: Progress,
) -> list[Put]:
    async def put(file: File) -> Put:
        if file.fault:
            return Put(file.document_id, "refused", file.fault)
        return await _put(client, source_id, build_id, file, access, language)

    return await _bounded(put, files, on_progress)


async def _put(
    client: AsyncClient, source_id: str, build_id: str, file: File, access: Access | None, language: str
) -> Put:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            answer = await client.put_document(
                source_id,
                file.document_id,
                file.path,
                language=language,
                access=access,
                provenance=Provenance(collected_via=COLLECTED_VIA),
                build_id=build_id,
                wait=False,
            )
        except OSError as exc:
            return Put(file.document_id, "refused", f"can't be read: {exc.strerror}")
        except (Unavailable, ResourceExhausted) as exc:
            if attempt == ATTEMPTS or exc.retry_after is None:
                raise
            await asyncio.sleep(exc.retry_after * attempt)
        except MunimentError as exc:
            if isinstance(exc, InvalidArgument) or exc.reason in _FILE_REASONS:
                return Put(file.document_id, "refused", _reason(exc))
            raise
        else:
            outcome: Outcome = "unchanged" if answer.unchanged else "stored"
            return Put(file.document_id, outcome, operation_id=answer.operation.operation_id)
    raise AssertionError("the last attempt returns or raises")


async def _published(
    client: AsyncClient, operation_id: str, puts: Sequence[Put], on_progress: Progress
) -> operation_pb2.Operation:
    """The build's operation once it has ended; reading and embedding come first and take the time."""
    reading = asyncio.create_task(
        _tell_read(client, [put.operation_id for put in puts if put.operation_id], on_progress)
    )
    publishing = asyncio.create_task(client.wait_operation(operation_id, timeout=PUBLISH_TIMEOUT_S))
    try:
        await asyncio.wait((reading, publishing), return_when=asyncio.FIRST_COMPLETED)
        if not publishing.done():
            await reading  # raises what ended it early
        return await publishing
    finally:
        reading.cancel()
        publishing.cancel()
        await asyncio.gather(reading, publishing, return_exceptions=True)


async def _tell_read(client: AsyncClient, operation_ids: Sequence[str], on_progress: Progress) -> None:
    """Ask for the oldest few only: what is read is read about in order, and a large folder has thousands."""
    waiting = list(operation_ids)
    while waiting:
        for operation_id in waiting[:READ_WINDOW]:
            try:
                operation = await client.get_operation(operation_id)
            except Unavailable:
                break  # it heals, and only progress is lost; the next look tells
            if operation.state != operation_pb2.OPERATION_STATE_PENDING:
                waiting.remove(operation_id)
                on_progress("read", 1)
        await asyncio.sleep(READ_EVERY_S)


async def _settled(client: AsyncClient, puts: Sequence[Put]) -> list[Put]:
    """A put is accepted before the document is read: ask what became of each."""

    async def look(put: Put) -> Put:
        if put.outcome != "stored":
            return put
        operation = await client.get_operation(put.operation_id)
        if operation.state != operation_pb2.OPERATION_STATE_FAILED:
            return put
        return Put(put.document_id, "refused", failure_text(operation.error), put.operation_id)

    return await _bounded(look, puts, lambda _what, _steps: None)


async def _bounded(work: Callable[[T], Awaitable[R]], items: Sequence[T], on_progress: Progress) -> list[R]:
    """Results in order of `items`, at most CONCURRENT_PUTS at a time; the first error ends all."""
    results: dict[int, R] = {}
    waiting = iter(enumerate(items))

    async def worker() -> None:
        for at, item in waiting:
            results[at] = await work(item)
            on_progress("put", 1)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONCURRENT_PUTS, len(items))):
                group.create_task(worker())
    except BaseExceptionGroup as exc:
        raise exc.exceptions[0] from exc
    return [results[at] for at in range(len(items))]


async def _abandoned(client: AsyncClient, build_id: str, cause: BaseException) -> str:
    """End the build: nothing of it is ever served. Only notes are added to `cause`, which is what is told."""
    try:
        await client.abandon_build(build_id, timeout=ABANDON_TIMEOUT_S)
    except FailedPrecondition:
        return "published"  # the cause came later than that
    except MunimentError as exc:
        cause.add_note(f"The build {build_id} could not be abandoned: {exc}")
        return "left open"
    return "abandoned"


def _reason(exc: MunimentError) -> str:
    rules = "; ".join(f"{violation.field} {violation.description}" for violation in exc.violations)
    return rules or f"{exc.reason.lower().replace('_', ' ')}: {exc.message}"
