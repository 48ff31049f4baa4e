"""EvidenceService: search, answer, citations."""

import asyncio
from collections.abc import Iterable

from muniment.v1 import evidence_pb2

from core.errors import InvalidValue
from core.ids import DocumentId, FragmentId, SourceId, new_id
from corpus.errors import NotFound
from corpus.record import RevisionRecord
from gateway.call import Call, StreamCall
from gateway.decode import ask_of, consistency_of, seconds_of
from gateway.encode import (
    abstention_message,
    claim_message,
    evidence_base,
    packet_message,
    passage_message,
    summary_message,
)
from gateway.registration import Service
from gateway.serving import Serving, view_of
from generation.answering import DEFAULT_CLAIMS, MAX_CLAIMS, answer
from generation.claims import Abstention, Claim, Summary
from policy.audit import ReleasedItem
from retrieval import evidence_ids
from retrieval.gate import Ready
from retrieval.plan import QueryPlan
from retrieval.search import SearchResult
from retrieval.types import Packet
from retrieval.view import View

_DESCRIPTOR = evidence_pb2.DESCRIPTOR.services_by_name["EvidenceService"]


def evidence_service(serving: Serving) -> Service:
    """The service with its handlers."""
    handlers = _Evidence(serving)
    return Service(
        _DESCRIPTOR,
        {"Search": handlers.search, "Answer": handlers.answer, "ResolveCitation": handlers.resolve_citation},
    )


class _Evidence:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def search(self, request: evidence_pb2.SearchRequest, call: Call) -> bytes:
        plan, view, result = await self._found(request, call, "Search")
        with_text = request.view != evidence_pb2.PACKET_VIEW_BASIC
        packet_id = new_id()

        def render(allowed: frozenset[int]) -> Ready:
            packet = self._serving.searcher.kept(plan, result, allowed)
            message = self._packet(view, packet, result, packet_id, call, with_text=with_text)
            return Ready(evidence_pb2.SearchResponse(packet=message).SerializeToString(), released(packet))

        return await self._serving.gate.release(view, "Search", revision_keys(result.packet), render)

    async def answer(self, request: evidence_pb2.AnswerRequest, call: StreamCall) -> None:
        if request.max_claims > MAX_CLAIMS:
            raise InvalidValue("max_claims", f"must not be over {MAX_CLAIMS}")
        plan, view, result = await self._found(request.search, call, "Answer")
        packet = await self._send_packet(plan, view, result, call)
        keys = revision_keys(packet)

        async def clear(claim: Claim) -> bool:
            """All of the packet is checked, not the cited items alone: what is lost may have shaped the answer."""
            raw = claim_message(claim).SerializeToString()
            items = _cited(packet, claim)
            await call.write(
                await self._serving.gate.release(view, "Answer", keys, lambda _: Ready(raw, items), whole=True)
            )
            return True

        events = answer(
            plan.query,
            packet,
            self._serving.generator,
            request.max_claims or DEFAULT_CLAIMS,
            call.budget,
            call.stages,
            clear,
        )
        async for event in events:
            if isinstance(event, Abstention):
                await self._send(view, keys, abstention_message(event).SerializeToString(), call)
            elif isinstance(event, Summary):
                await self._send(view, keys, summary_message(event, view).SerializeToString(), call)

    async def resolve_citation(self, request: evidence_pb2.ResolveCitationRequest, call: Call) -> bytes:
        reference = evidence_ids.decode(request.evidence_id)
        view = await view_of(self._serving, call, "ResolveCitation")
        revision = view.opened.revision(reference.revision_id)
        if revision is None:
            raise NotFound("citation")
        long = view.opened.are_long([revision])
        text = await asyncio.to_thread(view.opened.text, revision) if long else view.opened.text(revision)
        if any(span.end > len(text) for span, _ in reference.passages):
            raise NotFound("citation")
        message = evidence_base(request.evidence_id, revision)
        message.passages.extend(passage_message(span, role, span.cut(text), None) for span, role in reference.passages)
        current = bool(view.opened.revisions_by_key([revision.revision_key]))
        item = _released(request.evidence_id, revision, "")

        def render(allowed: frozenset[int]) -> Ready:
            if revision.revision_key not in allowed:
                raise NotFound("citation")
            response = evidence_pb2.ResolveCitationResponse(evidence=message, current=current)
            return Ready(response.SerializeToString(), (item,))

        return await self._serving.gate.release(view, "ResolveCitation", [revision.revision_key], render, live=False)

    async def _found(
        self, request: evidence_pb2.SearchRequest, call: Call, rpc: str
    ) -> tuple[QueryPlan, View, SearchResult]:
        plan = self._serving.searcher.plan(ask_of(request), call.stages)
        consistency = consistency_of(request.consistency, call.principal.tenant_id, self._serving.tokens)
        valid_at = seconds_of(request.valid_at, "valid_at") if request.HasField("valid_at") else None
        view = await view_of(self._serving, call, rpc, consistency, valid_at)
        return plan, view, await self._serving.searcher.search(view, plan, self._serving.gate.foresee)

    async def _send_packet(self, plan: QueryPlan, view: View, result: SearchResult, call: StreamCall) -> Packet:
        packet_id = new_id()
        sent: list[Packet] = []

        def render(allowed: frozenset[int]) -> Ready:
            packet = self._serving.searcher.kept(plan, result, allowed)
            sent[:] = [packet]
            message = self._packet(view, packet, result, packet_id, call, with_text=True)
            return Ready(evidence_pb2.AnswerResponse(packet=message).SerializeToString(), released(packet))

        await call.write(await self._serving.gate.release(view, "Answer", revision_keys(result.packet), render))
        return sent[0]

    async def _send(self, view: View, keys: list[int], raw: bytes, call: StreamCall) -> None:
        ready = await self._serving.gate.release(view, "Answer", keys, lambda _: Ready(raw, ()), whole=True)
        await call.write(ready)

    def _packet(
        self, view: View, packet: Packet, result: SearchResult, packet_id: str, call: Call, *, with_text: bool
    ) -> evidence_pb2.EvidencePacket:
        return packet_message(
            self._serving, view, packet, result.found, packet_id, call.request_id, with_text=with_text
        )


def revision_keys(packet: Packet) -> list[int]:
    """The revisions that a packet rests on, each once."""
    return list(dict.fromkeys(item.record.revision.revision_key for item in packet.items))


def released(packet: Packet) -> tuple[ReleasedItem, ...]:
    """The packet for the audit record."""
    return tuple(
        _released(item.evidence_id, item.record.revision, item.record.fragment.fragment_id) for item in packet.items
    )


def _cited(packet: Packet, claim: Claim) -> tuple[ReleasedItem, ...]:
    cited: Iterable[str] = dict.fromkeys(citation.evidence_id for citation in claim.citations)
    items = [packet.by_id[evidence_id] for evidence_id in cited]
    return tuple(_released(i.evidence_id, i.record.revision, i.record.fragment.fragment_id) for i in items)


def _released(evidence_id: str, revision: RevisionRecord, fragment_id: str) -> ReleasedItem:
    subject = revision.subject
    return ReleasedItem(
        evidence_id,
        SourceId(subject.source),
        DocumentId(subject.document),
        revision.revision_id,
        FragmentId(fragment_id),
    )
