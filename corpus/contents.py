"""Contents of revisions: staging writes them to blobs and catalog, publishing reads them back as store objects."""

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from core.access import Access
from core.attributes import Subject, TrustTier, attributes_of
from core.document import Fragment, ParsedDocument, Span
from core.ids import RepresentationId, RevisionId, Seq, TenantId
from corpus.analyser import Analyser
from corpus.blobs import BlobKind, Blobs
from corpus.catalog.database import Database, in_batches
from corpus.catalog.operations import OperationState, update_operation
from corpus.catalog.schema import fragments as fragment_table
from corpus.catalog.schema import revisions
from corpus.record import fragment_of
from corpus.store import StoredFragment, object_id

MAX_TITLE = 2_000  # code points, as of one that a put names: each item of a packet carries it
EMBEDDED_CHARACTERS = 4_000  # of title and text together; the model reads 256 tokens of it


@dataclass(frozen=True)
class Staged:
    """What staging made of a revision. `vectors` has a row for each fragment, in order."""

    revision_id: RevisionId
    document: ParsedDocument
    fragments: tuple[Fragment, ...]
    vectors: npt.NDArray[np.float32]
    representation_id: RepresentationId


@dataclass(frozen=True)
class PendingRevision:
    """A put whose content is to be parsed."""

    revision_id: RevisionId
    tenant_id: TenantId
    document: tuple[str, str]  # source id, document id
    state: str
    media_type: str
    filename: str
    title: str
    original_blob: str
    operation_id: str


@dataclass(frozen=True)
class Copy:
    """One wanted copy of a revision in the store: an interval and an access version."""

    revision_key: int
    revision_id: RevisionId
    from_seq: Seq
    to_seq: Seq
    access_version: int


def pending_revision(database: Database, revision_id: str) -> PendingRevision:
    """The put that is to be staged."""
    row = database.read(
        "SELECT r.revision_id, r.tenant_id, d.source_id, d.document_id, r.state, r.media_type, r.filename, r.title, "
        "r.original_blob, r.operation_id FROM revisions r JOIN documents d ON d.document_key = r.document_key "
        "WHERE r.revision_id = ?",
        (revision_id,),
    )[0]
    return PendingRevision(row[0], row[1], (row[2], row[3]), *row[4:])


def title_of(given: str, parsed: str | None) -> str:
    """The title that its put gives, else the one that the document has of itself, as far as it is one."""
    return given or (parsed or "")[:MAX_TITLE].rstrip()


def embedding_text(title: str, section_path: Sequence[str], text: str) -> str:
    """What is embedded and analysed for a fragment: derived text, never evidence."""
    context = [part for part in (title, *section_path) if part and not text.startswith(part)]
    return "\n".join([*dict.fromkeys(context), text])[:EMBEDDED_CHARACTERS]


def write_staged(blobs: Blobs, pending: PendingRevision, staged: Staged) -> dict[str, object]:
    """Make canonical text, nodes and vectors durable; answers the columns that `record_staged` sets."""
    text = staged.document.text
    nodes = json.dumps([[n.kind, n.span.start, n.span.end, n.level, n.parent, n.label] for n in staged.document.nodes])
    buffer = io.BytesIO()
    np.save(buffer, staged.vectors, allow_pickle=False)

    def write(kind: BlobKind, data: bytes) -> str:
        return blobs.write(pending.tenant_id, pending.document, kind, data)

    return {
        "canonical_blob": write(BlobKind.CANONICAL, text.encode()),
        "nodes_blob": write(BlobKind.NODES, nodes.encode()),
        "vectors_blob": write(BlobKind.VECTORS, buffer.getvalue()),
        "content_hash": hashlib.sha256(text.encode()).hexdigest(),
        "parser_version": staged.document.parser_version,
        "representation_id": staged.representation_id,
        "warnings": json.dumps(staged.document.warnings),
    }


def record_staged(tx: sa.Connection, pending: PendingRevision, staged: Staged, columns: dict[str, object]) -> bool:
    """Mark the put as staged with its fragments; False when it has been abandoned or failed meanwhile."""
    row = tx.execute(sa.select(revisions).where(revisions.c.revision_id == pending.revision_id)).one()
    if row.state != "accepted":
        return False
    title = title_of(row.title, staged.document.title)
    language = row.language or staged.document.language or "en"
    tx.execute(
        revisions.update()
        .where(revisions.c.revision_key == row.revision_key)
        .values(state="staged", title=title, language=language, **columns)
    )
    rows = [_fragment_row(row.revision_key, fragment) for fragment in staged.fragments]
    for batch in in_batches(rows):
        tx.execute(fragment_table.insert(), list(batch))
    update_operation(tx, row.operation_id, state=OperationState.RUNNING, warnings=columns["warnings"])
    return True


class Contents:
    """Reads staged contents back as the objects that the store should hold."""

    def __init__(
        self, database: Database, blobs: Blobs, analyser: Analyser, representation_id: RepresentationId
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._analyser = analyser
        self._representation_id = representation_id

    def object_ids(self, copies: Iterable[Copy]) -> dict[str, Copy]:
        """The store's object ids of the copies, without reading any content."""
        spans = self._spans({copy.revision_key for copy in copies})
        return {
            object_id(
                self._representation_id, copy.revision_id, span, copy.from_seq, copy.to_seq, copy.access_version
            ): copy
            for copy in copies
            for span in spans[copy.revision_key]
        }

    def objects(self, copy: Copy) -> list[StoredFragment]:
        """Every fragment of one copy, with its attributes, analysed text and vector."""
        row = self._database.read(
            "SELECT r.tenant_id, d.source_id, d.document_id, s.trust, r.language, r.valid_from, r.valid_to, a.body, "
            "r.title, r.canonical_blob, r.vectors_blob FROM revisions r "
            "JOIN documents d ON d.document_key = r.document_key "
            "JOIN sources s ON s.tenant_id = d.tenant_id AND s.source_id = d.source_id "
            "JOIN accesses a ON a.digest = r.store_access WHERE r.revision_key = ?",
            (copy.revision_key,),
        )[0]
        tenant_id, document, title = TenantId(row[0]), (row[1], row[2]), row[8]
        subject = Subject(row[0], row[1], row[2], TrustTier(row[3]), row[4], row[5], row[6])
        attributes = attributes_of(subject, Access.from_json(row[7]))
        text = self._blobs.read(tenant_id, document, row[9]).decode()
        vectors = np.load(io.BytesIO(self._blobs.read(tenant_id, document, row[10])), allow_pickle=False)
        stored = []
        for fragment, vector in zip(self.fragments(copy.revision_key), vectors, strict=True):
            words = embedding_text(title, fragment.section_path, fragment.span.cut(text))
            stored.append(
                StoredFragment(
                    object_id=object_id(
                        self._representation_id, copy.revision_id, fragment.span,
                        copy.from_seq, copy.to_seq, copy.access_version,
                    ),
                    fragment_id=fragment.fragment_id,
                    revision_id=copy.revision_id,
                    from_seq=copy.from_seq,
                    to_seq=copy.to_seq,
                    access_version=copy.access_version,
                    ordinal=fragment.ordinal,
                    attributes=attributes,
                    analysed=self._analyser.analyse(words, subject.language or "en"),
                    identifiers=self._analyser.identifiers(words),
                    vector=vector,
                )
            )  # fmt: skip
        return stored

    def fragments(self, revision_key: int) -> list[Fragment]:
        """The revision's fragments in order."""
        rows = self._database.read(
            "SELECT fragment_id, ordinal, span_start, span_end, text_hash, kind, layout FROM fragments "
            "WHERE revision_key = ? ORDER BY ordinal",
            (revision_key,),
        )
        return [fragment_of(*row) for row in rows]

    def _spans(self, revision_keys: set[int]) -> dict[int, list[Span]]:
        spans: dict[int, list[Span]] = {key: [] for key in revision_keys}
        rows = self._database.read(
            "SELECT f.revision_key, f.span_start, f.span_end FROM json_each(?) k "
            "JOIN fragments f ON f.revision_key = k.value",
            (json.dumps(sorted(revision_keys)),),
        )
        for key, start, end in rows:
            spans[key].append(Span(start, end))
        return spans


def _fragment_row(revision_key: int, fragment: Fragment) -> dict[str, object]:
    layout = {
        "section_path": fragment.section_path,
        "parent": [fragment.parent.start, fragment.parent.end],
        "header": None if fragment.header is None else [fragment.header.start, fragment.header.end],
        "pages": fragment.pages,
    }
    return {
        "revision_key": revision_key,
        "span_start": fragment.span.start,
        "span_end": fragment.span.end,
        "layout": json.dumps(layout),
        "fragment_id": fragment.fragment_id,
        "ordinal": fragment.ordinal,
        "text_hash": fragment.text_hash,
        "kind": fragment.kind,
    }
