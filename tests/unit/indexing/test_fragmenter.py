"""Fragments: exact, in order, apart, complete and the same each time."""

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from core.document import Fragment, Node, NodeKind, ParsedDocument, ParseState, Span
from core.ids import RevisionId
from indexing.fragmenter import HEADING_SIZE, MAX_SIZE, PARENT_SIZE, WHOLE_SIZE, fragment
from indexing.parsers import HTML, MARKDOWN, PLAIN, ParseLimits, parse

REVISION = RevisionId("0198c5a0-0000-7000-8000-000000000001")
WORDS = "Alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu. "


def cut(media_type: str, text: str) -> tuple[ParsedDocument, tuple[Fragment, ...]]:
    document = parse(media_type, "file", text.encode(), ParseLimits())
    return document, fragment(document, REVISION)


def check(document: ParsedDocument, fragments: tuple[Fragment, ...]) -> None:
    """Everything that holds for every document."""
    text = document.text
    at = 0
    for number, piece in enumerate(fragments):
        assert piece.ordinal == number
        cut_text = piece.span.cut(text)
        assert cut_text
        assert cut_text == cut_text.strip()
        assert piece.text_hash == hashlib.sha256(cut_text.encode()).hexdigest()
        assert at <= piece.span.start, "fragments overlap or run backwards"
        assert not text[at : piece.span.start].strip(), "text is lost"
        assert len(cut_text) <= WHOLE_SIZE + HEADING_SIZE + 100
        assert piece.parent.start <= piece.span.start
        assert piece.span.end <= piece.parent.end
        assert piece.parent.end - piece.parent.start <= max(PARENT_SIZE, len(cut_text))
        assert piece.header is None or piece.header.end <= piece.span.start
        at = piece.span.end
    assert not text[at:].strip() or not document.serves, "text is lost at the end"
    assert bool(fragments) == document.serves
    assert len({piece.fragment_id for piece in fragments}) == len(fragments)
    assert fragments == fragment(document, REVISION)


_newline = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\f", "\x85", "\u2028", " \n"])
_markup = st.sampled_from(
    [
        *("# H", "## C# ##", "##", "- item", "  - nested", "1. one", "> quote", "```", "~~~", "    code", "| a | b |"),
        *("|---|---|", "===", "---", "***", "title: x", "[ref]: /url", "<div>", "\t", WORDS, WORDS * 30, "x" * 2000),
        *("漢字" * 300, "e.g. this. And that! ", "fragment fragment", "<!-- c -->", "\ufeff", "\u200b", "😀"),
    ]
)
_texts = st.lists(st.one_of(_markup, _newline, st.text(max_size=12)), max_size=40).map("".join)
_encodable = _texts.filter(lambda text: not any(0xD800 <= ord(c) <= 0xDFFF for c in text))


@settings(max_examples=250, deadline=None)
@given(_encodable, st.sampled_from([MARKDOWN, PLAIN, HTML]))
def test_fragments_of_any_text_are_exact_apart_complete_and_stable(text: str, media_type: str) -> None:
    document, fragments = cut(media_type, text)
    if media_type != HTML:
        assert document.text == text.removeprefix("\ufeff")
    check(document, fragments)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_nodes_of_markdown_nest_and_start_in_order(data: st.DataObject) -> None:
    document, _ = cut(MARKDOWN, data.draw(_encodable))
    at = 0
    for index, node in enumerate(document.nodes):
        assert at <= node.span.start
        at = node.span.start
        if node.parent is not None:
            parent = document.nodes[node.parent].span
            assert node.parent < index
            assert parent.start <= node.span.start
            assert node.span.end <= parent.end


@settings(max_examples=100, deadline=None)
@given(
    st.text(alphabet="ab .\n", max_size=4000),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4000), st.sampled_from(list(NodeKind))), max_size=8),
)
def test_a_tree_that_overlaps_itself_loses_and_doubles_nothing(
    text: str, spans: list[tuple[int, int, NodeKind]]
) -> None:
    bounded = [(min(a, b, len(text)), min(max(a, b), len(text)), kind) for a, b, kind in spans]
    nodes = tuple(Node(kind, Span(start, end), 1) for start, end, kind in sorted(bounded))
    state = ParseState.READY if text.strip() else ParseState.EMPTY
    document = ParsedDocument(state, text, nodes, None, None, "test")
    check(document, fragment(document, REVISION))


def test_c1_repeated_text_keeps_its_own_place() -> None:
    text = "   fragment fragment\n\n" + "\n\n".join([WORDS * 20] * 5) + "\n\nfragment"
    document, fragments = cut(PLAIN, text)
    check(document, fragments)
    starts = [piece.span.start for piece in fragments]
    assert starts == sorted(set(starts))
    assert starts[0] == 3


def test_ids_depend_on_revision_and_span_alone() -> None:
    document, fragments = cut(PLAIN, "one")
    assert fragments[0].fragment_id == fragment(document, REVISION)[0].fragment_id
    assert fragments[0].fragment_id != fragment(document, RevisionId("other"))[0].fragment_id
    assert fragments[0].fragment_id == "3a2381e4-d9a5-54bd-a35e-ba92cd9df98b"  # moves only with FRAGMENTER_VERSION


def test_an_abstract_stays_one_fragment() -> None:
    _, fragments = cut(PLAIN, "A title\n\n" + WORDS * 22)
    assert len(fragments) == 1
    assert len(WORDS * 22) > 1400


def test_a_paragraph_stays_whole_where_several_of_that_length_do_not() -> None:
    sentence = "A sentence of forty letters is put here. "
    whole = (sentence * (WHOLE_SIZE // len(sentence))).strip()
    assert len(cut(PLAIN, whole)[1]) == 1
    document, halves = cut(PLAIN, whole + " " + sentence * 2)
    assert [piece.span.end - piece.span.start <= MAX_SIZE for piece in halves] == [True, True]
    check(document, halves)
    document, parts = cut(MARKDOWN, "# H\n\n" + "\n\n".join([sentence * 18] * 3))
    assert len(parts) == 2
    check(document, parts)
    items = "\n".join(f"- {sentence * 4}" for _ in range(14))
    assert MAX_SIZE < len(items) < WHOLE_SIZE
    assert len(cut(MARKDOWN, items)[1]) == 2


def test_a_section_is_cut_in_pieces_of_about_equal_size() -> None:
    document, fragments = cut(MARKDOWN, "# H\n\n" + "\n\n".join([WORDS * 5] * 6))
    check(document, fragments)
    sizes = [piece.span.end - piece.span.start for piece in fragments]
    assert len(sizes) == 2
    assert max(sizes) < 1.2 * min(sizes)


def test_a_heading_of_any_length_costs_each_fragment_below_it_little() -> None:
    document, fragments = cut(MARKDOWN, "# " + "head " * 20_000 + "\n\n" + "\n\n".join([WORDS * 20] * 50))
    check(document, fragments)
    assert len(fragments) > 50
    assert all(len(title) <= HEADING_SIZE for piece in fragments for title in piece.section_path)


def test_sections_do_not_mix_and_a_heading_alone_is_found() -> None:
    text = "intro\n\n# A\n\n## B\n\nb text\n\n# C\n\nc text"
    document, fragments = cut(MARKDOWN, text)
    assert [(piece.section_path, piece.span.cut(text)) for piece in fragments] == [
        ((), "intro"),
        (("A",), "# A"),
        (("A", "B"), "## B\n\nb text"),
        (("C",), "# C\n\nc text"),
    ]
    assert fragments[1].kind is NodeKind.HEADING
    assert fragments[1].parent.cut(text) == "# A\n\n## B\n\nb text"
    check(document, fragments)


def test_long_prose_is_cut_at_sentence_ends_and_not_after_abbreviations() -> None:
    sentence = "Dr. Smith et al. showed in Fig. 3 that e.g. Mice and J. Doe agree on 3.5 mg of it in most cases. "
    document, fragments = cut(PLAIN, sentence * 40)
    check(document, fragments)
    assert len(fragments) > 1
    assert all(piece.span.cut(document.text).startswith("Dr. Smith") for piece in fragments)
    assert all(piece.span.cut(document.text).endswith("most cases.") for piece in fragments)


def test_wide_scripts_are_cut_by_their_tokens() -> None:
    document, fragments = cut(PLAIN, "漢字かな交じり文。" * 200)
    check(document, fragments)
    assert max(piece.span.end - piece.span.start for piece in fragments) <= MAX_SIZE / 4
    assert all(piece.span.cut(document.text).endswith("。") for piece in fragments)


def test_c4_code_that_fits_is_kept_whole() -> None:
    code = "```\n" + "\n\n".join(f"line {n}" for n in range(120)) + "\n```"
    assert len(code) < MAX_SIZE
    document, fragments = cut(MARKDOWN, f"# H\n\n{WORDS * 15}\n\n{code}\n\n{WORDS * 15}")
    check(document, fragments)
    assert sum(code in piece.span.cut(document.text) for piece in fragments) == 1


def test_long_code_is_cut_between_lines() -> None:
    lines = [f"value_{n} = compute(value_{n - 1})  # step" for n in range(200)]
    document, fragments = cut(MARKDOWN, "```python\n" + "\n".join(lines) + "\n```\n")
    check(document, fragments)
    seen = [line for piece in fragments for line in piece.span.cut(document.text).splitlines()]
    assert seen == ["```python", *lines, "```"]
    assert {piece.kind for piece in fragments} == {NodeKind.CODE}


def test_a_long_table_is_cut_between_rows_and_each_part_knows_its_header() -> None:
    rows = [f"| name {n} | {'value ' * 10}{n} |" for n in range(100)]
    document, fragments = cut(MARKDOWN, "# T\n\n| Name | Value |\n|---|---|\n" + "\n".join(rows) + "\n")
    check(document, fragments)
    assert len(fragments) > 3
    assert fragments[0].header is None
    for piece in fragments[1:]:
        assert piece.header is not None
        assert piece.header.cut(document.text) == "| Name | Value |"
        assert piece.span.cut(document.text).startswith("| name")


def test_a_long_list_is_cut_between_items_and_each_part_knows_its_introduction() -> None:
    items = [f"- item {n} {'word ' * 20}" for n in range(60)]
    document, fragments = cut(MARKDOWN, "You must bring:\n\n" + "\n".join(items))
    check(document, fragments)
    assert fragments[0].header is None
    assert fragments[0].span.cut(document.text).startswith("You must bring:")
    for piece in fragments[1:]:
        assert piece.header is not None
        assert piece.header.cut(document.text) == "You must bring:"
        assert piece.span.cut(document.text).startswith("- item")


def test_siblings_share_a_parent_where_the_section_is_too_long() -> None:
    document, fragments = cut(MARKDOWN, "# H\n\n" + "\n\n".join([WORDS * 20] * 30))
    check(document, fragments)
    parents = [piece.parent for piece in fragments]
    assert 1 < len(set(parents)) < len(parents)


def test_nesting_without_end_is_no_recursion() -> None:
    deep = "".join("  " * depth + f"- {WORDS}\n" for depth in range(300))
    check(*cut(MARKDOWN, deep))
    check(*cut(MARKDOWN, "> " * 3000 + "x"))
    check(*cut(HTML, "<ul><li>" * 900 + WORDS * 40))


def test_a4_pages_are_ranges_from_one_and_absent_without_pages() -> None:
    pages = ("first page", "second page", WORDS * 40)
    text = "\n\n".join(pages)
    starts = [text.index(page) for page in pages]
    nodes = []
    for number, (start, page) in enumerate(zip(starts, pages, strict=True), start=1):
        end = start + len(page.rstrip())
        nodes += [Node(NodeKind.PAGE, Span(start, end), number), Node(NodeKind.PARAGRAPH, Span(start, end))]
    document = ParsedDocument(ParseState.READY, text, tuple(nodes), None, None, "test")
    fragments = fragment(document, REVISION)
    check(document, fragments)
    assert fragments[0].pages is not None
    assert fragments[0].pages[0] == 1
    assert fragments[-1].pages == (3, 3)
    assert cut(PLAIN, "no pages")[1][0].pages is None
