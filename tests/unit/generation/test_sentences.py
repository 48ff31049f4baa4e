"""Sentences: exact spans, blocks, abbreviations, linear time."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.sentences import denies, is_heading, lead_in, sentences


def cut(text: str) -> list[str]:
    return [span.cut(text) for span in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Pi is 3.14 today. Yes.", ["Pi is 3.14 today.", "Yes."]),
        ("Ask Dr. Smith. J. R. Doe agrees.", ["Ask Dr. Smith.", "J. R. Doe agrees."]),
        ("Use tools, e.g. Git. Or i.e. that.", ["Use tools, e.g. Git.", "Or i.e. that."]),
        ("See No. 5 and Fig. 2. He said no. Then left.", ["See No. 5 and Fig. 2.", "He said no.", "Then left."]),
        ("It ended in 2020. The next began.", ["It ended in 2020.", "The next began."]),
        ('He said "Stop." Then (really?) he ran.', ['He said "Stop."', "Then (really?) he ran."]),
        ("Wrapped\nline stays. Next\r\none.", ["Wrapped\nline stays.", "Next\r\none."]),
        ("No end\n\nNew block", ["No end", "New block"]),
        ("# Head\nText.\n- item\n- item two. more\n1. first", ["# Head", "Text.", "item", "item two. more", "first"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["| a | b |", "|---|---|", "| 1 | 2 |"]),
        ("今日は晴れ。明日は雨！終わり", ["今日は晴れ。", "明日は雨！", "終わり"]),
        ("Really?! Yes... maybe. So… Done", ["Really?!", "Yes... maybe.", "So…", "Done"]),
        ("", []),
        (" \r\n\t", []),
    ],
)  # fmt: skip
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_headings_are_known_as_such() -> None:
    assert is_heading("## Leave")
    assert not is_heading("#hashtag")


@given(st.text(st.sampled_from("ab A.!?…。\"')\n\r\t-#|1>`’"), max_size=120) | st.text(max_size=120))
def test_spans_are_ordered_trimmed_and_leave_out_only_space_and_list_marks(text: str) -> None:
    spans = sentences(text)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert all(span.cut(text) == span.cut(text).strip() != "" for span in spans)
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    between = "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
    assert all(c.isspace() or c in "-*+•.)" or c.isdigit() for c in between)


@pytest.mark.parametrize("unit", [".", "a.", '."', "\n", "- ", "1", " ", "#", "。」", "A. "])
def test_time_grows_with_length_only(unit: str) -> None:
    began = time.perf_counter()
    sentences(unit * 50_000)
    assert time.perf_counter() - began < 3  # quadratic would take minutes


@pytest.mark.parametrize(
    ("text", "item", "lead"),
    [
        ("Never do this:\n\n- mix passwords\n- share them", "share them", "Never do this:\n"),
        ("## Don't\n\n* mix passwords", "mix passwords", "## Don't\n"),
        ("Rules\n- Avoid:\n  - mixing passwords\n- Use a safe", "mixing passwords", "- Avoid:\n"),
        ("Rules\n- Avoid:\n  - mixing passwords\n- Use a safe", "Use a safe", "Rules\n"),
        ("Do:\n1. first\n   and on\n2. second", "and on", "Do:\n"),
        ("- mix passwords", "mix passwords", ""),
        ("Never mix passwords. Use a safe.", "Use a safe", None),
        ("- an item\n\nA paragraph after it.", "A paragraph", None),
    ],
)
def test_what_leads_to_a_list_is_found_from_its_items(text: str, item: str, lead: str | None) -> None:
    assert lead_in(text, text.index(item)) == lead


@pytest.mark.parametrize(
    "text", ["Never do this:", "## Don't", "## DONTS", "You may not:", "Avoid:", "It isn’t fine to"]
)
def test_denials_are_known(text: str) -> None:
    assert denies(text)


@pytest.mark.parametrize("text", ["Always do this:", "## Notes", "The donut rule:", "Knots"])
def test_other_words_are_no_denials(text: str) -> None:
    assert not denies(text)
