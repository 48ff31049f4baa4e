"""Markdown by markdown-it-py (CommonMark and tables): exact spans into the text as it came.

markdown-it normalises newlines before it reads, so its line numbers are the only thing taken over; offsets come from
our own table of lines. Block spans are whole lines without outer white space: a list item's span holds its bullet.

YAML front matter is one CODE node at the start: its words stay findable and citable, and it is taken neither for a
setext heading nor for prose. `title:` in it is the document's title.
"""

import re
from functools import cache
from importlib.metadata import version

from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.document import Node, NodeKind, ParsedDocument, ParseState, Span
from indexing.parsers.lines import Line, collapsed, lines_of, trimmed

VERSION = f"markdown/1 markdown-it-py/{version('markdown-it-py')}"

_KINDS = {
    "heading_open": NodeKind.HEADING,
    "paragraph_open": NodeKind.PARAGRAPH,
    "html_block": NodeKind.PARAGRAPH,
    "bullet_list_open": NodeKind.LIST,
    "ordered_list_open": NodeKind.LIST,
    "list_item_open": NodeKind.LIST_ITEM,
    "table_open": NodeKind.TABLE,
    "tr_open": NodeKind.TABLE_ROW,
    "fence": NodeKind.CODE,
    "code_block": NodeKind.CODE,
    "blockquote_open": NodeKind.QUOTE,
}
_TITLE = re.compile(r"title[ \t]*:[ \t]*(.*?)[ \t]*\Z")
_WORDS = ("text", "code_inline")
_BREAKS = ("softbreak", "hardbreak")


def parse_markdown(text: str) -> ParsedDocument:
    """The document of a decoded Markdown text; its canonical text is `text` itself."""
    lines = lines_of(text)
    front = _front_matter_lines(text, lines)
    nodes: list[Node] = []
    title = None
    if front:
        nodes.append(Node(NodeKind.CODE, Span(0, len(text[: lines[front - 1].end].rstrip()))))
        title = _front_matter_title(text, lines[1 : front - 1])
    body_start = lines[front].start if front < len(lines) else len(text)
    # Only line numbers come back, so empty lines stand in for the front matter.
    nodes += _nodes(text, lines, "\n" * front + text[body_start:], len(nodes))
    title = title or next((n.label for n in nodes if n.kind is NodeKind.HEADING and n.level == 1 and n.label), None)
    return ParsedDocument(
        state=ParseState.READY if text.strip() else ParseState.EMPTY,
        text=text,
        nodes=tuple(nodes),
        title=title,
        language=None,
        parser_version=VERSION,
    )


def _front_matter_lines(text: str, lines: list[Line]) -> int:
    """How many lines the front matter takes with both fences; 0 without one."""
    if not lines or text[: lines[0].end].rstrip(" \t") != "---":
        return 0
    for number, line in enumerate(lines[1:], start=1):
        if text[line.start : line.end].rstrip(" \t") in ("---", "..."):
            inner = text[lines[1].start : line.start]
            # A thematic break followed by prose and another one is not YAML: each must hold a key.
            return number + 1 if re.search(r"^[A-Za-z_][\w.-]*[ \t]*:", inner) else 0
    return 0


def _front_matter_title(text: str, lines: list[Line]) -> str | None:
    for line in lines:
        found = _TITLE.match(text[line.start : line.end])
        if found:
            value = found[1]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            return collapsed(value[1:-1] if quoted else value) or None
    return None


def _nodes(text: str, lines: list[Line], source: str, offset: int) -> list[Node]:
    """The tree of `source`, whose lines are those of `text`; `offset` nodes stand before it."""
    references: dict[str, object] = {}
    tokens = _blocks().parse(source, references)
    nodes: list[Node] = []
    open_nodes: list[int | None] = []  # index into the whole tree, None where a token has no node
    depth = 0
    for place, token in enumerate(tokens):
        if token.nesting == -1:
            open_nodes.pop()
            depth -= token.type.endswith("list_close")
            continue
        depth += token.type.endswith("list_open")
        span = _span(text, lines, token)
        if span is not None:
            parent = next((index for index in reversed(open_nodes) if index is not None), None)
            kind = _KINDS[token.type]
            if kind is NodeKind.HEADING:
                label = _words(tokens[place + 1].content, references)
                nodes.append(Node(kind, span, int(token.tag[1:]), parent, label))
            else:
                nodes.append(Node(kind, span, depth if kind is NodeKind.LIST else 0, parent))
        if token.nesting == 1:
            open_nodes.append(None if span is None else offset + len(nodes) - 1)
    return nodes


@cache
def _blocks() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])  # inline text is read for headings alone
    return parser


@cache
def _inline() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _span(text: str, lines: list[Line], token: Token) -> Span | None:
    """The lines of a token that becomes a node, without outer white space."""
    if token.type not in _KINDS or token.map is None:
        return None
    first, last = token.map[0], min(token.map[1], len(lines)) - 1
    return trimmed(text, lines[first].start, lines[last].end) if first <= last else None


def _words(content: str, references: dict[str, object]) -> str:
    """A heading's text as a reader sees it."""
    return collapsed("".join(_flat(_inline().parseInline(content, references))))


def _flat(tokens: list[Token]) -> list[str]:
    words: list[str] = []
    for token in tokens:
        if token.children:
            words += _flat(token.children)
        elif token.type in _WORDS:
            words.append(token.content)
        elif token.type in _BREAKS:
            words.append(" ")
    return words
