"""Every RPC as a function from friendly arguments to a value that says what to call; both clients run these."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from muniment._shapes import Pages, Stream, Unary, Upload
from muniment.v1 import (
    common_pb2,
    document_pb2,
    evidence_pb2,
    operation_pb2,
    publication_pb2,
    source_pb2,
)

DEFAULT_TIMEOUT = 30.0
UPLOAD_TIMEOUT = 300.0

Trust = Literal["untrusted", "reviewed", "authoritative"]
Role = Literal["user", "assistant"]
_TRUST: dict[str, common_pb2.TrustTier.ValueType] = {
    "untrusted": common_pb2.TRUST_TIER_UNTRUSTED,
    "reviewed": common_pb2.TRUST_TIER_REVIEWED,
    "authoritative": common_pb2.TRUST_TIER_AUTHORITATIVE,
}
_ROLES: dict[str, evidence_pb2.Turn.Role.ValueType] = {
    "user": evidence_pb2.Turn.ROLE_USER,
    "assistant": evidence_pb2.Turn.ROLE_ASSISTANT,
}


def _method(file: FileDescriptor, service: str, name: str) -> MethodDescriptor:
    method: MethodDescriptor = file.services_by_name[service].methods_by_name[name]
    return method


def _evidence(name: str) -> MethodDescriptor:
    return _method(evidence_pb2.DESCRIPTOR, "EvidenceService", name)


def _source(name: str) -> MethodDescriptor:
    return _method(source_pb2.DESCRIPTOR, "SourceService", name)


def _document(name: str) -> MethodDescriptor:
    return _method(document_pb2.DESCRIPTOR, "DocumentService", name)


def _publication(name: str) -> MethodDescriptor:
    return _method(publication_pb2.DESCRIPTOR, "PublicationService", name)


def _operation(name: str) -> MethodDescriptor:
    return _method(operation_pb2.DESCRIPTOR, "OperationService", name)


def timestamp(moment: datetime) -> Timestamp:
    """As a proto Timestamp; ValueError for a moment without a zone, which would mean another one elsewhere."""
    if moment.tzinfo is None:
        raise ValueError("a datetime must have a time zone")
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp


def _consistency(
    at_least_snapshot: str | None,
    exact_snapshot: str | None,
    known_at: datetime | None,
    max_staleness: timedelta | None,
) -> evidence_pb2.Consistency | None:
    staleness = None
    if max_staleness is not None:
        staleness = Duration()
        staleness.FromTimedelta(max_staleness)
    given = {
        "at_least_snapshot": at_least_snapshot,
        "exact_snapshot": exact_snapshot,
        "known_at": None if known_at is None else timestamp(known_at),
        "max_staleness": staleness,
    }
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if len(chosen) > 1:
        raise ValueError(f"only one of {', '.join(chosen)} can be asked for")
    return evidence_pb2.Consistency(**chosen) if chosen else None


def _search_request(
    query: str,
    conversation: Iterable[tuple[Role, str]],
    scope: evidence_pb2.Scope,
    consistency: evidence_pb2.Consistency | None,
    valid_at: datetime | None,
    **rest: Any,
) -> evidence_pb2.SearchRequest:
    return evidence_pb2.SearchRequest(
        query=query,
        conversation=[evidence_pb2.Turn(role=_ROLES[role], text=text) for role, text in conversation],
        scope=scope if scope.ByteSize() else None,
        consistency=consistency,
        valid_at=None if valid_at is None else timestamp(valid_at),
        **rest,
    )


def search(
    query: str,
    *,
    conversation: Iterable[tuple[Role, str]] = (),
    source_ids: Iterable[str] = (),
    document_ids: Iterable[str] = (),
    languages: Iterable[str] = (),
    at_least_snapshot: str | None = None,
    exact_snapshot: str | None = None,
    known_at: datetime | None = None,
    max_staleness: timedelta | None = None,
    valid_at: datetime | None = None,
    max_evidence: int = 0,
    max_tokens: int = 0,
    profile: str = "",
    basic: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> Unary[evidence_pb2.EvidencePacket]:
    """Evidence for a question, as an EvidencePacket; `basic` leaves the texts out. 0 and empty mean the defaults."""
    request = _search_request(
        query,
        conversation,
        evidence_pb2.Scope(source_ids=source_ids, document_ids=document_ids, languages=languages),
        _consistency(at_least_snapshot, exact_snapshot, known_at, max_staleness),
        valid_at,
        max_evidence=max_evidence,
        max_tokens=max_tokens,
        profile=profile,
        view=evidence_pb2.PACKET_VIEW_BASIC if basic else evidence_pb2.PACKET_VIEW_UNSPECIFIED,
    )
    return Unary(_evidence("Search"), request, lambda response: response.packet, timeout)


def answer(
    query: str,
    *,
    conversation: Iterable[tuple[Role, str]] = (),
    source_ids: Iterable[str] = (),
    document_ids: Iterable[str] = (),
    languages: Iterable[str] = (),
    at_least_snapshot: str | None = None,
    exact_snapshot: str | None = None,
    known_at: datetime | None = None,
    max_staleness: timedelta | None = None,
    valid_at: datetime | None = None,
    max_evidence: int = 0,
    max_tokens: int = 0,
    profile: str = "",
    max_claims: int = 0,
    timeout: float = DEFAULT_TIMEOUT,
) -> Stream[evidence_pb2.AnswerResponse]:
    """AnswerResponses as they come: packet, then claims or an abstention, then the summary (see `WhichOneof`)."""
    request = _search_request(
        query,
        conversation,
        evidence_pb2.Scope(source_ids=source_ids, document_ids=document_ids, languages=languages),
        _consistency(at_least_snapshot, exact_snapshot, known_at, max_staleness),
        valid_at,
        max_evidence=max_evidence,
        max_tokens=max_tokens,
        profile=profile,
    )
    whole = evidence_pb2.AnswerRequest(search=request, max_claims=max_claims)
    return Stream(_evidence("Answer"), whole, lambda response: response, timeout)


def resolve_citation(
    evidence_id: str, *, timeout: float = DEFAULT_TIMEOUT
) -> Unary[evidence_pb2.ResolveCitationResponse]:
    """The exact text that an evidence id names, and whether its revision is current, as a ResolveCitationResponse."""
    request = evidence_pb2.ResolveCitationRequest(evidence_id=evidence_id)
    return Unary(_evidence("ResolveCitation"), request, lambda response: response, timeout)


def create_source(
    source_id: str,
    *,
    display_name: str = "",
    trust: Trust = "reviewed",
    access_template: common_pb2.Access | None = None,
    writer_groups: Iterable[str] = (),
    writer_subjects: Iterable[str] = (),
    grant_groups: Iterable[str] = (),
    grant_subjects: Iterable[str] = (),
    idempotency_key: str = "",
    timeout: float = DEFAULT_TIMEOUT,
) -> Unary[source_pb2.Source]:
    """Make a source; needs the role publisher. Returns the Source."""
    source = source_pb2.Source(
        source_id=source_id,
        display_name=display_name,
        trust=_TRUST[trust],
        access_template=access_template,
        writer_groups=writer_groups,
        writer_subjects=writer_subjects,
        grant_groups=grant_groups,
        grant_subjects=grant_subjects,
    )
    request = source_pb2.CreateSourceRequest(source=source, idempotency_key=idempotency_key)
    return Unary(_source("CreateSource"), request, lambda response: response.source, timeout)


def get_source(source_id: str, *, timeout: float = DEFAULT_TIMEOUT) -> Unary[source_pb2.Source]:
    """The Source of that id."""
    request = source_pb2.GetSourceRequest(source_id=source_id)
    return Unary(_source("GetSource"), request, lambda response: response.source, timeout)


def list_sources(*, page_size: int = 0, timeout: float = DEFAULT_TIMEOUT) -> Pages[source_pb2.Source]:
    """Iterates over every Source that the token may see."""
    request = source_pb2.ListSourcesRequest(page_size=page_size)
    return Pages(_source("ListSources"), request, lambda response: response.sources, timeout)


def put_document(
    source_id: str,
    document_id: str,
    content: bytes | Path,
    *,
    media_type: str = "",
    filename: str = "",
    title: str = "",
    canonical_uri: str = "",
    language: str = "",
    access: common_pb2.Access | None = None,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
    provenance: common_pb2.Provenance | None = None,
    source_version: int = 0,
    build_id: str = "",
    idempotency_key: str = "",
    wait: bool = True,
    wait_timeout: float = UPLOAD_TIMEOUT,
    timeout: float = UPLOAD_TIMEOUT,
) -> Upload:
    """Store a document; a path is read whole and names the file. Returns the PutDocumentResponse.

    Bytes have no name: `media_type` ("text/markdown") or `filename` ("leave.md") says what they are.

    With `wait`, returns once the document is served, with the ended operation in the response, and raises
    OperationFailed when it never will be. A put into an open build is served when the build is published: there
    `wait` has no effect.
    """
    if isinstance(content, Path):
        filename = filename or content.name
        content = content.read_bytes()
    valid = None
    if valid_from is not None or valid_to is not None:
        # `from` is a keyword, so it can't be written as an argument.
        ends = {"from": valid_from, "to": valid_to}
        valid = common_pb2.Interval(**{name: timestamp(end) for name, end in ends.items() if end is not None})
    metadata = document_pb2.DocumentMetadata(
        source_id=source_id,
        document_id=document_id,
        media_type=media_type,
        filename=filename,
        title=title,
        canonical_uri=canonical_uri,
        language=language,
        access=access,
        valid=valid,
        provenance=provenance,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        source_version=source_version,
        build_id=build_id,
        idempotency_key=idempotency_key,
    )
    waits = wait_timeout if wait and not build_id else None
    return Upload(_document("PutDocument"), metadata, content, timeout, waits)


def get_document(source_id: str, document_id: str, *, timeout: float = DEFAULT_TIMEOUT) -> Unary[document_pb2.Document]:
    """The Document with the revision that the latest snapshot serves."""
    request = document_pb2.GetDocumentRequest(source_id=source_id, document_id=document_id)
    return Unary(_document("GetDocument"), request, lambda response: response.document, timeout)


def list_documents(
    source_id: str = "", *, page_size: int = 0, timeout: float = DEFAULT_TIMEOUT
) -> Pages[document_pb2.Document]:
    """Iterates over every visible Document of a source, or of all sources."""
    request = document_pb2.ListDocumentsRequest(source_id=source_id, page_size=page_size)
    return Pages(_document("ListDocuments"), request, lambda response: response.documents, timeout)


def list_revisions(
    source_id: str, document_id: str, *, page_size: int = 0, timeout: float = DEFAULT_TIMEOUT
) -> Pages[document_pb2.Revision]:
    """Iterates over the visible Revisions of a document, newest first."""
    request = document_pb2.ListRevisionsRequest(source_id=source_id, document_id=document_id, page_size=page_size)
    return Pages(_document("ListRevisions"), request, lambda response: response.revisions, timeout)


def set_access(
    source_id: str,
    document_id: str,
    access: common_pb2.Access,
    *,
    etag: str = "",
    idempotency_key: str = "",
    timeout: float = DEFAULT_TIMEOUT,
) -> Unary[document_pb2.SetAccessResponse]:
    """Change who may see a document: replaces with the document's etag, only closes without. Holds on return."""
    request = document_pb2.SetAccessRequest(
        source_id=source_id, document_id=document_id, access=access, etag=etag, idempotency_key=idempotency_key
    )
    return Unary(_document("SetAccess"), request, lambda response: response, timeout)


def delete_document(
    source_id: str,
    document_id: str,
    *,
    etag: str = "",
    idempotency_key: str = "",
    timeout: float = DEFAULT_TIMEOUT,
) -> Unary[operation_pb2.Operation]:
    """Delete: unseen from the return on. Returns the Operation that tracks clean-up."""
    request = document_pb2.DeleteDocumentRequest(
        source_id=source_id, document_id=document_id, etag=etag, idempotency_key=idempotency_key
    )
    return Unary(_document("DeleteDocument"), request, lambda response: response.operation, timeout)


def begin_build(
    source_id: str, *, idempotency_key: str = "", timeout: float = DEFAULT_TIMEOUT
) -> Unary[publication_pb2.Build]:
    """Open a Build: puts that name it are published together."""
    request = publication_pb2.BeginBuildRequest(source_id=source_id, idempotency_key=idempotency_key)
    return Unary(_publication("BeginBuild"), request, lambda response: response.build, timeout)


def publish_build(
    build_id: str, *, idempotency_key: str = "", timeout: float = DEFAULT_TIMEOUT
) -> Unary[operation_pb2.Operation]:
    """Publish a build. Returns its Operation: `wait_operation` waits for it."""
    request = publication_pb2.PublishBuildRequest(build_id=build_id, idempotency_key=idempotency_key)
    return Unary(_publication("PublishBuild"), request, lambda response: response.operation, timeout)


def abandon_build(
    build_id: str, *, idempotency_key: str = "", timeout: float = DEFAULT_TIMEOUT
) -> Unary[operation_pb2.Operation]:
    """Abandon a build: nothing of it is ever served. Returns its Operation."""
    request = publication_pb2.AbandonBuildRequest(build_id=build_id, idempotency_key=idempotency_key)
    return Unary(_publication("AbandonBuild"), request, lambda response: response.operation, timeout)


def list_snapshots(*, page_size: int = 0, timeout: float = DEFAULT_TIMEOUT) -> Pages[publication_pb2.Snapshot]:
    """Iterates over the tenant's Snapshots, newest first; needs the role publisher."""
    request = publication_pb2.ListSnapshotsRequest(page_size=page_size)
    return Pages(_publication("ListSnapshots"), request, lambda response: response.snapshots, timeout)


def get_snapshot(snapshot: str, *, timeout: float = DEFAULT_TIMEOUT) -> Unary[publication_pb2.Snapshot]:
    """The Snapshot of that token; needs the role publisher."""
    request = publication_pb2.GetSnapshotRequest(snapshot=snapshot)
    return Unary(_publication("GetSnapshot"), request, lambda response: response.snapshot, timeout)


def rollback(
    snapshot: str, *, idempotency_key: str = "", timeout: float = DEFAULT_TIMEOUT
) -> Unary[publication_pb2.Snapshot]:
    """Make an earlier Snapshot the latest, less what was denied since; needs the role publisher."""
    request = publication_pb2.RollbackRequest(snapshot=snapshot, idempotency_key=idempotency_key)
    return Unary(_publication("Rollback"), request, lambda response: response.snapshot, timeout)


def get_operation(operation_id: str, *, timeout: float = DEFAULT_TIMEOUT) -> Unary[operation_pb2.Operation]:
    """The Operation of that id, as it stands."""
    request = operation_pb2.GetOperationRequest(operation_id=operation_id)
    return Unary(_operation("GetOperation"), request, lambda response: response.operation, timeout)


def watch_operation(operation_id: str, *, timeout: float = UPLOAD_TIMEOUT) -> Stream[operation_pb2.Operation]:
    """Each change of the Operation until it has ended."""
    request = operation_pb2.WatchOperationRequest(operation_id=operation_id)
    return Stream(_operation("WatchOperation"), request, lambda response: response.operation, timeout)
