"""The audit log: one JSON line for each release and each withholding, written before anything leaves.

Content free: ids, counts and revisions; the principal as a keyed hash. A line is in the kernel when `record` returns,
so it survives kill -9; it is on the disk within a second, or at once where asked.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from core.ids import DocumentId, FragmentId, RevisionId, SourceId
from core.keys import keyed_digest
from policy.errors import AuditUnavailable
from policy.principal import Principal

SYNC_INTERVAL_S: Final = 1.0

AuditValue: TypeAlias = "str | int | bool | Sequence[AuditValue] | Mapping[str, AuditValue] | None"


@dataclass(frozen=True)
class ReleasedItem:
    """What was given out, by its ids."""

    evidence_id: str
    source_id: SourceId
    document_id: DocumentId
    revision_id: RevisionId
    fragment_id: FragmentId


class AuditLog:
    """An append-only file of JSON lines, an async context manager; one process writes one file.

    `key` hashes principals; `strict` makes each record durable before `record` returns. Raises AuditUnavailable when a
    record can't be written, and from then on when one could not be made durable: what can't be audited isn't released.
    """

    def __init__(
        self,
        path: Path,
        key: bytes,
        *,
        strict: bool = False,
        sync_interval_s: float = SYNC_INTERVAL_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._key = key
        self._strict = strict
        self._sync_interval_s = sync_interval_s
        self._wall_clock = wall_clock
        self._file = -1
        self._unsynced = False
        self._failure: OSError | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._end_torn_line()
        except OSError as exc:
            raise AuditUnavailable("the audit log can't be opened") from exc
        self._task = asyncio.create_task(self._sync_regularly(), name="audit sync")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._closing.set()
            await task
        self._fsync()
        file, self._file = self._file, -1
        os.close(file)
        if self._failure is not None:
            raise AuditUnavailable("the audit log can't be made durable") from self._failure

    async def intended(
        self,
        decision_id: str,
        principal: Principal,
        rpc: str,
        items: Sequence[ReleasedItem],
        revisions: Mapping[str, str | int],
        *,
        durable: bool = False,
    ) -> None:
        """Before a release: to whom, what, and by which revisions (policy, data, seq, epoch)."""
        fields: dict[str, AuditValue] = {
            "tenant": principal.tenant_id,
            "principal": self.principal_hash(principal),
            "rpc": rpc,
            "count": len(items),
            "items": [asdict(item) for item in items],
            "revisions": dict(revisions),
        }
        await self.record("intended", decision_id, fields, durable=durable)

    async def withheld(self, decision_id: str, reason: str, *, durable: bool = False) -> None:
        """What was intended under `decision_id` did not leave; `reason` is one of our fixed words."""
        await self.record("withheld", decision_id, {"reason": reason}, durable=durable)

    async def record(
        self, kind: str, decision_id: str, fields: Mapping[str, AuditValue], *, durable: bool = False
    ) -> None:
        """Append one line; on the disk at return if `durable` or the log is strict."""
        if self._file < 0 or self._failure is not None:
            raise AuditUnavailable("the audit log is closed or broken") from self._failure
        line = {"at": round(self._wall_clock(), 3), "kind": kind, "decision_id": decision_id, **fields}
        self._append(json.dumps(line, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        if durable or self._strict:
            await self._sync()

    @property
    def broken(self) -> bool:
        """Whether a record could not be made durable; nothing is taken any more."""
        return self._failure is not None

    def principal_hash(self, principal: Principal) -> str:
        """Issuer, tenant and subject, keyed: joins one person's records and names nobody."""
        return keyed_digest(self._key, "principal", principal.issuer, principal.tenant_id, principal.subject)

    def _append(self, line: bytes) -> None:
        try:
            written = os.write(self._file, line)
            if written != len(line):
                self._end_torn_line()
                raise AuditUnavailable("the audit log took only a part of a record")
        except OSError as exc:
            raise AuditUnavailable("the audit log can't be written") from exc
        self._unsynced = True

    def _end_torn_line(self) -> None:
        """A line that a full disk or a crash cut short must not swallow the next one."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    async def _sync(self) -> None:
        self._unsynced = False
        await asyncio.shield(asyncio.to_thread(self._fsync))
        if self._failure is not None:
            raise AuditUnavailable("the audit log can't be made durable") from self._failure

    def _fsync(self) -> None:
        """In a thread; the failure is kept so that each later record raises it, also when nobody awaits this one."""
        try:
            os.fsync(self._file)
        except OSError as exc:
            self._failure = exc

    async def _sync_regularly(self) -> None:
        while self._failure is None and not self._closing.is_set():
            with suppress(TimeoutError):  # the usual end of the wait: another interval has passed
                await asyncio.wait_for(self._closing.wait(), self._sync_interval_s)
            if self._unsynced:
                self._unsynced = False
                await asyncio.to_thread(self._fsync)
