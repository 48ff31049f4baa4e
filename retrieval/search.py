"""One search: channels under one filter, the gate's first pass, fusion, packing. What comes out is not released yet."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.budget import Budget
from core.ids import FragmentId
from core.stages import Degradation, Stage, StageLog, limit_ms
from corpus.analyser import Analyser
from corpus.encoder import AsyncQueryEncoder, EncoderError
from corpus.record import RevisionRecord
from corpus.store import StoredHit, StoreError
from retrieval import sufficiency
from retrieval.dedupe import deduplicate
from retrieval.errors import ChannelsUnavailable
from retrieval.expand import drafts
from retrieval.fusion import candidates_of, z_fusion
from retrieval.pack import Packed, pack, without
from retrieval.plan import Ask, QueryPlan, plan
from retrieval.tokens import tokenizer
from retrieval.types import Candidate, Channel, Packet, Ranked, TokenLedger, Verdict
from retrieval.view import View

EXCLUDED_LIMIT = 2_000  # ids that a refill names to the store; past it the channels are asked for more instead
# An honest store needs 45 at most: each refill but the last few names half of `depth` or more of EXCLUDED_LIMIT ids.
# One that answers what was excluded would be asked until the call's deadline.
MAX_REFILLS = 64
DEEPEST = 8_000  # hits of one channel: below the store's own bound of 10,000
RECORDS_PER_ITEM = 3  # fragments that are read from the record for each item wanted
STEPS_TO_SEND = 3  # of the event loop, until a question to policy is on its way

Foresee = Callable[[View, Sequence[RevisionRecord]], Coroutine[Any, Any, None]]


async def nothing_ahead(view: View, records: Sequence[RevisionRecord]) -> None:
    """For callers without a gate."""


@dataclass(frozen=True)
class Found:
    """Candidates that passed the first look, with the numbers that diagnostics show to evaluators."""

    candidates: tuple[Candidate, ...]
    channel_hits: Mapping[Channel, int]
    refills: int


@dataclass(frozen=True)
class SearchResult:
    """A packet to be released, and how it came about. `cosines`: similarity to the query by revision key, best each."""

    packet: Packet
    found: Found
    cosines: Mapping[int, float]


class Searcher:
    """Searches views; one for each process."""

    def __init__(self, encoder: AsyncQueryEncoder, analyser: Analyser) -> None:
        self._encoder = encoder
        self._analyser = analyser

    async def search(self, view: View, plan: QueryPlan, foresee: Foresee = nothing_ahead) -> SearchResult:
        """The packet for `plan`; ChannelsUnavailable when none answers. Who may see nothing costs no store call.

        `foresee` is told the revisions that are likely to be in it, and runs while it is made.
        """
        # Before its first publication a tenant is not in the store at all, which must not look like a store away.
        if view.sees_nothing or view.opened.pin.seq == 0:
            empty = Packet((), TokenLedger(plan.profile.tokenizer, plan.max_tokens, 0), Verdict.EMPTY)
            return SearchResult(empty, Found((), {}, 0), {})
        found = await self._find(view, plan)
        with view.stages.timed(Stage.FUSE):
            fused = z_fusion(found.candidates, plan.profile.weights)
            best = {f.candidate.fragment_id: f for f in fused[: plan.k * RECORDS_PER_ITEM]}
            records = view.opened.records(list(best))
            ranked = deduplicate(
                Ranked(record, best[id_].score, best[id_].candidate.channels)
                for record in records
                for id_ in [record.fragment.fragment_id]
            )
        likely = {item.record.revision.revision_key: item.record.revision for item in ranked[: plan.k]}
        ahead = asyncio.create_task(foresee(view, list(likely.values())))
        try:
            for _ in range(STEPS_TO_SEND):
                await asyncio.sleep(0)
            with view.stages.timed(Stage.PACK):
                if view.opened.are_long(item.record.revision for item in ranked):
                    packed = await asyncio.to_thread(self._packed, view, plan, ranked)  # others need the event loop
                else:
                    packed = self._packed(view, plan, ranked)
                cosines = _cosines(ranked, {item.record.revision.revision_key for item in packed.items})
                packet = self._packet(plan, packed, cosines.values(), view.stages.degradations)
            with view.stages.timed(Stage.GATE):
                await ahead
        finally:
            ahead.cancel()
        return SearchResult(packet, found, cosines)

    def plan(self, ask: Ask, stages: StageLog) -> QueryPlan:
        """The plan for what is asked; InvalidValue names the field that is wrong."""
        with stages.timed(Stage.PLAN):
            return plan(ask, self._analyser)

    def kept(self, plan: QueryPlan, result: SearchResult, allowed: frozenset[int]) -> Packet:
        """The packet without the revisions that the gate withholds, judged anew where it lost any."""
        lost = frozenset(
            item.evidence_id for item in result.packet.items if item.record.revision.revision_key not in allowed
        )
        if not lost:
            return result.packet
        rest = without(Packed(result.packet.items, result.packet.tokens), lost)
        cosines = [cosine for key, cosine in result.cosines.items() if key in allowed]
        return self._packet(plan, rest, cosines, result.packet.degradations)

    def _packed(self, view: View, plan: QueryPlan, ranked: tuple[Ranked, ...]) -> Packed:
        texts: dict[int, str] = {}

        def text_of(revision: RevisionRecord) -> str:
            if revision.revision_key not in texts:
                texts[revision.revision_key] = view.opened.text(revision)
            return texts[revision.revision_key]

        counter = tokenizer(plan.profile.tokenizer)
        return pack(drafts(ranked), text_of, counter, max_tokens=plan.max_tokens, max_evidence=plan.k)

    def _packet(
        self, plan: QueryPlan, packed: Packed, cosines: Iterable[float], degradations: tuple[Degradation, ...]
    ) -> Packet:
        verdict = sufficiency.judge(
            plan.terms,
            [item.text for item in packed.items],
            max(cosines, default=None),
            lambda text: self._analyser.found(text, plan.terms),
        )
        return Packet(packed.items, packed.tokens, verdict, degradations)

    async def _find(self, view: View, plan: QueryPlan) -> Found:
        """Ask the channels, drop what the record does not permit, and ask again while that leaves too little."""
        ask = _Channels(self._encoder, view, plan)
        excluded: frozenset[FragmentId] = frozenset()
        depth, refills = plan.depth, 0
        while True:
            with view.stages.timed(Stage.CHANNELS):
                legs = await ask.all(excluded, depth)
            proposed = {hit.fragment_id for hits in legs.values() for hit in hits}
            allowed = proposed & ask.allowed
            rejected = proposed - allowed
            exhausted = all(len(hits) < depth for hits in legs.values()) or depth >= DEEPEST
            if rejected and refills == MAX_REFILLS:
                view.stages.degrade(Stage.CHANNELS, Degradation.CHANNEL_MISSING)
                exhausted = True
            if not rejected or len(allowed) >= plan.k or exhausted:
                kept = {
                    c: [(h.fragment_id, h.score) for h in hits if h.fragment_id in allowed] for c, hits in legs.items()
                }
                return Found(candidates_of(kept), {c: len(hits) for c, hits in legs.items()}, refills)
            refills += 1
            if len(excluded) + len(rejected) <= EXCLUDED_LIMIT:
                excluded |= rejected
            else:
                depth = min(depth * 4, DEEPEST)


class _Channels:
    """The channels of one search; the query is embedded once, however often they are asked.

    `allowed` are the hits that the record permits. Each channel's are looked at as soon as they are there: while the
    store still works on the other channel, that costs the caller nothing.
    """

    def __init__(self, encoder: AsyncQueryEncoder, view: View, plan: QueryPlan) -> None:
        self._encoder = encoder
        self._view = view
        self._plan = plan
        self._vector: npt.NDArray[np.float32] | None = None
        self._judged: set[FragmentId] = set()
        self.allowed: set[FragmentId] = set()

    async def all(self, excluded: frozenset[FragmentId], depth: int) -> dict[Channel, list[StoredHit]]:
        """Side by side; one that fails or is late is left out and said. ChannelsUnavailable when none is left."""
        asked = self._plan.channels
        answers = await asyncio.gather(*(self._one(c, excluded, depth) for c in asked), return_exceptions=True)
        legs: dict[Channel, list[StoredHit]] = {}
        for channel, answer in zip(asked, answers, strict=True):
            if isinstance(answer, EncoderError):
                self._view.stages.degrade(Stage.EMBED, Degradation.LEXICAL_ONLY)
            elif isinstance(answer, StoreError):
                self._view.stages.degrade(Stage.CHANNELS, Degradation.CHANNEL_MISSING)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                legs[channel] = answer
        if not legs:
            causes = [answer for answer in answers if isinstance(answer, BaseException)]
            raise ChannelsUnavailable("no channel answered") from causes[0]
        return legs

    async def _one(self, channel: Channel, excluded: frozenset[FragmentId], depth: int) -> list[StoredHit]:
        ask = self._lexical if channel is Channel.LEXICAL else self._dense
        hits = await ask(excluded, depth)
        fresh = {hit.fragment_id for hit in hits} - self._judged
        self._judged |= fresh
        self.allowed |= self._view.opened.judge(fresh, self._plan.scope)
        return hits

    async def _lexical(self, excluded: frozenset[FragmentId], depth: int) -> list[StoredHit]:
        plan, budget = self._plan, _limited(self._view.budget, Stage.CHANNELS)
        return await self._view.opened.lexical(plan.analysed, plan.identifiers, plan.scope, excluded, depth, budget)

    async def _dense(self, excluded: frozenset[FragmentId], depth: int) -> list[StoredHit]:
        plan, budget = self._plan, self._view.budget
        if self._vector is None:
            with self._view.stages.timed(Stage.EMBED):
                self._vector = await self._encoder.encode_query(plan.query, _limited(budget, Stage.EMBED))
        return await self._view.opened.dense(
            self._vector, plan.scope, excluded, depth, _limited(budget, Stage.CHANNELS)
        )


def _cosines(ranked: Iterable[Ranked], packed: set[int]) -> dict[int, float]:
    best: dict[int, float] = {}
    for item in ranked:
        key = item.record.revision.revision_key
        if key in packed and Channel.DENSE in item.channels:
            best[key] = max(best.get(key, -1.0), item.channels[Channel.DENSE].score)
    return best


def _limited(budget: Budget, stage: Stage) -> Budget:
    return Budget(budget.clock() + budget.limit_s(limit_ms(stage)), budget.clock)
