"""An indexer on a data directory of its own: real catalog, blobs, parsers and workflows; store and encoder as given."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import numpy as np

from core.access import Access
from core.attributes import TrustTier
from core.budget import Budget
from core.ids import DocumentId, OperationId, RepresentationId, RevisionId, SourceId, TenantId, new_id
from core.representation import Representation
from corpus.analyser import Analyser
from corpus.blobs import BlobKind, Blobs, KeyStore
from corpus.catalog.database import Database
from corpus.catalog.documents import NewRevision, accept_put
from corpus.catalog.leases import LeaseTerms
from corpus.catalog.operations import Operation, find_operation
from corpus.catalog.sources import SourceRecord, create_source
from corpus.catalog.tenants import ensure_tenants
from corpus.contents import Contents
from corpus.encoder import Encoder, Vectors
from corpus.projection import Projection, StoreTerms, Work, wanted_copies
from corpus.publication import Publisher
from corpus.representations import default_representation
from corpus.store import Selection, Store
from indexing.indexer import Indexer
from indexing.parsers import ParserPool
from indexing.retries import RetryTerms
from indexing.staging import Stager
from indexing.sweep import Sweep, SweepTerms
from indexing.workflows import Workflows
from indexing.worklist import pending_puts

DIMENSION = 4
REPRESENTATION = replace(default_representation(), dimension=DIMENSION)
SOURCE = SourceId("wiki")
EVERYONE = Access.of(public=True)
CALLER = "issuer subject"
STORE_TERMS = StoreTerms(call_s=5.0, drain_s=0.2, search_s=0.1)
LEASE_TERMS = LeaseTerms(lasts_s=1.0, drain_s=0.2)
SWEEP_TERMS = SweepTerms(poll_s=0.01, look_s=0.05, grace_s=2.0, retry=RetryTerms(first_s=0.02, longest_s=0.2))


async def eventually(holds: Callable[[], object], within_s: float = 20.0) -> None:
    """Poll until `holds()` is true."""
    deadline = monotonic() + within_s
    while not holds():
        assert monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.01)


@dataclass
class LetterEncoder:
    """Vectors of length 1 from letter counts. `before` is called with the texts first, in the encoder's thread."""

    before: Callable[[Sequence[str]], None] = lambda _texts: None
    dimension: int = DIMENSION

    def encode_query(self, text: str) -> Vectors:
        vector: Vectors = self.encode_documents([text])[0]
        return vector

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        self.before(texts)
        rows = np.array([[1 + text.count(letter) for letter in "aeio"] for text in texts], dtype=np.float32)
        vectors: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return vectors


@dataclass
class Record:
    """Catalog and blobs with two tenants, and words for what clients do."""

    directory: Path
    database: Database
    blobs: Blobs
    representation: Representation
    tenants: dict[str, TenantId] = field(default_factory=dict)

    @property
    def representation_id(self) -> RepresentationId:
        return self.representation.representation_id

    def put(
        self,
        document: str,
        content: str | bytes,
        *,
        tenant: str = "acme",
        access: Access | None = EVERYONE,
        media_type: str = "text/markdown",
        build_id: str | None = None,
    ) -> tuple[OperationId, RevisionId]:
        data = content if isinstance(content, bytes) else content.encode()
        tenant_id = self.tenants[tenant]
        name = self.blobs.write(tenant_id, (SOURCE, document), BlobKind.ORIGINAL, data)
        new = NewRevision(
            tenant_id=tenant_id,
            source_id=SOURCE,
            document_id=DocumentId(document),
            access=access,
            created_by=CALLER,
            original_blob=name,
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            media_type=media_type,
            filename=document,
            build_id=build_id,
        )
        accepted = self.database.write_now(lambda tx: accept_put(tx, new))
        assert accepted.operation_id is not None
        return accepted.operation_id, accepted.revision_id

    def operation(self, operation_id: str, tenant: str = "acme") -> Operation:
        found = find_operation(self.database, self.tenants[tenant], operation_id)
        assert found is not None
        return found

    def state(self, operation_id: str, tenant: str = "acme") -> str:
        return str(self.operation(operation_id, tenant).state)

    def value(self, sql: str, *parameters: object) -> int:
        return int(self.database.read(sql, parameters)[0][0])

    def unsettled(self) -> int:
        return self.value("SELECT count(*) FROM unsettled")

    def contents(self) -> Contents:
        return Contents(self.database, self.blobs, Analyser(), self.representation_id)

    async def assert_store_agrees(self, store: Store) -> None:
        """What the store holds is exactly what the catalog wants, for every tenant that has documents."""
        for tenant_id in self.tenants.values():
            rows = self.database.read("SELECT document_key FROM documents WHERE tenant_id = ?", (tenant_id,))
            if rows:
                work = Work(tenant_id, frozenset(key for (key,) in rows))
                wanted = self.contents().object_ids(wanted_copies(self.database, work))
                held = await store.list_objects(tenant_id, Selection(), Budget.of_seconds(10))
                assert {ref.object_id for ref in held} == wanted.keys()


@asynccontextmanager
async def opened(directory: Path, representation: Representation = REPRESENTATION) -> AsyncIterator[Record]:
    """The catalog and blobs of the directory, with the tenants `acme` and `globex`."""
    database = Database.open(directory / "catalog" / "catalog.sqlite")
    keys = KeyStore(directory / "keys" / "keys.sqlite")
    made = Record(directory, database, Blobs(directory / "blobs", keys), representation)
    made.tenants = database.write_now(
        lambda tx: ensure_tenants(tx, ("acme", "globex"), representation.representation_id)
    )
    try:
        yield made
    finally:
        keys.close()
        database.close()


@asynccontextmanager
async def record(directory: Path, representation: Representation = REPRESENTATION) -> AsyncIterator[Record]:
    """A new one, each tenant with one source."""
    async with opened(directory, representation) as made:
        for tenant_id in made.tenants.values():
            source = SourceRecord(tenant_id, SOURCE, "Wiki", TrustTier.REVIEWED, None)
            made.database.write_now(lambda tx, source=source: create_source(tx, source))  # type: ignore[misc]
        yield made


@dataclass
class World:
    """A record with a store, and an indexer that can be started on it again and again."""

    record: Record
    store: Store
    encoder: Encoder = field(default_factory=LetterEncoder)
    terms: SweepTerms = SWEEP_TERMS
    store_terms: StoreTerms = STORE_TERMS
    lease_terms: LeaseTerms = LEASE_TERMS

    def publisher(self, owner: str) -> Publisher:
        return Publisher(self.record.database, self.projection(), owner, self.lease_terms)

    def projection(self) -> Projection:
        return Projection(self.record.database, self.store, self.record.contents(), self.store_terms)

    def workflows_path(self) -> Path:
        return self.record.directory / "workflows" / "workflows.sqlite"

    @asynccontextmanager
    async def workflows(self, executor: str) -> AsyncIterator[tuple[Indexer, Workflows]]:
        parsers = ParserPool(1, 20.0)
        record = self.record
        with Stager(record.database, record.blobs, parsers, self.encoder, record.representation_id) as stager:
            indexer = Indexer(record.database, record.contents(), stager, self.publisher(executor), self.projection())
            try:
                async with Workflows(self.workflows_path(), indexer, executor) as workflows:
                    yield indexer, workflows
            finally:
                await parsers.close()

    @asynccontextmanager
    async def indexer(self) -> AsyncIterator[str]:
        """A running one; yields its executor's name and ends it gracefully."""
        executor, stop = new_id(), asyncio.Event()
        async with self.workflows(executor) as (indexer, workflows):
            sweep = Sweep(self.record.database, indexer, workflows, executor, self.store_terms.drain_s, self.terms)
            running = asyncio.ensure_future(sweep.run(stop))
            try:
                yield executor
            finally:
                stop.set()
                await running

    async def run_until(self, holds: Callable[[], object], within_s: float = 20.0) -> None:
        """Run an indexer until `holds()` is true and nothing is unsettled, then end it."""
        async with self.indexer():
            await eventually(holds, within_s)
            await eventually(lambda: not self.record.unsettled(), within_s)

    async def stage_only(self) -> None:
        """Stage every pending put and publish nothing."""
        async with self.workflows(new_id()) as (indexer, _):
            puts = [(put.operation_id, put.revision_id) for put in pending_puts(self.record.database, 1_000)]
            assert not await indexer.stage(puts)
