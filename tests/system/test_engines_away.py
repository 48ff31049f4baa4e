"""An engine that hangs: the stated behaviour of design section 9, and everything comes back by itself.

Stopped with SIGSTOP, an engine accepts and never answers: the worst way to be away.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from muniment import Access
from muniment.v1 import document_pb2, evidence_pb2, operation_pb2, publication_pb2, source_pb2

from policy.heartbeat import AWAY_AFTER_S
from tests.system.whole import EVERY_ROLE, System, eventually, eventually_async, publish
from tests.system.wire import Metadata, Outcome, ask, ask_patiently, bearer, channel_to

TENANT = "globex"
PUBLIC = Access(public=True)
QUESTION = "When does the ferry leave?"
TEXTS = {
    "ferry": "# Ferry\n\nThe ferry leaves at noon from the north pier.\n",
    "train": "# Train\n\nThe train leaves at one from the central station.\n",
}
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(scope="module", autouse=True)
async def evidence_id(fragile: System) -> str:
    async with fragile.admin(TENANT) as admin:
        await admin.create_source("travel", access_template=PUBLIC)
        await publish(admin, "travel", TEXTS)
        return (await admin.search(QUESTION)).evidence[0].evidence_id


@contextmanager
def stopped(system: System, engine: str) -> Iterator[None]:
    group = system.pid(engine)
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


def admin(system: System) -> Metadata:
    return bearer(system.token("admin", TENANT, groups=["staff"], roles=EVERY_ROLE))


def every_read(evidence_id: str) -> dict[str, Message]:
    return {
        "Search": evidence_pb2.SearchRequest(query=QUESTION),
        "Answer": evidence_pb2.AnswerRequest(search=evidence_pb2.SearchRequest(query=QUESTION)),
        "ResolveCitation": evidence_pb2.ResolveCitationRequest(evidence_id=evidence_id),
        "GetDocument": document_pb2.GetDocumentRequest(source_id="travel", document_id="ferry"),
        "ListDocuments": document_pb2.ListDocumentsRequest(),
        "ListRevisions": document_pb2.ListRevisionsRequest(source_id="travel", document_id="ferry"),
        "GetSource": source_pb2.GetSourceRequest(source_id="travel"),
        "ListSources": source_pb2.ListSourcesRequest(),
        "ListSnapshots": publication_pb2.ListSnapshotsRequest(),
        "GetOperation": operation_pb2.GetOperationRequest(operation_id="any"),
    }


async def serves(channel: grpc.aio.Channel) -> bool:
    answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    return bool(answer.status == SERVING)


async def test_without_policy_nothing_is_released(fragile: System, evidence_id: str) -> None:
    """Also nothing that was decided a moment ago and is still kept; and nobody waits long to be told."""
    reads = every_read(evidence_id)
    async with channel_to(fragile.address) as channel:
        for rpc, request in reads.items():  # decisions and verdicts are kept now
            await ask_patiently(channel, rpc, request, admin(fragile))
        with stopped(fragile, "opa"):
            stopped_at = monotonic()
            released_at = stopped_at
            while monotonic() - stopped_at < AWAY_AFTER_S + 0.5:
                began = monotonic()
                outcome = await ask(channel, "Search", reads["Search"], admin(fragile))
                if outcome.code is grpc.StatusCode.OK:
                    released_at = began
            assert released_at - stopped_at < AWAY_AFTER_S
            for rpc, request in reads.items():
                began = monotonic()
                assert_unavailable(await ask(channel, rpc, request, admin(fragile)), "POLICY_UNAVAILABLE")
                assert monotonic() - began < 2.0, rpc
            await eventually_async(lambda: not_serving(channel))
        await eventually_async(lambda: serves(channel))
        for rpc, request in reads.items():
            outcome = await ask_patiently(channel, rpc, request, admin(fragile))
            assert outcome.code in (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND), (rpc, outcome)


async def not_serving(channel: grpc.aio.Channel) -> bool:
    return not await serves(channel)


def assert_unavailable(outcome: Outcome, reason: str) -> None:
    assert (outcome.code, outcome.reason, outcome.answers) == (grpc.StatusCode.UNAVAILABLE, reason, ())
    assert any("retry_delay" in detail for detail in outcome.details), "a client is told when to come again"
    assert not any(word in outcome.said for word in ("127.0.0.1", "http", "Timeout", "opa", "weaviate", "Error"))


async def test_without_policy_nothing_is_written(fragile: System) -> None:
    about = document_pb2.DocumentMetadata(source_id="travel", document_id="new", size_bytes=1)
    writes: dict[str, Message | list[Message]] = {
        "PutDocument": [document_pb2.PutDocumentRequest(metadata=about, chunk=b"x")],
        "DeleteDocument": document_pb2.DeleteDocumentRequest(source_id="travel", document_id="ferry"),
        "SetAccess": document_pb2.SetAccessRequest(source_id="travel", document_id="ferry", access=PUBLIC),
        "BeginBuild": publication_pb2.BeginBuildRequest(source_id="travel"),
    }
    async with channel_to(fragile.address) as channel:
        with stopped(fragile, "opa"):
            await eventually_async(lambda: not_serving(channel))  # until then kept permissions may be used
            for rpc, request in writes.items():
                assert_unavailable(await ask(channel, rpc, request, admin(fragile)), "POLICY_UNAVAILABLE")
        await eventually_async(lambda: serves(channel))


async def test_without_the_store_what_rests_on_the_record_goes_on(fragile: System, evidence_id: str) -> None:
    reads = every_read(evidence_id)
    async with channel_to(fragile.address) as channel, fragile.admin(TENANT) as writer:
        with stopped(fragile, "weaviate"):
            for rpc in ("Search", "Answer"):
                began = monotonic()
                assert_unavailable(await ask(channel, rpc, reads[rpc], admin(fragile)), "STORE_UNAVAILABLE")
                assert monotonic() - began < 5.0
            for rpc in ("ResolveCitation", "GetDocument", "ListDocuments", "ListRevisions"):
                outcome = await ask_patiently(channel, rpc, reads[rpc], admin(fragile))
                assert outcome.code is grpc.StatusCode.OK, rpc
            # A denial neither waits for the store nor is undone by its return.
            put = await writer.put_document("travel", "bus", b"# Bus\n\nThe bus leaves at two.\n", filename="b.md",
                                            wait=False)  # fmt: skip
            closed = await writer.set_access("travel", "train", Access(allowed_groups=["nobody"]))
            gone = await ask_patiently(
                channel, "GetDocument", document_pb2.GetDocumentRequest(source_id="travel", document_id="train"),
                admin(fragile),
            )  # fmt: skip
            assert gone.code is grpc.StatusCode.NOT_FOUND
            assert not fragile.at_rest(TENANT)
        await writer.wait_operation(put.operation.operation_id, timeout=90)
        await writer.wait_operation(closed.operation.operation_id, timeout=90)
        await eventually(lambda: fragile.at_rest(TENANT), 60)
        found = {item.document_id for item in (await writer.search(QUESTION)).evidence}
        assert found == {"ferry", "bus"}


async def test_many_who_ask_a_hanging_store_hold_up_nobody_else(fragile: System, evidence_id: str) -> None:
    reads = every_read(evidence_id)
    async with channel_to(fragile.address) as channel:
        with stopped(fragile, "weaviate"):
            asking = [asyncio.ensure_future(ask(channel, "Search", reads["Search"], admin(fragile))) for _ in range(30)]
            outcome = await ask_patiently(channel, "GetDocument", reads["GetDocument"], admin(fragile))
            assert outcome.code is grpc.StatusCode.OK
            codes = {outcome.code for outcome in await asyncio.gather(*asking)}
        assert codes == {grpc.StatusCode.UNAVAILABLE}
        await eventually_async(lambda: finds(channel, fragile, reads["Search"]))


async def finds(channel: grpc.aio.Channel, system: System, request: Message) -> bool:
    outcome = await ask(channel, "Search", request, admin(system))
    return outcome.code is grpc.StatusCode.OK and not outcome.answers[0].packet.degradations
