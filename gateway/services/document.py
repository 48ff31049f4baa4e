"""DocumentService: puts, access changes and deletions; documents and revisions as their reader may see them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import sqlalchemy as sa
from google.protobuf.message import Message
from muniment.v1 import document_pb2

from core.access import Access
from core.errors import InvalidValue
from core.ids import DocumentId, FragmentId, SourceId, clean_text
from core.keys import digest
from corpus.acknowledge import acknowledgeable
from corpus.blobs import BlobKind
from corpus.catalog.documents import NewRevision, accept_put, check_put, delete_document, set_access
from corpus.catalog.idempotency import Request, kept_answer, once
from corpus.catalog.operations import read_operation
from corpus.catalog.sources import SourceRecord
from corpus.errors import NotAllowed, NotFound
from corpus.pinning import Consistency
from corpus.reading import DocumentRecord
from gateway.call import Call
from gateway.decode import access_of, interval_of, micros_of
from gateway.encode import document_message, operation_message, revision_message
from gateway.registration import Service
from gateway.serving import Serving, build_for, caller_of, known_as, may_grant, page_size, source_for, view_of
from gateway.upload import Messages, Upload, first_of, receive
from policy.audit import ReleasedItem
from policy.engine import Permission
from retrieval.gate import Ready
from retrieval.view import View

_DESCRIPTOR = document_pb2.DESCRIPTOR.services_by_name["DocumentService"]

Render = Callable[[list[DocumentRecord]], bytes]


def document_service(serving: Serving) -> Service:
    """The service with its handlers."""
    reads, writes = _Reads(serving), _Writes(serving)
    return Service(
        _DESCRIPTOR,
        {
            "PutDocument": writes.put,
            "SetAccess": writes.set_access,
            "DeleteDocument": writes.delete,
            "GetDocument": reads.get,
            "ListDocuments": reads.list_documents,
            "ListRevisions": reads.list_revisions,
        },
    )


class _Writes:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def put(self, messages: Messages, call: Call) -> bytes:
        first = await first_of(messages)
        metadata = first.metadata
        source, permission = await source_for(self._serving, call, "PutDocument", metadata.source_id)
        access = access_of(metadata.access, "metadata.access") if metadata.HasField("access") else None
        self._check_grant(source, permission, metadata.document_id, access)
        if metadata.build_id:
            await build_for(self._serving, call, "PutDocument", "PublishOthersBuild", metadata.build_id)
        valid = interval_of(metadata.valid, "metadata.valid")
        provenance = _provenance(metadata, f"{call.principal.issuer} {call.principal.subject}")
        upload = await receive(first, messages, self._serving.max_document_bytes)
        document = (source.source_id, DocumentId(clean_text("metadata.document_id", metadata.document_id)))
        new = _new_revision(metadata, call, document, upload, access, valid, provenance)
        new = replace(new, may_grant=permission.may_grant)  # asked again at acceptance: access may have moved meanwhile
        request = self._request(call, "PutDocument", metadata.idempotency_key, metadata.SerializeToString())
        # Before anything is kept: a refused put leaves no blob behind.
        answered = await self._serving.database.write(lambda tx: _answered(tx, request, new))
        if answered is not None:
            if metadata.idempotency_key:  # the first answer's narrowing may have been committed just now
                await acknowledgeable()
            return answered
        blob = await asyncio.to_thread(
            self._serving.blobs.write, call.principal.tenant_id, document, BlobKind.ORIGINAL, upload.data
        )
        kept = replace(new, original_blob=blob)
        raw = await self._serving.database.write(lambda tx: once(tx, request, lambda tx: self._accepted(tx, kept)))
        await acknowledgeable()
        return raw

    async def set_access(self, request: document_pb2.SetAccessRequest, call: Call) -> bytes:
        source, _ = await source_for(self._serving, call, "SetAccess", request.source_id)
        access = access_of(request.access, "access")
        key = self._request(call, "SetAccess", request.idempotency_key, request.SerializeToString())

        def command(tx: sa.Connection) -> bytes:
            etag, operation_id = set_access(
                tx,
                source.tenant_id,
                source.source_id,
                known_as(request.document_id),
                access,
                request.etag,
                caller_of(call.principal),
            )
            operation = operation_message(read_operation(tx, operation_id), self._serving.tokens)
            return _raw(document_pb2.SetAccessResponse(etag=etag, operation=operation))

        raw = await self._serving.database.write(lambda tx: once(tx, key, command))
        await acknowledgeable()
        return raw

    async def delete(self, request: document_pb2.DeleteDocumentRequest, call: Call) -> bytes:
        source, _ = await source_for(self._serving, call, "DeleteDocument", request.source_id)
        key = self._request(call, "DeleteDocument", request.idempotency_key, request.SerializeToString())

        def command(tx: sa.Connection) -> bytes:
            operation_id = delete_document(
                tx,
                source.tenant_id,
                source.source_id,
                known_as(request.document_id),
                request.etag,
                caller_of(call.principal),
            )
            operation = operation_message(read_operation(tx, operation_id), self._serving.tokens)
            return _raw(document_pb2.DeleteDocumentResponse(operation=operation))

        raw = await self._serving.database.write(lambda tx: once(tx, key, command))
        await acknowledgeable()
        return raw

    def _check_grant(
        self, source: SourceRecord, permission: Permission, document_id: str, access: Access | None
    ) -> None:
        """Naming an access other than the source's template or the document's current one needs the grant right."""
        if access is None or permission.may_grant or access == source.access_template:
            return
        current = self._serving.database.read(
            "SELECT access FROM documents WHERE tenant_id = ? AND source_id = ? AND document_id = ?",
            (source.tenant_id, source.source_id, known_as(document_id)),
        )
        if not current or current[0][0] != access.digest:
            raise NotAllowed("another access than the template")

    def _accepted(self, tx: sa.Connection, new: NewRevision) -> bytes:
        accepted = accept_put(tx, new)
        response = document_pb2.PutDocumentResponse(
            revision_id=accepted.revision_id, unchanged=accepted.operation_id is None
        )
        if accepted.operation_id is not None:
            operation = read_operation(tx, accepted.operation_id)
            response.operation.CopyFrom(operation_message(operation, self._serving.tokens))
        return _raw(response)

    def _request(self, call: Call, rpc: str, key: str, raw: bytes) -> Request:
        return Request(call.principal.tenant_id, caller_of(call.principal), rpc, key, digest(raw))


class _Reads:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def get(self, request: document_pb2.GetDocumentRequest, call: Call) -> bytes:
        view = await view_of(self._serving, call, "GetDocument")
        document = view.opened.document(known_as(request.source_id), known_as(request.document_id))
        if document is None:
            raise NotFound(f"document {request.document_id}")
        grants = await may_grant(self._serving, call, known_as(request.source_id))

        def render(shown: list[DocumentRecord]) -> bytes:
            if not shown:
                raise NotFound(f"document {request.document_id}")
            return _raw(document_pb2.GetDocumentResponse(document=document_message(shown[0], with_access=grants)))

        return await self._release(view, "GetDocument", [document], render)

    async def list_documents(self, request: document_pb2.ListDocumentsRequest, call: Call) -> bytes:
        size, tenant_id = page_size(request.page_size), call.principal.tenant_id
        asked = ("ListDocuments", request.source_id, call.principal.digest)
        place = self._serving.tokens.place(tenant_id, digest(*asked), request.page_token)
        consistency = Consistency() if place is None else Consistency(exact=int(place[0]))
        view = await view_of(self._serving, call, "ListDocuments", consistency)
        if place is not None and place[1] != view.decision.fingerprint:
            raise InvalidValue("page_token", "belongs to an answer under other rights")
        after = ("", "") if place is None else (str(place[2]), str(place[3]))
        found = await view.opened.documents(known_as(request.source_id), after, size + 1, call.budget)
        token = ""
        if len(found) > size:
            last = found[size - 1].revision.subject
            values = [view.opened.pin.seq, view.decision.fingerprint, last.source, last.document]
            token = self._serving.tokens.page(tenant_id, digest(*asked), values)
        sources = {record.revision.subject.source for record in found}
        grants = {source for source in sources if await may_grant(self._serving, call, source)}

        def render(shown: list[DocumentRecord]) -> bytes:
            messages = [document_message(d, with_access=d.revision.subject.source in grants) for d in shown]
            return _raw(document_pb2.ListDocumentsResponse(documents=messages, next_page_token=token))

        return await self._release(view, "ListDocuments", found[:size], render)

    async def list_revisions(self, request: document_pb2.ListRevisionsRequest, call: Call) -> bytes:
        size, tenant_id = page_size(request.page_size), call.principal.tenant_id
        bound_to = digest("ListRevisions", request.source_id, request.document_id, call.principal.digest)
        place = self._serving.tokens.place(tenant_id, bound_to, request.page_token)
        view = await view_of(self._serving, call, "ListRevisions")
        below = "" if place is None else str(place[0])
        found = await view.opened.document_revisions(
            known_as(request.source_id), known_as(request.document_id), below, size + 1, call.budget
        )
        if not found and place is None:
            raise NotFound(f"document {request.document_id}")
        more = len(found) > size
        token = self._serving.tokens.page(tenant_id, bound_to, [found[size - 1].revision.revision_id]) if more else ""

        def render(shown: list[DocumentRecord]) -> bytes:
            if not shown and place is None:
                raise NotFound(f"document {request.document_id}")
            messages = [revision_message(record) for record in shown]
            return _raw(document_pb2.ListRevisionsResponse(revisions=messages, next_page_token=token))

        return await self._release(view, "ListRevisions", found[:size], render, live=False)

    async def _release(
        self, view: View, rpc: str, found: list[DocumentRecord], render: Render, *, live: bool = True
    ) -> bytes:
        def ready(allowed: frozenset[int]) -> Ready:
            shown = [record for record in found if record.revision.revision_key in allowed]
            return Ready(render(shown), tuple(_item(record) for record in shown))

        keys = [record.revision.revision_key for record in found]
        return await self._serving.gate.release(view, rpc, keys, ready, live=live)


def _item(record: DocumentRecord) -> ReleasedItem:
    subject = record.revision.subject
    return ReleasedItem(
        "", SourceId(subject.source), DocumentId(subject.document), record.revision.revision_id, FragmentId("")
    )


def _answered(tx: sa.Connection, request: Request, new: NewRevision) -> bytes | None:
    """The answer where nothing is to be stored: a kept one before all checks, as the document has moved on since."""
    known = kept_answer(tx, request) if request.key else None
    if known is not None:
        return known
    same = check_put(tx, new)
    if same is None:
        return None
    unchanged = _raw(document_pb2.PutDocumentResponse(revision_id=same, unchanged=True))
    return once(tx, request, lambda _: unchanged)


def _new_revision(
    metadata: document_pb2.DocumentMetadata,
    call: Call,
    document: tuple[SourceId, DocumentId],
    upload: Upload,
    access: Access | None,
    valid: tuple[int | None, int | None],
    provenance: dict[str, str],
) -> NewRevision:
    return NewRevision(
        tenant_id=call.principal.tenant_id,
        source_id=document[0],
        document_id=document[1],
        access=access,
        created_by=caller_of(call.principal),
        original_blob="",
        sha256=metadata.sha256.lower(),
        size_bytes=len(upload.data),
        media_type=upload.media_type,
        filename=metadata.filename,
        title=metadata.title,
        language=metadata.language or None,
        canonical_uri=metadata.canonical_uri,
        valid_from=valid[0],
        valid_to=valid[1],
        source_version=metadata.source_version,
        build_id=metadata.build_id or None,
        provenance=provenance,
    )


def _provenance(metadata: document_pb2.DocumentMetadata, caller: str) -> dict[str, str]:
    given = metadata.provenance
    values = {name: getattr(given, name) for name in ("publisher", "author", "source_type", "collected_via")}
    if given.HasField("modified_at"):
        values["modified_at"] = str(micros_of(given.modified_at, "metadata.provenance.modified_at"))
    return {
        **{name: value for name, value in values.items() if value},
        "ingested_at": str(time.time_ns() // 1000),
        "ingested_by": caller,
    }


def _raw(message: Message) -> bytes:
    raw: bytes = message.SerializeToString()
    return raw
