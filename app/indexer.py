"""Composition root of the indexer process: `python -m app.indexer --data-dir PATH`.

It writes `run/indexer.ready` once it works and ends on SIGTERM or SIGINT, after what is under way.
"""

import argparse
import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import structlog

from app.layout import Endpoints, Layout, NotRunning
from app.logs import quiet_libraries
from app.settings import IndexerSettings, Settings, SettingsFault, load
from core.budget import Budget
from core.errors import MunimentFault
from core.ids import new_id
from corpus.analyser import Analyser
from corpus.blobs import Blobs, KeyStore
from corpus.catalog.database import Database
from corpus.catalog.leases import LeaseTerms
from corpus.contents import Contents
from corpus.encoder import Encoder, MiniLmEncoder
from corpus.projection import Projection, StoreTerms
from corpus.publication import Publisher
from corpus.representations import default_representation
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from deploy.engines import EngineCredentials
from indexing.indexer import Indexer
from indexing.parsers import ParseLimits, ParserPool
from indexing.staging import Stager
from indexing.sweep import Sweep, SweepTerms
from indexing.workflows import Workflows

COLLECTION_BUDGET_S = 30.0  # the store may just have started

_log = structlog.get_logger(__name__)


class IndexerRunning(MunimentFault):
    """Another indexer works on this data directory."""


async def run(settings: Settings, stop: asyncio.Event, encoder: Encoder | None = None) -> None:
    """Work until `stop` is set. Raises NotRunning, IndexerRunning, or StoreError when the store is not usable.

    `encoder` is for tests of what embedding has no part in: it takes nearly all of the time.
    """
    layout, terms = Layout(settings.data_dir.resolve()), settings.indexer
    endpoints = Endpoints.read(layout.data_dir)
    representation = default_representation()
    async with AsyncExitStack() as stack:
        stack.enter_context(_only_one(layout.run / "indexer.lock"))
        database = Database.open(layout.catalog)
        stack.callback(database.close)
        keys = KeyStore(layout.keys)
        stack.callback(keys.close)
        blobs = Blobs(layout.blobs, keys)
        store = await stack.enter_async_context(
            WeaviateStore(_weaviate(settings, endpoints, layout.data_dir), representation)
        )
        await store.ensure_collection(Budget.of_seconds(COLLECTION_BUDGET_S))
        parsers = ParserPool(terms.parser_processes, terms.parse_timeout_s)
        stack.push_async_callback(parsers.close)
        if encoder is None:
            encoder = await asyncio.to_thread(MiniLmEncoder, terms.encoder_threads)
        limits = ParseLimits(max_bytes=settings.limits.max_document_bytes)
        stager = stack.enter_context(
            Stager(database, blobs, parsers, encoder, representation.representation_id, limits)
        )
        contents = Contents(database, blobs, Analyser(), representation.representation_id)
        projection = Projection(database, store, contents, _store_terms(terms))
        executor = new_id()
        publisher = Publisher(database, projection, executor, LeaseTerms(terms.lease_s, terms.drain_s))
        indexer = Indexer(database, contents, stager, publisher, projection)
        workflows = await stack.enter_async_context(Workflows(layout.workflows, indexer, executor))
        sweep = Sweep(database, indexer, workflows, executor, terms.drain_s, SweepTerms(grace_s=terms.stop_grace_s))
        stack.enter_context(_ready(layout.indexer_ready))
        await sweep.run(stop)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """The kernel lets go of the lock when the process dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise IndexerRunning(f"{path} is held by another indexer") from exc
        yield


@contextmanager
def _ready(path: Path) -> Iterator[None]:
    path.write_text(str(os.getpid()))
    _log.info("indexer_ready")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _weaviate(settings: Settings, endpoints: Endpoints, data_dir: Path) -> WeaviateEndpoint:
    credentials = EngineCredentials.load(data_dir)
    if credentials is None:
        raise NotRunning(f"{data_dir} has no engine credentials; start it with `muniment up`")
    tls = settings.weaviate.host is not None and settings.weaviate.secure
    return WeaviateEndpoint(endpoints.weaviate_http, endpoints.weaviate_grpc, credentials.weaviate_api_key, tls)


def _store_terms(terms: IndexerSettings) -> StoreTerms:
    return StoreTerms(terms.store_call_s, terms.drain_s, terms.search_s)


async def _until_signalled(settings: Settings) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(settings, stop)


def main() -> None:
    """Exit status 2: the settings or the data directory are not as they must be."""
    parser = argparse.ArgumentParser(prog="python -m app.indexer", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="the data directory to work on")
    options = parser.parse_args()
    quiet_libraries()
    try:
        asyncio.run(_until_signalled(load(data_dir=options.data_dir)))
    except (SettingsFault, NotRunning, IndexerRunning) as exc:
        sys.stderr.write(f"{exc}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
