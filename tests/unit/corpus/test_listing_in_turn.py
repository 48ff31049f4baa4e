"""Lists read their documents in short runs: who may see nothing of a large corpus holds nobody up, and not for ever."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from core.access import Access
from core.attributes import TrustTier
from core.budget import Budget, BudgetExhausted
from core.ids import RepresentationId, SourceId
from corpus.blobs import Blobs, KeyStore
from corpus.catalog.bindings import remember
from corpus.catalog.database import Database
from corpus.catalog.sources import SourceRecord, create_source
from corpus.catalog.tenants import ensure_tenants
from corpus.pinning import take_pin
from corpus.reading import LISTED_AT_ONCE, DocumentRecord, OpenCorpus
from policy.filter import Compare, Everything, Filter, Op
from tests.fakes.memory_store import MemoryStore

REPRESENTATION = RepresentationId("r1")
SOURCE = SourceId("files")
COUNT = 5 * LISTED_AT_ONCE
ACCESS = Access.of(owner="ada")
NOTHING_HERE = Compare("owner", Op.EQ, "bob")

_DOCUMENTS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO documents (document_key, tenant_id, source_id, document_id, number, access, access_number)
SELECT i, :tenant, :source, printf('d%06d', i), 1, :access, 0 FROM n
"""
_REVISIONS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO revisions (revision_key, revision_id, document_key, tenant_id, number, state, given, own, binding,
  store_access, operation_id, created_at, request_digest, size_bytes, media_type, filename, provenance, original_blob,
  canonical_blob, vectors_blob, content_hash, parser_version, representation_id)
SELECT i, printf('r%06d', i), CASE WHEN :one THEN 1 ELSE i END, :tenant, i, 'published', :access, :own, :own,
  :access, 'o', 0, 'd', 1, 'text/plain', 'f', '{}', 'b', 'b', 'b', 'h', 'p', 'r1' FROM n
"""
_INTERVALS = """
INSERT INTO intervals (revision_key, from_seq, document_key, tenant_id)
SELECT revision_key, 1, document_key, tenant_id FROM revisions WHERE :one = 0
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()


def fill(database: Database, *, one_document: bool) -> None:
    def command(tx: sa.Connection) -> None:
        tenant_id = ensure_tenants(tx, ["acme"], REPRESENTATION)["acme"]
        create_source(tx, SourceRecord(tenant_id, SOURCE, "Files", TrustTier.REVIEWED, None))
        digest = remember(tx, ACCESS)
        values = {
            "count": COUNT, "tenant": tenant_id, "source": SOURCE, "access": digest, "own": json.dumps([digest]),
            "one": int(one_document),
        }  # fmt: skip
        for statement in (_DOCUMENTS, _REVISIONS, _INTERVALS):
            tx.execute(sa.text(statement), values)
        tx.execute(sa.text("UPDATE tenants SET active_seq = 1, head_seq = 1, last_seq = 1"))

    database.write_now(command)


def opened(database: Database, tmp_path: Path, access: Filter) -> OpenCorpus:
    tenant_id = database.read("SELECT tenant_id FROM tenants")[0][0]
    keys = KeyStore(tmp_path / "keys.sqlite")
    pin = take_pin(database, tenant_id, 1_900_000_000)
    return OpenCorpus(pin, access, database, MemoryStore(REPRESENTATION, 4), Blobs(tmp_path / "blobs", keys))


async def listed(view: OpenCorpus, one_document: bool, budget: Budget) -> list[DocumentRecord]:
    if one_document:
        return await view.document_revisions(SOURCE, "d000001", "", 10, budget)
    return await view.documents("", ("", ""), 10, budget)


async def turns(work: "asyncio.Task[object]") -> int:
    """How often others had the event loop meanwhile."""
    count = 0
    while not work.done():
        count += 1
        await asyncio.sleep(0)
    return count


@pytest.mark.parametrize("one_document", [False, True])
async def test_others_have_the_loop_between_two_runs(database: Database, tmp_path: Path, one_document: bool) -> None:
    fill(database, one_document=one_document)
    view = opened(database, tmp_path, NOTHING_HERE)
    work: asyncio.Task[object] = asyncio.create_task(listed(view, one_document, Budget.of_seconds(60)))
    assert await turns(work) >= COUNT // LISTED_AT_ONCE
    assert await work == []


@pytest.mark.parametrize("one_document", [False, True])
async def test_a_call_that_is_over_reads_no_further(database: Database, tmp_path: Path, one_document: bool) -> None:
    fill(database, one_document=one_document)
    view = opened(database, tmp_path, NOTHING_HERE)
    with pytest.raises(BudgetExhausted):
        await listed(view, one_document, Budget.of_seconds(-1))


async def test_runs_join_without_gap_or_repeat(database: Database, tmp_path: Path) -> None:
    fill(database, one_document=False)
    view = opened(database, tmp_path, Everything())
    found = await view.documents("", ("", ""), COUNT + 1, Budget.of_seconds(60))
    assert [record.revision.subject.document for record in found] == [f"d{i:06}" for i in range(1, COUNT + 1)]
