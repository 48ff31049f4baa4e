"""The three things that the indexer does: stage puts, publish a tenant, settle what changed. No durability in here.

Each answers counts and operation ids, never content. Failures are told, not raised: whoever started the work decides
when it is tried again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

import sqlalchemy as sa
import structlog

from core.ids import OPEN_SEQ, OperationId, RevisionId, Seq, TenantId
from corpus.catalog.database import Database
from corpus.catalog.documents import end_pending, fail_put
from corpus.catalog.operations import OperationKind, OperationState, fail_operation, settle, update_operation
from corpus.catalog.schema import operations, revisions
from corpus.contents import Contents, Copy
from corpus.errors import RecordDamaged
from corpus.projection import Projection, Step, Work, wanted_copies
from corpus.publication import Publisher, unsettled_documents
from corpus.store import StoreRejected, StoreUnavailable
from indexing.retries import HEALING, describe
from indexing.staging import StageOutcome, Stager

STAGED_TOGETHER = 2  # documents of one batch: one is read and written while the other has the encoder
INTERNAL = "internal"
INTERNAL_MESSAGE = "The document could not be processed."
_SETTLED_KINDS = (OperationKind.SET_ACCESS, OperationKind.DELETE, OperationKind.ABANDON)
_LONGEST_PAUSE_S = 2.0  # below what a lease lasts without renewal

_log = structlog.get_logger(__name__)


@dataclass
class Failure:
    """`blame`: it is the work's own fault as far as can be told. `drain`: a message may still be on its way."""

    blame: bool
    drain: bool
    exc: Exception = field(repr=False)

    @classmethod
    def of(cls, exc: Exception) -> "Failure":
        """Sorted by whose fault it is. A late call has been waited for where it was made."""
        return cls(not isinstance(exc, HEALING), isinstance(exc, StoreUnavailable), exc)


class Indexer:
    """`hurry` is set when the process is to end: publishing and settling then stop between two steps."""

    def __init__(
        self, database: Database, contents: Contents, stager: Stager, publisher: Publisher, projection: Projection
    ) -> None:
        self._database = database
        self._contents = contents
        self._stager = stager
        self._publisher = publisher
        self._projection = projection
        self.hurry = asyncio.Event()

    async def stage(self, puts: Sequence[tuple[str, str]]) -> dict[str, Failure]:
        """Stage the puts, given as operation and revision ids; answers the failed ones by operation id."""
        slots, failures = asyncio.Semaphore(STAGED_TOGETHER), dict[str, Failure]()

        async def stage(operation_id: str, revision_id: str) -> None:
            async with slots:
                if self.hurry.is_set():
                    return
                try:
                    outcome = await self._stager.stage(RevisionId(revision_id))
                except Exception as exc:  # one document must not take its neighbours along
                    _log.warning("staging_failed", operation_id=operation_id, **describe(exc))
                    failures[operation_id] = Failure.of(exc)
                    return
            if outcome is StageOutcome.REFUSED:
                _log.info("put_refused", operation_id=operation_id)

        await asyncio.gather(*(stage(*put) for put in puts))
        return failures

    async def give_up(self, operation_id: str, revision_id: str, why: str) -> None:
        """End a put that can't be staged however often it is tried."""
        _log.error("put_given_up", operation_id=operation_id, why=why)
        await self._database.write(lambda tx: fail_put(tx, revision_id, INTERNAL, INTERNAL_MESSAGE))

    async def publish(self, tenant_id: TenantId) -> tuple[bool, Failure | None]:
        """Publish until nothing is staged; answers whether anything was done, and how it failed.

        Nothing is done while another process holds the lease, or may still have messages under way.
        """
        done: set[Step] = set()
        try:
            async with aclosing(self._paced(self._publisher.publish(tenant_id))) as steps:
                async for step in steps:
                    done.add(step)
                    if self.hurry.is_set():
                        break
        except Exception as exc:  # told to the sweep, which tries again
            _log.warning("publication_failed", tenant_id=tenant_id, **describe(exc))
            return bool(done), Failure.of(exc)
        return not done <= {Step.LEASED}, None

    async def settle(self, tenant_id: TenantId, operation_ids: Sequence[str]) -> Failure | None:
        """Bring the store up to the catalog on the operations' documents and end them."""
        try:
            keys = frozenset(key for each in operation_ids for key in unsettled_documents(self._database, each))
            if keys and not await self._settled(Work(tenant_id, keys), operation_ids[0]):
                return None
            await self._database.write(lambda tx: _end(tx, operation_ids))
        except Exception as exc:  # told to the sweep, which tries again
            _log.warning("settling_failed", tenant_id=tenant_id, operations=len(operation_ids), **describe(exc))
            return Failure.of(exc)
        return None

    async def fail_operation(self, operation_id: str) -> None:
        """Tell the client that its change is not in the store; its documents stay unsettled, so the gate covers it."""
        await self._database.write(lambda tx: fail_operation(tx, operation_id, INTERNAL, INTERNAL_MESSAGE))

    async def quarantine(self, tenant_id: TenantId, failure: Failure) -> int:
        """End the staged revisions that keep the tenant from publishing; answers how many were found."""
        staged = self._staged(tenant_id)
        refused = self._refused(tenant_id, staged, failure.exc) if isinstance(failure.exc, StoreRejected) else set()
        culprits = [key for key in staged if key in refused or await self._is_damaged(key, staged[key])]
        for key in culprits:
            _log.error("revision_given_up", revision_id=staged[key], **describe(failure.exc))
            await self._database.write(lambda tx, key=key: _end_staged(tx, key))  # type: ignore[misc]
        return len(culprits)

    async def _settled(self, work: Work, operation_id: str) -> bool:
        """False when the process is to end first."""
        async with aclosing(self._paced(self._projection.settle(work, operation_id))) as steps:
            async for step in steps:
                if step is Step.SETTLED:
                    return True
                if self.hurry.is_set():
                    return False
        return False

    async def _paced(self, steps: AsyncIterator[Step]) -> AsyncGenerator[Step, None]:
        """The steps, with growing pauses while a writer copies again and again because the store does not follow."""
        copies = 0
        async with aclosing(cast(AsyncGenerator[Step, None], steps)) as each:
            async for step in each:
                yield step
                copies = copies + 1 if step is Step.COPIED else 0 if step is not Step.LISTED else copies
                if copies > 2:
                    await asyncio.sleep(min(_LONGEST_PAUSE_S, 0.05 * 2 ** min(copies, 10)))

    def _staged(self, tenant_id: TenantId) -> dict[int, RevisionId]:
        rows = self._database.read(
            "SELECT revision_key, revision_id FROM revisions WHERE tenant_id = ? AND state = 'staged' "
            "AND state IN ('accepted', 'staged')",
            (tenant_id,),
        )
        return {key: RevisionId(revision_id) for key, revision_id in rows}

    def _refused(self, tenant_id: TenantId, staged: dict[int, RevisionId], rejected: StoreRejected) -> set[int]:
        """Revisions whose objects the store named when it refused."""
        documents = self._database.read(
            "SELECT DISTINCT document_key FROM revisions WHERE tenant_id = ? AND state IN ('accepted', 'staged')",
            (tenant_id,),
        )
        work = Work(tenant_id, frozenset(key for (key,) in documents))
        copies = self._contents.object_ids(wanted_copies(self._database, work))
        return {copies[each].revision_key for each in rejected.object_ids if each in copies} & staged.keys()

    async def _is_damaged(self, revision_key: int, revision_id: RevisionId) -> bool:
        try:
            copy = Copy(revision_key, revision_id, Seq(1), OPEN_SEQ, 0)
            await asyncio.to_thread(self._contents.objects, copy)
        except (RecordDamaged, ValueError):
            return True
        return False


def _end(tx: sa.Connection, operation_ids: Sequence[str]) -> None:
    kinds = tx.execute(
        sa.select(operations.c.operation_id, operations.c.kind).where(operations.c.operation_id.in_(operation_ids))
    )
    for operation_id, kind in list(kinds):
        settle(tx, operation_id)
        if kind in _SETTLED_KINDS:
            update_operation(tx, operation_id, state=OperationState.SUCCEEDED, done=operations.c.total)


def _end_staged(tx: sa.Connection, revision_key: int) -> None:
    row = tx.execute(sa.select(revisions).where(revisions.c.revision_key == revision_key)).one()
    if row.state == "staged":
        end_pending(tx, row, "failed")
        fail_operation(tx, OperationId(row.operation_id), INTERNAL, INTERNAL_MESSAGE)
