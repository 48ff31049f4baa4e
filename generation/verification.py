"""Our own check of every claim, whoever proposed it: what is not proved here is never released (I7)."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from core.document import Span
from core.ids import DocumentId, SourceId
from generation.claims import Citation, Claim, ClaimKind, ProposedCitation, ProposedClaim
from generation.sentences import denies, lead_in, sentences
from retrieval.types import EvidenceItem, EvidenceKind, Packet, Passage, PassageRole

MAX_CITATIONS = 8


class Refusal(StrEnum):
    """Why a proposal is dropped: for counters, never for the user."""

    UNCITED = "uncited"
    TOO_MANY_CITATIONS = "too_many_citations"
    UNKNOWN_EVIDENCE = "unknown_evidence"
    OUTSIDE_PASSAGE = "outside_passage"
    NOT_VERBATIM = "not_verbatim"
    NOT_WHOLE = "not_whole"
    TURNED = "turned"
    UNKNOWN_KIND = "unknown_kind"
    NOT_THE_QUOTE = "not_the_quote"


@dataclass(frozen=True)
class Unsupported:
    """A proposal that failed."""

    why: Refusal


def verify(proposed: ProposedClaim, packet: Packet, claim_id: str) -> Claim | Unsupported:
    """The claim, when every citation holds and the text is exactly what they say.

    A citation holds when its evidence id is one of this packet's, its span lies in one of that item's passages, the
    quote is the passage's text there, and begins and ends with sentences: half of one can say the opposite, and so can
    an item of a list that is led in by a denial. A QUOTED
    claim's text equals every quote, white space aside, so its numbers, names and negations are the source's own.
    """
    if proposed.kind != ClaimKind.QUOTED:
        return Unsupported(Refusal.UNKNOWN_KIND)
    if not proposed.citations:
        return Unsupported(Refusal.UNCITED)
    if len(proposed.citations) > MAX_CITATIONS:
        return Unsupported(Refusal.TOO_MANY_CITATIONS)
    citations: dict[tuple[str, Span], Citation] = {}
    for cited in proposed.citations:
        citation = _verified(cited, packet)
        if isinstance(citation, Unsupported):
            return citation
        if collapsed(cited.quote) != collapsed(proposed.text):
            return Unsupported(Refusal.NOT_THE_QUOTE)
        citations.setdefault((citation.evidence_id, citation.span), citation)
    return Claim(claim_id, proposed.text, ClaimKind.QUOTED, tuple(citations.values()))


def collapsed(text: str) -> str:
    """Runs of white space as one space: line breaks of the source are no part of what it says."""
    return " ".join(text.split())


def _verified(cited: ProposedCitation, packet: Packet) -> Citation | Unsupported:
    item = packet.by_id.get(cited.evidence_id)
    if item is None:
        return Unsupported(Refusal.UNKNOWN_EVIDENCE)
    passage = _passage_around(item, cited.span)
    if passage is None:
        return Unsupported(Refusal.OUTSIDE_PASSAGE)
    local = Span(cited.span.start - passage.span.start, cited.span.end - passage.span.start)
    if local.start == local.end or local.cut(passage.text) != cited.quote:
        return Unsupported(Refusal.NOT_VERBATIM)
    if not _whole(local, passage.text):
        return Unsupported(Refusal.NOT_WHOLE)
    if is_turned(item, passage, local):
        return Unsupported(Refusal.TURNED)
    revision = item.record.revision
    return Citation(
        evidence_id=item.evidence_id,
        source_id=SourceId(revision.subject.source),
        document_id=DocumentId(revision.subject.document),
        revision_id=revision.revision_id,
        fragment_id=item.record.fragment.fragment_id,
        quote=cited.quote,
        span=cited.span,
        canonical_uri=revision.canonical_uri,
    )


def is_turned(item: EvidenceItem, passage: Passage, local: Span) -> bool:
    """Whether what leads to the sentence denies it, so that it may not stand alone: an item of a list of don'ts.

    What leads to it is the line above its list, else the introduction that the item has, else its section's heading.
    """
    lead = lead_in(passage.text, local.start)
    intros = [p.text for p in item.passages if p.role is PassageRole.LIST_INTRO]
    if lead is None and not (item.kind is EvidenceKind.LIST and intros):
        return False
    return denies(lead or " ".join(intros) or " ".join(item.section_path[-1:]))


def _passage_around(item: EvidenceItem, span: Span) -> Passage | None:
    around = (p for p in item.passages if p.span.start <= span.start and span.end <= p.span.end)
    return next(around, None)


def _whole(span: Span, text: str) -> bool:
    found = sentences(text)
    starts: AbstractSet[int] = {sentence.start for sentence in found}
    ends: AbstractSet[int] = {sentence.end for sentence in found}
    return span.start in starts and span.end in ends
