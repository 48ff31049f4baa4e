"""From values of the rooms to messages."""

from collections.abc import Mapping

from google.protobuf.timestamp_pb2 import Timestamp
from muniment.v1 import common_pb2, document_pb2, evidence_pb2, operation_pb2, source_pb2

from core.access import Access
from core.attributes import TrustTier
from core.document import Span
from core.keys import keyed_digest
from core.stages import BUDGET_MS, Degradation, StageReport
from corpus.catalog.documents import etag_of
from corpus.catalog.operations import Operation, OperationKind, OperationState
from corpus.catalog.sources import SourceRecord
from corpus.reading import DocumentRecord
from corpus.record import RevisionRecord
from gateway.opaque import OpaqueTokens
from gateway.serving import Serving
from generation.claims import Abstention, AbstentionReason, Claim, Summary
from policy.principal import Role
from retrieval.search import Found
from retrieval.types import Channel, EvidenceItem, EvidenceKind, Packet, PassageRole, Verdict
from retrieval.view import View

_ROLES = {
    PassageRole.BODY: evidence_pb2.PASSAGE_ROLE_BODY,
    PassageRole.TABLE_HEADER: evidence_pb2.PASSAGE_ROLE_TABLE_HEADER,
    PassageRole.LIST_INTRO: evidence_pb2.PASSAGE_ROLE_LIST_INTRO,
}
_KINDS = {
    EvidenceKind.TEXT: evidence_pb2.EVIDENCE_KIND_TEXT,
    EvidenceKind.TABLE: evidence_pb2.EVIDENCE_KIND_TABLE,
    EvidenceKind.LIST: evidence_pb2.EVIDENCE_KIND_LIST,
    EvidenceKind.CODE: evidence_pb2.EVIDENCE_KIND_CODE,
}
_CHANNELS = {Channel.LEXICAL: evidence_pb2.CHANNEL_LEXICAL, Channel.DENSE: evidence_pb2.CHANNEL_DENSE}
_VERDICTS = {
    Verdict.EMPTY: evidence_pb2.SUFFICIENCY_VERDICT_EMPTY,
    Verdict.WEAK: evidence_pb2.SUFFICIENCY_VERDICT_WEAK,
    Verdict.SUFFICIENT: evidence_pb2.SUFFICIENCY_VERDICT_SUFFICIENT,
}
_DEGRADATIONS = {
    Degradation.LEXICAL_ONLY: evidence_pb2.DEGRADATION_KIND_LEXICAL_ONLY,
    Degradation.CHANNEL_MISSING: evidence_pb2.DEGRADATION_KIND_CHANNEL_MISSING,
}
_TRUST = {
    TrustTier.UNTRUSTED: common_pb2.TRUST_TIER_UNTRUSTED,
    TrustTier.REVIEWED: common_pb2.TRUST_TIER_REVIEWED,
    TrustTier.AUTHORITATIVE: common_pb2.TRUST_TIER_AUTHORITATIVE,
}
_ABSTENTIONS = {
    AbstentionReason.INSUFFICIENT_EVIDENCE: evidence_pb2.ABSTENTION_REASON_INSUFFICIENT_EVIDENCE,
    AbstentionReason.BUDGET_EXHAUSTED: evidence_pb2.ABSTENTION_REASON_BUDGET_EXHAUSTED,
}
_OPERATION_KINDS = {
    OperationKind.PUT: operation_pb2.OPERATION_KIND_PUT,
    OperationKind.SET_ACCESS: operation_pb2.OPERATION_KIND_SET_ACCESS,
    OperationKind.DELETE: operation_pb2.OPERATION_KIND_DELETE,
    OperationKind.PUBLISH: operation_pb2.OPERATION_KIND_PUBLISH,
    OperationKind.ABANDON: operation_pb2.OPERATION_KIND_ABANDON,
}
_OPERATION_STATES = {
    OperationState.PENDING: operation_pb2.OPERATION_STATE_PENDING,
    OperationState.RUNNING: operation_pb2.OPERATION_STATE_RUNNING,
    OperationState.SUCCEEDED: operation_pb2.OPERATION_STATE_SUCCEEDED,
    OperationState.FAILED: operation_pb2.OPERATION_STATE_FAILED,
}


def packet_message(
    serving: Serving, view: View, packet: Packet, found: Found, packet_id: str, request_id: str, *, with_text: bool
) -> evidence_pb2.EvidencePacket:
    """The packet; diagnostics only for the role evaluator."""
    pin = view.opened.pin
    message = evidence_pb2.EvidencePacket(
        packet_id=packet_id,
        request_id=request_id,
        snapshot=serving.tokens.snapshot(pin.tenant_id, pin.seq),
        evidence=[evidence_message(item, with_text=with_text) for item in packet.items],
        sufficiency=evidence_pb2.Sufficiency(verdict=_VERDICTS[packet.sufficiency]),
        tokens=evidence_pb2.TokenLedger(
            tokenizer=packet.tokens.tokenizer, limit=packet.tokens.limit, used=packet.tokens.used
        ),
        degradations=[_DEGRADATIONS[degradation] for degradation in packet.degradations],
        receipt=evidence_pb2.AccessReceipt(
            decision_id=view.decision_id,
            policy_revision=pin.policy_revision,
            data_revision=pin.data_revision,
            fingerprint=keyed_digest(serving.fingerprint_key, "fingerprint", view.decision.fingerprint)[:32],
            decided_at=Timestamp(seconds=pin.now),
        ),
        valid_at=Timestamp(seconds=pin.valid_at),
    )
    if Role.EVALUATOR in view.principal.roles:
        message.diagnostics.CopyFrom(
            evidence_pb2.Diagnostics(
                stages=stage_messages(view.stages.reports),
                channel_hits={channel.value: count for channel, count in found.channel_hits.items()},
                refills=found.refills,
            )
        )
    return message


def stage_messages(reports: list[StageReport]) -> list[evidence_pb2.StageReport]:
    """Each stage once, its reports added up."""
    merged: dict[str, evidence_pb2.StageReport] = {}
    for report in reports:
        name = report.stage.value
        message = merged.setdefault(name, evidence_pb2.StageReport(stage=name, budget_ms=BUDGET_MS[report.stage]))
        message.elapsed_ms += report.elapsed_ms
        if report.degradation is not None:
            message.degradation = _DEGRADATIONS[report.degradation]
    return list(merged.values())


def evidence_message(item: EvidenceItem, *, with_text: bool) -> evidence_pb2.Evidence:
    """One item, with provenance and verbatim passages."""
    revision, fragment = item.record.revision, item.record.fragment
    message = evidence_base(item.evidence_id, revision)
    message.fragment_id = fragment.fragment_id
    message.kind = _KINDS[item.kind]
    message.section_path.extend(item.section_path)
    message.rank = item.rank
    message.channels.extend(
        evidence_pb2.ChannelRank(channel=_CHANNELS[channel], rank=rank) for channel, rank in item.channels.items()
    )
    message.passages.extend(
        passage_message(p.span, p.role, p.text if with_text else "", p.pages) for p in item.passages
    )
    return message


def evidence_base(evidence_id: str, revision: RevisionRecord) -> evidence_pb2.Evidence:
    """What is said of an item beside its passages."""
    subject = revision.subject
    return evidence_pb2.Evidence(
        evidence_id=evidence_id,
        source_id=subject.source,
        document_id=subject.document,
        revision_id=revision.revision_id,
        title=revision.title,
        canonical_uri=revision.canonical_uri,
        media_type=revision.media_type,
        language=subject.language or "",
        trust=_TRUST[subject.trust],
        valid=interval_message(subject.valid_from, subject.valid_to),
        provenance=provenance_message(revision.provenance),
        content_hash=revision.content_hash,
        parser_version=revision.parser_version,
    )


def passage_message(span: Span, role: PassageRole, text: str, pages: tuple[int, int] | None) -> evidence_pb2.Passage:
    """One verbatim passage."""
    message = evidence_pb2.Passage(text=text, span=common_pb2.Span(start=span.start, end=span.end), role=_ROLES[role])
    if pages is not None:
        message.page_first, message.page_last = pages
    return message


def interval_message(start: int | None, end: int | None) -> common_pb2.Interval:
    """Open ends stay absent."""
    message = common_pb2.Interval()
    if start is not None:
        getattr(message, "from").seconds = start
    if end is not None:
        message.to.seconds = end
    return message


def provenance_message(values: Mapping[str, str]) -> common_pb2.Provenance:
    """Times are kept as microseconds since 1970 in text."""
    message = common_pb2.Provenance(
        publisher=values.get("publisher", ""),
        author=values.get("author", ""),
        source_type=values.get("source_type", ""),
        collected_via=values.get("collected_via", ""),
        ingested_by=values.get("ingested_by", ""),
    )
    for name in ("modified_at", "ingested_at"):
        if values.get(name):
            getattr(message, name).FromMicroseconds(int(values[name]))
    return message


def access_message(access: Access) -> common_pb2.Access:
    """The access as it is normalised."""
    message = common_pb2.Access(
        owner=access.owner or "",
        allowed_groups=access.allowed_groups,
        denied_groups=access.denied_groups,
        classification=access.classification or "",
        labels=access.labels,
        public=access.public,
    )
    if access.level is not None:
        message.level = access.level
    return message


def claim_message(claim: Claim) -> evidence_pb2.AnswerResponse:
    """One verified claim."""
    return evidence_pb2.AnswerResponse(
        claim=evidence_pb2.Claim(
            claim_id=claim.claim_id,
            text=claim.text,
            kind=evidence_pb2.CLAIM_KIND_QUOTED,
            verdict=evidence_pb2.VERDICT_SUPPORTED,
            citations=[
                evidence_pb2.Citation(
                    evidence_id=citation.evidence_id,
                    source_id=citation.source_id,
                    document_id=citation.document_id,
                    revision_id=citation.revision_id,
                    fragment_id=citation.fragment_id,
                    quote=citation.quote,
                    span=common_pb2.Span(start=citation.span.start, end=citation.span.end),
                    canonical_uri=citation.canonical_uri,
                )
                for citation in claim.citations
            ],
        )
    )


def abstention_message(abstention: Abstention) -> evidence_pb2.AnswerResponse:
    """The refusal to answer."""
    return evidence_pb2.AnswerResponse(
        abstention=evidence_pb2.Abstention(reason=_ABSTENTIONS[abstention.reason], message=abstention.message)
    )


def summary_message(summary: Summary, view: View) -> evidence_pb2.AnswerResponse:
    """The last event; stage times only for the role evaluator."""
    shown = Role.EVALUATOR in view.principal.roles
    return evidence_pb2.AnswerResponse(
        summary=evidence_pb2.AnswerSummary(
            claims=summary.claims,
            dropped=summary.dropped if shown else 0,
            abstained=summary.abstained,
            provider=summary.provider,
            stages=stage_messages(list(summary.stages)) if shown else [],
        )
    )


def source_message(source: SourceRecord) -> source_pb2.Source:
    """A source with its etag."""
    message = source_pb2.Source(
        source_id=source.source_id,
        display_name=source.display_name,
        trust=_TRUST[source.trust],
        writer_groups=source.writer_groups,
        writer_subjects=source.writer_subjects,
        grant_groups=source.grant_groups,
        grant_subjects=source.grant_subjects,
        etag=str(source.version),
    )
    message.create_time.FromMicroseconds(source.created_at)
    if source.access_template is not None:
        message.access_template.CopyFrom(access_message(source.access_template))
    return message


def document_message(document: DocumentRecord, *, with_access: bool) -> document_pb2.Document:
    """A document with the revision that serves; its access only for who may grant."""
    revision = document.revision
    message = document_pb2.Document(
        source_id=revision.subject.source,
        document_id=revision.subject.document,
        revision=revision_message(document),
        etag=etag_of(revision.document_key, document.number, revision.revision_id),
    )
    if with_access:
        message.access.CopyFrom(access_message(document.access))
    return message


def revision_message(document: DocumentRecord) -> document_pb2.Revision:
    """One revision of a document."""
    revision = document.revision
    state = document_pb2.REVISION_STATE_ACTIVE if document.active else document_pb2.REVISION_STATE_SUPERSEDED
    return document_pb2.Revision(
        revision_id=revision.revision_id,
        state=state,
        title=revision.title,
        media_type=revision.media_type,
        language=revision.subject.language or "",
        canonical_uri=revision.canonical_uri,
        content_hash=revision.content_hash,
        size_bytes=document.size_bytes,
        parser_version=revision.parser_version,
        valid=interval_message(revision.subject.valid_from, revision.subject.valid_to),
        provenance=provenance_message(revision.provenance),
        warnings=document.warnings,
    )


def operation_message(operation: Operation, tokens: OpaqueTokens) -> operation_pb2.Operation:
    """An operation; its snapshot as an opaque token."""
    message = operation_pb2.Operation(
        operation_id=operation.operation_id,
        kind=_OPERATION_KINDS[operation.kind],
        state=_OPERATION_STATES[operation.state],
        done=operation.done,
        total=operation.total,
        failed=operation.failed,
        warnings=operation.warnings,
    )
    if operation.seq is not None:
        message.snapshot = tokens.snapshot(operation.tenant_id, operation.seq)
    if operation.failure is not None:
        message.error.failure = operation_pb2.OperationFailure.Value(f"OPERATION_FAILURE_{operation.failure.upper()}")
        message.error.message = operation.message
    message.create_time.FromMicroseconds(operation.created_at)
    message.update_time.FromMicroseconds(operation.updated_at)
    return message
