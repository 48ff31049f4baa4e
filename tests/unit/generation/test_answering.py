"""Answers: abstention without a provider call (A6), clearing before release (I5, I7), limits (I10)."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from core.budget import Budget
from core.document import Span
from core.stages import Stage, StageLog
from generation.answering import PROPOSALS_PER_CLAIM, Clear, answer
from generation.claims import (
    Abstention,
    AbstentionReason,
    AnswerEvent,
    Claim,
    ClaimKind,
    ProposedCitation,
    ProposedClaim,
    Summary,
)
from generation.errors import GenerationError, ProviderUnavailable
from retrieval.types import Packet, Verdict
from tests.fakes.evidence_records import item, packet

TEXT = "One is here. Two is here. Three is here. Four is here."
ITEM = item(1, TEXT)
PACKET = packet([ITEM])


def claim_of(sentence: str, evidence_id: str = ITEM.evidence_id) -> ProposedClaim:
    start = TEXT.index(sentence)
    return ProposedClaim(
        sentence, ClaimKind.QUOTED, (ProposedCitation(evidence_id, sentence, Span(start, start + len(sentence))),)
    )


ALL = [claim_of(f"{word} is here.") for word in ("One", "Two", "Three", "Four")]


class Scripted:
    """Proposes what it is given: a claim, a pause in seconds, or an exception."""

    name = "scripted"

    def __init__(self, *script: ProposedClaim | float | Exception) -> None:
        self.script = script
        self.calls = 0
        self.given = 0
        self.closed = False
        self.waiting = asyncio.Event()

    async def claims(
        self, query: str, packet: Packet, max_claims: int, budget: Budget
    ) -> AsyncGenerator[ProposedClaim, None]:
        self.calls += 1
        try:
            for step in self.script:
                if isinstance(step, float):
                    self.waiting.set()
                    await asyncio.get_running_loop().create_future()  # never: only the limit ends it
                elif isinstance(step, Exception):
                    raise step
                else:
                    self.given += 1
                    yield step
        finally:
            self.closed = True


async def cleared(_claim: Claim) -> bool:
    return True


async def events(
    provider: Scripted,
    shown: Packet = PACKET,
    *,
    max_claims: int = 5,
    seconds: float = 30.0,
    clear: Clear = cleared,
    stages: StageLog | None = None,
) -> list[AnswerEvent]:
    log = stages or StageLog()
    budget = Budget.of_seconds(seconds)
    return [event async for event in answer("q", shown, provider, max_claims, budget, log, clear)]


def kinds(found: list[AnswerEvent]) -> list[type]:
    return [type(event) for event in found]


def texts(found: list[AnswerEvent]) -> list[str]:
    return [event.text for event in found if isinstance(event, Claim)]


def summary_of(found: list[AnswerEvent]) -> Summary:
    last = found[-1]
    assert isinstance(last, Summary)
    return last


def abstention_of(found: list[AnswerEvent]) -> Abstention:
    (abstention,) = [event for event in found if isinstance(event, Abstention)]
    return abstention


async def test_verified_claims_stream_in_order_then_a_summary() -> None:
    stages = StageLog()
    found = await events(Scripted(*ALL), stages=stages)
    assert texts(found) == [c.text for c in ALL]
    assert [e.claim_id for e in found if isinstance(e, Claim)] == ["c1", "c2", "c3", "c4"]
    summary = summary_of(found)
    assert (summary.claims, summary.dropped, summary.abstained, summary.provider) == (4, 0, False, "scripted")
    assert [r.stage for r in summary.stages] == [Stage.GENERATE, Stage.VERIFY]


@pytest.mark.parametrize("shown", [packet([]), packet([ITEM], Verdict.WEAK)])
async def test_a6_without_enough_evidence_the_provider_is_never_asked_and_the_words_are_the_same(shown: Packet) -> None:
    spy = Scripted(*ALL)
    found = await events(spy, shown)
    assert spy.calls == 0
    assert kinds(found) == [Abstention, Summary]
    assert found[0] == Abstention(
        AbstentionReason.INSUFFICIENT_EVIDENCE, "The evidence available to you does not answer this question."
    )
    assert (summary_of(found).claims, summary_of(found).abstained) == (0, True)


async def test_a6_i8_no_claims_from_good_evidence_abstains_in_the_words_of_no_evidence() -> None:
    assert (await events(Scripted()))[0] == (await events(Scripted(), packet([])))[0]


async def test_a1_invented_ids_are_dropped_and_counted_and_the_rest_is_released() -> None:
    invented = [claim_of("One is here.", bad) for bad in ("[999]", "[1]", "", item(2, TEXT).evidence_id)]
    found = await events(Scripted(*invented, ALL[1]))
    assert texts(found) == ["Two is here."]
    assert summary_of(found).dropped == 4


async def test_a1_nothing_but_invented_ids_is_an_abstention() -> None:
    found = await events(Scripted(claim_of("One is here.", "[1]")))
    assert kinds(found) == [Abstention, Summary]


async def test_every_claim_is_cleared_before_it_leaves_and_one_that_is_not_is_withheld() -> None:
    log: list[tuple[str, str]] = []
    found: list[AnswerEvent] = []

    async def clear(claim: Claim) -> bool:
        log.append(("cleared", claim.text))
        return claim.text != "Two is here."

    async for event in answer("q", PACKET, Scripted(*ALL[:3]), 5, Budget.of_seconds(30), StageLog(), clear):
        found.append(event)
        if isinstance(event, Claim):
            assert log[-1] == ("cleared", event.text)
            log.append(("left", event.text))
    assert [text for what, text in log if what == "left"] == ["One is here.", "Three is here."]
    assert (summary_of(found).claims, summary_of(found).dropped) == (2, 1)


async def test_unverified_claims_are_never_even_shown_to_the_gate() -> None:
    async def clear(_claim: Claim) -> bool:
        raise AssertionError

    assert kinds(await events(Scripted(claim_of("One is here.", "[1]")), clear=clear)) == [Abstention, Summary]


async def test_i5_what_clearing_raises_ends_the_stream_at_once() -> None:
    class Revoked(Exception):
        pass

    async def clear(claim: Claim) -> bool:
        if claim.text == "Two is here.":
            raise Revoked
        return True

    provider = Scripted(*ALL)
    stream = answer("q", PACKET, provider, 5, Budget.of_seconds(30), StageLog(), clear)
    assert texts([await anext(stream)]) == ["One is here."]
    with pytest.raises(Revoked):
        await anext(stream)
    assert await anext(stream, None) is None
    assert provider.closed
    assert provider.given == 2


async def test_enough_claims_close_the_provider() -> None:
    provider = Scripted(*ALL)
    found = await events(provider, max_claims=2)
    assert kinds(found) == [Claim, Claim, Summary]
    assert provider.given == 2
    assert provider.closed


async def test_a_flood_of_bad_proposals_is_not_read_for_ever() -> None:
    bad = [claim_of("One is here.", str(n)) for n in range(100)]
    provider = Scripted(*bad)
    assert kinds(await events(provider, max_claims=2)) == [Abstention, Summary]
    assert provider.given == 2 * PROPOSALS_PER_CLAIM


async def test_a_repeated_claim_is_released_once() -> None:
    found = await events(Scripted(ALL[0], ALL[0], ALL[1], ALL[0]))
    assert kinds(found) == [Claim, Claim, Summary]
    assert summary_of(found).dropped == 2


async def test_i10_a_late_provider_is_an_abstention_and_is_stopped() -> None:
    provider = Scripted(1.0)
    found = await events(provider, seconds=0.05)
    assert kinds(found) == [Abstention, Summary]
    assert abstention_of(found).reason is AbstentionReason.BUDGET_EXHAUSTED
    assert provider.closed


async def test_i10_claims_that_came_in_time_stay_and_the_cut_is_said() -> None:
    found = await events(Scripted(ALL[0], 1.0), seconds=0.05)
    assert kinds(found) == [Claim, Abstention, Summary]
    assert abstention_of(found).reason is AbstentionReason.BUDGET_EXHAUSTED
    assert (summary_of(found).claims, summary_of(found).abstained) == (1, True)


async def test_i10_no_time_left_asks_for_nothing() -> None:
    provider = Scripted(*ALL)
    found = await events(provider, seconds=0.0)
    assert kinds(found) == [Abstention, Summary]
    assert provider.given == 0


async def test_i10_a_claim_that_takes_too_long_to_verify_is_not_released() -> None:
    now = iter(range(1_000_000))

    found = [
        event
        async for event in answer(
            "q", PACKET, Scripted(ALL[0]), 5, Budget(10_000.0, lambda: next(now) * 0.06), StageLog(), cleared
        )
    ]
    assert kinds(found) == [Abstention, Summary]
    assert summary_of(found).dropped == 1


async def test_a_providers_own_fault_is_raised_and_never_an_abstention() -> None:
    for fault in (ProviderUnavailable("away"), TimeoutError("its own")):
        with pytest.raises(type(fault)):
            await events(Scripted(ALL[0], fault))
    assert issubclass(ProviderUnavailable, GenerationError)


async def test_a_consumer_that_goes_away_stops_the_provider() -> None:
    provider = Scripted(*ALL)
    stream = answer("q", PACKET, provider, 5, Budget.of_seconds(30), StageLog(), cleared)
    await anext(stream)
    await stream.aclose()
    assert provider.closed
    assert provider.given == 1


async def test_cancellation_goes_through() -> None:
    provider = Scripted(1.0)
    task = asyncio.ensure_future(events(provider))
    await provider.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.closed
