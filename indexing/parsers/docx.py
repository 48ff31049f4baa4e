"""DOCX by kreuzberg: its document tree written out as text, so that every node's span is exact.

Before kreuzberg reads it, the main part is mended where 4.10.4 would alter the words (tried): `w:tab` glues its
neighbours and `w:noBreakHyphen` vanishes, and text that tracked changes moved away is read a second time. Footnotes
stand at the end. What is left out, such as running heads and text boxes without the older form that kreuzberg reads,
is named in a warning. Runs only in a worker process.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from lxml import etree

from core.document import Node, NodeKind, ParsedDocument, ParseState, Span
from core.media_types import DOCX, OLE_MAGIC
from indexing.parsers.lines import NEWLINE, collapsed, trimmed
from indexing.parsers.outcome import quality_warnings, refused

VERSION = f"docx/1 kreuzberg/{version('kreuzberg')}"


_MAIN_PART = "word/document.xml"
_MAX_UNPACKED = 512 * 1024 * 1024  # bytes; a zip bomb ends here, before anything is unpacked
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_LOOKED_INTO = re.compile(rb"<w:(tab|noBreakHyphen|moveFrom|txbxContent)\b")
_KINDS = {
    "title": NodeKind.HEADING,
    "heading": NodeKind.HEADING,
    "paragraph": NodeKind.PARAGRAPH,
    "formula": NodeKind.PARAGRAPH,
    "footnote": NodeKind.PARAGRAPH,
    "list_item": NodeKind.LIST_ITEM,
    "code": NodeKind.CODE,
}
_CONTAINERS = {"list": NodeKind.LIST, "quote": NodeKind.QUOTE}
_STRUCTURE = ("group", "page_break")  # say nothing that the other nodes don't


def parse_docx(data: bytes) -> ParsedDocument:
    """The document of a DOCX file. Without a word it is NO_TEXT if it holds pictures, else EMPTY."""
    if data.startswith(OLE_MAGIC):
        encrypted = "EncryptedPackage".encode("utf-16-le") in data
        return refused(ParseState.ENCRYPTED if encrypted else ParseState.CORRUPT, VERSION)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_UNPACKED:
                return refused(ParseState.TOO_LARGE, VERSION)
            pictures = any(name.startswith("word/media/") for name in archive.namelist())
            data, left_out = _mended(archive, data)
    except (zipfile.BadZipFile, KeyError, etree.XMLSyntaxError, NotImplementedError, RuntimeError, OSError, EOFError):
        return refused(ParseState.CORRUPT, VERSION)
    import kreuzberg  # 130 MB of native code that only workers load

    configuration = kreuzberg.ExtractionConfig(
        use_cache=False, enable_quality_processing=False, output_format="plain", include_document_structure=True
    )
    try:
        result = kreuzberg.extract_bytes_sync(data, DOCX, configuration)
    except kreuzberg.KreuzbergError:
        return refused(ParseState.CORRUPT, VERSION)
    writer = _Writer(left_out)
    writer.write(result.document["nodes"] if result.document else [])
    if not writer.nodes:
        return refused(ParseState.NO_TEXT if pictures else ParseState.EMPTY, VERSION, *writer.warnings())
    return _document(writer, result.metadata)


def _document(writer: "_Writer", metadata: Mapping[str, Any]) -> ParsedDocument:
    properties = metadata.get("core_properties") or {}
    first = next((n.label for n in writer.nodes if n.kind is NodeKind.HEADING and n.level == 1), None)
    return ParsedDocument(
        state=ParseState.READY,
        text=writer.text,
        nodes=tuple(writer.nodes),
        title=collapsed(properties.get("title") or "") or first,
        language=properties.get("language") or None,
        parser_version=VERSION,
        warnings=writer.warnings() + quality_warnings(writer.text),
    )


def _mended(archive: zipfile.ZipFile, data: bytes) -> tuple[bytes, set[str]]:
    """(the file as kreuzberg reads it right, what it will leave out all the same)."""
    main = archive.read(_MAIN_PART)
    if not _LOOKED_INTO.search(main):
        return data, set()
    root = etree.fromstring(main, etree.XMLParser(resolve_entities=False, no_network=True))
    left_out = {"text_boxes" for box in root.iter(f"{_W}txbxContent") if not _has_older_form(box)}
    for run in root.iter(f"{_W}r"):
        for mark, text in (("tab", "\t"), ("noBreakHyphen", "-")):
            for element in run.findall(f"{_W}{mark}"):
                element.tag = f"{_W}t"
                element.attrib.clear()
                element.text = text
    for away in list(root.iter(f"{_W}moveFrom")):
        parent = away.getparent()
        if parent is not None:
            parent.remove(away)
    mended = io.BytesIO()
    with zipfile.ZipFile(mended, "w", zipfile.ZIP_STORED) as copy:
        for entry in archive.infolist():
            part = etree.tostring(root) if entry.filename == _MAIN_PART else archive.read(entry)
            copy.writestr(entry.filename, part)
    return mended.getvalue(), left_out


def _has_older_form(box: etree._Element) -> bool:
    """Whether a text box is VML, or has a VML twin: drawings alone are passed over by kreuzberg."""
    for around in box.iterancestors():
        if around.tag == f"{_W}pict":
            return True
        if around.tag == f"{_MC}AlternateContent":
            return around.find(f"{_MC}Fallback//{_W}txbxContent") is not None
    return False


class _Writer:
    """Writes kreuzberg's nodes as text: a blank line between blocks, one line each for rows and list items."""

    def __init__(self, left_out: set[str]) -> None:
        self.text = ""
        self.nodes: list[Node] = []
        self._parts: list[str] = []
        self._length = 0
        self._places: dict[int, int] = {}  # kreuzberg's index of a container -> ours
        self._left_out = left_out

    def write(self, nodes: list[Any]) -> None:
        """All of the tree, in its order."""
        for index, node in enumerate(nodes):
            content = node["content"]
            kind = content["node_type"]
            if node.get("content_layer") in ("header", "footer"):
                self._left_out.add("running_heads")
            elif kind == "table":
                self._table(content["grid"]["cells"])
            elif kind in _CONTAINERS:
                self._places[index] = -1  # takes its place with the first text inside
            elif kind in _KINDS:
                self._block(nodes, node)
            elif kind not in _STRUCTURE:
                self._left_out.add(kind)
        self.text = "".join(self._parts)
        self.nodes = [_exact(node, self.text) for node in self.nodes]

    def warnings(self) -> tuple[str, ...]:
        """What the file holds that the text does not."""
        return tuple(f"left_out:{what}" for what in sorted(self._left_out))

    def _block(self, nodes: list[Any], node: Any) -> None:
        content = node["content"]
        text = NEWLINE.sub("\n", content.get("text") or "").strip()
        if not text:
            return
        kind = _KINDS[content["node_type"]]
        continues = kind is NodeKind.LIST_ITEM and self._places.get(node.get("parent", -1), -1) >= 0
        self._gap("\n" if continues else "\n\n")
        parent = self._container(nodes, node.get("parent"))
        level = content.get("level") or 1 if kind is NodeKind.HEADING else 0
        label = collapsed(text) if kind is NodeKind.HEADING else ""
        self.nodes.append(Node(kind, self._append(text), min(level, 6), parent, label))
        while parent is not None:
            held = self.nodes[parent]
            self.nodes[parent] = Node(held.kind, Span(held.span.start, self._length), held.level, held.parent)
            parent = held.parent

    def _container(self, nodes: list[Any], index: int | None) -> int | None:
        """Our place of the container `index`, made now if this is its first text; None for what is no container."""
        if index is None or index not in self._places:
            return None
        if self._places[index] < 0:
            parent = self._container(nodes, nodes[index].get("parent"))
            kind = _CONTAINERS[nodes[index]["content"]["node_type"]]
            level = 0 if kind is not NodeKind.LIST else 1 if parent is None else self.nodes[parent].level + 1
            self._places[index] = len(self.nodes)
            self.nodes.append(Node(kind, Span(self._length, self._length), level, parent))
        return self._places[index]

    def _table(self, cells: list[Any]) -> None:
        rows: dict[int, list[tuple[int, str]]] = {}
        for cell in cells:
            rows.setdefault(cell["row"], []).append((cell["col"], collapsed(cell["content"])))
        written = ["\t".join(text for _, text in sorted(row)) for _, row in sorted(rows.items())]
        written = [row for row in written if row.strip()]
        if not written:
            return
        self._gap("\n\n")
        table = len(self.nodes)
        self.nodes.append(Node(NodeKind.TABLE, Span(self._length, self._length + len("\n".join(written)))))
        for number, row in enumerate(written):
            self._gap("\n" if number else "")
            self.nodes.append(Node(NodeKind.TABLE_ROW, self._append(row), 0, table))

    def _gap(self, gap: str) -> None:
        if self._parts:
            self._append(gap)

    def _append(self, text: str) -> Span:
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        return Span(start, self._length)


def _exact(node: Node, text: str) -> Node:
    span = trimmed(text, node.span.start, node.span.end) or node.span
    return Node(node.kind, span, node.level, node.parent, node.label)
