"""A Store in memory with the same meaning as Weaviate's, and hooks for faults.

`before` is awaited with the name of each operation and its arguments before it takes effect: raise there to lose a
call, wait there to hold one back, change `objects` there to lag, repeat or lie.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from core.budget import Budget
from core.ids import RepresentationId, TenantId
from corpus.analyser import lexical_query, lexical_terms
from corpus.store import (
    Selection,
    StoredFragment,
    StoredHit,
    StoredRef,
    StoreLate,
    StoreQuery,
    StoreRejected,
    TenantMissing,
)
from policy.evaluator import permits
from policy.filter import Nothing, normalise

Before = Callable[[str, tuple[Any, ...]], Awaitable[None]]
K1, B = 1.2, 0.75


async def _nothing(_op: str, _args: tuple[Any, ...]) -> None:
    return


class MemoryStore:
    """`objects` maps tenants to what they hold by object id: read and change it freely in tests."""

    def __init__(self, representation_id: RepresentationId, dimension: int, before: Before = _nothing) -> None:
        self.representation_id = representation_id
        self.before = before
        self.objects: dict[TenantId, dict[str, StoredFragment]] = {}
        self._dimension = dimension

    async def ensure_collection(self, budget: Budget) -> None:
        await self._begin("ensure_collection", (), budget)

    async def check_collection(self, budget: Budget) -> None:
        await self._begin("check_collection", (), budget)

    async def ensure_tenant(self, tenant_id: TenantId, budget: Budget) -> None:
        await self._begin("ensure_tenant", (tenant_id,), budget)
        self.objects.setdefault(tenant_id, {})

    async def lexical(self, query: StoreQuery, analysed: str, identifiers: str, budget: Budget) -> list[StoredHit]:
        await self._begin("lexical", (query, analysed, identifiers), budget)
        terms = Counter(lexical_query(analysed, identifiers).split())
        scores = _bm25(terms, {key: _terms(f) for key, f in self._held(query.tenant_id).items()})
        return self._ranked(query, {key: score for key, score in scores.items() if score > 0})

    async def dense(
        self, query: StoreQuery, vector: Sequence[float] | npt.NDArray[Any], budget: Budget
    ) -> list[StoredHit]:
        await self._begin("dense", (query, vector), budget)
        wanted = self._vector(vector)
        return self._ranked(
            query, {key: _cosine(wanted, self._vector(f.vector)) for key, f in self._held(query.tenant_id).items()}
        )

    async def insert(self, tenant_id: TenantId, objects: Sequence[StoredFragment], budget: Budget) -> None:
        for fragment in objects:
            if fragment.attributes.get("tenant") != tenant_id:
                raise StoreRejected("another tenant's fragment", (fragment.object_id,))
            self._vector(fragment.vector)
        await self._begin("insert", (tenant_id, objects), budget)
        self._held(tenant_id).update({fragment.object_id: fragment for fragment in objects})

    async def delete(self, tenant_id: TenantId, object_ids: Collection[str], budget: Budget) -> None:
        await self._begin("delete", (tenant_id, object_ids), budget)
        held = self._held(tenant_id)
        for key in object_ids:
            held.pop(key, None)

    async def list_objects(self, tenant_id: TenantId, selection: Selection, budget: Budget) -> frozenset[StoredRef]:
        await self._begin("list_objects", (tenant_id, selection), budget)
        return frozenset(_ref(f) for f in self._held(tenant_id).values() if _selected(selection, f))

    async def fetch(self, tenant_id: TenantId, object_ids: Collection[str], budget: Budget) -> frozenset[StoredRef]:
        await self._begin("fetch", (tenant_id, object_ids), budget)
        held = self._held(tenant_id)
        return frozenset(_ref(held[key]) for key in object_ids if key in held)

    async def _begin(self, op: str, args: tuple[Any, ...], budget: Budget) -> None:
        if budget.left_s() <= 0:
            raise StoreLate
        await self.before(op, args)

    def _held(self, tenant_id: TenantId) -> dict[str, StoredFragment]:
        if tenant_id not in self.objects:
            raise TenantMissing(tenant_id)
        return self.objects[tenant_id]

    def _vector(self, vector: Sequence[float] | npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        packed = np.asarray(vector, dtype=np.float32)
        if packed.shape != (self._dimension,) or not np.isfinite(packed).all():
            raise StoreRejected("not a vector of ours")
        return packed

    def _ranked(self, query: StoreQuery, scores: dict[str, float]) -> list[StoredHit]:
        if isinstance(normalise(query.access), Nothing):
            raise StoreRejected("a filter that permits nothing must not be asked")
        held = self._held(query.tenant_id)
        hits = [_hit(held[key], score) for key, score in scores.items() if _proposed(query, held[key])]
        return sorted(hits, key=lambda hit: (-hit.score, hit.object_id))[: query.limit]


def _proposed(query: StoreQuery, f: StoredFragment) -> bool:
    starts, ends = f.attributes.get("valid_from"), f.attributes.get("valid_to")
    scope = query.scope
    return (
        f.from_seq <= query.seq < f.to_seq
        and (not isinstance(starts, int) or starts <= query.valid_at)
        and (not isinstance(ends, int) or query.valid_at < ends)
        and permits(query.access, f.attributes)
        and (scope.sources is None or f.source_id in scope.sources)
        and (scope.documents is None or f.document_id in scope.documents)
        and (scope.languages is None or f.attributes.get("language") in scope.languages)
        and f.revision_id not in query.excluded_revisions
        and f.source_id not in query.excluded_sources
        and f.fragment_id not in query.excluded_fragments
    )


def _selected(selection: Selection, f: StoredFragment) -> bool:
    if selection.revisions is not None:
        return f.revision_id in selection.revisions
    return selection.documents is None or (f.source_id, f.document_id) in selection.documents


def _terms(f: StoredFragment) -> list[str]:
    return lexical_terms(f.analysed, f.identifiers).split()


def _bm25(query: Counter[str], texts: dict[str, list[str]]) -> dict[str, float]:
    average = sum(map(len, texts.values())) / max(1, len(texts))
    counts = {key: Counter(words) for key, words in texts.items()}
    scores = dict.fromkeys(texts, 0.0)
    for term, weight in query.items():
        having = sum(term in words for words in counts.values())
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for key, words in counts.items():
            if term in words:
                norm = K1 * (1 - B + B * len(texts[key]) / average)
                scores[key] += weight * idf * words[term] * (K1 + 1) / (words[term] + norm)
    return scores


def _cosine(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _ref(f: StoredFragment) -> StoredRef:
    return StoredRef(f.object_id, f.fragment_id, f.revision_id, f.from_seq, f.to_seq, f.access_version)


def _hit(f: StoredFragment, score: float) -> StoredHit:
    return StoredHit(f.object_id, f.fragment_id, f.revision_id, f.from_seq, f.to_seq, f.access_version, score)
