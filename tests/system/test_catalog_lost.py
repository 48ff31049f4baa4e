"""A catalog that can't be read or written: UNAVAILABLE, in our words."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import grpc
from muniment.v1 import common_pb2, document_pb2, evidence_pb2, publication_pb2, source_pb2

from corpus.catalog.database import Database
from corpus.reading import Corpus
from gateway.serving import Serving
from tests.system.beside import gateway_beside
from tests.system.whole import EVERY_ROLE, System
from tests.system.wire import ask, ask_patiently, bearer, channel_to

PAGE = 4096


async def test_a_damaged_catalog_is_unavailable_and_quotes_nothing(system: System, tmp_path: Path) -> None:
    """Served in process, so that the pages that a running gateway has in its memory don't hide the damage."""
    copied = tmp_path / "catalog.sqlite"
    with closing(sqlite3.connect(system.layout.catalog)) as source, closing(sqlite3.connect(copied)) as target:
        source.backup(target)
    database = Database(copied)

    def change(serving: Serving) -> Serving:
        return replace(serving, database=database, corpus=Corpus(database, serving.corpus._store, serving.blobs))

    search = evidence_pb2.SearchRequest(query="anything at all")
    calls = {
        "Search": search,
        "Answer": evidence_pb2.AnswerRequest(search=search),
        "ListDocuments": document_pb2.ListDocumentsRequest(),
        "GetSource": source_pb2.GetSourceRequest(source_id="any"),
        "ListSnapshots": publication_pb2.ListSnapshotsRequest(),
        "DeleteDocument": document_pb2.DeleteDocumentRequest(source_id="any", document_id="any"),
    }
    try:
        async with gateway_beside(system, change) as server, channel_to(server.address) as channel:
            size = copied.stat().st_size
            with copied.open("r+b") as file:
                file.seek(PAGE)  # the first page alone was read when the file was opened
                file.write(b"\x07" * (size - PAGE))
            token = bearer(system.token("ada", "acme", roles=EVERY_ROLE))
            for rpc, request in calls.items():
                outcome = await ask(channel, rpc, request, token)
                assert (outcome.code, outcome.reason) == (grpc.StatusCode.UNAVAILABLE, "CATALOG_UNAVAILABLE"), rpc
                assert outcome.text == "The catalog can't be reached now."
                assert not any(word in outcome.said for word in ("sqlite", "malformed", "SELECT", "database", "/"))
    finally:
        database.close()


async def test_while_the_catalog_is_locked_reads_go_on_and_writes_are_refused(system: System) -> None:
    """By a process that hangs in a transaction: a writer is told after the busy timeout, and nothing is half done."""
    admin = bearer(system.token("admin", "story", groups=["staff"], roles=EVERY_ROLE))
    create = source_pb2.CreateSourceRequest(
        source=source_pb2.Source(source_id="locked-out", trust=common_pb2.TRUST_TIER_REVIEWED)
    )
    get = source_pb2.GetSourceRequest(source_id="locked-out")
    async with channel_to(system.address) as channel:
        with closing(sqlite3.connect(system.layout.catalog, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.ensure_future(ask(channel, "CreateSource", create, admin))
            assert (await ask_patiently(channel, "GetSource", get, admin)).code is grpc.StatusCode.NOT_FOUND
            refused = await writing
            other.execute("ROLLBACK")
        assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "CATALOG_UNAVAILABLE")
        assert not any(word in refused.said for word in ("sqlite", "locked", "INSERT", "database", "/"))
        assert (await ask_patiently(channel, "GetSource", get, admin)).code is grpc.StatusCode.NOT_FOUND
        assert (await ask_patiently(channel, "CreateSource", create, admin)).code is grpc.StatusCode.OK
