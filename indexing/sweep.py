"""The sweep: looks into the catalog again and again and starts what is missing there.

It is the only thing that starts work, so nothing is lost with a crash, a lost notification or a failed attempt: what
is not done in the catalog is found again. Work of a former process is taken over when nothing of it can still arrive
at the store: publications by the lease's terms, everything else `drain_s` after the start.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import structlog

from core.ids import TenantId
from corpus.catalog.database import Database, now_us
from corpus.catalog.operations import OperationKind
from corpus.errors import CatalogUnavailable
from indexing import worklist
from indexing.indexer import Failure, Indexer
from indexing.retries import Retries, RetryTerms, describe
from indexing.workflows import Workflows
from indexing.worklist import PendingPut, Unsettled

_TIDY_S = 600.0  # between two deletions of old workflows
_BUSY_S = 1.0  # longest wait while another process holds a lease: it may let go at any time

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class SweepTerms:
    """`poll_s`: how often it is looked whether the catalog changed; `look_s`: how often all is looked at, changed
    or not.

    At most `batches` batches of `batch` puts are staged at once, one of each tenant; `tenants` are published and as
    many settled at once. A put is given up after `attempts`. `grace_s`: what is under way when the process is to end
    may go on for that long, then ends between two steps.
    """

    poll_s: float = 0.05
    look_s: float = 0.25
    batches: int = 4
    batch: int = 16
    tenants: int = 8
    settled_together: int = 100
    attempts: int = 4
    grace_s: float = 5.0
    retry: RetryTerms = field(default_factory=RetryTerms)


@dataclass(frozen=True)
class _Publishing:
    """A running publication: operations from `since` on and the `dead` one before it are its own to settle."""

    since: int
    dead: str | None


class Sweep:
    """One for each process. `drain_s` as in StoreTerms; `executor` is the process's own name, never used again."""

    def __init__(
        self,
        database: Database,
        indexer: Indexer,
        workflows: Workflows,
        executor: str,
        drain_s: float,
        terms: SweepTerms | None = None,
    ) -> None:
        self._database = database
        self._indexer = indexer
        self._workflows = workflows
        self._executor = executor
        self._drain_s = drain_s
        self._terms = terms or SweepTerms()
        self._retries = Retries(self._terms.retry)
        self._crashes: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._staging: dict[TenantId, set[str]] = {}
        self._alone = False  # a put that is suspected of killing processes is being staged
        self._publishing: dict[TenantId, _Publishing] = {}
        self._settling: dict[TenantId, set[str]] = {}
        self._served: dict[TenantId, float] = {}
        self._started_us = now_us()
        self._settle_from = monotonic() + drain_s
        self._wake = asyncio.Event()
        self._seen: int | None = None
        self._look_at = 0.0
        self._tidy_at = 0.0
        self._named: set[str] = set()
        self._names = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then let what is under way end."""
        self._crashes = await self._workflows.crashes()
        trouble = 0
        while not stop.is_set():
            try:
                self._look()
                trouble = 0
            except CatalogUnavailable as exc:
                trouble += 1
                if trouble == 1:
                    _log.warning("catalog_unavailable", **describe(exc))
                self._look_at = 0.0  # in full once it is back
                self._wake.clear()
            await self._pause(stop, min(self._terms.poll_s * 2**trouble, 5.0))
        await self._end()

    def _look(self) -> None:
        """Start what is missing, if anything may have changed."""
        version = worklist.version(self._database)
        if version == self._seen and not self._wake.is_set() and monotonic() < self._look_at:
            return
        self._wake.clear()
        self._seen, self._look_at = version, monotonic() + self._terms.look_s
        puts = self._start_puts()
        tenants = self._start_publications()
        operations = self._start_settling()
        if monotonic() >= self._tidy_at:
            self._tidy_at = monotonic() + _TIDY_S
            self._spawn(self._tidy(), ())
        self._retries.forget_all_but(puts | tenants | operations)
        self._named &= puts

    async def _tidy(self) -> None:
        pending = worklist.pending_puts(self._database, per_tenant=1 << 30)
        await self._workflows.forget({put.operation_id for put in pending})

    # ---- Staging ------------------------------------------------------------------------------------------------

    def _start_puts(self) -> set[str]:
        busy = {each for batch in self._staging.values() for each in batch}
        puts = worklist.pending_puts(self._database, 4 * self._terms.batch + len(busy))
        waiting: dict[TenantId, list[PendingPut]] = {}
        for put in puts:
            if put.operation_id not in busy and self._retries.may_run(put.operation_id):
                waiting.setdefault(put.tenant_id, []).append(put)
        suspects = [put for each in waiting.values() for put in each if self._crashes[put.operation_id] > 1]
        if self._alone or suspects:
            if not self._alone and not self._staging:
                self._alone = True
                self._start_batch(suspects[:1])
            return {put.operation_id for put in puts}
        for tenant_id in self._in_turn(waiting):
            if len(self._staging) < self._terms.batches and tenant_id not in self._staging:
                self._start_batch(waiting[tenant_id][: self._terms.batch])
        return {put.operation_id for put in puts}

    def _start_batch(self, puts: Sequence[PendingPut]) -> None:
        tenant_id = puts[0].tenant_id
        self._staging[tenant_id] = {put.operation_id for put in puts}
        self._spawn(self._stage(tenant_id, puts), self._staging[tenant_id])

    async def _stage(self, tenant_id: TenantId, puts: Sequence[PendingPut]) -> None:
        try:
            hopeless = [put for put in puts if self._attempts(put) >= self._terms.attempts]
            for put in hopeless:
                blamed, crashes = self._retries.blamed(put.operation_id), self._crashes[put.operation_id]
                why = f"{blamed} failures, {crashes} processes died of it"
                await self._indexer.give_up(put.operation_id, put.revision_id, why)
            batch = [put for put in puts if put not in hopeless]
            if batch:
                failures = await self._workflows.stage(
                    self._name(batch[0]), [(put.operation_id, put.revision_id) for put in batch]
                )
                for operation_id, failure in failures.items():
                    self._retries.failed(operation_id, blame=failure.blame)
        finally:
            self._alone = False
            del self._staging[tenant_id]

    def _attempts(self, put: PendingPut) -> int:
        return self._retries.blamed(put.operation_id) + self._crashes[put.operation_id]

    def _name(self, first: PendingPut) -> str:
        """The operation's own id for what is surely its first attempt, else a name that no attempt has had."""
        fresh = first.created_at >= self._started_us and first.operation_id not in self._named
        self._named.add(first.operation_id)
        return first.operation_id if fresh else self._new_name(first.operation_id)

    def _new_name(self, what: str) -> str:
        self._names += 1
        return f"{what}:{self._executor}.{self._names}"

    # ---- Publishing ---------------------------------------------------------------------------------------------

    def _start_publications(self) -> set[str]:
        tenants = worklist.publishable_tenants(self._database)
        for tenant_id in self._in_turn(tenants):
            free = len(self._publishing) < self._terms.tenants and tenant_id not in self._publishing
            if free and self._retries.may_run(_publish_key(tenant_id)):
                dead = worklist.publication_in_progress(self._database, tenant_id)
                self._publishing[tenant_id] = _Publishing(now_us(), dead)
                self._spawn(self._publish(tenant_id), {_publish_key(tenant_id)})
        return {_publish_key(tenant_id) for tenant_id in tenants}

    async def _publish(self, tenant_id: TenantId) -> None:
        key = _publish_key(tenant_id)
        try:
            done, failure = await self._workflows.publish(self._new_name(key), tenant_id)
            if failure is not None:
                self._retries.failed(key, blame=failure.blame, at_least_s=self._drain_s if failure.drain else 0.0)
                if failure.blame and self._retries.blamed(key) >= self._terms.attempts - 1:
                    await self._indexer.quarantine(tenant_id, failure)
            elif done:
                self._retries.succeeded(key)
            else:
                self._retries.failed(key, at_most_s=_BUSY_S)
        finally:
            del self._publishing[tenant_id]

    # ---- Settling -----------------------------------------------------------------------------------------------

    def _start_settling(self) -> set[str]:
        operations = worklist.unsettled_operations(self._database)
        keys: set[str] = {each.operation_id for each in operations}
        if monotonic() < self._settle_from:
            return keys
        waiting: dict[TenantId, list[Unsettled]] = {}
        for each in operations:
            if self._retries.may_run(each.operation_id):
                waiting.setdefault(each.tenant_id, []).append(each)
        for tenant_id in self._in_turn(waiting):
            if len(self._settling) < self._terms.tenants and tenant_id not in self._settling:
                batch = self._settle_batch(tenant_id, waiting[tenant_id])
                if batch:
                    self._settling[tenant_id] = set(batch)
                    self._spawn(self._settle(tenant_id, batch), self._settling[tenant_id])
        return keys

    def _settle_batch(self, tenant_id: TenantId, operations: Iterable[Unsettled]) -> list[str]:
        """The oldest operations together; one that has failed by its own fault alone; none that a publication is at."""
        running = self._publishing.get(tenant_id)
        free = [each for each in operations if running is None or not _is_its_own(running, each)]
        if running is not None and free:
            touched = worklist.documents_of(self._database, [o for o in operations if _is_its_own(running, o)])
            free = [each for each in free if not touched & worklist.documents_of(self._database, [each])]
        suspects: list[str] = [each.operation_id for each in free if self._retries.blamed(each.operation_id)]
        others: list[str] = [each.operation_id for each in free if not self._retries.blamed(each.operation_id)]
        return others[: self._terms.settled_together] or suspects[:1]

    async def _settle(self, tenant_id: TenantId, operation_ids: Sequence[str]) -> None:
        try:
            failure = await self._workflows.settle(self._new_name(operation_ids[0]), tenant_id, operation_ids)
            if failure is not None:
                await self._settling_failed(operation_ids, failure)
        finally:
            del self._settling[tenant_id]

    async def _settling_failed(self, operation_ids: Sequence[str], failure: Failure) -> None:
        for operation_id in operation_ids:
            self._retries.failed(operation_id, blame=failure.blame, at_least_s=self._drain_s if failure.drain else 0.0)
            if self._retries.blamed(operation_id) == self._terms.attempts:
                await self._indexer.fail_operation(operation_id)

    # ---- Running ------------------------------------------------------------------------------------------------

    def _in_turn(self, tenants: Iterable[TenantId]) -> list[TenantId]:
        """Who was served longest ago comes first."""
        return sorted(tenants, key=lambda tenant_id: self._served.get(tenant_id, 0.0))

    def _spawn(self, work: Coroutine[Any, Any, None], keys: Iterable[str]) -> None:
        task = asyncio.ensure_future(self._guarded(work, frozenset(keys)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None], keys: frozenset[str]) -> None:
        """Whatever fails outside of an attempt itself (the catalog, the workflows' file) is tried again, too."""
        try:
            await work
        except Exception as exc:
            _log.error("indexing_failed", **describe(exc))
            for key in keys:
                self._retries.failed(key)
        finally:
            self._wake.set()

    async def _pause(self, stop: asyncio.Event, seconds: float) -> None:
        """Until something ended, the process is to end, or the time has passed."""
        events = [asyncio.ensure_future(event.wait()) for event in (stop, self._wake)]
        try:
            await asyncio.wait(events, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in events:
                each.cancel()

    async def _end(self) -> None:
        for hurry in (False, True):
            if hurry:
                self._indexer.hurry.set()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._terms.grace_s)
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _publish_key(tenant_id: TenantId) -> str:
    return f"publish:{tenant_id}"


def _is_its_own(running: _Publishing, operation: Unsettled) -> bool:
    return operation.operation_id == running.dead or (
        operation.kind == OperationKind.PUBLISH and operation.created_at >= running.since
    )
