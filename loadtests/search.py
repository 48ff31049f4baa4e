"""Search beside the bare calls that it is made of: `search.p50_over_raw` on SciFact's test queries."""

import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

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

Ask = Callable[[str], Awaitable[object]]

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
                await bare.overlapped(query)
            return _figures(*await _compared(client, bare, list(test.queries.values())))


async def _compared(
    client: AsyncClient, bare: BareSearch, queries: list[str]
) -> tuple[dict[str, list[float]], list[evidence_pb2.EvidencePacket]]:
    chance = random.Random(0)
    packets: list[evidence_pb2.EvidencePacket] = []

    async def search(query: str) -> None:
        packets.append(await client.search(query))

    kinds: dict[str, Ask] = {"search": search, "bare": bare, "overlapped": bare.overlapped}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    with bar("Timing Search", len(queries)) as tell:
        for done, query in enumerate(queries, 1):
            for kind in chance.sample(list(kinds), len(kinds)):
                began = time.perf_counter()
                await kinds[kind](query)
                times[kind].append((time.perf_counter() - began) * 1000)
            tell(done)
    return times, packets


def _figures(times: dict[str, list[float]], packets: list[evidence_pb2.EvidencePacket]) -> list[Figure]:
    count = len(packets)
    p50 = {kind: median(values) for kind, values in times.items()}
    stages: dict[str, list[float]] = defaultdict(list)
    for packet in packets:
        for stage in packet.diagnostics.stages:
            stages[stage.stage].append(stage.elapsed_ms)
    told = ", ".join(f"{name} {median(values):.1f}" for name, values in stages.items())
    over_raw, over_overlapped = p50["search"] / p50["bare"], p50["search"] / p50["overlapped"]
    return [
        Figure("search.p50_over_raw", over_raw, "", count, "1: embedding, then both store calls bare, in parallel"),
        Figure(
            "search.p50_over_overlapped", over_overlapped, "", count, "1: words looked up while the query is embedded"
        ),
        Figure("search.p50_ms", p50["search"], "ms", count, f"one client; stages p50 in ms: {told}"),
        Figure("search.p95_ms", quantile(times["search"], 0.95), "ms", count, "one client"),
        Figure("search.raw_p50_ms", p50["bare"], "ms", count, "one caller"),
        Figure("search.raw_overlapped_p50_ms", p50["overlapped"], "ms", count, "one caller"),
        Figure("search.degraded", sum(bool(p.degradations) for p in packets), "", count),
    ]
