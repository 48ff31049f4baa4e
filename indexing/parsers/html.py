"""HTML by lxml: canonical text is what a reader sees, with one blank line between blocks and tabs between cells.

White space collapses as browsers do it outside `pre`. What is never shown is left out: scripts, styles, templates,
`hidden`, `display: none`. A table that holds a heading or another table is a page layout: its cells are blocks of
their own; any other is rows, one line each.
"""

import re
from importlib.metadata import version

from lxml import etree

from core.document import Node, NodeKind, ParsedDocument, ParseState, Span
from indexing.parsers.lines import NEWLINE, collapsed, trimmed

VERSION = f"html/1 lxml/{version('lxml')}"

_DROPPED = frozenset(
    (
        *("script", "style", "noscript", "template", "head", "iframe", "object", "embed", "svg", "canvas"),
        *("audio", "video", "datalist", "noframes"),
    )
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_KINDS = {
    "p": NodeKind.PARAGRAPH,
    "ul": NodeKind.LIST,
    "ol": NodeKind.LIST,
    "menu": NodeKind.LIST,
    "dl": NodeKind.LIST,
    "li": NodeKind.LIST_ITEM,
    "dt": NodeKind.LIST_ITEM,
    "dd": NodeKind.LIST_ITEM,
    "pre": NodeKind.CODE,
    "blockquote": NodeKind.QUOTE,
    **dict.fromkeys(_HEADINGS, NodeKind.HEADING),
}
# Newlines that a block's edges ask for; two make a blank line.
_BREAKS = {
    **dict.fromkeys(("p", "ul", "ol", "menu", "dl", "pre", "blockquote", "table"), 2),
    **dict.fromkeys(("section", "article", "figure", "details", "fieldset"), 2),
    **dict.fromkeys(_HEADINGS, 2),
    **dict.fromkeys(("address", "aside", "body", "center", "dialog", "div", "footer", "form", "header", "hgroup"), 1),
    **dict.fromkeys(("hr", "html", "main", "nav", "search", "summary", "legend", "figcaption", "dd", "dt", "li"), 1),
    **dict.fromkeys(("caption", "tbody", "td", "tfoot", "th", "thead", "tr", "select", "optgroup", "option"), 1),
}
_LEAVES = frozenset((NodeKind.HEADING, NodeKind.PARAGRAPH, NodeKind.CODE, NodeKind.TABLE_ROW))
_SPACE = re.compile(r"[ \t\n\f\r]+")  # what HTML collapses; a no-break space is text
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*(hidden|collapse)", re.IGNORECASE)


class _Open:
    """A node whose text has not ended: `place` is its index in the tree once it has text."""

    def __init__(self, kind: NodeKind, level: int = 0) -> None:
        self.kind = kind
        self.level = level
        self.place: int | None = None


class _Writer:
    """Collects canonical text and the nodes over it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.nodes: list[Node] = []
        self.in_row = False
        self.in_pre = False
        self._length = 0
        self._open: list[_Open] = []
        self._leaf: _Open | None = None  # the open node that text goes into without another one around it
        self._anonymous = False  # whether that one is a paragraph without an element of its own
        self._breaks = 0
        self._tabs = 0
        self._space = False
        self._held = ""  # white space in `pre` that counts only if text follows

    def text(self, raw: str) -> None:
        """Text of the document: verbatim in `pre`, else with white space collapsed."""
        if self.in_pre:
            raw = self._held + raw
            shown = raw.rstrip()
            self._held = raw[len(shown) :]
            if shown:
                self._visible(shown)
            return
        flat = _SPACE.sub(" ", raw)
        shown = flat.strip(" ")
        self._space = self._space or flat.startswith(" ")
        if shown:
            self._visible(shown)
            self._space = flat.endswith(" ")

    def block(self, newlines: int) -> None:
        """A block's edge; within a table row it is no more than a space."""
        if self.in_row:
            self._space = True
            return
        self._breaks = max(self._breaks, newlines)
        self._space = False
        if self._anonymous:
            self.close()

    def line(self) -> None:
        """A `br`."""
        if self.in_row:
            self._space = True
        elif self.parts:
            self._breaks = min(self._breaks + 1, 2)
            self._space = False

    def cell(self, first: bool) -> None:
        """The start of a table cell."""
        self._tabs += not first
        self._space = False

    def open(self, kind: NodeKind, level: int = 0) -> bool:
        """A node that starts with the next visible text; False within a heading, paragraph, row or code."""
        if self._leaf is not None:
            return False
        node = _Open(kind, level)
        self._open.append(node)
        if kind in _LEAVES:
            self._leaf = node
        return True

    def close(self) -> None:
        """The node opened last ends with the last visible text; one without text leaves no trace."""
        node = self._open.pop()
        if node is self._leaf:
            self._leaf, self._anonymous = None, False
        if node.place is not None:
            begun = self.nodes[node.place]
            self.nodes[node.place] = Node(node.kind, Span(begun.span.start, self._length), node.level, begun.parent)
        if node.kind is NodeKind.TABLE_ROW:
            self._tabs = 0
        self._held = ""

    def _visible(self, text: str) -> None:
        if self._leaf is None:
            self._anonymous = self.open(NodeKind.PARAGRAPH)
        if self.parts:
            self._write("\n" * self._breaks + "\t" * self._tabs or " " * self._space)
        self._breaks = self._tabs = 0
        self._space = False
        waiting = len(self._open)
        while waiting and self._open[waiting - 1].place is None:
            waiting -= 1
        for index in range(waiting, len(self._open)):
            node = self._open[index]
            parent = self._open[index - 1].place if index else None
            node.place = len(self.nodes)
            self.nodes.append(Node(node.kind, Span(self._length, self._length), node.level, parent))
        self._write(text)

    def _write(self, text: str) -> None:
        self.parts.append(text)
        self._length += len(text)


class _Walker:
    """Feeds a tree to a writer without recursion: hostile pages nest thousands deep."""

    def __init__(self, root: etree._Element, layouts: set[etree._Element]) -> None:
        self.writer = _Writer()
        self._root = root
        self._layouts = layouts
        self._nodes: list[bool] = []  # per open element: whether it opened a node
        self._lists = 0
        self._cells = 0
        self._data_table = False

    def run(self) -> None:
        walk = etree.iterwalk(self._root, events=("start", "end", "comment", "pi"))
        for event, element in walk:
            if event == "start":
                if _dropped(element):
                    walk.skip_subtree()
                else:
                    self._start(element)
            elif event == "end" and not _dropped(element):
                self._end(element)
            if event != "start" and element.tail and element is not self._root:
                self.writer.text(element.tail)

    def _start(self, element: etree._Element) -> None:
        tag = element.tag
        if tag in ("td", "th") and self.writer.in_row:
            self.writer.cell(first=self._cells == 0)
            self._cells += 1
        else:
            self._edge(tag)
        self._nodes.append(self._open_node(element))
        if tag == "br":
            self.writer.line()
        if tag == "pre":
            self.writer.in_pre = True
        if element.text:
            # The first newline in `pre` belongs to the tag.
            self.writer.text(element.text.removeprefix("\n") if tag == "pre" else element.text)

    def _open_node(self, element: etree._Element) -> bool:
        tag = element.tag
        if tag == "table" and element not in self._layouts:
            self._data_table = True
            return self.writer.open(NodeKind.TABLE)
        if tag == "tr" and self._data_table:
            opened = self.writer.open(NodeKind.TABLE_ROW)
            self.writer.in_row, self._cells = opened, 0
            return opened
        kind = _KINDS.get(tag)
        if kind is None:
            return False
        self._lists += kind is NodeKind.LIST
        return self.writer.open(kind, self._lists if kind is NodeKind.LIST else _HEADINGS.get(tag, 0))

    def _end(self, element: etree._Element) -> None:
        tag = element.tag
        if tag == "tr":
            self.writer.in_row = False
        if tag == "table" and element not in self._layouts:
            self._data_table = False
        if tag == "pre":
            self.writer.in_pre = False
        self._lists -= _KINDS.get(tag) is NodeKind.LIST
        if not (tag in ("td", "th") and self.writer.in_row):
            self._edge(tag)
        if self._nodes.pop():
            self.writer.close()

    def _edge(self, tag: str) -> None:
        if tag in _BREAKS:
            self.writer.block(_BREAKS[tag])


def parse_html(text: str) -> ParsedDocument:
    """The document of a decoded HTML page; canonical text is its visible text.

    A page nested deeper than libxml2 reads (2,048 elements) is CORRUPT: the rest would be lost without a word.
    """
    root, whole = _root(text)
    if not whole:
        return _document(ParseState.CORRUPT, "", (), None, ("nested_too_deep",))
    canonical, nodes = ("", ()) if root is None else _visible_text(root)
    state = ParseState.READY if canonical.strip() else ParseState.EMPTY
    return _document(state, canonical, nodes, root, ())


def _document(
    state: ParseState, canonical: str, nodes: tuple[Node, ...], root: etree._Element | None, warnings: tuple[str, ...]
) -> ParsedDocument:
    return ParsedDocument(state, canonical, nodes, _title(root, nodes), _language(root), VERSION, warnings)


def _root(text: str) -> tuple[etree._Element | None, bool]:
    """(root, whether all was read)."""
    # As the HTML standard's input stream: newlines are LF, NUL is not a character of text.
    source = NEWLINE.sub("\n", text).replace("\x00", "\ufffd")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True)
    try:
        root = etree.fromstring(source.encode(), parser)
    except etree.XMLSyntaxError:  # nothing that could be an element, such as a lone comment
        return None, True
    return root, len(parser.error_log.filter_from_fatals()) == 0


def _visible_text(root: etree._Element) -> tuple[str, tuple[Node, ...]]:
    walker = _Walker(root, _layout_tables(root))
    walker.run()
    canonical = "".join(walker.writer.parts)
    nodes = []
    for node in walker.writer.nodes:
        span = trimmed(canonical, node.span.start, node.span.end) or node.span
        label = collapsed(span.cut(canonical)) if node.kind is NodeKind.HEADING else ""
        nodes.append(Node(node.kind, span, node.level, node.parent, label))
    return canonical, tuple(nodes)


def _layout_tables(root: etree._Element) -> set[etree._Element]:
    """Tables that hold a heading or a table, or that say they are presentation."""
    layouts: set[etree._Element] = set()
    open_tables: list[etree._Element] = []
    for event, element in etree.iterwalk(root, events=("start", "end"), tag=("table", *_HEADINGS)):
        if event == "end":
            if element.tag == "table":
                open_tables.pop()
            continue
        for table in reversed(open_tables):
            if table in layouts:
                break  # and so are all around it
            layouts.add(table)
        if element.tag == "table":
            open_tables.append(element)
            if element.get("role") in ("presentation", "none"):
                layouts.add(element)
    return layouts


def _dropped(element: etree._Element) -> bool:
    if element.tag in _DROPPED:
        return True
    hidden = element.get("hidden")
    if hidden is not None and hidden != "until-found":
        return True
    if element.tag == "dialog" and element.get("open") is None:
        return True
    style = element.get("style")
    return style is not None and _INVISIBLE.search(style) is not None


def _title(root: etree._Element | None, nodes: tuple[Node, ...]) -> str | None:
    declared = None if root is None else root.findtext("head/title")
    first = next((n.label for n in nodes if n.kind is NodeKind.HEADING and n.level == 1), None)
    return collapsed(declared or "") or first or None


def _language(root: etree._Element | None) -> str | None:
    if root is None or root.tag != "html":
        return None
    return (root.get("lang") or "").strip() or None
