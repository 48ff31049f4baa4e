"""Suppression: overlap within a revision, copies, and what must stay."""

from core.document import Span
from retrieval.dedupe import deduplicate
from tests.fakes.evidence_records import ranked, revision

A, B = revision(1, title="Leave"), revision(2, title="Leave")


def test_what_overlaps_a_better_one_of_its_revision_goes() -> None:
    best, overlapping, touching = ranked(A, Span(0, 10)), ranked(A, Span(9, 20)), ranked(A, Span(10, 20))
    assert deduplicate([best, overlapping, touching]) == (best, touching)


def test_only_what_is_kept_suppresses() -> None:
    a, b, c = ranked(A, Span(0, 10)), ranked(A, Span(5, 15)), ranked(A, Span(12, 20))
    assert deduplicate([a, b, c]) == (a, c)


def test_the_same_span_of_another_revision_stays() -> None:
    a, b = ranked(A, Span(0, 10)), ranked(B, Span(0, 10))
    assert deduplicate([a, b]) == (a, b)


def test_a_repeated_paragraph_of_one_document_is_shown_once() -> None:
    a, b = ranked(A, Span(0, 10), text="same"), ranked(A, Span(50, 60), text="same")
    assert deduplicate([a, b]) == (a,)


def test_a_copy_under_the_same_title_in_the_same_source_goes() -> None:
    a, b = ranked(A, Span(0, 10), text="same"), ranked(B, Span(0, 10), text="same")
    assert deduplicate([b, a]) == (b,)


def test_independent_records_that_agree_stay() -> None:
    a = ranked(A, Span(0, 10), text="same")
    other_title = ranked(revision(3, title="Handbook"), Span(0, 10), text="same")
    other_source = ranked(revision(4, title="Leave", source="mail"), Span(0, 10), text="same")
    untitled = [ranked(revision(key, title=""), Span(0, 10), text="same") for key in (5, 6)]
    assert deduplicate([a, other_title, other_source, *untitled]) == (a, other_title, other_source, *untitled)


def test_near_equal_text_stays() -> None:
    a, b = ranked(A, Span(0, 10), text="Limit: 10 days"), ranked(B, Span(0, 10), text="Limit: 12 days")
    assert deduplicate([a, b]) == (a, b)
