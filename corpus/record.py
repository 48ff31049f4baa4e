"""What the record says, as values that the serving rooms may hold."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from core.access import Access
from core.attributes import Attributes, Subject, attributes_of
from core.document import Fragment, NodeKind, Span
from core.ids import (
    DataRevision,
    Epoch,
    FragmentId,
    Incarnation,
    PolicyRevision,
    RepresentationId,
    RevisionId,
    Seq,
    TenantId,
)


@dataclass(frozen=True)
class Pin:
    """What one request is fixed to. `now` and `valid_at` are whole seconds since 1970."""

    tenant_id: TenantId
    incarnation: Incarnation
    seq: Seq
    epoch: Epoch
    representation_id: RepresentationId
    policy_revision: PolicyRevision
    data_revision: DataRevision
    now: int
    valid_at: int
    unsettled: bool  # whether any denial, put or publish has not reached every replica of the store


@dataclass(frozen=True)
class RevisionRecord:
    """One revision with what judging and citing it needs.

    `accesses` must all permit: the revision's own, the document's current one, and those of later puts in progress.
    """

    revision_key: int
    revision_id: RevisionId
    document_key: int
    subject: Subject
    accesses: tuple[Access, ...]
    title: str
    canonical_uri: str
    media_type: str
    content_hash: str  # SHA-256 of the canonical text in UTF-8, hex
    parser_version: str
    provenance: Mapping[str, str]
    canonical_blob: str

    def attribute_sets(self) -> tuple[Attributes, ...]:
        """One set of attributes for each access that must permit."""
        return tuple(attributes_of(self.subject, access) for access in self.accesses)


@dataclass(frozen=True)
class FragmentRecord:
    """A fragment that the catalog knows, with its revision."""

    fragment: Fragment
    revision: RevisionRecord


def fragment_of(
    fragment_id: str, ordinal: int, start: int, end: int, text_hash: str, kind: str, layout: str
) -> Fragment:
    """A fragment from its catalog row."""
    place = json.loads(layout)
    header, pages = place["header"], place["pages"]
    return Fragment(
        fragment_id=FragmentId(fragment_id),
        ordinal=ordinal,
        span=Span(start, end),
        text_hash=text_hash,
        section_path=tuple(place["section_path"]),
        parent=Span(*place["parent"]),
        kind=NodeKind(kind),
        header=None if header is None else Span(*header),
        pages=None if pages is None else (pages[0], pages[1]),
    )
