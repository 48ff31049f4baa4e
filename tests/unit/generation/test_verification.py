"""Verification, whoever proposed: A1 invented ids, A2 numbering, verbatim quotes (I7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.document import Span
from generation.claims import Claim, ClaimKind, ClaimVerdict, ProposedCitation, ProposedClaim
from generation.verification import Refusal, Unsupported, verify
from retrieval.types import EvidenceItem
from tests.fakes.evidence_records import item, packet

FIRST = item(1, "Staff may not smoke indoors. Fines are 50 EUR.", 1, at=100)
SECOND = item(2, "Leave is 25 days.\nIt is paid [1] in full.", 2)
PACKET = packet([FIRST, SECOND])


def quote(of: EvidenceItem, text: str) -> ProposedCitation:
    start = of.passages[0].span.start + of.passages[0].text.index(text)
    return ProposedCitation(of.evidence_id, text, Span(start, start + len(text)))


def proposed(*citations: ProposedCitation, text: str | None = None, kind: str = ClaimKind.QUOTED) -> ProposedClaim:
    return ProposedClaim(text if text is not None else citations[0].quote, kind, citations)


def refusal(claim: ProposedClaim) -> Refusal:
    checked = verify(claim, PACKET, "c1")
    assert isinstance(checked, Unsupported)
    return checked.why


FINES = quote(FIRST, "Fines are 50 EUR.")
LEAVE = quote(SECOND, "Leave is 25 days.")


def test_a_whole_sentence_at_its_place_is_supported_and_every_id_is_the_records() -> None:
    claim = verify(proposed(FINES), PACKET, "c7")
    assert isinstance(claim, Claim)
    assert (claim.claim_id, claim.text, claim.verdict) == ("c7", "Fines are 50 EUR.", ClaimVerdict.SUPPORTED)
    (citation,) = claim.citations
    record = FIRST.record
    assert citation.span == Span(129, 146)
    assert citation.revision_id == record.revision.revision_id
    assert citation.fragment_id == record.fragment.fragment_id
    assert (citation.source_id, citation.document_id) == ("wiki", "doc-1")
    assert citation.canonical_uri == "https://example.com/1"


@pytest.mark.parametrize(
    "evidence_id",
    [
        "[999]",
        "[0]",
        "[-1]",
        "[1a]",
        "[1,2]",
        "[1-3]",
        "[１]",
        "【1】",
        "1",
        "",
        item(9, "Fines are 50 EUR.").evidence_id,
    ],
)
def test_a1_an_id_that_is_not_of_this_packet_drops_the_claim(evidence_id: str) -> None:
    assert refusal(proposed(ProposedCitation(evidence_id, FINES.quote, FINES.span))) is Refusal.UNKNOWN_EVIDENCE
    assert refusal(proposed(FINES, ProposedCitation(evidence_id, FINES.quote, FINES.span))) is Refusal.UNKNOWN_EVIDENCE


def test_a1_an_uncited_claim_is_dropped() -> None:
    assert refusal(ProposedClaim("Fines are 50 EUR.", ClaimKind.QUOTED, ())) is Refusal.UNCITED


def test_a2_citations_are_by_id_so_order_and_repeats_shift_nothing() -> None:
    for at, (of, cited) in enumerate([(SECOND, LEAVE), (FIRST, FINES), (SECOND, LEAVE)]):
        claim = verify(proposed(cited, cited, cited, cited), packet([SECOND, FIRST]), f"c{at}")
        assert isinstance(claim, Claim)
        assert [c.evidence_id for c in claim.citations] == [of.evidence_id]


def test_a2_brackets_in_the_text_are_left_alone() -> None:
    claim = verify(proposed(quote(SECOND, "It is paid [1] in full.")), PACKET, "c1")
    assert isinstance(claim, Claim)
    assert claim.text == "It is paid [1] in full."


def test_a_quote_must_be_what_stands_at_its_span() -> None:
    moved = ProposedCitation(FIRST.evidence_id, FINES.quote, Span(100, 117))
    assert refusal(proposed(moved)) is Refusal.NOT_VERBATIM
    altered = ProposedCitation(FIRST.evidence_id, "Fines are 60 EUR.", FINES.span)
    assert refusal(proposed(altered)) is Refusal.NOT_VERBATIM
    empty = ProposedCitation(FIRST.evidence_id, "", Span(129, 129))
    assert refusal(proposed(empty)) is Refusal.NOT_VERBATIM


@pytest.mark.parametrize("span", [Span(0, 17), Span(129, 147), Span(99, 146), Span(9_000, 9_017)])
def test_a_span_outside_the_items_passages_is_refused(span: Span) -> None:
    assert refusal(proposed(ProposedCitation(FIRST.evidence_id, FINES.quote, span))) is Refusal.OUTSIDE_PASSAGE


@pytest.mark.parametrize("part", ["smoke indoors.", "Staff may", "not smoke indoors. Fines are 50 EUR.", "50 EUR."])
def test_half_a_sentence_can_say_the_opposite_and_is_refused(part: str) -> None:
    assert refusal(proposed(quote(FIRST, part))) is Refusal.NOT_WHOLE


def test_two_sentences_in_a_row_are_whole() -> None:
    assert isinstance(verify(proposed(quote(FIRST, FIRST.text)), PACKET, "c1"), Claim)


@pytest.mark.parametrize("text", ["Fines are 60 EUR.", "Fines are not 50 EUR.", "fines are 50 EUR.", ""])
def test_a_quoted_claims_text_is_its_quote(text: str) -> None:
    assert refusal(proposed(FINES, text=text)) is Refusal.NOT_THE_QUOTE


def test_white_space_may_differ() -> None:
    both = quote(SECOND, "Leave is 25 days.\nIt is paid [1] in full.")
    assert isinstance(verify(proposed(both, text="Leave is 25 days. It is paid [1] in full."), PACKET, "c1"), Claim)


def test_every_citation_must_say_the_same() -> None:
    assert refusal(proposed(FINES, LEAVE)) is Refusal.NOT_THE_QUOTE


def test_unknown_kinds_and_floods_of_citations_are_refused() -> None:
    assert refusal(proposed(FINES, kind="derived")) is Refusal.UNKNOWN_KIND
    assert refusal(proposed(*[FINES] * 9)) is Refusal.TOO_MANY_CITATIONS


@given(st.integers(90, 160), st.integers(0, 60), st.text(max_size=20) | st.none())
def test_i7_whatever_is_supported_is_verbatim(start: int, length: int, said: str | None) -> None:
    span = Span(start, start + length)
    local = Span(max(0, span.start - 100), max(0, span.end - 100))
    text = local.cut(FIRST.text) if said is None else said
    checked = verify(proposed(ProposedCitation(FIRST.evidence_id, text, span)), PACKET, "c1")
    if isinstance(checked, Claim):
        assert start >= 100
        assert local.cut(FIRST.text) == checked.citations[0].quote == checked.text


def test_an_item_of_a_list_of_donts_does_not_stand_alone() -> None:
    denied = item(3, "Never do this:\n\n- Mix passwords of work and home.", 3)
    checked = verify(proposed(quote(denied, "Mix passwords of work and home.")), packet([denied]), "c1")
    assert checked == Unsupported(Refusal.TURNED)


def test_an_item_of_another_list_stands() -> None:
    allowed = item(3, "Always do this:\n\n- Keep passwords apart.", 3)
    assert isinstance(verify(proposed(quote(allowed, "Keep passwords apart.")), packet([allowed]), "c1"), Claim)
