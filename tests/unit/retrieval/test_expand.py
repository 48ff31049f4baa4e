"""Expansion: merging neighbours, headers, sections, pages (A4)."""

from typing import Any

import pytest

from core.document import NodeKind, Span
from corpus.record import RevisionRecord
from retrieval.expand import ExpansionLimits, expand
from retrieval.types import Channel, EvidenceKind, Hit, PassageRole, PassageSpan, Ranked
from tests.fakes.evidence_records import ranked, revision

R = revision(1)
SECTION = Span(0, 100)


def part(ordinal: int, start: int, end: int, **more: Any) -> Ranked:
    return ranked(R, Span(start, end), ordinal=ordinal, parent=SECTION, **more)


def body(start: int, end: int, pages: tuple[int, int] | None = None) -> PassageSpan:
    return PassageSpan(Span(start, end), PassageRole.BODY, pages)


def test_a_fragment_widens_to_its_section() -> None:
    (draft,) = expand([part(1, 20, 40)])
    assert draft.lead == draft.merged == draft.bare == (body(20, 40),)
    assert draft.widened == (body(0, 100),)


def test_a_section_that_is_too_long_or_is_the_fragment_itself_does_not_widen() -> None:
    (long,) = expand([part(1, 20, 40)], ExpansionLimits(parent=99))
    (whole,) = expand([part(1, 0, 100)])
    assert long.widened is None
    assert whole.widened is None


def test_a_parent_that_does_not_hold_the_fragment_is_not_believed() -> None:
    (draft,) = expand([ranked(R, Span(20, 40), parent=Span(30, 90))])
    assert draft.widened is None


def test_neighbours_of_one_section_become_one_item_at_the_better_rank() -> None:
    best, other, third = part(2, 40, 60), ranked(revision(2), Span(0, 9)), part(1, 20, 39)
    drafts = expand([best, other, third])
    assert [d.best for d in drafts] == [best, other]
    assert drafts[0].members == (best, third)
    assert drafts[0].merged == (body(20, 60),)
    assert drafts[0].lead == (body(40, 60),)


def test_a_bridge_joins_two_items() -> None:
    one, three, two = part(1, 0, 10), part(3, 20, 30), part(2, 10, 20)
    (draft,) = expand([three, one, two])
    assert draft.best == three
    assert draft.merged == (body(0, 30),)


def test_other_sections_revisions_and_distant_fragments_do_not_merge() -> None:
    a = part(1, 0, 10)
    elsewhere = ranked(R, Span(10, 20), ordinal=2, parent=Span(10, 20))
    other = ranked(revision(2), Span(10, 20), ordinal=2, parent=SECTION)
    distant = part(3, 30, 40)
    assert len(expand([a, elsewhere, other, distant])) == 4


def test_merging_stops_at_the_limit() -> None:
    assert len(expand([part(1, 0, 10), part(2, 10, 20)], ExpansionLimits(merged=19))) == 2


@pytest.mark.parametrize(
    ("kind", "role", "evidence"),
    [
        (NodeKind.TABLE, PassageRole.TABLE_HEADER, EvidenceKind.TABLE),
        (NodeKind.TABLE_ROW, PassageRole.TABLE_HEADER, EvidenceKind.TABLE),
        (NodeKind.LIST, PassageRole.LIST_INTRO, EvidenceKind.LIST),
        (NodeKind.LIST_ITEM, PassageRole.LIST_INTRO, EvidenceKind.LIST),
    ],
)
def test_a_header_goes_before_the_body_that_lacks_it(kind: NodeKind, role: PassageRole, evidence: EvidenceKind) -> None:
    (draft,) = expand([part(1, 20, 40, kind=kind, header=Span(5, 10))])
    assert draft.lead == (PassageSpan(Span(5, 10), role), body(20, 40))
    assert draft.bare == (body(20, 40),)
    assert draft.widened == (body(0, 100),)
    assert draft.kind is evidence


def test_no_text_is_shown_twice_where_header_and_body_overlap() -> None:
    (draft,) = expand([part(1, 20, 40, kind=NodeKind.TABLE, header=Span(15, 25))])
    assert [p.span for p in draft.lead] == [Span(15, 20), Span(20, 40)]


def test_members_with_one_header_show_it_once() -> None:
    drafts = expand([part(n, 10 * n, 10 * n + 10, kind=NodeKind.TABLE, header=Span(2, 8)) for n in (2, 3)])
    assert [p.span for d in drafts for p in d.merged] == [Span(2, 8), Span(20, 40)]


def test_a_header_that_is_too_long_is_left_out() -> None:
    (draft,) = expand([part(1, 50, 60, header=Span(0, 50))], ExpansionLimits(header=49))
    assert draft.lead == (body(50, 60),)


def test_a4_pages_are_a_range_over_the_members_and_absent_stays_absent() -> None:
    (paged,) = expand([part(1, 0, 10, pages=(1, 1)), part(2, 10, 20, pages=(1, 2))])
    (plain,) = expand([part(1, 0, 10)])
    assert paged.merged == (body(0, 20, (1, 2)),)
    assert paged.lead == (body(0, 10, (1, 1)),)
    assert plain.merged == (body(0, 10, None),)


def test_a4_a_paged_fragment_widens_only_when_the_sections_pages_are_known() -> None:
    (unknown,) = expand([part(1, 20, 40, pages=(2, 2), header=Span(1, 5))])
    assert unknown.widened is None
    assert unknown.lead[0].pages is None

    def pages_of(_: RevisionRecord, span: Span) -> tuple[int, int]:
        return (1, 3) if span == SECTION else (1, 1)

    (known,) = expand([part(1, 20, 40, pages=(2, 2), header=Span(1, 5))], pages_of=pages_of)
    assert known.widened == (body(0, 100, (1, 3)),)
    assert known.lead[0].pages == (1, 1)


def test_each_channels_best_hit_of_any_member_counts() -> None:
    a = part(1, 0, 10, channels={Channel.LEXICAL: Hit(4, 1.0)})
    b = part(2, 10, 20, channels={Channel.LEXICAL: Hit(2, 2.0), Channel.DENSE: Hit(9, 0.1)})
    (draft,) = expand([a, b])
    assert dict(draft.channels) == {Channel.LEXICAL: Hit(2, 2.0), Channel.DENSE: Hit(9, 0.1)}
