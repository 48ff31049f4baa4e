"""The searchable projection as the rest of Muniment sees it: values, faults and the Store protocol.

The store only proposes (I13): what it says is checked against the catalog before anything is released, so its values
carry ids and intervals, never text. Objects are never changed in place: an object id names one revision's span in one
representation with one interval and one access version, and never returns.

StoreError(MunimentFault)
├── StoreUnavailable     it can't be reached, or lacks the tenant: heals without the caller
│   └── TenantMissing    no such tenant in the store: `ensure_tenant` was never called, or the store was rebuilt
├── StoreLate            the budget ended first; a write may still arrive
├── StoreRejected        it refused the call or part of it
└── StoreMisconfigured   credentials or collection are not as they must be: an operator has to act
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from core.attributes import Attributes
from core.budget import Budget
from core.document import Span
from core.errors import MunimentFault
from core.ids import DocumentId, FragmentId, RepresentationId, RevisionId, Seq, SourceId, TenantId
from core.keys import digest
from policy.filter import Filter

_OBJECT_NAMESPACE = uuid.UUID("8f0e3a52-5d0c-5f3b-9c39-6d756e696d74")


class StoreError(MunimentFault):
    """Root of what the store raises."""


class StoreUnavailable(StoreError):
    """The store can't be reached."""


class TenantMissing(StoreUnavailable):
    """The store does not know the tenant."""


class StoreLate(StoreError):
    """The budget ended before the store answered; what was written may or may not arrive, now or later."""


class StoreRejected(StoreError):
    """The store refused; `object_ids` are those of a write that it did not take, as far as it told."""

    def __init__(self, what: str, object_ids: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.object_ids = object_ids


class StoreMisconfigured(StoreError):
    """Serving would be unsafe: the message lists each difference."""


@dataclass(frozen=True)
class StoredFragment:
    """One object to write. `attributes` are those of `core.attributes.attributes_of`; what is absent there is null.

    `analysed` and `identifiers` come from the representation's analyser, over title, section path and text;
    `vector` has the representation's dimension. The text itself is not stored: evidence is cut from the record.
    """

    object_id: str
    fragment_id: FragmentId
    revision_id: RevisionId
    from_seq: Seq
    to_seq: Seq  # exclusive; OPEN_SEQ while not superseded
    access_version: int
    ordinal: int
    attributes: Attributes
    analysed: str
    identifiers: str
    vector: Sequence[float] | npt.NDArray[Any]

    @property
    def source_id(self) -> SourceId:
        """From the attributes, so that filter and scope can't disagree."""
        return SourceId(str(self.attributes["source"]))

    @property
    def document_id(self) -> DocumentId:
        """Unique within its source."""
        return DocumentId(str(self.attributes["document"]))


@dataclass(frozen=True, slots=True)
class StoredRef:
    """What the store holds of an object, as reconciliation and writers compare it with the catalog."""

    object_id: str
    fragment_id: FragmentId
    revision_id: RevisionId
    from_seq: Seq
    to_seq: Seq
    access_version: int


@dataclass(frozen=True, slots=True)
class StoredHit:
    """One proposal. `score`: BM25 (unbounded, comparable within one result only) or cosine similarity in [-1, 1]."""

    object_id: str
    fragment_id: FragmentId
    revision_id: RevisionId
    from_seq: Seq
    to_seq: Seq
    access_version: int
    score: float


@dataclass(frozen=True)
class Scope:
    """What the request asks to be searched: None leaves a dimension open, an empty set matches nothing.

    It only narrows: an unknown id is the same as one that matches nothing.
    """

    sources: frozenset[SourceId] | None = None
    documents: frozenset[DocumentId] | None = None
    languages: frozenset[str] | None = None


@dataclass(frozen=True)
class StoreQuery:
    """Which fragments may be proposed: policy AND pin AND scope AND NOT overlay.

    `access` must not be Nothing after normalisation: nobody asks the store for nothing. `valid_at` is in seconds since
    1970, UTC. `excluded_*` are the overlay's and the refill's ids. `limit` is the number of hits, at least 1.
    """

    tenant_id: TenantId
    seq: Seq
    access: Filter
    valid_at: int
    limit: int
    scope: Scope = Scope()
    excluded_revisions: frozenset[RevisionId] = frozenset()
    excluded_sources: frozenset[SourceId] = frozenset()
    excluded_fragments: frozenset[FragmentId] = frozenset()


@dataclass(frozen=True)
class Selection:
    """Objects of a tenant to list: all those of the revisions, of the documents, or of the whole tenant.

    Give at most one of the two; with neither, everything is listed. An empty one selects nothing.
    """

    revisions: frozenset[RevisionId] | None = None
    documents: frozenset[tuple[SourceId, DocumentId]] | None = None

    def __post_init__(self) -> None:
        if self.revisions is not None and self.documents is not None:
            raise ValueError("select by revisions or by documents, not by both")


class Store(Protocol):
    """One representation's projection. Every call ends with `budget` at the latest (StoreLate); nothing is retried.

    All methods raise StoreUnavailable, StoreMisconfigured or StoreRejected for what their names say.
    """

    @property
    def representation_id(self) -> RepresentationId:
        """The representation whose fragments are held here."""
        ...

    async def ensure_collection(self, budget: Budget) -> None:
        """Create the representation's collection where it is missing; an existing one is checked."""
        ...

    async def check_collection(self, budget: Budget) -> None:
        """StoreMisconfigured unless the collection would answer filters as the access algebra means them."""
        ...

    async def ensure_tenant(self, tenant_id: TenantId, budget: Budget) -> None:
        """Create the tenant's shard where it is missing, inactive until used."""
        ...

    async def lexical(self, query: StoreQuery, analysed: str, identifiers: str, budget: Budget) -> list[StoredHit]:
        """BM25 over words and identifiers, best first, ties by object id; no hits without any term."""
        ...

    async def dense(
        self, query: StoreQuery, vector: Sequence[float] | npt.NDArray[Any], budget: Budget
    ) -> list[StoredHit]:
        """Nearest by cosine, best first, ties by object id."""
        ...

    async def insert(self, tenant_id: TenantId, objects: Sequence[StoredFragment], budget: Budget) -> None:
        """Write all, on every replica; StoreRejected names those refused, the others are written.

        Give only ids that the store does not hold (`list_objects`): an object that is written anew is out of
        searches meanwhile.
        """
        ...

    async def delete(self, tenant_id: TenantId, object_ids: Collection[str], budget: Budget) -> None:
        """Delete and look again until none is left; ids that are not there count as deleted."""
        ...

    async def list_objects(self, tenant_id: TenantId, selection: Selection, budget: Budget) -> frozenset[StoredRef]:
        """All that the store holds of the selection, whatever the number."""
        ...

    async def fetch(self, tenant_id: TenantId, object_ids: Collection[str], budget: Budget) -> frozenset[StoredRef]:
        """Those of the ids that the store holds."""
        ...


def object_id(
    representation_id: RepresentationId,
    revision_id: RevisionId,
    span: Span,
    from_seq: Seq,
    to_seq: Seq,
    access_version: int,
) -> str:
    """The uuid5 of one copy of a fragment: another interval or access version is another object, for ever."""
    name = digest(representation_id, revision_id, span.start, span.end, from_seq, to_seq, access_version)
    return str(uuid.uuid5(_OBJECT_NAMESPACE, name))
