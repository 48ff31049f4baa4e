"""Records and packets for tests of the pure serving rooms: real values, cut from real texts."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence

from core.access import Access
from core.attributes import Subject, TrustTier
from core.document import Fragment, NodeKind, Span
from core.ids import FragmentId, RevisionId
from corpus.record import FragmentRecord, RevisionRecord
from retrieval import evidence_ids
from retrieval.types import (
    Channel,
    EvidenceItem,
    EvidenceKind,
    Hit,
    Packet,
    Passage,
    PassageRole,
    Ranked,
    TokenLedger,
    Verdict,
)

_NAMESPACE = uuid.UUID("6f2d3c58-0000-5000-8000-000000000000")


def revision(key: int = 1, *, text: str = "", title: str = "Title", source: str = "wiki") -> RevisionRecord:
    """Revision `key` of document `doc-<key>`."""
    return RevisionRecord(
        revision_key=key,
        revision_id=RevisionId(str(uuid.uuid5(_NAMESPACE, str(key)))),
        document_key=key,
        subject=Subject("t", source, f"doc-{key}", TrustTier.REVIEWED, "en", None, None),
        accesses=(Access.of(public=True),),
        title=title,
        canonical_uri=f"https://example.com/{key}",
        media_type="text/plain",
        content_hash=hashlib.sha256(text.encode()).hexdigest(),
        parser_version="plain-1",
        provenance={},
        canonical_blob=f"blob-{key}",
    )


def ranked(
    of: RevisionRecord,
    span: Span,
    *,
    text: str = "",
    ordinal: int = 0,
    parent: Span | None = None,
    kind: NodeKind = NodeKind.PARAGRAPH,
    header: Span | None = None,
    pages: tuple[int, int] | None = None,
    score: float = 0.0,
    channels: Mapping[Channel, Hit] | None = None,
) -> Ranked:
    """A ranked fragment of `of`; `text` is what its hash is made of."""
    fragment = Fragment(
        fragment_id=FragmentId(str(uuid.uuid5(_NAMESPACE, f"{of.revision_key}:{span.start}:{span.end}"))),
        ordinal=ordinal,
        span=span,
        text_hash=hashlib.sha256((text or f"{of.revision_key}{span}").encode()).hexdigest(),
        section_path=("Section",),
        parent=parent or span,
        kind=kind,
        header=header,
        pages=pages,
    )
    return Ranked(FragmentRecord(fragment, of), score, channels or {Channel.LEXICAL: Hit(1, 1.0)})


def item(key: int, text: str, rank: int = 1, *, at: int = 0, span: Span | None = None) -> EvidenceItem:
    """An item whose body is `text`, which begins at `at` of its revision's canonical text."""
    whole = span or Span(at, at + len(text))
    record = ranked(revision(key, text=text), whole, text=text).record
    passage = Passage(whole, PassageRole.BODY, text)
    return EvidenceItem(
        evidence_id=evidence_ids.encode(record.revision.revision_id, [passage]),
        record=record,
        passages=(passage,),
        section_path=("Section",),
        kind=EvidenceKind.TEXT,
        rank=rank,
        channels={Channel.LEXICAL: rank},
        tokens=len(text.split()),
    )


def packet(items: Sequence[EvidenceItem], verdict: Verdict | None = None) -> Packet:
    """A packet of `items`, SUFFICIENT when there are any."""
    found = Verdict.SUFFICIENT if items else Verdict.EMPTY
    ledger = TokenLedger("words", 4_000, sum(i.tokens for i in items))
    return Packet(tuple(items), ledger, verdict or found)
