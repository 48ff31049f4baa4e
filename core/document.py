"""What a document is made of: spans, nodes, fragments and their canonical text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.ids import FragmentId


@dataclass(frozen=True, order=True)
class Span:
    """`[start, end)` in Unicode code points of a revision's canonical text."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a span: [{self.start}, {self.end})")

    def cut(self, text: str) -> str:
        """The text that the span names."""
        return text[self.start : self.end]

    def overlaps(self, other: "Span") -> bool:
        """Whether the two share a code point."""
        return self.start < other.end and other.start < self.end


class NodeKind(StrEnum):
    """Structural elements; `PAGE` overlaps the others, all else nests."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    LIST_ITEM = "list_item"
    TABLE = "table"
    TABLE_ROW = "table_row"
    CODE = "code"
    QUOTE = "quote"
    PAGE = "page"


@dataclass(frozen=True)
class Node:
    """A structural element. `parent` is an index into the tree's nodes, None at the root.

    `level` is a heading's level (1 to 6), a list's depth, a page's number (from 1), else 0. `label` is a heading's
    text without markup (`## *C#* ##` reads `C#`), which a span can't give; "" elsewhere and for an empty heading.
    """

    kind: NodeKind
    span: Span
    level: int = 0
    parent: int | None = None
    label: str = ""


class ParseState(StrEnum):
    """How parsing ended; all but READY and PARTIAL end the operation as failed."""

    READY = "ready"
    PARTIAL = "partial"  # serves; warnings say what is missing
    EMPTY = "empty"  # nothing but white space
    NO_TEXT = "no_text"  # a scan without text layer
    ENCRYPTED = "encrypted"
    CORRUPT = "corrupt"
    BAD_ENCODING = "bad_encoding"
    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class ParsedDocument:
    """Canonical text with its node tree, in order of start."""

    state: ParseState
    text: str
    nodes: tuple[Node, ...]
    title: str | None
    language: str | None
    parser_version: str
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def serves(self) -> bool:
        """Whether the document may be published."""
        return self.state in (ParseState.READY, ParseState.PARTIAL)


@dataclass(frozen=True)
class Fragment:
    """A retrieval unit: one contiguous span of the canonical text.

    `parent` is the span that expansion may widen to (its section), `header` a table's header row or a list's
    introduction that it needs to be read, `pages` first and last page or None where there are none.
    """

    fragment_id: FragmentId
    ordinal: int
    span: Span
    text_hash: str  # SHA-256 of the span's text in UTF-8, hex
    section_path: tuple[str, ...]
    parent: Span
    kind: NodeKind
    header: Span | None = None
    pages: tuple[int, int] | None = None
