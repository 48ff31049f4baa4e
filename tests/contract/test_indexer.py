"""The indexer against real Weaviate: in this process with the real model, and as a process that is killed."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.layout import Endpoints, Layout
from core.access import Access
from core.budget import Budget
from core.ids import Seq
from corpus.analyser import Analyser
from corpus.catalog.documents import delete_document, set_access
from corpus.encoder import MiniLmEncoder
from corpus.projection import StoreTerms
from corpus.representations import default_representation
from corpus.store import StoreQuery
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from deploy.engines import EngineCredentials
from policy.filter import Everything
from tests.engines import running_weaviate
from tests.indexing_world import CALLER, SOURCE, Record, World, eventually, record

REPRESENTATION = default_representation()
TERMS = {"STORE_CALL_S": "2", "DRAIN_S": "1", "SEARCH_S": "0.3", "LEASE_S": "2.5"}
SECRET = Access.of(allowed_groups=["board"])


@pytest.fixture(scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WeaviateEndpoint]:
    async with running_weaviate(tmp_path_factory.mktemp("weaviate-of-indexer")) as running:
        yield running


@pytest.fixture
async def store(endpoint: WeaviateEndpoint) -> AsyncIterator[WeaviateStore]:
    async with WeaviateStore(endpoint, REPRESENTATION) as opened:
        await opened.ensure_collection(Budget.of_seconds(30))
        yield opened


@pytest.fixture
async def acme(tmp_path: Path) -> AsyncIterator[Record]:
    async with record(tmp_path, REPRESENTATION) as made:
        yield made


def page(number: int) -> str:
    return f"# Page {number}\n\nThe zebra number{number} sleeps.\n\n## More\n\n{'Savannah and grass. ' * 40}\n"


async def found(record: Record, store: WeaviateStore, text: str) -> list[str]:
    tenant_id = record.tenants["acme"]
    active = record.value("SELECT active_seq FROM tenants WHERE tenant_id = ?", tenant_id)
    query, analyser = StoreQuery(tenant_id, Seq(active), Everything(), 1_800_000_000, 100), Analyser()
    hits = await store.lexical(query, analyser.analyse(text), analyser.identifiers(text), Budget.of_seconds(5))
    vector = MiniLmEncoder().encode_query(text)
    dense = await store.dense(query, vector, Budget.of_seconds(5))
    assert dense
    return [hit.revision_id for hit in hits]


async def test_puts_are_found_in_weaviate_and_denials_reach_it(acme: Record, store: WeaviateStore) -> None:
    world = World(acme, store, MiniLmEncoder(), store_terms=StoreTerms(call_s=8.0, drain_s=0.5, search_s=0.3))
    tenant_id = acme.tenants["acme"]
    puts = {f"{n}.md": acme.put(f"{n}.md", page(n)) for n in range(4)}
    failing, _ = acme.put("empty.md", "\n")
    async with world.indexer():
        await eventually(lambda: {acme.state(each) for each, _ in puts.values()} == {"succeeded"}, 60)
        assert (await found(acme, store, "number2"))[0] == puts["2.md"][1]
        write = acme.database.write_now
        _, changed = write(lambda tx: set_access(tx, tenant_id, SOURCE, "1.md", SECRET, "", CALLER))
        deleted = write(lambda tx: delete_document(tx, tenant_id, SOURCE, "2.md", "", CALLER))
        updated, revision_id = acme.put("3.md", page(333))
        await eventually(lambda: {acme.state(each) for each in (changed, deleted, updated)} == {"succeeded"}, 60)
        await eventually(lambda: not acme.unsettled(), 60)
    assert acme.operation(failing).failure == "empty"
    assert not await found(acme, store, "number2")
    assert (await found(acme, store, "number333"))[0] == revision_id
    await acme.assert_store_agrees(store)


@asynccontextmanager
async def process(data_dir: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m app.indexer`, ready; killed at the end if it still runs."""
    layout = Layout(data_dir)
    layout.indexer_ready.unlink(missing_ok=True)
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app.indexer", "--data-dir", str(data_dir),
        cwd=Path(__file__).parents[2],
        env={**os.environ, **{f"MUNIMENT_INDEXER__{name}": value for name, value in TERMS.items()}},
    )  # fmt: skip
    try:
        await eventually(lambda: layout.indexer_ready.exists() or started.returncode is not None, 60)
        assert started.returncode is None
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


@pytest.fixture
def data_dir(acme: Record, endpoint: WeaviateEndpoint) -> Path:
    EngineCredentials("unused", endpoint.api_key, "unused", "unused").save(acme.directory)
    Endpoints("unused", endpoint.http_url, endpoint.grpc_target, "unused").write(acme.directory)
    return acme.directory


def done(acme: Record) -> int:
    return acme.value("SELECT count(*) FROM operations WHERE kind = 'put' AND state = 'succeeded'")


async def test_a_killed_indexer_loses_nothing_and_publishes_nothing_twice(
    acme: Record, store: WeaviateStore, data_dir: Path
) -> None:
    puts = [acme.put(f"{n}.md", page(n)) for n in range(30)]
    async with process(data_dir) as first:
        await eventually(lambda: acme.value("SELECT count(*) FROM revisions WHERE state != 'accepted'") >= 5, 60)
        first.kill()
    assert done(acme) < 30
    async with process(data_dir) as second:
        await eventually(lambda: acme.value("SELECT count(*) FROM publications") == 1 or done(acme) == 30, 60)
        second.kill()  # most likely in the middle of a publication
    async with process(data_dir) as third:
        await eventually(lambda: done(acme) == 30, 60)
        await eventually(lambda: not acme.unsettled(), 60)
        third.send_signal(signal.SIGTERM)
        assert await third.wait() == 0
    assert not Layout(data_dir).indexer_ready.exists()
    intervals = acme.database.read("SELECT r.revision_id FROM intervals i JOIN revisions r USING (revision_key)")
    assert sorted(each for (each,) in intervals) == sorted(revision_id for _, revision_id in puts)
    assert (
        acme.value("SELECT count(*) FROM (SELECT seq FROM snapshots GROUP BY tenant_id, seq HAVING count(*) > 1)") == 0
    )
    await acme.assert_store_agrees(store)


async def test_a_second_indexer_on_a_data_directory_is_refused(data_dir: Path) -> None:
    async with process(data_dir):
        second = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app.indexer", "--data-dir", str(data_dir),
            cwd=Path(__file__).parents[2], stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, error = await second.communicate()
    assert second.returncode == 2
    assert b"another indexer" in error
