"""Ranked fragments to drafts of items: what each would show, as spans; texts are cut when it is packed.

Neighbouring fragments of one section become one item at the better rank, a table's header or a list's introduction is
put before the body where the body lacks it, and the body may widen to its section. Nothing crosses a revision.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.document import NodeKind, Span
from corpus.record import RevisionRecord
from retrieval.types import Channel, EvidenceKind, Hit, PassageRole, PassageSpan, Ranked

Pages = tuple[int, int] | None
PagesOf = Callable[[RevisionRecord, Span], Pages]

_KINDS = {
    NodeKind.TABLE: EvidenceKind.TABLE,
    NodeKind.TABLE_ROW: EvidenceKind.TABLE,
    NodeKind.LIST: EvidenceKind.LIST,
    NodeKind.LIST_ITEM: EvidenceKind.LIST,
    NodeKind.CODE: EvidenceKind.CODE,
}


@dataclass(frozen=True)
class ExpansionLimits:
    """In code points, so that no text is read to decide. About 4 to a token of English."""

    merged: int = 4_000  # of a body made of neighbours
    parent: int = 6_000  # of a section that a body may widen to
    header: int = 1_000  # of a header that is put before a body


DEFAULT_LIMITS = ExpansionLimits()


@dataclass(frozen=True)
class Draft:
    """An item to be: `members` are the fragments that it stands for, the best-ranked first.

    `merged` shows all of them, `lead` the best-ranked alone, `bare` that one without header, `widened` the section,
    None when it may not widen. `channels` has each channel's best hit of any member.
    """

    members: tuple[Ranked, ...]
    merged: tuple[PassageSpan, ...]
    lead: tuple[PassageSpan, ...]
    bare: tuple[PassageSpan, ...]
    widened: tuple[PassageSpan, ...] | None
    kind: EvidenceKind
    channels: Mapping[Channel, Hit]

    @property
    def best(self) -> Ranked:
        """The best-ranked member."""
        return self.members[0]


def expand(
    ranked: Sequence[Ranked], limits: ExpansionLimits = DEFAULT_LIMITS, pages_of: PagesOf | None = None
) -> tuple[Draft, ...]:
    """All of `drafts`."""
    return tuple(drafts(ranked, limits, pages_of))


def drafts(
    ranked: Sequence[Ranked], limits: ExpansionLimits = DEFAULT_LIMITS, pages_of: PagesOf | None = None
) -> Iterator[Draft]:
    """Drafts in order of their best member; `ranked` goes from best to worst and is deduplicated.

    Each is made when it is asked for: packing takes a quarter of them.

    `pages_of` gives a span's first and last page. Without it a fragment that has pages does not widen, and its header
    has none: a missing page number is better than a wrong one.
    """
    runs: list[list[Ranked]] = []
    for item in ranked:
        _join(runs, item, limits.merged)
    return (_draft(run, limits, pages_of) for run in runs)


def _join(runs: list[list[Ranked]], item: Ranked, limit: int) -> None:
    """Put `item` to the first run that it continues (the best-ranked), and join what it bridges."""
    home = next((run for run in runs if _continues(run, [item], limit)), None)
    if home is None:
        runs.append([item])
        return
    home.append(item)
    bridged = next((run for run in runs if run is not home and _continues(home, run, limit)), None)
    if bridged is not None:  # it would have taken the item, too, so it comes after `home` and is ranked below it
        home.extend(bridged)
        runs[:] = [run for run in runs if run is not bridged]


def _continues(run: Sequence[Ranked], other: Sequence[Ranked], limit: int) -> bool:
    """Same revision and section, next to each other, and together not too long."""
    a, b = run[0].record, other[0].record
    if a.revision.revision_key != b.revision.revision_key or a.fragment.parent != b.fragment.parent:
        return False
    first = {r.record.fragment.ordinal for r in run}
    second = {r.record.fragment.ordinal for r in other}
    if max(first) + 1 != min(second) and max(second) + 1 != min(first):
        return False
    hull = _hull([*run, *other])
    return hull.end - hull.start <= limit


def _hull(members: Sequence[Ranked]) -> Span:
    spans = [r.record.fragment.span for r in members]
    return Span(min(span.start for span in spans), max(span.end for span in spans))


def _draft(members: Sequence[Ranked], limits: ExpansionLimits, pages_of: PagesOf | None) -> Draft:
    best = members[0].record.fragment
    lead = _passages(members[:1], best.span, best.pages, limits, pages_of)
    hull = _hull(members)
    merged = _passages(members, hull, _pages(members), limits, pages_of)
    return Draft(
        members=tuple(members),
        merged=merged,
        lead=lead,
        bare=(PassageSpan(best.span, PassageRole.BODY, best.pages),),
        widened=_widened(members, hull, limits, pages_of),
        kind=_KINDS.get(best.kind, EvidenceKind.TEXT),
        channels=_best_hits(members),
    )


def _widened(
    members: Sequence[Ranked], hull: Span, limits: ExpansionLimits, pages_of: PagesOf | None
) -> tuple[PassageSpan, ...] | None:
    record = members[0].record
    parent = record.fragment.parent
    inside = parent.start <= hull.start and hull.end <= parent.end
    if not inside or parent == hull or parent.end - parent.start > limits.parent:
        return None
    if pages_of is None and any(r.record.fragment.pages for r in members):
        return None
    pages = None if pages_of is None else pages_of(record.revision, parent)
    return _passages(members, parent, pages, limits, pages_of)


def _passages(
    members: Sequence[Ranked], body: Span, pages: Pages, limits: ExpansionLimits, pages_of: PagesOf | None
) -> tuple[PassageSpan, ...]:
    """The members' headers that the body lacks, in order of the text, then the body."""
    headers: dict[Span, PassageSpan] = {}
    for member in members:
        fragment = member.record.fragment
        header = _outside(fragment.header, body)
        if header is None or header.end - header.start > limits.header:
            continue
        table = _KINDS.get(fragment.kind) is EvidenceKind.TABLE
        role = PassageRole.TABLE_HEADER if table else PassageRole.LIST_INTRO
        header_pages = None if pages_of is None else pages_of(member.record.revision, header)
        headers.setdefault(header, PassageSpan(header, role, header_pages))
    return (*(headers[span] for span in sorted(headers)), PassageSpan(body, PassageRole.BODY, pages))


def _outside(header: Span | None, body: Span) -> Span | None:
    """What of the header lies before the body, or the header when it lies behind: no text is shown twice."""
    if header is None or header.start == header.end:
        return None
    if not header.overlaps(body):
        return header
    return Span(header.start, body.start) if header.start < body.start else None


def _pages(members: Sequence[Ranked]) -> Pages:
    pages = [r.record.fragment.pages for r in members if r.record.fragment.pages is not None]
    return (min(first for first, _ in pages), max(last for _, last in pages)) if pages else None


def _best_hits(members: Sequence[Ranked]) -> dict[Channel, Hit]:
    best: dict[Channel, Hit] = {}
    for member in members:
        for channel, hit in member.channels.items():
            if channel not in best or hit.rank < best[channel].rank:
                best[channel] = hit
    return best
