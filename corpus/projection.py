"""Bringing the store up to the catalog, in the four steps that every writer takes: copy, read back, delete, confirm.

What the active snapshot can see is never patched: a copy is written under a new object id and the old one goes when
no search that began before the copy can still run. What may go is decided by a listing that was taken before the
catalog was read, once all that is wanted is there. A writer re-reads the catalog after writing: it ends only when the
store agrees.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from core.budget import Budget
from core.ids import OPEN_SEQ, DocumentId, RevisionId, Seq, SourceId, TenantId
from corpus.catalog.database import Database
from corpus.catalog.operations import settle
from corpus.contents import Contents, Copy
from corpus.store import Selection, Store, StoredFragment, StoredRef, StoreLate

INSERT_REVISIONS = 50  # read at a time
INSERT_OBJECTS = 200  # written in one call: a busy machine takes seconds for many more; a lease is renewed before each


class Step(StrEnum):
    """Where a writer may be interrupted: named after what it has just done."""

    LEASED = "leased"
    PLANNED = "planned"
    COPIED = "copied"
    READ_BACK = "read_back"
    MOVED = "moved"
    UNDONE = "undone"
    LISTED = "listed"
    DELETED = "deleted"
    SETTLED = "settled"


@dataclass(frozen=True)
class StoreTerms:
    """Seconds. `call_s` bounds one store call; `drain_s` is how long after one that was late it may still arrive;
    `search_s` is longer than the longest search (its channels' limit)."""

    call_s: float = 8.0
    drain_s: float = 10.0
    search_s: float = 1.0


@dataclass(frozen=True)
class Work:
    """Documents whose objects a writer brings up to the catalog."""

    tenant_id: TenantId
    document_keys: frozenset[int]


async def _no_check() -> None:
    return None


class Projection:
    """Writes one representation's store."""

    def __init__(self, database: Database, store: Store, contents: Contents, terms: StoreTerms) -> None:
        self._database = database
        self._store = store
        self._contents = contents
        self._terms = terms

    async def settle(
        self, work: Work, operation_id: str, before_write: Callable[[], Awaitable[None]] = _no_check
    ) -> AsyncIterator[Step]:
        """Make the store agree with the catalog on the work's documents, then end the operation's unsettled rows."""
        while True:
            await self.copy(work, before_write)
            yield Step.COPIED
            unwanted = await self._unwanted(work)
            if unwanted is None:
                continue
            yield Step.LISTED
            if unwanted:
                await self._delete(work, unwanted, before_write)
                yield Step.DELETED
            if await self._agrees(work):
                await self._database.write(lambda tx: settle(tx, operation_id))
                yield Step.SETTLED
                return

    async def copy(self, work: Work, before_write: Callable[[], Awaitable[None]] = _no_check) -> None:
        """Insert what is wanted and not there; nothing is deleted."""
        await self._store.ensure_tenant(work.tenant_id, self._budget())
        held = {ref.object_id for ref in await self._held(work)}
        missing = {copy for object_id, copy in self._wanted(work).items() if object_id not in held}
        ordered = sorted(missing, key=lambda copy: (copy.revision_key, copy.from_seq))
        for start in range(0, len(ordered), INSERT_REVISIONS):
            batch = ordered[start : start + INSERT_REVISIONS]
            objects = await asyncio.to_thread(self._objects, batch)
            new = [o for o in objects if o.object_id not in held]
            for first in range(0, len(new), INSERT_OBJECTS):
                await before_write()  # only now: making the objects may outlast a lease
                part = new[first : first + INSERT_OBJECTS]
                await self._written(self._store.insert(work.tenant_id, part, self._budget()))

    async def is_whole(self, work: Work) -> bool:
        """Whether all that is wanted is in the store, on every replica."""
        held = {ref.object_id for ref in await self._held(work)}
        return self._wanted(work).keys() <= held

    async def _unwanted(self, work: Work) -> frozenset[str] | None:
        """What may be deleted: listed first, then compared with the catalog; None while something wanted is missing."""
        held = {ref.object_id for ref in await self._held(work)}
        wanted = self._wanted(work).keys()
        return None if wanted - held else frozenset(held - wanted)

    async def _delete(self, work: Work, unwanted: frozenset[str], before_write: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(self._terms.search_s)
        await before_write()
        await self._written(self._store.delete(work.tenant_id, unwanted, self._budget()))

    async def _agrees(self, work: Work) -> bool:
        held = {ref.object_id for ref in await self._held(work)}
        return held == self._wanted(work).keys()

    async def _written(self, call: Awaitable[None]) -> None:
        """A call that was late may still arrive: nothing else happens until it can't."""
        try:
            await call
        except StoreLate:
            await asyncio.sleep(self._terms.drain_s)
            raise

    async def _held(self, work: Work) -> frozenset[StoredRef]:
        documents = frozenset(
            (SourceId(source_id), DocumentId(document_id))
            for source_id, document_id in self._database.read(
                "SELECT d.source_id, d.document_id FROM json_each(?) k JOIN documents d ON d.document_key = k.value",
                (json.dumps(sorted(work.document_keys)),),
            )
        )
        return await self._store.list_objects(work.tenant_id, Selection(documents=documents), self._budget())

    def _objects(self, copies: list[Copy]) -> list[StoredFragment]:
        return [stored for copy in copies for stored in self._contents.objects(copy)]

    def _wanted(self, work: Work) -> dict[str, Copy]:
        return self._contents.object_ids(wanted_copies(self._database, work))

    def _budget(self) -> Budget:
        return Budget.of_seconds(self._terms.call_s)


def wanted_copies(database: Database, work: Work) -> list[Copy]:
    """What the store should hold of the documents by the catalog: intervals of what is not denied, and the
    publication in progress, whoever's it is: a repair must not delete its fragments."""
    rows = database.read(
        """
        SELECT r.revision_key, r.revision_id, i.from_seq, i.to_seq, r.access_version
        FROM json_each(:documents) k
        JOIN documents d ON d.document_key = k.value
        JOIN revisions r ON r.document_key = d.document_key AND r.retracted = 0 AND r.number >= d.tombstone
        JOIN (
          SELECT revision_key, from_seq, to_seq FROM intervals
          UNION
          SELECT e.revision_key, p.seq, :open FROM publication_entries e
          JOIN publications p ON p.tenant_id = e.tenant_id
          WHERE e.tenant_id = :tenant AND e.action IN ('add', 'fresh')
        ) i ON i.revision_key = r.revision_key
        """,
        {"documents": json.dumps(sorted(work.document_keys)), "tenant": work.tenant_id, "open": OPEN_SEQ},
    )
    return [
        Copy(key, RevisionId(revision), Seq(start), Seq(end), version) for key, revision, start, end, version in rows
    ]
