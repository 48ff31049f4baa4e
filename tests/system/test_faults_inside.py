"""Faults injected through the Protocols of a gateway that shares record and engines with the running system."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import grpc
import pytest
from muniment import Aborted, Access, AsyncClient
from muniment.v1 import evidence_pb2

from core.budget import Budget
from corpus.analyser import Analyser
from corpus.encoder import DIMENSION, AsyncQueryEncoder, Vectors
from corpus.reading import Corpus
from corpus.store import StoreUnavailable
from gateway.serving import Serving
from generation.claims import ProposedCitation, ProposedClaim
from retrieval.search import Searcher
from retrieval.types import Packet, PassageRole
from tests.system.beside import gateway_beside
from tests.system.whole import System, eventually, publish
from tests.system.wire import Outcome, ask, ask_patiently, bearer, channel_to

TENANT = "streams"
PUBLIC = Access(public=True)
QUESTION = "How long does the warranty of the kettle last?"
TEXTS = {
    "kettle": "# Kettle\n\nThe warranty of the kettle lasts two years. The kettle holds one litre.\n",
    "toaster": "# Toaster\n\nThe warranty of the toaster lasts three years. It has two slots.\n",
    "lamp": "# Lamp\n\nThe warranty of the lamp lasts one year. It needs no bulb.\n",
}
SECRET = "postgresql://muniment:hunter2@db/acme at /var/lib/secret: Plan der Fusion \u79d8\u5bc6\nsecond line"


@pytest.fixture(scope="module", autouse=True)
async def filled(system: System) -> None:
    async with system.admin(TENANT) as admin:
        await admin.create_source("manuals", access_template=PUBLIC)
        await publish(admin, "manuals", TEXTS)


def search(**more: Any) -> evidence_pb2.SearchRequest:
    return evidence_pb2.SearchRequest(query=QUESTION, **more)


async def asked(system: System, address: str, rpc: str, request: Any, roles: Sequence[str] = ("reader",)) -> Outcome:
    async with channel_to(address) as channel:
        return await ask(channel, rpc, request, bearer(system.token("ada", TENANT, roles=roles)))


@dataclass
class HeldEncoder:
    """Answers no query until it is let go."""

    dimension: int = DIMENSION
    go: threading.Event = field(default_factory=threading.Event)

    def encode_query(self, _text: str) -> Vectors:
        self.go.wait(30)
        raise AssertionError("nobody waits for this any more")

    def encode_documents(self, _texts: Sequence[str]) -> NoReturn:
        raise AssertionError("a gateway embeds queries only")


class FaultyStore:
    """Raises `fault` from both channels, or from one; waits for ever where `fault` is None."""

    representation_id = ""

    def __init__(self, fault: BaseException | None) -> None:
        self.fault = fault
        self.asked = asyncio.Event()
        self.cancelled = 0

    async def lexical(self, *_arguments: object) -> NoReturn:
        await self._fail()

    async def dense(self, *_arguments: object) -> NoReturn:
        await self._fail()

    async def _fail(self) -> NoReturn:
        self.asked.set()
        if self.fault is not None:
            raise self.fault
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError


def with_store(store: Any) -> Any:
    return lambda serving: replace(serving, corpus=Corpus(serving.database, store, serving.blobs))


@dataclass
class HeldGenerator:
    """Proposes one sentence of each item, each after the first only when it is let go; tells when it is closed."""

    name: str = "held"
    go: asyncio.Event = field(default_factory=asyncio.Event)
    proposed: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def claims(
        self, _query: str, packet: Packet, _max_claims: int, _budget: Budget
    ) -> AsyncGenerator[ProposedClaim, None]:
        try:
            for number, item in enumerate(packet.items):
                if number:
                    await self.go.wait()
                passage = next(p for p in item.passages if p.role is PassageRole.BODY)
                start = passage.text.index("The warranty")
                quote = passage.text[start : passage.text.index(".", start) + 1]
                at = passage.span.start + start
                self.proposed += 1
                span = type(passage.span)(at, at + len(quote))
                yield ProposedClaim(quote, "quoted", (ProposedCitation(item.evidence_id, quote, span),))
        finally:
            self.closed.set()


def with_generator(generator: HeldGenerator) -> Any:
    return lambda serving: replace(serving, generator=generator)


async def test_late_embedding_leaves_the_words_and_is_marked(system: System) -> None:
    encoder = HeldEncoder()

    def change(serving: Serving) -> Serving:
        return replace(serving, searcher=Searcher(AsyncQueryEncoder(encoder), Analyser()))

    async with gateway_beside(system, change) as server:
        try:
            outcome = await asked(system, server.address, "Search", search(), ("reader", "evaluator"))
        finally:
            encoder.go.set()
    packet = outcome.answers[0].packet
    assert list(packet.degradations) == [evidence_pb2.DEGRADATION_KIND_LEXICAL_ONLY]
    assert packet.evidence[0].document_id == "kettle"
    channels = {rank.channel for item in packet.evidence for rank in item.channels}
    assert channels == {evidence_pb2.CHANNEL_LEXICAL}
    stages = {stage.stage: stage for stage in packet.diagnostics.stages}
    assert stages["embed"].degradation == evidence_pb2.DEGRADATION_KIND_LEXICAL_ONLY
    assert stages["embed"].elapsed_ms > stages["embed"].budget_ms


async def test_no_channel_at_all_is_unavailable_and_says_when_to_come_again(system: System) -> None:
    async with gateway_beside(system, with_store(FaultyStore(StoreUnavailable(SECRET)))) as server:
        outcome = await asked(system, server.address, "Search", search())
    assert (outcome.code, outcome.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert any("retry_delay" in detail for detail in outcome.details)
    assert "hunter2" not in outcome.said


@pytest.mark.parametrize("rpc", ["Search", "Answer"])
async def test_no_librarys_words_reach_a_client(rpc: str, system: System, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    request = search() if rpc == "Search" else evidence_pb2.AnswerRequest(search=search())
    async with gateway_beside(system, with_store(FaultyStore(RuntimeError(SECRET)))) as server:
        outcome = await asked(system, server.address, rpc, request)
    assert (outcome.code, outcome.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert outcome.text == "Internal error. Request ID."
    assert not any(word in outcome.said for word in ("hunter2", "postgresql", "/var", "Fusion", "\u79d8", "Runtime"))


async def test_a_search_whose_client_goes_away_stops_its_store_calls(system: System) -> None:
    store = FaultyStore(None)
    async with gateway_beside(system, with_store(store)) as server:
        asking = asyncio.ensure_future(asked(system, server.address, "Search", search()))
        async with asyncio.timeout(20):
            await store.asked.wait()
        asking.cancel()
        await eventually(lambda: server.in_flight == 0)
        assert store.cancelled >= 1


async def test_an_answer_whose_client_goes_away_is_generated_no_further(system: System) -> None:
    generator = HeldGenerator()
    async with gateway_beside(system, with_generator(generator)) as server, asking(system, server.address) as client:
        events = client.answer(QUESTION)
        kinds = [(await anext(events)).WhichOneof("event") for _ in range(2)]
        assert kinds == ["packet", "claim"]
        await events.aclose()
        async with asyncio.timeout(20):
            await generator.closed.wait()
        await eventually(lambda: server.in_flight == 0)
        generator.go.set()
        assert generator.proposed == 1


async def test_an_answer_ends_when_an_item_of_its_packet_is_revoked(system: System) -> None:
    """Revoked at one gateway while another streams: the claims already sent stand, no further one follows."""
    generator = HeldGenerator()
    async with (
        gateway_beside(system, with_generator(generator)) as server,
        asking(system, server.address) as client,
        system.admin(TENANT) as admin,
    ):
        events = client.answer(QUESTION)
        packet = (await anext(events)).packet
        assert {item.document_id for item in packet.evidence} == TEXTS.keys()
        assert (await anext(events)).claim.citations[0].document_id == "kettle"
        # Not an item that any further claim cites: what is lost may have shaped the answer all the same.
        closed = await admin.set_access("manuals", "kettle", Access(allowed_groups=["nobody"]))
        generator.go.set()
        with pytest.raises(Aborted) as caught:
            await anext(events)
        assert caught.value.reason == "ACCESS_CHANGED"
        assert generator.closed.is_set()
        await admin.set_access("manuals", "kettle", PUBLIC, etag=closed.etag)
    async with channel_to(system.address) as channel:
        outcome = await ask_patiently(channel, "Search", search(), bearer(system.token("ada", TENANT)))
    assert {item.document_id for item in outcome.answers[0].packet.evidence} == TEXTS.keys()


async def test_an_answer_goes_on_when_what_was_closed_is_not_in_its_packet(system: System) -> None:
    generator = HeldGenerator()
    async with (
        gateway_beside(system, with_generator(generator)) as server,
        asking(system, server.address) as client,
        system.admin(TENANT) as admin,
    ):
        await admin.put_document("manuals", "other", b"# Other\n\nNothing to see.\n", filename="o.md")
        events = client.answer(QUESTION, document_ids=list(TEXTS))
        first = [await anext(events), await anext(events)]
        await admin.delete_document("manuals", "other")
        generator.go.set()
        rest = [event async for event in events]
    kinds = [event.WhichOneof("event") for event in first + rest]
    assert kinds == ["packet", "claim", "claim", "claim", "summary"]


@asynccontextmanager
async def asking(system: System, address: str) -> AsyncGenerator[AsyncClient, None]:
    async with AsyncClient(address, system.token("ada", TENANT)) as client:
        yield client
