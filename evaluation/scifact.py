"""SciFact (Wadden et al. 2020, as in BEIR) by Search: 5,183 abstracts in one source, ranked by document.

Every choice about ranking was made on the train queries; the test queries are only read here.
"""

from collections.abc import Sequence

from muniment import AsyncClient
from muniment.v1 import evidence_pb2

from evaluation.datasets import Ranking, Split, beir
from evaluation.figures import Figure, Target
from evaluation.ingestion import ensure_source, put_all
from evaluation.metrics import interval, mean, ndcg, recall, reciprocal_rank
from evaluation.patience import patiently
from evaluation.progress import bar
from evaluation.system import System

PREFIX = "scifact."
TENANT = "scifact"
SOURCE = "abstracts"
ROLES = ("reader", "writer", "publisher", "evaluator")
K = 10
MAX_EVIDENCE = 30  # an abstract may come as several items; ten documents are wanted
MAX_TOKENS = 100_000

TARGETS = (
    Target("scifact.ndcg@10", 0.72, at_least=True),
    Target("scifact.degraded", 0, at_least=False),
)


async def measure(system: System, split: Split = "test") -> list[Figure]:
    """Put the corpus, ask every judged query of the split, measure."""
    data = beir("scifact", split)
    token = system.token("evaluation", TENANT, roles=ROLES)
    async with AsyncClient(system.address, token) as client:
        await ensure_source(client, SOURCE)
        await put_all(client, SOURCE, data.corpus)
        packets = await _ask(client, data)
    return _figures(data, packets)


async def _ask(client: AsyncClient, data: Ranking) -> dict[str, evidence_pb2.EvidencePacket]:
    """One after the other, as the default profile has it."""
    packets = {}
    with bar("Asking SciFact", len(data.queries)) as tell:
        for query_id, query in data.queries.items():
            packets[query_id] = await patiently(
                client.search, query, max_evidence=MAX_EVIDENCE, max_tokens=MAX_TOKENS, basic=True
            )
            tell(len(packets))
    return packets


def ranked_documents(packet: evidence_pb2.EvidencePacket) -> list[str]:
    """Documents by their best item."""
    return list(dict.fromkeys(item.document_id for item in packet.evidence))


def _figures(data: Ranking, packets: dict[str, evidence_pb2.EvidencePacket]) -> list[Figure]:
    rankings = {query_id: ranked_documents(packet) for query_id, packet in packets.items()}
    gains = [ndcg(rankings[each], data.relevant[each], K) for each in data.queries]
    ranks = [reciprocal_rank(rankings[each], data.relevant[each], K) for each in data.queries]
    recalls = [recall(rankings[each], data.relevant[each], K) for each in data.queries]
    low, high = interval(gains)
    found = [len(ranking) for ranking in rankings.values()]
    degraded = sum(bool(packet.degradations) for packet in packets.values())
    setting = f"default profile, {len(data.corpus)} documents; 95 % of bootstraps {low:.3f} to {high:.3f}"
    return [
        Figure("scifact.ndcg@10", mean(gains), "", len(gains), setting),
        _plain("scifact.mrr@10", ranks),
        _plain("scifact.recall@10", recalls),
        Figure("scifact.fewest_documents", min(found), "", len(found), "distinct documents of one packet"),
        Figure("scifact.degraded", degraded, "", len(found), "searches with less than all channels"),
    ]


def _plain(name: str, values: Sequence[float]) -> Figure:
    return Figure(name, mean(values), "", len(values))
