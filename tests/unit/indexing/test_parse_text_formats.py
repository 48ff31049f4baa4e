"""Markdown, HTML and plain text: canonical text, nodes and states."""

import codecs

import pytest

from core.document import NodeKind, ParsedDocument, ParseState
from core.ids import RevisionId
from indexing.fragmenter import fragment
from indexing.parsers import HTML, MARKDOWN, PLAIN, ParseLimits, media_type_of, parse

LIMITS = ParseLimits()
NEWLINES = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


def read(media_type: str, data: str | bytes) -> ParsedDocument:
    return parse(media_type, "file", data.encode() if isinstance(data, str) else data, LIMITS)


def shown(document: ParsedDocument, kind: NodeKind) -> list[str]:
    return [node.span.cut(document.text) for node in document.nodes if node.kind is kind]


def headings(document: ParsedDocument) -> list[tuple[int, str]]:
    return [(node.level, node.label) for node in document.nodes if node.kind is NodeKind.HEADING]


C2 = [
    "# One",
    "",
    "\f",
    "```",
    "# no heading",
    "```",
    "para",
    "para 2",
    "",
    "## Two ##",
    "",
    "- a",
    "  - b",
    "",
    "x\u2028y\x85z",
]


@pytest.mark.parametrize("newline", NEWLINES.values(), ids=NEWLINES)
def test_c2_headings_and_offsets_are_the_same_for_every_line_ending(newline: str) -> None:
    document = read(MARKDOWN, newline.join(C2) + newline)
    assert document.text == newline.join(C2) + newline  # nothing is normalised
    assert headings(document) == [(1, "One"), (2, "Two")]
    assert shown(document, NodeKind.CODE) == [newline.join(["```", "# no heading", "```"])]
    assert newline.join(["para", "para 2"]) in shown(document, NodeKind.PARAGRAPH)
    assert "x\u2028y\x85z" in shown(document, NodeKind.PARAGRAPH)
    assert shown(document, NodeKind.LIST_ITEM) == [newline.join(["- a", "  - b"]), "- b"]


def test_c2_line_endings_may_be_mixed() -> None:
    text = "# One\r\ntext\rmore\n\r\n## Two\rTwo text\n"
    document = read(MARKDOWN, text)
    assert document.text == text
    assert headings(document) == [(1, "One"), (2, "Two")]
    assert shown(document, NodeKind.PARAGRAPH) == ["text\rmore", "Two text"]


@pytest.mark.parametrize(
    "data",
    [
        "Preis 5 €".encode("cp1252"),
        b"cut in the middle \xe2\x82",
        b"overlong \xc0\xaf",
        b"surrogate \xed\xa0\x80",
        codecs.BOM_UTF16_LE + b"odd",
        codecs.BOM_UTF16_LE + "\ud800x".encode("utf-16-le", "surrogatepass"),
        codecs.BOM_UTF32_LE + "x".encode("utf-32-le"),
    ],
)
@pytest.mark.parametrize("media_type", [MARKDOWN, PLAIN, HTML])
def test_c2_an_encoding_is_refused_and_never_guessed(media_type: str, data: bytes) -> None:
    document = read(media_type, data)
    assert (document.state, document.text) == (ParseState.BAD_ENCODING, "")


def test_one_byte_order_mark_is_dropped_and_a_second_is_text() -> None:
    assert read(PLAIN, codecs.BOM_UTF8 + "\ufeffa".encode()).text == "\ufeffa"
    assert read(PLAIN, codecs.BOM_UTF16_LE + "grün\r\n".encode("utf-16-le")).text == "grün\r\n"
    assert read(MARKDOWN, codecs.BOM_UTF16_BE + "# Ü".encode("utf-16-be")).title == "Ü"


def test_unicode_forms_are_kept() -> None:
    assert read(PLAIN, "re\u0301sume\u0301 ＡＢＣ ﬁ").text == "re\u0301sume\u0301 ＡＢＣ ﬁ"


C4 = """# Top

~~~
# tilde
~~~

````
# longer
```
# still code
````

   ```
   # indented fence
   ```

    # indented code

## C#

## Closed ##

##

#### Skipped *level* [link](http://x) `code`

Setext
two lines
---

####### seven is text
#no space is text

> ## quoted

```
# unclosed
"""


def test_c4_headings_are_those_of_commonmark() -> None:
    document = read(MARKDOWN, C4)
    assert headings(document) == [
        (1, "Top"),
        (2, "C#"),
        (2, "Closed"),
        (2, ""),
        (4, "Skipped level link code"),
        (2, "Setext two lines"),
        (2, "quoted"),
    ]
    code = shown(document, NodeKind.CODE)
    assert [block.strip("`~ \n").splitlines()[0] for block in code] == [
        "# tilde",
        "# longer",
        "# indented fence",
        "# indented code",
        "# unclosed",
    ]
    assert "# still code" in code[1]
    paths = [piece.section_path for piece in fragment(document, RevisionId("r"))]
    assert ("Top", "C#") in paths
    assert ("Top", "Skipped level link code") in paths  # below the empty heading, which has no name
    assert paths[-1] == ("Top", "Setext two lines")


def test_markdown_tables_have_rows_and_lists_nest() -> None:
    document = read(MARKDOWN, "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n1. x\n   - y\n     > z\n")
    assert shown(document, NodeKind.TABLE_ROW) == ["| a | b |", "| 1 | 2 |", "| 3 | 4 |"]
    assert [n.level for n in document.nodes if n.kind is NodeKind.LIST] == [1, 2]
    quote = next(n for n in document.nodes if n.kind is NodeKind.QUOTE)
    chain = []
    parent = quote.parent
    while parent is not None:
        chain.append(document.nodes[parent].kind)
        parent = document.nodes[parent].parent
    assert chain == [NodeKind.LIST_ITEM, NodeKind.LIST, NodeKind.LIST_ITEM, NodeKind.LIST]


@pytest.mark.parametrize("newline", NEWLINES.values(), ids=NEWLINES)
def test_front_matter_names_the_title_and_is_no_heading(newline: str) -> None:
    lines = ["---", 'title: "The title"', "tags: [a]", "---", "# Heading", "", "Text"]
    document = read(MARKDOWN, newline.join(lines))
    assert document.title == "The title"
    assert headings(document) == [(1, "Heading")]
    assert shown(document, NodeKind.CODE) == [newline.join(lines[:4])]
    assert shown(document, NodeKind.PARAGRAPH) == ["Text"]


def test_a_thematic_break_is_no_front_matter() -> None:
    document = read(MARKDOWN, "---\nprose here\n---\n# H\n")
    assert shown(document, NodeKind.CODE) == []
    assert document.title == "H"


@pytest.mark.parametrize("media_type", [MARKDOWN, PLAIN, HTML])
@pytest.mark.parametrize("data", ["", " \t\r\n\f", "\ufeff"])
def test_c7_nothing_to_read_is_empty_and_has_no_fragment(media_type: str, data: str) -> None:
    document = read(media_type, data)
    assert document.state is ParseState.EMPTY
    assert not document.serves
    assert fragment(document, RevisionId("r")) == ()


def test_limits_are_refusals() -> None:
    assert parse(PLAIN, "f", b"12345", ParseLimits(max_bytes=4)).state is ParseState.TOO_LARGE
    assert parse(PLAIN, "f", b"12345", ParseLimits(max_code_points=4)).state is ParseState.TOO_LARGE
    assert parse("application/x-thing", "f", b"12345", LIMITS).state is ParseState.UNSUPPORTED


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.md", b"# x", MARKDOWN),
        ("A.MARKDOWN", b"", MARKDOWN),
        ("dir.md/a.txt", b"x", PLAIN),
        ("c:\\d\\a.HTM", b"<p>", HTML),
        ("a.txt", codecs.BOM_UTF16_LE + "x".encode("utf-16-le"), PLAIN),
        ("a.txt", b"a\x00b", None),
        ("a.md", b"%PDF-1.7", None),
        ("a.pdf", b"%PDF-1.7", "application/pdf"),
        ("a.pdf", b"PK\x03\x04", None),
        ("a.docx", b"%PDF-1.7", None),
        ("a.exe", b"MZ", None),
        ("md", b"x", None),
        ("", b"", None),
    ],
)
def test_media_types_come_from_name_and_content(name: str, head: bytes, expected: str | None) -> None:
    assert media_type_of(name, head) == expected


HTML_PAGE = """<!DOCTYPE html><html lang="de-CH"><head><title> The
 page </title><style>p{}</style><script>var hidden_script = 1</script></head><body>
<h1>Top   <em>level</em></h1><p>a <b>b</b>
 c<br>d &amp; e&nbsp;f</p><p hidden>not shown</p><div style="DISPLAY : none">nor this</div><noscript>nor that</noscript>
<template>never</template><!-- comment -->loose <span>text</span><pre>
  code
    more
</pre><table><tr><th>h1<th>h2<tr><td><p>1</p><p>one</p><td>2<tr><td><td>4</table>
<ul><li>one<ul><li>two</ul></ul><blockquote>said</blockquote></body></html>"""


def test_html_gives_what_a_reader_sees() -> None:
    document = read(HTML, HTML_PAGE)
    assert document.text == (
        "Top level\n\na b c\nd & e\xa0f\n\nloose text\n\n  code\n    more\n\n"
        "h1\th2\n1 one\t2\n\t4\n\none\n\ntwo\n\nsaid"
    )
    assert (document.title, document.language) == ("The page", "de-CH")
    assert headings(document) == [(1, "Top level")]
    assert shown(document, NodeKind.TABLE_ROW) == ["h1\th2", "1 one\t2", "4"]
    assert shown(document, NodeKind.CODE) == ["code\n    more"]
    assert shown(document, NodeKind.LIST_ITEM) == ["one\n\ntwo", "two"]
    assert shown(document, NodeKind.QUOTE) == ["said"]


def test_html_encoding_is_declared_or_utf8() -> None:
    latin = '<meta charset="iso-8859-1"><p>5 €</p>'.encode("cp1252")
    assert read(HTML, latin).text == "5 €"  # browsers read Latin-1 as Windows-1252
    koi = '<?xml version="1.0" encoding="koi8-r"?><html><p>да</p></html>'.encode("koi8-r")
    assert read(HTML, koi).text == "да"
    assert read(HTML, "<p>ü</p>").text == "ü"
    assert read(HTML, b'<meta charset="no-such"><p>x').state is ParseState.BAD_ENCODING
    assert read(HTML, b'<meta charset="hex"><p>x').state is ParseState.BAD_ENCODING


def test_html_layout_tables_are_blocks_and_data_tables_are_rows() -> None:
    document = read(HTML, "<table><tr><td><h2>Part</h2>prose<table><tr><td>1<td>2</table></table>")
    assert document.text == "Part\n\nprose\n\n1\t2"
    assert headings(document) == [(2, "Part")]
    assert len(shown(document, NodeKind.TABLE)) == 1


def test_html_deeper_than_the_reader_goes_is_refused_instead_of_cut() -> None:
    document = read(HTML, "<p>before</p>" + "<div>" * 5000 + "lost")
    assert (document.state, document.text, document.warnings) == (ParseState.CORRUPT, "", ("nested_too_deep",))


def test_html_nul_and_malformed_nesting_lose_nothing() -> None:
    document = read(HTML, "<p>a\x00b<b>c<p>d</b>e</i><td>f")
    assert [word for word in document.text.split() if word] == ["a\ufffdbc", "de", "f"]


def test_plain_text_paragraphs_end_at_blank_lines() -> None:
    document = read(PLAIN, "one\r\ntwo\r\n \t\r\n\r\n  three\fstill\r\rfour")
    assert shown(document, NodeKind.PARAGRAPH) == ["one\r\ntwo", "three\fstill", "four"]
