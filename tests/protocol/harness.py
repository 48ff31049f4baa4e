"""A world in which every actor of the protocol moves by hand: real catalog, blobs, projection, publisher, search, gate.

The store is in memory. Commands are synchronous, so that a hook may run them in the middle of anything.
"""

import copy
import hashlib
import json
import shutil
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import sqlalchemy as sa

from core.access import Access
from core.attributes import TrustTier
from core.budget import Budget
from core.document import Fragment, Node, NodeKind, ParsedDocument, ParseState, Span
from core.ids import DocumentId, FragmentId, OperationId, RevisionId, Seq, SourceId, TenantId, new_id
from core.stages import StageLog
from corpus.acknowledge import ACKNOWLEDGE_AFTER_S
from corpus.analyser import Analyser
from corpus.blobs import Blobs, KeyStore
from corpus.catalog.builds import abandon_build, begin_build, seal_build
from corpus.catalog.database import migrate
from corpus.catalog.documents import (
    Accepted,
    NewRevision,
    accept_put,
    delete_document,
    etag_of,
    fail_put,
    retract_revision,
    set_access,
)
from corpus.catalog.leases import LeaseTerms
from corpus.catalog.operations import OperationState, update_operation
from corpus.catalog.schema import leases, operations
from corpus.catalog.snapshots import rollback
from corpus.catalog.sources import SourceRecord, create_source
from corpus.catalog.tenants import ensure_tenants
from corpus.contents import Contents, PendingRevision, Staged, pending_revision, record_staged, write_staged
from corpus.encoder import AsyncQueryEncoder
from corpus.pinning import LATEST, Consistency
from corpus.projection import Projection, Step, StoreTerms, Work, wanted_copies
from corpus.publication import Publisher, unsettled_documents
from corpus.reading import Corpus
from corpus.record import RevisionRecord
from corpus.representations import default_representation
from corpus.store import StoredFragment
from indexing.worklist import unsettled_operations
from policy.audit import AuditLog, ReleasedItem
from policy.principal import Principal
from retrieval.gate import Gate, Ready
from retrieval.plan import Ask, QueryPlan
from retrieval.search import Searcher
from retrieval.view import View, open_view
from tests.protocol.doubles import DIMENSION, FaultyStore, GroupPolicy, HashEncoder, SteppedDatabase

NOW = 1_800_000_000
SOURCE = SourceId("wiki")
REPRESENTATION = replace(default_representation("protocol-1"), dimension=DIMENSION)
QUICK = StoreTerms(call_s=60.0, drain_s=0.0, search_s=0.0)
LONG = LeaseTerms(lasts_s=3_600.0, drain_s=0.0)
MOST_STEPS = 400  # of one run: more means that a writer never ends
NAMESPACE = uuid.UUID("5a1c3f5e-0000-5000-8000-000000000000")
Steps = AsyncGenerator[Step, None]


def readers(who: str) -> Access:
    """The access of the principals p, q, ... named by a letter each."""
    return Access.of(allowed_groups=list(who))


@dataclass(frozen=True)
class Put:
    """An accepted put. `number` is its revision's, drawn within its document."""

    revision_id: RevisionId
    operation_id: OperationId
    document: str
    number: int


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pause:
    """One request of `who` up to where it stands: pinned, then searched, then released."""

    def __init__(self, world: "World", view: View) -> None:
        self.world = world
        self.view = view
        self.refills = 0
        self._revisions: dict[int, RevisionRecord] = {}

    async def search(self, k: int = 50) -> "Pause":
        """Ask the channels until k candidates have passed the record or there are no more; nothing is packed."""
        plan = self._plan(k)
        found = await self.world.searcher._find(self.view, plan)
        self.refills = found.refills
        records = self.view.opened.records([candidate.fragment_id for candidate in found.candidates])
        self._revisions = {record.revision.revision_key: record.revision for record in records}
        return self

    async def search_and_pack(self, k: int) -> "Pause":
        """The whole search. The first one in a process takes long: the tokenizer is read."""
        result = await self.world.searcher.search(self.view, self._plan(k))
        self.refills = result.found.refills
        items = result.packet.items
        self._revisions = {item.record.revision.revision_key: item.record.revision for item in items}
        return self

    @property
    def found(self) -> set[RevisionId]:
        """What is to be released, and is not yet."""
        return {revision.revision_id for revision in self._revisions.values()}

    async def release(self) -> set[RevisionId]:
        """Revisions that the client gets."""

        def render(allowed: frozenset[int]) -> Ready:
            kept = [self._revisions[key] for key in sorted(allowed)]
            items = tuple(
                ReleasedItem("e", SOURCE, DocumentId(r.subject.document), r.revision_id, FragmentId("f")) for r in kept
            )
            return Ready(json.dumps([r.revision_id for r in kept]).encode(), items)

        message = await self.world.gate.release(self.view, "Search", sorted(self._revisions), render)
        return set(json.loads(message))

    def _plan(self, k: int) -> QueryPlan:
        return self.world.searcher.plan(Ask("common", max_evidence=k), StageLog())


class World:
    """One tenant. Documents are named by a letter, principals too; revisions are told by id."""

    def __init__(self, folder: Path, tenant_id: TenantId, database: SteppedDatabase, keys: KeyStore) -> None:
        self.folder = folder
        self.tenant_id = tenant_id
        self.database = database
        self.clock = Clock()
        self.store = FaultyStore(REPRESENTATION.representation_id, DIMENSION)
        self.store.objects[tenant_id] = {}
        self.analyser = Analyser()
        self.encoder = HashEncoder()
        self.blobs = Blobs(folder / "blobs", keys)
        self.contents = Contents(database, self.blobs, self.analyser, REPRESENTATION.representation_id)
        self.projection = Projection(database, self.store, self.contents, QUICK)
        self.corpus = Corpus(database, self.store, self.blobs)
        self.policy = GroupPolicy()
        self.searcher: Searcher
        self.gate: Gate

    def neighbour(self) -> "World":
        """Another tenant of the same catalog, store and gate."""
        other = copy.copy(self)
        names = self.database.write_now(lambda tx: ensure_tenants(tx, ["bolt"], REPRESENTATION.representation_id))
        other.tenant_id = names["bolt"]
        other.store.objects[other.tenant_id] = {}
        source = SourceRecord(other.tenant_id, SOURCE, "Wiki", TrustTier.REVIEWED, None)
        self.database.write_now(lambda tx: create_source(tx, source))
        return other

    # ---- Commands ---------------------------------------------------------------------------------------------------

    def accept(self, document: str, who: str = "pq", *, build: str | None = None, text: str = "") -> Put:
        """A put that is acknowledged and not staged."""
        new = self._new(document, who, build, text or f"common words of {document}, {new_id()}")
        accepted: Accepted = self.database.write_now(lambda tx: accept_put(tx, new))
        assert accepted.operation_id is not None
        return Put(accepted.revision_id, accepted.operation_id, document, self.number(document))

    def stage(self, put: Put) -> bool:
        """Parse the put; False when it has ended meanwhile."""
        staging = self._parsed(put.revision_id)
        return self.database.write_now(lambda tx: record_staged(tx, *staging))

    def put(self, document: str, who: str = "pq", *, build: str | None = None, text: str = "") -> Put:
        """A put that is accepted and staged."""
        put = self.accept(document, who, build=build, text=text)
        assert self.stage(put)
        return put

    def put_all(self, texts: dict[str, tuple[str, str]]) -> None:
        """A put of each document, of readers and text, in one transaction: quick."""

        def accept(tx: sa.Connection) -> list[str]:
            puts = [self._new(name, who, None, text) for name, (who, text) in texts.items()]
            return [accept_put(tx, put).revision_id for put in puts]

        stagings = [self._parsed(revision_id) for revision_id in self.database.write_now(accept)]
        self.database.write_now(lambda tx: [record_staged(tx, *staging) for staging in stagings])

    def fail(self, put: Put) -> None:
        self.database.write_now(lambda tx: fail_put(tx, put.revision_id, "corrupt", "Not readable."))

    def etag(self, document: str) -> str:
        """What a caller who looks at the document now is given."""
        key, number = self._one(
            "SELECT document_key, number FROM documents WHERE tenant_id = ? AND document_id = ?",
            self.tenant_id, document,
        )  # fmt: skip
        serving = self.serving(document)
        return etag_of(key, number, serving or "")

    def set_access(self, document: str, who: str, *, etag: str | None = None) -> OperationId:
        """Under the present etag unless another is given; an empty one closes only."""
        tag = self.etag(document) if etag is None else etag
        return self.database.write_now(
            lambda tx: set_access(tx, self.tenant_id, SOURCE, document, readers(who), tag, "tester")
        )[1]

    def delete(self, document: str) -> OperationId:
        return self.database.write_now(lambda tx: delete_document(tx, self.tenant_id, SOURCE, document, "", "tester"))

    def retract(self, put: Put) -> OperationId:
        return self.database.write_now(lambda tx: retract_revision(tx, self.tenant_id, put.revision_id, "tester"))

    def rollback(self, seq: int) -> None:
        self.database.write_now(lambda tx: rollback(tx, self.tenant_id, Seq(seq)))

    def begin(self) -> str:
        return self.database.write_now(lambda tx: begin_build(tx, self.tenant_id, SOURCE, "tester")).build_id

    def seal(self, build: str) -> OperationId:
        return self.database.write_now(lambda tx: seal_build(tx, self.tenant_id, build, "tester"))

    def abandon(self, build: str) -> OperationId:
        return self.database.write_now(lambda tx: abandon_build(tx, self.tenant_id, build, "tester"))

    # ---- Writers ----------------------------------------------------------------------------------------------------

    def publishing(self, owner: str = "worker", terms: LeaseTerms = LONG) -> Steps:
        """A publication to be driven step by step; `aclose` kills it."""
        return cast(Steps, Publisher(self.database, self.projection, owner, terms).publish(self.tenant_id))

    async def publish(self, owner: str = "worker") -> list[Step]:
        """Publish all that is staged."""
        return await drain(self.publishing(owner))

    def settling(self, operation_id: str) -> Steps:
        """The clean-up of one operation, step by step."""
        work = Work(self.tenant_id, unsettled_documents(self.database, operation_id))
        return cast(Steps, self.projection.settle(work, operation_id))

    async def settle(self) -> None:
        """What the sweep does: everything unsettled that no publication in progress will settle."""
        for each in unsettled_operations(self.database):
            await drain(self.settling(each.operation_id))
            self.end(each.operation_id)

    def end(self, operation_id: str) -> None:
        """Its documents are settled: so is the operation."""
        self.database.write_now(lambda tx: update_operation(tx, operation_id, state=OperationState.SUCCEEDED))

    def expire_lease(self) -> None:
        """The holder has been silent so long that another may take over."""
        self.database.write_now(lambda tx: tx.execute(leases.update().values(expires_at=0)))

    # ---- Readers ----------------------------------------------------------------------------------------------------

    def principal(self, who: str) -> Principal:
        return Principal("https://issuer.test", who, self.tenant_id, (who,), frozenset(), "token", NOW + 3_600)

    async def pin(self, who: str = "q", consistency: Consistency = LATEST) -> Pause:
        """A request that has its view."""
        return Pause(self, await self._view(who, consistency))

    async def read(self, who: str = "q", consistency: Consistency = LATEST, k: int = 50) -> set[RevisionId]:
        """A whole search: the revisions of what is sent."""
        return await (await (await self.pin(who, consistency)).search(k)).release()

    async def resolve(self, who: str, put: Put) -> bool:
        """Whether an old citation of the revision still shows its text."""
        view = await self._view(who, LATEST)
        record = view.opened.revision(put.revision_id)
        if record is None:
            return False
        key = record.revision_key
        ready = await self.gate.release(
            view, "ResolveCitation", [key], lambda allowed: Ready(b"yes" if allowed else b"", ()), live=False
        )
        return ready == b"yes"

    async def _view(self, who: str, consistency: Consistency) -> View:
        budget = Budget(1e9, lambda: 0.0)  # never ends: the machine may be slow
        return await open_view(
            self.corpus, self.policy, self.principal(who), budget, StageLog(), now=lambda: NOW, consistency=consistency
        )

    def wait_for_acknowledgement(self) -> None:
        """Let the time pass after which a denial that has been committed is acknowledged."""
        self.clock.now += ACKNOWLEDGE_AFTER_S

    # ---- The catalog's word -----------------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        return int(self._one("SELECT active_seq FROM tenants WHERE tenant_id = ?", self.tenant_id)[0])

    def number(self, document: str) -> int:
        sql = "SELECT number FROM documents WHERE tenant_id = ? AND document_id = ?"
        return int(self._one(sql, self.tenant_id, document)[0])

    def state(self, put: Put) -> str:
        return str(self._one("SELECT state FROM revisions WHERE revision_id = ?", put.revision_id)[0])

    def operation(self, operation_id: str) -> str:
        return str(self._one("SELECT state FROM operations WHERE operation_id = ?", operation_id)[0])

    def activated_at(self, position: int) -> int:
        """Microseconds since 1970 at which the activation log's entry was made."""
        sql = "SELECT activated_at FROM activations WHERE tenant_id = ? ORDER BY position LIMIT 1 OFFSET ?"
        return int(self._one(sql, self.tenant_id, position)[0])

    def serving(self, document: str) -> RevisionId | None:
        """The revision that the active snapshot serves of the document."""
        rows = self.database.read(
            "SELECT r.revision_id FROM documents d JOIN revisions r ON r.document_key = d.document_key "
            "JOIN intervals i ON i.revision_key = r.revision_key JOIN tenants t ON t.tenant_id = d.tenant_id "
            "WHERE d.tenant_id = ? AND d.document_id = ? AND i.from_seq <= t.active_seq AND t.active_seq < i.to_seq "
            "AND r.retracted = 0 AND r.number >= d.tombstone",
            (self.tenant_id, document),
        )
        return RevisionId(rows[0][0]) if rows else None

    def work(self) -> Work:
        rows = self.database.read("SELECT document_key FROM documents WHERE tenant_id = ?", (self.tenant_id,))
        return Work(self.tenant_id, frozenset(key for (key,) in rows))

    def wanted(self) -> dict[str, StoredFragment]:
        """What the store should hold, by object id."""
        copies = wanted_copies(self.database, self.work())
        return {stored.object_id: stored for copy in copies for stored in self.contents.objects(copy)}

    @property
    def held(self) -> dict[str, StoredFragment]:
        return self.store.objects[self.tenant_id]

    def assert_store_agrees(self) -> None:
        """The store holds exactly what the catalog wants, each object with the catalog's attributes and interval."""
        wanted = self.wanted()
        assert {key: _words(f) for key, f in self.held.items()} == {key: _words(f) for key, f in wanted.items()}

    def assert_quiet(self) -> None:
        """Nothing is half done, and store and catalog say the same."""
        for table in ("unsettled", "publications", "publication_entries"):
            assert self.database.read(f"SELECT * FROM {table}") == [], table  # noqa: S608
        assert self.database.read("SELECT owner FROM leases WHERE owner IS NOT NULL") == []
        assert self.database.read("SELECT * FROM revisions WHERE state IN ('accepted', 'staged')") == []
        unfinished = sa.select(operations).where(operations.c.state.in_(("pending", "running")))
        assert self.database.write_now(lambda tx: list(tx.execute(unfinished))) == []
        self.assert_store_agrees()

    def _one(self, sql: str, *parameters: Any) -> Any:
        return self.database.read(sql, parameters)[0]

    def _new(self, document: str, who: str, build: str | None, text: str) -> NewRevision:
        return NewRevision(
            tenant_id=self.tenant_id, source_id=SOURCE, document_id=DocumentId(document), access=readers(who),
            created_by="tester", original_blob=text, sha256=hashlib.sha256(text.encode()).hexdigest(),
            size_bytes=len(text), media_type="text/plain", filename=f"{document}.txt",
            title=f"Title of {document}", build_id=build,
        )  # fmt: skip

    def _parsed(self, revision_id: str) -> tuple[PendingRevision, Staged, dict[str, object]]:
        pending = pending_revision(self.database, revision_id)
        staged = self._staged(pending.revision_id, pending.original_blob)
        return pending, staged, write_staged(self.blobs, pending, staged)

    def _staged(self, revision_id: RevisionId, text: str) -> Staged:
        span = Span(0, len(text))
        document = ParsedDocument(ParseState.READY, text, (Node(NodeKind.PARAGRAPH, span),), None, "en", "protocol-1")
        fragment = Fragment(
            fragment_id=FragmentId(str(uuid.uuid5(NAMESPACE, revision_id))), ordinal=0, span=span,
            text_hash=hashlib.sha256(text.encode()).hexdigest(), section_path=(), parent=span, kind=NodeKind.PARAGRAPH,
        )  # fmt: skip
        vectors = np.asarray(self.encoder.encode_documents([text]))
        return Staged(revision_id, document, (fragment,), vectors, REPRESENTATION.representation_id)


def _words(f: StoredFragment) -> tuple[object, ...]:
    return (f.fragment_id, f.revision_id, f.from_seq, f.to_seq, f.access_version, sorted(f.attributes.items()))


def template_catalog(folder: Path) -> Path:
    """A catalog without tenants: copied for each world, since migrating takes long."""
    path = folder / "template.db"
    migrate(path)
    return path


@asynccontextmanager
async def a_world(folder: Path, template: Path) -> AsyncIterator[World]:
    """A world with one source and nothing in it."""
    shutil.copyfile(template, folder / "catalog.db")
    database = SteppedDatabase(folder / "catalog.db")
    names = database.write_now(lambda tx: ensure_tenants(tx, ["acme"], REPRESENTATION.representation_id))
    source = SourceRecord(names["acme"], SOURCE, "Wiki", TrustTier.REVIEWED, None)
    database.write_now(lambda tx: create_source(tx, source))
    with closing(database), closing(KeyStore(folder / "keys.db")) as keys:
        world = World(folder, names["acme"], database, keys)
        async with AuditLog(folder / "audit.jsonl", b"key") as audit, AsyncQueryEncoder(world.encoder) as encoder:
            world.searcher = Searcher(encoder, world.analyser)
            world.gate = Gate(world.policy, audit, world.clock)
            yield world


async def drain(steps: Steps) -> list[Step]:
    """Run to the end."""
    return await run_until(steps, None)


async def run_until(steps: Steps, last: Step | None) -> list[Step]:
    """Run until `last` has been done, or to the end and then close."""
    done: list[Step] = []
    async for step in steps:
        done.append(step)
        assert len(done) < MOST_STEPS, "a writer never ends"
        if step is last:
            return done
    assert last is None, f"ended without {last}: {done}"
    return done


async def kill_after(steps: Steps, count: int) -> list[Step]:
    """Run `count` steps and kill; fewer come back when it ended first."""
    done: list[Step] = []
    async with aclosing(steps):
        async for step in steps:
            done.append(step)
            if len(done) == count:
                break
    return done


def ids(puts: Iterable[Put]) -> set[RevisionId]:
    """The revisions of the puts."""
    return {put.revision_id for put in puts}
