"""Refills end, whatever the store answers, and the packet says that it was cut short."""

from types import SimpleNamespace
from typing import Any, cast

from core.budget import Budget
from core.ids import FragmentId, RevisionId, Seq
from core.stages import Degradation, StageLog
from corpus.analyser import Analyser
from corpus.encoder import AsyncQueryEncoder
from corpus.store import StoredHit
from retrieval.plan import Ask
from retrieval.search import MAX_REFILLS, Searcher
from retrieval.view import View
from tests.protocol.doubles import HashEncoder


class Stubborn:
    """A store that answers the same however much of it is excluded, and a record that permits nothing of it."""

    def __init__(self) -> None:
        self.asked = 0

    async def lexical(self, *arguments: Any) -> list[StoredHit]:
        self.asked += 1
        limit = arguments[-2]
        return [
            StoredHit(f"o{i}", FragmentId(f"f{i}"), RevisionId(f"r{i}"), Seq(1), Seq(2), 0, 1.0 / (i + 1))
            for i in range(limit)
        ]

    async def dense(self, *arguments: Any) -> list[StoredHit]:
        return await self.lexical(*arguments)

    def judge(self, _ids: object, _scope: object) -> frozenset[FragmentId]:
        return frozenset()


async def test_a_store_that_ignores_what_is_excluded_is_not_asked_for_ever() -> None:
    store, stages = Stubborn(), StageLog()
    view = cast(View, SimpleNamespace(opened=store, stages=stages, budget=Budget.of_seconds(60)))
    async with AsyncQueryEncoder(HashEncoder()) as encoder:
        searcher = Searcher(encoder, Analyser())
        found = await searcher._find(view, searcher.plan(Ask("kettle warranty"), StageLog()))
    assert found.candidates == ()
    assert found.refills == MAX_REFILLS
    assert store.asked == 2 * (MAX_REFILLS + 1)
    assert stages.degradations == (Degradation.CHANNEL_MISSING,)
