"""The extractive provider: verbatim sentences, best first."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.budget import Budget
from corpus.analyser import Analyser
from generation.claims import Claim, ProposedClaim
from generation.extractive import SHORTLIST, Encode, ExtractiveGenerator, Vectors
from generation.verification import verify
from retrieval.plan import terms_of
from retrieval.types import EvidenceItem
from tests.fakes.evidence_records import item, packet

ANALYSER = Analyser()
BUDGET = Budget.of_seconds(60)
LEAVE = item(
    1, "# Leave\n\nStaff get 25 vacation days a year. Unused days lapse in March.\n\nThe office has plants.", 1, at=500
)
PAY = item(2, "Salaries are paid monthly. Staff get 25 vacation days a year. Ask HR about bonus rules.", 2)


def terms(text: str) -> tuple[str, ...]:
    return terms_of(text, ANALYSER)


async def proposals(
    query: str, items: list[EvidenceItem], max_claims: int = 5, encode: Encode | None = None
) -> list[ProposedClaim]:
    generator = ExtractiveGenerator(terms, encode)
    return [claim async for claim in generator.claims(query, packet(items), max_claims, BUDGET)]


async def test_the_sentence_that_answers_comes_first_and_others_are_left() -> None:
    claims = await proposals("How many vacation days do staff get a year?", [LEAVE, PAY])
    assert claims[0].text == "Staff get 25 vacation days a year."
    assert "The office has plants." not in [c.text for c in claims]
    assert not any(c.text.startswith("#") for c in claims)


async def test_words_that_only_ask_do_not_choose_the_answer() -> None:
    """They are rare in statements, so by frequency alone they would weigh most."""
    rules = item(1, "Passwords expire in May. Keep them safe.")
    noise = item(2, "Decide how you must wait. Say what I should do in that case.", 2)
    claims = await proposals("How must my passwords be, and what should I do?", [noise, rules], max_claims=1)
    assert [c.text for c in claims] == ["Passwords expire in May."]
    assert await proposals("How?", [item(3, "This is how.")]) != []  # a question of nothing else still has words


async def test_questions_and_what_leads_to_a_list_answer_nothing() -> None:
    text = "Who may take leave? **Q: When does leave begin?**\n\nLeave needs:\n\n- Leave needs a form."
    assert [c.text for c in await proposals("leave", [item(1, text)])] == ["Leave needs a form."]


async def test_of_equal_sentences_that_of_the_better_item_comes_first() -> None:
    first, last = item(1, "Leave is 25 days. Cats purr."), item(2, "Leave is 31 days. Dogs bark.", 2)
    assert [c.text for c in await proposals("leave", [last, first], max_claims=1)] == ["Leave is 31 days."]


async def test_a_sentence_of_several_items_is_proposed_once_and_cites_them_all() -> None:
    claims = await proposals("vacation days", [LEAVE, PAY])
    assert [c.text for c in claims].count("Staff get 25 vacation days a year.") == 1
    assert [c.evidence_id for c in claims[0].citations] == [LEAVE.evidence_id, PAY.evidence_id]


async def test_at_most_as_many_as_asked() -> None:
    text = " ".join(f"Vacation rule {n} holds." for n in range(30))
    assert len(await proposals("vacation", [item(1, text)], max_claims=3)) == 3


async def test_without_a_shared_word_nothing_is_proposed() -> None:
    assert await proposals("quantum chromodynamics", [LEAVE, PAY]) == []
    assert await proposals("the", [LEAVE]) == []
    assert await proposals("leave", []) == []


async def test_a_packet_of_one_sentence_can_answer() -> None:
    (claim,) = await proposals("bonus", [item(1, "Bonus is paid in May.")])
    assert claim.text == "Bonus is paid in May."


async def test_meaning_finds_what_words_do_not_and_only_the_shortlist_is_encoded() -> None:
    asked: list[int] = []

    async def encode(query: str, texts: Sequence[str], _budget: Budget) -> tuple[Vectors, Vectors]:
        asked.append(len(texts))
        near = [1.0 if "plants" in text else 0.0 for text in texts]
        return np.array([1.0, 0.0], np.float32), np.array([[n, 1 - n] for n in near], np.float32)

    many = item(3, " ".join(f"Sentence number {n} is here." for n in range(100)), 3)
    claims = await proposals("greenery", [LEAVE, many], encode=encode)
    assert [c.text for c in claims] == ["The office has plants."]
    assert asked == [SHORTLIST]


async def test_when_vectors_are_late_words_decide() -> None:
    async def late(_query: str, _texts: Sequence[str], _budget: Budget) -> None:
        return None

    items = [LEAVE, PAY]
    assert await proposals("vacation days", items, encode=late) == await proposals("vacation days", items)


async def test_repeats_give_the_same_answer() -> None:
    first = await proposals("staff days salaries office", [LEAVE, PAY])
    assert all([await proposals("staff days salaries office", [LEAVE, PAY]) == first for _ in range(20)])


@given(st.lists(st.text(st.sampled_from("staff days. \n-#|A1"), max_size=80), max_size=4))
async def test_i6_whatever_is_proposed_passes_verification(texts: list[str]) -> None:
    shown = packet([item(key, text, key, at=7 * key) for key, text in enumerate(texts, 1) if text])
    seen: set[str] = set()
    async for claim in ExtractiveGenerator(terms).claims("staff day days 1 a", shown, 10, BUDGET):
        assert isinstance(verify(claim, shown, "c1"), Claim)
        assert claim.text not in seen
        seen.add(claim.text)


@pytest.mark.parametrize("length", [1_001, 5_000])
async def test_what_is_too_long_is_no_sentence(length: int) -> None:
    assert await proposals("word", [item(1, "word " * (length // 5 + 1))]) == []
