"""Fragments: a parsed document cut into retrieval units along its structure. Pure and deterministic.

A fragment is at most MAX_SIZE long, plus its heading: 1,600 Latin letters are about 350 tokens of running text, of
which the embedder sees the first 256. Longer would hide text from the dense channel. A paragraph up to WHOLE_SIZE stays
whole all the same: it is one thought, and halves of it are found less well than its end is missed, since the lexical
channel reads all of it. SciFact's abstracts, train queries, nDCG@10 fused / words / vectors: .737 / .703 / .669 with,
.732 / .696 / .665 without, and a fifth fewer fragments. Wide scripts count WIDE_SIZE a character, about their tokens
each.

Whole blocks of one section are merged; what is too long alone is cut: tables between rows, lists between items, code
between lines, prose between sentences, and only then between words. Fragments never overlap, and every code point
that is not white space lies in exactly one. A fragment's `parent` is its section with its subsections, or its section
alone, or a run of its siblings: the widest that stays within PARENT_SIZE.
"""

import hashlib
import re
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from core.document import Fragment, Node, NodeKind, ParsedDocument, Span
from core.ids import FragmentId, RevisionId
from core.representation import FRAGMENTER_VERSION
from indexing.parsers.lines import collapsed, trimmed

MAX_SIZE = 1_600
WHOLE_SIZE = 2_400  # of a paragraph that is not cut
PARENT_SIZE = 6_000  # code points
WIDE_SIZE = 4  # a Latin token has about four letters, a CJK character is about one token
HEADING_SIZE = 400  # a longer one is prose in a heading's clothes and may stand alone
INTRO_SIZE = 500  # code points; a longer paragraph before a list is prose, not its introduction

_NAMESPACE = uuid.UUID("6d756e69-6d65-6e74-8000-667261676d65")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[^\sa-z])"  # a small letter after the stop: an abbreviation
    r"|(?<=[。！？])"
    r"|(?:\r\n|\r|\n)[ \t]*(?=[-*•●▪◦‣–]\s|\d{1,3}[.)]\s)"  # a list without markup
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|vs|etc|al|cf|approx|Fig|Figs|Eq|No|Nos|Vol|pp?|Sec|Ch|Inc|Ltd|Co|Corp|resp"
    r"|e\.g|i\.e|z\.B|d\.h|bzw|ca|Nr|Abs|Art)|\b[A-Z])\.\Z"
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORD_END = re.compile(r"\s+")


@dataclass(frozen=True)
class _Unit:
    """A piece that is never cut further; `header` is what it needs to be read when it stands without it."""

    span: Span
    kind: NodeKind
    size: int
    header: Span | None = None


_ROOT = -1
_NO_PLACE = -2


@dataclass(frozen=True)
class _Block:
    """A node as far as nothing before it took its text, or text without a node: then `place` is _NO_PLACE."""

    kind: NodeKind
    span: Span
    place: int = _NO_PLACE
    level: int = 0
    label: str = ""

    @property
    def introduces(self) -> bool:
        """Whether it may be what a list needs to be read."""
        return self.kind is NodeKind.PARAGRAPH and self.span.end - self.span.start <= INTRO_SIZE


@dataclass(frozen=True)
class _Section:
    """Root blocks from one heading to the next. `whole` also spans the subsections."""

    path: tuple[str, ...]
    blocks: tuple[_Block, ...]
    whole: Span

    @property
    def own(self) -> Span:
        return Span(self.blocks[0].span.start, self.blocks[-1].span.end)


def fragment(document: ParsedDocument, revision_id: RevisionId) -> tuple[Fragment, ...]:
    """The fragments of a document in order of their text; none for one that does not serve."""
    if not document.serves:
        return ()
    text = document.text
    cutter = _Cutter(text, document.nodes)
    pages = _Pages(document.nodes)
    fragments: list[Fragment] = []
    for section in _sections(text, cutter.root_blocks()):
        groups = _merged(cutter.units(section.blocks))
        spans = [Span(group[0].span.start, group[-1].span.end) for group in groups]
        for group, span, parent in zip(groups, spans, _parents(section, spans), strict=True):
            header = group[0].header
            fragments.append(
                Fragment(
                    fragment_id=_fragment_id(revision_id, span),
                    ordinal=len(fragments),
                    span=span,
                    text_hash=hashlib.sha256(span.cut(text).encode()).hexdigest(),
                    section_path=section.path,
                    parent=parent,
                    kind=_kind(group),
                    header=None if header is None or header.start >= span.start else header,
                    pages=pages.of(span),
                )
            )
    return tuple(fragments)


def _fragment_id(revision_id: RevisionId, span: Span) -> FragmentId:
    return FragmentId(str(uuid.uuid5(_NAMESPACE, f"{revision_id}\n{FRAGMENTER_VERSION}\n{span.start}\n{span.end}")))


def _kind(units: list[_Unit]) -> NodeKind:
    """What all of it is, headings aside; PARAGRAPH for a mixture."""
    kinds = {unit.kind for unit in units if unit.kind is not NodeKind.HEADING}
    if not kinds:
        return NodeKind.HEADING
    return kinds.pop() if len(kinds) == 1 else NodeKind.PARAGRAPH


def _sections(text: str, blocks: list[_Block]) -> list[_Section]:
    """Blocks by heading; only headings at the root make sections, as quotes and list items are not the document."""
    starts = [i for i, block in enumerate(blocks) if i == 0 or block.kind is NodeKind.HEADING]
    sections = []
    above: list[_Block] = []
    for start, stop in zip(starts, [*starts[1:], len(blocks)], strict=True):
        head = blocks[start]
        if head.kind is NodeKind.HEADING:
            above = [*(heading for heading in above if heading.level < head.level), head]
        titles = tuple(title for title in (_title(heading, text) for heading in above) if title)
        sections.append(_Section(titles, tuple(blocks[start:stop]), _whole(blocks, start, stop)))
    return sections


def _whole(blocks: list[_Block], start: int, stop: int) -> Span:
    """A section with its subsections, as far as it can still be a parent."""
    head = blocks[start]
    while head.kind is NodeKind.HEADING and stop < len(blocks):
        following = blocks[stop]
        if following.kind is NodeKind.HEADING and following.level <= head.level:
            break
        stop += 1
        if following.span.end - head.span.start > PARENT_SIZE:
            break
    return Span(head.span.start, blocks[stop - 1].span.end)


def _title(heading: _Block, text: str) -> str:
    """A heading's words; "" for one that Markdown shows as nothing but its marks."""
    shown = heading.span.cut(text)
    title = heading.label or (collapsed(shown) if re.search(r"\w", shown) else "")
    return title[:HEADING_SIZE].rstrip()  # every fragment below carries it, and a heading may have megabytes


def _parents(section: _Section, spans: list[Span]) -> list[Span]:
    for widest in (section.whole, section.own):
        if widest.end - widest.start <= PARENT_SIZE:
            return [widest] * len(spans)
    parents: list[Span] = []
    first = 0
    for index in range(len(spans)):
        following = spans[index + 1].end if index + 1 < len(spans) else None
        if following is None or following - spans[first].start > PARENT_SIZE:
            parents += [Span(spans[first].start, spans[index].end)] * (index + 1 - first)
            first = index + 1
    return parents


def _merged(units: list[_Unit]) -> list[list[_Unit]]:
    """Units in groups of about equal size, as few as MAX_SIZE allows; a heading stays with what follows it."""
    total = sum(unit.size for unit in units)
    wanted = total / -(-total // MAX_SIZE)
    groups: list[list[_Unit]] = []
    size = 0
    for unit in units:
        headed = bool(groups) and len(groups[-1]) == 1 and groups[-1][0].kind is NodeKind.HEADING
        headed = headed and size <= HEADING_SIZE
        joined = max(size + unit.size, unit.span.end - groups[-1][0].span.start) if groups else 0
        if groups and (headed or (size < wanted and joined <= MAX_SIZE)):
            groups[-1].append(unit)
            size = joined
        else:
            groups.append([unit])
            size = unit.size
    return groups


class _Cutter:
    """Cuts one document's tree into units that fit."""

    def __init__(self, text: str, nodes: tuple[Node, ...]) -> None:
        self._text = text
        self._nodes = nodes
        self._children: dict[int, list[int]] = {}
        for index, node in enumerate(nodes):
            if node.kind is not NodeKind.PAGE:
                self._children.setdefault(_ROOT if node.parent is None else node.parent, []).append(index)

    def root_blocks(self) -> list[_Block]:
        """The root's nodes in order, and paragraphs for the text that no node holds."""
        return self._filled(Span(0, len(self._text)), _ROOT)

    def units(self, blocks: Iterable[_Block]) -> list[_Unit]:
        """All of `blocks`, cut where too long. Units cover every code point that is not white space."""
        units: list[_Unit] = []
        before: _Block | None = None
        for block in blocks:
            pieces = self._pieces(block)
            if len(pieces) > 1 and block.kind is NodeKind.LIST and before is not None and before.introduces:
                pieces = [replace(piece, header=before.span) for piece in pieces]
            units += pieces
            before = block
        return units

    def _pieces(self, root: _Block) -> list[_Unit]:
        """One block in pieces, without recursion: lists nest as deep as their author likes."""
        pieces: list[_Unit] = []
        waiting: list[tuple[_Block, Span | None]] = [(root, None)]
        while waiting:
            block, header = waiting.pop()
            size = _size(block.span.cut(self._text))
            whole = block.kind is NodeKind.PARAGRAPH and block.place not in self._children
            if size <= (WHOLE_SIZE if whole else MAX_SIZE):
                pieces.append(_Unit(block.span, root.kind, size, header))
                continue
            parts = self._filled(block.span, block.place) if block.place in self._children else []
            if not parts:
                ways = _CODE_ENDS if block.kind is NodeKind.CODE else _PROSE_ENDS
                cut = _cut(self._text, block.span, ways)
                pieces += (_Unit(span, root.kind, _size(span.cut(self._text)), header) for span in cut)
                continue
            if block.kind is NodeKind.TABLE:
                header = next((part.span for part in parts if part.kind is NodeKind.TABLE_ROW), header)
            waiting += [(part, header) for part in reversed(parts)]
        return pieces

    def _filled(self, span: Span, parent: int) -> list[_Block]:
        """The children of `parent` within `span`, in order and apart, with paragraphs between for loose text."""
        filled: list[_Block] = []
        at = span.start
        for index in self._children.get(parent, []):
            node = self._nodes[index]
            start, end = max(at, node.span.start), min(node.span.end, span.end)
            inner = trimmed(self._text, start, end) if start < end else None
            if inner is not None:
                self._loose(filled, at, start)
                filled.append(_Block(node.kind, inner, index, node.level, node.label))
                at = end
        self._loose(filled, at, span.end)
        return filled

    def _loose(self, filled: list[_Block], start: int, end: int) -> None:
        span = trimmed(self._text, start, end)
        if span is not None:
            filled.append(_Block(NodeKind.PARAGRAPH, span))


_Ends = Callable[[str, Span], Iterator[int]]


def _cut(text: str, span: Span, ways: tuple[_Ends, ...]) -> Iterator[Span]:
    """`span` between its ends by the first of `ways`, greedily to equal sizes; what stays too long by the next."""
    atoms = list(_between(text, span, ways[0](text, span) if ways else _hard_ends(text, span)))
    total = sum(_size(atom.cut(text)) for atom in atoms)
    wanted = total / -(-total // MAX_SIZE)
    held: Span | None = None
    held_size = 0
    for atom in atoms:
        size = _size(atom.cut(text))
        joined = size if held is None else max(held_size + size, atom.end - held.start)
        if held is not None and (held_size >= wanted or joined > MAX_SIZE):
            yield held
            held, joined = None, size
        if size > MAX_SIZE:
            yield from _cut(text, atom, ways[1:])
            continue
        held, held_size = Span(atom.start if held is None else held.start, atom.end), joined
    if held is not None:
        yield held


def _between(text: str, span: Span, ends: Iterable[int]) -> Iterator[Span]:
    """The trimmed parts of `span` between `ends`, positions that grow; parts of white space vanish."""
    start = span.start
    for end in (*ends, span.end):
        part = trimmed(text, start, end) if end > start else None
        if part is not None:
            yield part
        start = max(start, end)


def _sentence_ends(text: str, span: Span) -> Iterator[int]:
    for found in _SENTENCE_END.finditer(text, span.start, span.end):
        if not _ABBREVIATED.search(text, max(span.start, found.start() - 12), found.start()):
            yield found.end()


def _line_ends(text: str, span: Span) -> Iterator[int]:
    return (found.end() for found in _LINE_END.finditer(text, span.start, span.end))


def _word_ends(text: str, span: Span) -> Iterator[int]:
    return (found.end() for found in _WORD_END.finditer(text, span.start, span.end))


_PROSE_ENDS: tuple[_Ends, ...] = (_sentence_ends, _line_ends, _word_ends)
_CODE_ENDS: tuple[_Ends, ...] = (_line_ends, _word_ends)


def _hard_ends(text: str, span: Span) -> Iterator[int]:
    """Steps that fit even if every character is wide."""
    return iter(range(span.start + MAX_SIZE // WIDE_SIZE, span.end, MAX_SIZE // WIDE_SIZE))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text) + (WIDE_SIZE - 1) * len(_WIDE.findall(text))


class _Pages:
    """Which pages a span lies on."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        held = [node for node in nodes if node.kind is NodeKind.PAGE and node.span.end > node.span.start]
        self._starts = [node.span.start for node in held]
        self._ends = [node.span.end for node in held]
        self._numbers = [node.level for node in held]

    def of(self, span: Span) -> tuple[int, int] | None:
        """First and last page number, from 1; None without pages."""
        first = bisect_right(self._ends, span.start)
        last = bisect_left(self._starts, span.end) - 1
        return (self._numbers[first], self._numbers[last]) if first <= last else None
