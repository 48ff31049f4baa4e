"""Evidence ids: one spelling, nothing else accepted."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.document import Span
from core.errors import InvalidValue
from core.ids import RevisionId
from retrieval.evidence_ids import MAX_LENGTH, MAX_OFFSET, MAX_PASSAGES, PREFIX, EvidenceRef, decode, encode
from retrieval.types import PassageRole, PassageSpan

REVISIONS = st.uuids().map(lambda u: RevisionId(str(u)))
SPANS = st.tuples(st.integers(0, MAX_OFFSET), st.integers(0, MAX_OFFSET)).filter(lambda p: p[0] != p[1])
PASSAGES = st.lists(
    st.builds(PassageSpan, SPANS.map(lambda p: Span(min(p), max(p))), st.sampled_from(PassageRole)),
    min_size=1,
    max_size=MAX_PASSAGES,
)
REVISION = RevisionId("01890000-0000-7000-8000-000000000001")


def tried(text: str) -> EvidenceRef | str:
    """What the id names, or the field that the refusal names."""
    try:
        return decode(text)
    except InvalidValue as refused:
        return refused.field


ID = encode(REVISION, [PassageSpan(Span(3, 300), PassageRole.BODY)])


@given(REVISIONS, PASSAGES)
def test_decoding_gives_back_what_was_encoded(revision_id: RevisionId, passages: list[PassageSpan]) -> None:
    text = encode(revision_id, passages)
    assert len(text) <= MAX_LENGTH
    assert text.isascii()
    assert decode(text) == EvidenceRef(revision_id, tuple((p.span, p.role) for p in passages))


@given(st.binary(max_size=60).map(lambda raw: PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=")))
def test_whatever_decodes_is_its_own_one_spelling(text: str) -> None:
    ref = tried(text)
    if isinstance(ref, str):
        assert ref == "evidence_id"
    else:
        assert encode(ref.revision_id, [PassageSpan(span, role) for span, role in ref.passages]) == text


@given(st.text(max_size=80) | st.text("ev1AB_-=", max_size=80))
def test_arbitrary_text_is_refused_with_a_typed_error(text: str) -> None:
    assert tried(text) == "evidence_id"


@given(st.integers(0, len(ID) - 1), st.characters())
def test_a_changed_character_never_gives_the_same_evidence(at: int, char: str) -> None:
    changed = ID[:at] + char + ID[at + 1 :]
    if changed == ID:
        return
    found = tried(changed)
    assert found == "evidence_id" or found != decode(ID)


@pytest.mark.parametrize(
    "text",
    [
        "", "ev1", "ev2" + ID[3:], ID.upper(), ID + "=", ID + "\n", " " + ID, ID[:-1], ID + "AAAA", ID + "A" * 10_000,
        "[999]", "[0]", "[-1]", "[1a]", "[1,2]", "[1-3]", "[１]", "【1】", "ev1" + "\ud800",
    ],
)  # fmt: skip
def test_a1_nothing_but_an_evidence_id_is_one(text: str) -> None:
    with pytest.raises(InvalidValue, match="evidence_id"):
        decode(text)


def test_longer_spellings_of_a_number_and_empty_spans_are_refused() -> None:
    import base64

    def spelt(tail: bytes) -> str:
        return PREFIX + base64.urlsafe_b64encode(uuid.UUID(REVISION).bytes + tail).decode().rstrip("=")

    assert decode(spelt(b"\x01\x03\x05")).passages == ((Span(3, 8), PassageRole.BODY),)
    for tail in (b"\x01\x83\x00\x05", b"\x01\x03\x00", b"\x01\x03", b"\x09\x03\x05", b"\x01" + b"\xff" * 20):
        with pytest.raises(InvalidValue):
            decode(spelt(tail))


def test_what_no_packet_can_hold_is_not_encoded() -> None:
    body = PassageSpan(Span(0, 1), PassageRole.BODY)
    for revision_id, passages in [
        (REVISION, []),
        (REVISION, [body] * (MAX_PASSAGES + 1)),
        (REVISION, [PassageSpan(Span(1, 1), PassageRole.BODY)]),
        (REVISION, [PassageSpan(Span(0, MAX_OFFSET + 1), PassageRole.BODY)]),
        (RevisionId(REVISION.replace("-", "")), [body]),
        (RevisionId("no uuid"), [body]),
    ]:
        with pytest.raises(ValueError, match=r".+"):
            encode(revision_id, passages)
