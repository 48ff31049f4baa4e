"""Publishing a tenant's staged revisions, and settling what denials left, step by step.

The order is the protocol's: lease, plan (which draws the seq), copy, read back, move, and only then the closing of
superseded fragments. Each generator yields after every step, so that a test can stop, kill or interleave it there.
"""

from collections.abc import AsyncIterator

from core.ids import TenantId
from corpus.catalog.database import Database
from corpus.catalog.leases import Lease, LeaseTerms, release_lease, renew, take_lease
from corpus.catalog.publication import Dropped, Publication, move, plan, undo_dead_publication
from corpus.projection import Projection, Step, Work


class Publisher:
    """One process's hand on every tenant's publication; `owner` is the process's own name, never used again."""

    def __init__(self, database: Database, projection: Projection, owner: str, terms: LeaseTerms) -> None:
        self._database = database
        self._projection = projection
        self._owner = owner
        self._terms = terms

    async def publish(self, tenant_id: TenantId) -> AsyncIterator[Step]:
        """Publish until nothing is staged. Ends at once when another process holds the lease; LeaseLost when it
        loses its own: the successor undoes or finishes what is left."""
        lease = await self._database.write(lambda tx: take_lease(tx, tenant_id, self._owner, self._terms))
        if lease is None:
            return
        yield Step.LEASED
        dead = await self._database.write(lambda tx: undo_dead_publication(tx, lease))
        if dead is not None:
            async for step in self._settle(lease, dead, unsettled_documents(self._database, dead)):
                yield step
        while True:
            planned = await self._database.write(lambda tx: plan(tx, lease))
            if planned is None:
                break
            yield Step.PLANNED
            if isinstance(planned, Publication):
                async for step in self._publish(lease, planned):
                    yield step
            else:
                async for step in self._settle_dropped(lease, planned):
                    yield step
        await self._database.write(lambda tx: release_lease(tx, lease))

    async def _publish(self, lease: Lease, publication: Publication) -> AsyncIterator[Step]:
        work = Work(lease.tenant_id, publication.document_keys)
        while True:
            await self._projection.copy(work, lambda: self._renew(lease))
            yield Step.COPIED
            if await self._projection.is_whole(work):
                break
        yield Step.READ_BACK
        moved = await self._database.write(lambda tx: move(tx, lease, publication))
        yield Step.MOVED if moved else Step.UNDONE
        async for step in self._settle(lease, publication.operation_id, publication.document_keys):
            yield step

    async def _settle_dropped(self, lease: Lease, dropped: Dropped) -> AsyncIterator[Step]:
        async for step in self._settle(lease, dropped.operation_id, dropped.document_keys):
            yield step

    async def _settle(self, lease: Lease, operation_id: str, document_keys: frozenset[int]) -> AsyncIterator[Step]:
        work = Work(lease.tenant_id, document_keys)
        async for step in self._projection.settle(work, operation_id, lambda: self._renew(lease)):
            yield step

    async def _renew(self, lease: Lease) -> None:
        await self._database.write(lambda tx: renew(tx, lease, self._terms))


def unsettled_documents(database: Database, operation_id: str) -> frozenset[int]:
    """The documents on which the store may still differ because of this operation."""
    rows = database.read("SELECT document_key FROM unsettled WHERE operation_id = ?", (operation_id,))
    return frozenset(key for (key,) in rows)
