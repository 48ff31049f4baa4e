"""Search beside the bare calls that it is made of: `search.p50_over_raw` on SciFact's test queries."""

import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muniment import AsyncClient
from muniment.v1 import evidence_pb2

from evaluation.datasets import beir
from evaluation.figures import Figure, Target
from evaluation.ingestion import ensure_source, put_all
from evaluation.metrics import median, quantile
from evaluation.patience import patiently
from evaluation.progress import bar
from evaluation.scifact import ROLES, SOURCE
from evaluation.system import System
from loadtests.bare import BareSearch

T = TypeVar("T")

PREFIX = "search."
TENANT = "scifact"
SUBJECT = "evaluation"
WARM_UP = 60  # queries of the train split, for both sides

TARGETS = (Target("search.p50_over_raw", 1.6, at_least=False), Target("search.degraded", 0, at_least=False))


async def measure(system: System) -> list[Figure]:
    """Each query by Search and bare, in a random order, so that neither gains from the store's caches or the load."""
    if system.data_dir is None:
        raise ValueError("the bare calls need the data directory: --address won't do")
    train, test = beir("scifact", "train"), beir("scifact", "test")
    token = system.token(SUBJECT, TENANT, roles=ROLES)
    async with AsyncClient(system.address, token) as client:
        await ensure_source(client, SOURCE)
        await put_all(client, SOURCE, test.corpus)
        async with BareSearch(system.data_dir, TENANT, SUBJECT, ROLES) as bare:
            for query in list(train.queries.values())[:WARM_UP]:
                await patiently(client.search, query)
                await bare(query)
            return _figures(*await _compared(client, bare, list(test.queries.values())))


async def _compared(
    client: AsyncClient, bare: BareSearch, queries: list[str]
) -> tuple[list[float], list[float], list[evidence_pb2.EvidencePacket]]:
    chance = random.Random(0)
    searches, bares, packets = [], [], []
    with bar("Timing Search", len(queries)) as tell:
        for done, query in enumerate(queries, 1):
            first_search = chance.random() < 0.5
            for is_search in (first_search, not first_search):
                if is_search:
                    elapsed_ms, packet = await _timed(client.search, query)
                    searches.append(elapsed_ms)
                    packets.append(packet)
                else:
                    bares.append((await _timed(bare, query))[0])
            tell(done)
    return searches, bares, packets


async def _timed(call: Callable[[str], Awaitable[T]], query: str) -> tuple[float, T]:
    began = time.perf_counter()
    answer = await call(query)
    return (time.perf_counter() - began) * 1000, answer


def _figures(searches: list[float], bares: list[float], packets: list[evidence_pb2.EvidencePacket]) -> list[Figure]:
    count = len(searches)
    search_ms, bare_ms = median(searches), median(bares)
    stages: dict[str, list[float]] = defaultdict(list)
    for packet in packets:
        for stage in packet.diagnostics.stages:
            stages[stage.stage].append(stage.elapsed_ms)
    told = ", ".join(f"{name} {median(values):.1f}" for name, values in stages.items())
    return [
        Figure("search.p50_over_raw", search_ms / bare_ms, "", count, "embedding and both store calls bare = 1"),
        Figure("search.p50_ms", search_ms, "ms", count, f"one client; stages p50 in ms: {told}"),
        Figure("search.p95_ms", quantile(searches, 0.95), "ms", count, "one client"),
        Figure("search.raw_p50_ms", bare_ms, "ms", count, "one caller"),
        Figure("search.degraded", sum(bool(p.degradations) for p in packets), "", count),
    ]
