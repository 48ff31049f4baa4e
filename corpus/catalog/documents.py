"""Commands on documents: put, set access, delete. Each is one transaction that draws the document's next number.

Whoever answers a client after one of them waits for `corpus.acknowledge` first: a message that was cleared just
before the commit may still be on its way (I5).
"""

import json
from dataclasses import dataclass, field

import sqlalchemy as sa

from core.access import Access
from core.ids import DocumentId, OperationId, RevisionId, SourceId, TenantId, new_id
from core.keys import digest
from corpus.catalog.bindings import PENDING, active_revision, narrow_others, refresh, remember
from corpus.catalog.database import now_us
from corpus.catalog.operations import OperationKind, fail_operation, open_operation
from corpus.catalog.schema import builds, documents, revisions, sources
from corpus.catalog.tenants import step_epoch
from corpus.errors import AccessMissing, BuildNotOpen, EtagMismatch, NotAllowed, NotFound, OlderSourceVersion


@dataclass(frozen=True)
class NewRevision:
    """What a put brings: its bytes are durable in `original_blob` already. `access` None asks for the template.

    `may_grant`: its caller may name any access, not only the template or the document's current one.
    """

    tenant_id: TenantId
    source_id: SourceId
    document_id: DocumentId
    access: Access | None
    created_by: str
    original_blob: str
    sha256: str
    size_bytes: int
    media_type: str
    filename: str
    title: str = ""
    language: str | None = None
    canonical_uri: str = ""
    valid_from: int | None = None
    valid_to: int | None = None
    source_version: int = 0
    build_id: str | None = None
    provenance: dict[str, str] = field(default_factory=dict)
    may_grant: bool = True

    @property
    def request_digest(self) -> str:
        """Over content and metadata, access and provenance's own times excepted."""
        return digest(
            self.sha256, self.media_type, self.title, self.language or "", self.canonical_uri,
            self.valid_from or 0, self.valid_to or 0, self.valid_from is None, self.valid_to is None,
            json.dumps({k: v for k, v in sorted(self.provenance.items()) if not k.startswith("ingested_")}),
        )  # fmt: skip


@dataclass(frozen=True)
class Accepted:
    """How a put was taken; without an operation nothing changed."""

    revision_id: RevisionId
    operation_id: OperationId | None

    @property
    def unchanged(self) -> bool:
        """Whether the active revision is equal already."""
        return self.operation_id is None


def check_put(tx: sa.Connection, new: NewRevision) -> RevisionId | None:
    """Raise what `accept_put` would, before any byte is kept; the active revision when the put equals it."""
    _check_build(tx, new)
    document = _find_or_none(tx, new.tenant_id, new.source_id, new.document_id)
    access = _given(tx, document, new)
    _check_grant(tx, document, new)
    if document is None:
        return None
    _check_source_version(tx, document, new)
    return _unchanged(tx, document, new, access)


def accept_put(tx: sa.Connection, new: NewRevision) -> Accepted:
    """Take a put: its access joins what binds the document from this commit on, its content follows by publication."""
    same = check_put(tx, new)
    if same is not None:
        return Accepted(same, None)
    access = _given(tx, _find_or_none(tx, new.tenant_id, new.source_id, new.document_id), new)
    if new.access is not None:
        remember(tx, new.access)
    document = _document_for_put(tx, new, access)
    revision_id, number = RevisionId(new_id()), document.number + 1
    _set(tx, document, number=number)
    operation_id = open_operation(
        tx, new.tenant_id, OperationKind.PUT, new.created_by,
        document_keys=_in_store(tx, document.document_key), revision_id=revision_id, build_id=new.build_id,
    )  # fmt: skip
    tx.execute(
        revisions.insert().values(
            revision_id=revision_id,
            document_key=document.document_key,
            tenant_id=new.tenant_id,
            number=number,
            state="accepted",
            given=access,
            own=json.dumps([access]),
            binding=json.dumps([access]),
            store_access=access,
            build_id=new.build_id,
            operation_id=operation_id,
            created_at=now_us(),
            source_version=new.source_version,
            request_digest=new.request_digest,
            size_bytes=new.size_bytes,
            media_type=new.media_type,
            filename=new.filename,
            title=new.title,
            language=new.language,
            canonical_uri=new.canonical_uri,
            valid_from=new.valid_from,
            valid_to=new.valid_to,
            provenance=json.dumps(new.provenance),
            original_blob=new.original_blob,
        )
    )
    refresh(tx, document.document_key)
    if document.number:  # a new document narrows nothing: a busy ingest must not make every release judge again
        step_epoch(tx, new.tenant_id)
    return Accepted(revision_id, operation_id)


def set_access(
    tx: sa.Connection, tenant_id: TenantId, source_id: str, document_id: str, access: Access, etag: str, caller: str
) -> tuple[str, OperationId]:
    """Replace the document's access and that of its active revision; without an etag only close. The new etag follows.

    Older revisions are bound too, unless a later SetAccess names them.
    """
    document = _find(tx, tenant_id, source_id, document_id)
    active = active_revision(tx, document)
    if document.tombstone == document.number and active is None:
        raise NotFound(f"document {document_id}")
    if etag and etag != document_etag(document, active):
        raise EtagMismatch(f"document {document_id}")
    number, new = document.number + 1, remember(tx, access)
    named = active.revision_key if etag and active is not None else None
    _set(tx, document, number=number, access=new, access_number=number)
    narrow_others(tx, document.document_key, number, new, named)
    if named is not None:
        tx.execute(
            revisions.update().where(revisions.c.revision_key == named).values(own=json.dumps([new]), named=number)
        )
    refresh(tx, document.document_key)
    step_epoch(tx, tenant_id)
    operation_id = open_operation(
        tx, tenant_id, OperationKind.SET_ACCESS, caller, document_keys=[document.document_key]
    )
    changed = _find(tx, tenant_id, source_id, document_id)
    return document_etag(changed, active), operation_id


def delete_document(
    tx: sa.Connection, tenant_id: TenantId, source_id: str, document_id: str, etag: str, caller: str
) -> OperationId:
    """Set the tombstone: from this commit on nothing numbered below it is released."""
    document = _find(tx, tenant_id, source_id, document_id)
    active = active_revision(tx, document)
    if etag and etag != document_etag(document, active):
        raise EtagMismatch(f"document {document_id}")
    if document.tombstone == document.number:
        raise NotFound(f"document {document_id}")
    number = document.number + 1
    _set(tx, document, number=number, tombstone=number)
    refresh(tx, document.document_key)
    step_epoch(tx, tenant_id)
    return open_operation(tx, tenant_id, OperationKind.DELETE, caller, document_keys=[document.document_key])


def retract_revision(tx: sa.Connection, tenant_id: TenantId, revision_id: str, caller: str) -> OperationId:
    """Withdraw one revision for ever; what it superseded does not come back."""
    row = tx.execute(
        sa.select(revisions).where(revisions.c.revision_id == revision_id, revisions.c.tenant_id == tenant_id)
    ).first()
    if row is None:
        raise NotFound(f"revision {revision_id}")
    tx.execute(revisions.update().where(revisions.c.revision_key == row.revision_key).values(retracted=True))
    refresh(tx, row.document_key)
    step_epoch(tx, tenant_id)
    return open_operation(tx, tenant_id, OperationKind.DELETE, caller, document_keys=[row.document_key])


def fail_put(tx: sa.Connection, revision_id: str, failure: str, message: str) -> None:
    """End a put whose content can't serve. Its narrowing stays until its build is abandoned or a SetAccess names."""
    row = tx.execute(sa.select(revisions).where(revisions.c.revision_id == revision_id)).one()
    if row.state != "accepted":
        return
    end_pending(tx, row, "failed")
    fail_operation(tx, row.operation_id, failure, message)


def end_pending(tx: sa.Connection, revision: sa.Row[tuple[object, ...]], state: str) -> None:
    """Drop or fail a pending revision: it binds earlier ones for ever where until now it bound them as pending."""
    tx.execute(revisions.update().where(revisions.c.revision_key == revision.revision_key).values(state=state))
    narrow_others(tx, revision.document_key, revision.number, revision.given, revision.revision_key)
    refresh(tx, revision.document_key)


def document_etag(document: sa.Row[tuple[object, ...]], active: sa.Row[tuple[object, ...]] | None) -> str:
    """What a caller saw: the document's number and the revision that served."""
    return etag_of(document.document_key, document.number, active.revision_id if active is not None else "")


def etag_of(document_key: int, number: int, active_revision_id: str) -> str:
    """Opaque; equal only while nothing was accepted for the document and the same revision serves."""
    return digest("etag", document_key, number, active_revision_id)[:32]


def _template(tx: sa.Connection, new: NewRevision) -> str:
    row = tx.execute(
        sa.select(sources.c.access_template).where(
            sources.c.tenant_id == new.tenant_id, sources.c.source_id == new.source_id
        )
    ).first()
    if row is None:
        raise NotFound(f"source {new.source_id}")
    if row.access_template is None:
        raise AccessMissing(f"document {new.document_id}")
    return str(row.access_template)


def _check_build(tx: sa.Connection, new: NewRevision) -> None:
    if new.build_id is None:
        return
    row = tx.execute(sa.select(builds).where(builds.c.build_id == new.build_id)).first()
    if row is None or row.tenant_id != new.tenant_id:
        raise NotFound(f"build {new.build_id}")
    if row.state != "open" or row.source_id != new.source_id:
        raise BuildNotOpen(f"build {new.build_id}")


def _check_grant(tx: sa.Connection, document: sa.Row[tuple[object, ...]] | None, new: NewRevision) -> None:
    """Without the grant right a put names what the document has and every put on its way gives it, else the template.

    Within the transaction that accepts: an upload may take minutes, and a SetAccess in between must not be undone by
    somebody who may not grant.
    """
    if new.access is None or new.may_grant:
        return
    if set(_current(tx, document) or [_template(tx, new)]) != {new.access.digest}:
        raise NotAllowed("another access than the document's")


def _given(tx: sa.Connection, document: sa.Row[tuple[object, ...]] | None, new: NewRevision) -> str:
    """The digest of the put's access: the one it names, else the document's newest, else the source's template."""
    if new.access is not None:
        return new.access.digest
    current = _current(tx, document)
    return current[-1] if current else _template(tx, new)


def _current(tx: sa.Connection, document: sa.Row[tuple[object, ...]] | None) -> list[str]:
    """The document's current access and those that puts on their way give it, oldest first; none once it is deleted."""
    if document is None or document.tombstone == document.number:
        return []
    coming = sa.select(revisions.c.given).where(
        revisions.c.document_key == document.document_key,
        revisions.c.state.in_(PENDING),
        revisions.c.number > document.access_number,
    )
    return [document.access, *tx.execute(coming.order_by(revisions.c.number)).scalars()]


def _in_store(tx: sa.Connection, document_key: int) -> list[int]:
    """The document, if anything of it was ever published: else the store has nothing that could differ."""
    published = sa.select(revisions.c.revision_key).where(
        revisions.c.document_key == document_key, revisions.c.state == "published"
    )
    return [document_key] if tx.execute(published.limit(1)).first() else []


def _document_for_put(tx: sa.Connection, new: NewRevision, access: str) -> sa.Row[tuple[object, ...]]:
    found = _find_or_none(tx, new.tenant_id, new.source_id, new.document_id)
    if found is None:
        tx.execute(
            documents.insert().values(
                tenant_id=new.tenant_id, source_id=new.source_id, document_id=new.document_id,
                access=access, access_number=0,
            )
        )  # fmt: skip
        return _find(tx, new.tenant_id, new.source_id, new.document_id)
    return found


def _check_source_version(tx: sa.Connection, document: sa.Row[tuple[object, ...]], new: NewRevision) -> None:
    if not new.source_version:
        return
    newest = tx.execute(
        sa.select(sa.func.max(revisions.c.source_version)).where(
            revisions.c.document_key == document.document_key,
            revisions.c.state.in_(("accepted", "staged", "published")),
        )
    ).scalar()
    if newest and newest > new.source_version:
        raise OlderSourceVersion(f"document {new.document_id}")


def _unchanged(
    tx: sa.Connection, document: sa.Row[tuple[object, ...]], new: NewRevision, access: str
) -> RevisionId | None:
    """The active revision when it equals the put and nothing else is on its way for the document."""
    active = active_revision(tx, document)
    if active is None or active.request_digest != new.request_digest or document.access != access:
        return None
    if json.loads(active.binding) != [access] or document.number > max(active.number, document.access_number):
        return None
    return RevisionId(active.revision_id)


def _find_or_none(
    tx: sa.Connection, tenant_id: TenantId, source_id: str, document_id: str
) -> sa.Row[tuple[object, ...]] | None:
    return tx.execute(
        sa.select(documents).where(
            documents.c.tenant_id == tenant_id,
            documents.c.source_id == source_id,
            documents.c.document_id == document_id,
        )
    ).first()


def _find(tx: sa.Connection, tenant_id: TenantId, source_id: str, document_id: str) -> sa.Row[tuple[object, ...]]:
    row = _find_or_none(tx, tenant_id, source_id, document_id)
    if row is None:
        raise NotFound(f"document {document_id}")
    return row


def _set(tx: sa.Connection, document: sa.Row[tuple[object, ...]], **values: object) -> None:
    tx.execute(documents.update().where(documents.c.document_key == document.document_key).values(**values))
