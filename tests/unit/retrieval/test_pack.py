"""Packing: exact ledger, bounds, fallbacks, verbatim passages (I6), ranks over what is returned (I8)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.document import NodeKind, Span
from core.errors import InvalidValue
from corpus.errors import RecordDamaged
from corpus.record import RevisionRecord
from retrieval.dedupe import deduplicate
from retrieval.evidence_ids import decode
from retrieval.expand import expand
from retrieval.pack import Packed, pack, without
from retrieval.tokens import TOKENIZERS, Tokenizer, tokenizer
from retrieval.types import Channel, Hit, PassageRole, Ranked
from tests.fakes.evidence_records import ranked, revision

COUNTER = tokenizer()
TEXT = " ".join(f"word{n:03}" for n in range(200)) + " "  # a word each 8 code points
R = revision(1, text=TEXT)


def text_of(_: RevisionRecord) -> str:
    return TEXT


def packed(items: list[Ranked], max_tokens: int = 10_000, max_evidence: int = 10, widest_tokens: int = 0) -> Packed:
    return pack(
        expand(items),
        text_of,
        COUNTER,
        max_tokens=max_tokens,
        max_evidence=max_evidence,
        widest_tokens=widest_tokens,
    )


def words(first: int, last: int, **more: Any) -> Ranked:
    return ranked(R, Span(8 * first, 8 * last - 1), **more)


def cost(*spans: Span) -> int:
    return sum(COUNTER.count(span.cut(TEXT)) for span in spans)


def test_items_keep_their_order_and_are_numbered_from_one() -> None:
    result = packed([words(50, 60), words(0, 10)])
    assert [(i.rank, i.passages[0].span.start) for i in result.items] == [(1, 400), (2, 0)]


def test_the_number_of_items_is_bounded() -> None:
    result = packed([words(n, n + 5, ordinal=n) for n in range(0, 50, 10)], max_evidence=3)
    assert len(result.items) == 3


def test_what_is_too_large_is_skipped_for_what_fits() -> None:
    large, small = words(0, 100), words(150, 155)
    result = packed([large, small], max_tokens=cost(small.record.fragment.span))
    assert [i.record for i in result.items] == [small.record]
    assert result.tokens.used == result.tokens.limit


def test_a_merged_item_that_is_too_large_falls_back_to_its_best_fragment() -> None:
    section = Span(0, 800)
    best, other = words(0, 10, ordinal=0, parent=section), words(10, 60, ordinal=1, parent=section)
    result = packed([best, other], max_tokens=cost(best.record.fragment.span) + 5)
    assert [p.span for i in result.items for p in i.passages] == [best.record.fragment.span]


def test_a_header_that_does_not_fit_is_left_out_last() -> None:
    row = words(20, 25, kind=NodeKind.TABLE_ROW, header=Span(0, 79))
    assert len(packed([row]).items[0].passages) == 2
    tight = packed([row], max_tokens=cost(row.record.fragment.span))
    assert [p.role for p in tight.items[0].passages] == [PassageRole.BODY]


def test_context_never_displaces_another_item() -> None:
    section = Span(0, 800)
    a = words(0, 10, parent=section)
    b = ranked(revision(2), Span(0, 79), parent=section)
    limit = cost(a.record.fragment.span, b.record.fragment.span)
    assert len(packed([a, b], max_tokens=limit, widest_tokens=10_000).items) == 2
    roomy = packed([a, b], max_tokens=limit + cost(section), widest_tokens=10_000)
    assert [i.passages[0].span for i in roomy.items] == [section, b.record.fragment.span]


def test_a_body_never_widens_over_another_items_body() -> None:
    section = Span(0, 800)
    a, b = words(0, 10, ordinal=0, parent=section), words(50, 60, ordinal=5, parent=section)
    result = packed([a, b], widest_tokens=10_000)
    assert [i.passages[0].span for i in result.items] == [a.record.fragment.span, b.record.fragment.span]


def test_a_section_beyond_the_widest_does_not_widen() -> None:
    section = Span(0, 800)
    a = words(0, 10, parent=section)
    assert packed([a], widest_tokens=cost(section) - 1).items[0].passages[0].span == a.record.fragment.span
    assert packed([a], widest_tokens=cost(section)).items[0].passages[0].span == section


def test_i8_channel_ranks_count_only_what_is_returned() -> None:
    hits = [
        {Channel.LEXICAL: Hit(40, 1.0)},
        {Channel.LEXICAL: Hit(7, 2.0), Channel.DENSE: Hit(90, 0.2)},
        {Channel.DENSE: Hit(3, 0.9)},
    ]
    result = packed([words(20 * n, 20 * n + 5, ordinal=9 * n, channels=h) for n, h in enumerate(hits)])
    assert [dict(i.channels) for i in result.items] == [
        {Channel.LEXICAL: 2},
        {Channel.LEXICAL: 1, Channel.DENSE: 2},
        {Channel.DENSE: 1},
    ]


def test_i8_ranks_close_up_behind_what_the_gate_withholds() -> None:
    result = packed(
        [words(20 * n, 20 * n + 5, ordinal=9 * n, channels={Channel.LEXICAL: Hit(n + 1, 1.0)}) for n in range(4)]
    )
    lost = frozenset({result.items[0].evidence_id, result.items[2].evidence_id})
    rest = without(result, lost)
    assert [(i.rank, i.channels[Channel.LEXICAL]) for i in rest.items] == [(1, 1), (2, 2)]
    assert rest.tokens.used == sum(i.tokens for i in rest.items)


def test_a_span_outside_the_text_is_refused() -> None:
    with pytest.raises(RecordDamaged, match="canonical text"):
        packed([ranked(R, Span(0, len(TEXT) + 1))])


def test_nothing_gives_an_empty_ledger() -> None:
    result = packed([])
    assert (result.items, result.tokens.used, result.tokens.tokenizer) == ((), 0, "o200k_base")


FRAGMENTS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 39), st.integers(1, 5), st.booleans(), st.booleans()), max_size=15
)


@given(FRAGMENTS, st.integers(0, 400), st.integers(1, 8), st.integers(0, 200))
def test_i6_passages_are_verbatim_the_ledger_exact_and_no_body_is_shown_twice(
    fragments: list[tuple[int, int, int, bool, bool]], tokens: int, most: int, widest: int
) -> None:
    texts = {1: TEXT, 2: "Füße 😀 " + TEXT[::-1]}
    revisions = {key: revision(key, text=text) for key, text in texts.items()}
    items = [
        ranked(
            revisions[key],
            Span(40 * at, 40 * at + 8 * length),
            ordinal=at,
            parent=Span(40 * (at // 8 * 8), 40 * (at // 8 * 8) + 320) if in_section else None,
            kind=NodeKind.TABLE,
            header=Span(0, 8) if headed else None,
        )
        for key, at, length, in_section, headed in fragments
    ]
    drafts = expand(deduplicate(items))
    result = pack(
        drafts,
        lambda r: texts[r.revision_key],
        COUNTER,
        max_tokens=tokens,
        max_evidence=most,
        widest_tokens=widest,
    )
    assert len(result.items) <= most
    assert result.tokens.used <= result.tokens.limit == tokens
    assert result.tokens.used == sum(COUNTER.count(p.text) for i in result.items for p in i.passages)
    bodies = []
    for item in result.items:
        key = item.record.revision.revision_key
        assert all(p.text == p.span.cut(texts[key]) for p in item.passages)
        named = decode(item.evidence_id)
        assert named.revision_id == item.record.revision.revision_id
        assert named.passages == tuple((p.span, p.role) for p in item.passages)
        bodies += [(key, p.span) for p in item.passages if p.role is PassageRole.BODY]
    assert not any(a[0] == b[0] and a[1].overlaps(b[1]) for n, a in enumerate(bodies) for b in bodies[n + 1 :])
    if drafts and not result.items:
        assert all(
            COUNTER.count(d.bare[0].span.cut(texts[d.best.record.revision.revision_key])) > tokens for d in drafts
        )


@pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", TOKENIZERS)
def test_counts_are_those_of_the_packages_public_encoding(name: str) -> None:
    import bpe_openai

    public, ours = bpe_openai.get_encoding(name), Tokenizer(name)
    for text in ("", "Hello, world", "<|endoftext|>", "naïve 😀 中文\r\n\tx", "a" * 5_000, " " * 300, "\x00"):
        expected = len(public.encode_ordinary(text))
        assert ours.count(text) == expected
        assert ours.count_till(text, expected) == expected
        assert ours.count_till(text, expected - 1) is None


def test_an_unknown_tokenizer_is_refused() -> None:
    with pytest.raises(InvalidValue, match="tokenizer"):
        Tokenizer("gpt2")
