"""How a gateway ends, and engines that are gone for good. Each test ends a part of the system for ever."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from muniment import Access, Provenance
from muniment._wire import OPTIONS, codecs, path_of
from muniment.v1 import document_pb2, evidence_pb2, operation_pb2

from policy.heartbeat import AWAY_AFTER_S
from tests.system.whole import System, eventually, eventually_async, publish, whole_system
from tests.system.wire import METHODS, Metadata, Outcome, ask, bearer, channel_to

TENANT = "story"
PUBLIC = Access(public=True)
QUESTION = "How many lanterns does the lighthouse keep?"
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
LOGS = 30
PADDING = "x" * 2_000  # in five fields of each item: far more than HTTP/2 lets a server send to who does not read


@pytest.fixture(scope="module")
async def fragile(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """A system of this file's own, whose tests end it part by part in the order in which they stand here."""
    async with whole_system(tmp_path_factory.mktemp("ending"), gateway={"stop_grace_s": 4.0}) as whole:
        yield whole


@pytest.fixture(scope="module", autouse=True)
async def filled(fragile: System) -> None:
    texts = {f"log-{n}": f"# Log {n}\n\nThe lighthouse keeps {n} lanterns on floor {n}.\n" for n in range(LOGS)}
    padded = Provenance(publisher=PADDING, author=PADDING, source_type=PADDING, collected_via=PADDING)
    async with fragile.admin(TENANT) as admin:
        await admin.create_source("logs", access_template=PUBLIC)
        await publish(admin, "logs", texts, provenance=padded, canonical_uri=PADDING)


END: Any = vars(grpc.aio)["EOF"]  # the stubs don't know it


class Slow:
    """A call of a streaming RPC, read only when the test says so."""

    def __init__(self, channel: grpc.aio.Channel, rpc: str, request: Any, metadata: Metadata) -> None:
        serializer, deserializer = codecs(METHODS[rpc])
        stream = channel.unary_stream(path_of(METHODS[rpc]), serializer, deserializer)
        self._call: Any = stream(request, timeout=60, metadata=tuple(metadata))

    async def begun(self) -> None:
        await self._call.initial_metadata()

    async def next(self) -> Any:
        return await self._call.read()

    def go_away(self) -> bool:
        return bool(self._call.cancel())

    async def rest(self) -> tuple[list[Any], grpc.StatusCode, str]:
        """Every further message, the status, and all that came with it."""
        events = []
        try:
            while (event := await self._call.read()) is not END:
                events.append(event)
        except grpc.aio.AioRpcError as exc:
            return events, exc.code(), str(exc.trailing_metadata())
        return events, await self._call.code(), str(await self._call.trailing_metadata())


@asynccontextmanager
async def narrow_channel(address: str) -> AsyncGenerator[grpc.aio.Channel, None]:
    """Without the probing that lets the window grow, so that a reader who stops soon stops the writer."""
    async with grpc.aio.insecure_channel(address, options=(*OPTIONS, ("grpc.http2.bdp_probe", 0))) as channel:
        yield channel


def reader(system: System) -> Metadata:
    return bearer(system.token("ada", TENANT, roles=["reader", "publisher", "writer"]))


def large_answer() -> evidence_pb2.AnswerRequest:
    search = evidence_pb2.SearchRequest(query=QUESTION, max_evidence=100, max_tokens=100_000)
    return evidence_pb2.AnswerRequest(search=search, max_claims=20)


async def test_revoked_while_a_slow_reader_holds_the_stream(fragile: System) -> None:
    """The packet was handed over before; of the claims that rest on it none follows the revocation."""
    async with narrow_channel(fragile.address) as channel, fragile.admin(TENANT) as admin:
        slow = Slow(channel, "Answer", large_answer(), reader(fragile))
        await slow.begun()
        closed = await admin.set_access("logs", "log-7", Access(allowed_groups=["nobody"]))
        events, code, told = await slow.rest()
        assert events[0].packet.evidence
        assert (code, [event.WhichOneof("event") for event in events]) == (grpc.StatusCode.ABORTED, ["packet"])
        assert "ACCESS_CHANGED" in told
        await admin.set_access("logs", "log-7", PUBLIC, etag=closed.etag)


async def test_a_client_that_goes_away_in_mid_stream_frees_its_call(fragile: System) -> None:
    """Its call is logged as ended by the client, not as a fault."""
    before = fragile.log("gateway").count('"unexpected"')
    async with narrow_channel(fragile.address) as channel:
        slow = Slow(channel, "Answer", large_answer(), reader(fragile))
        await slow.begun()
        assert slow.go_away()
        await eventually(lambda: '"status": "CANCELLED"' in fragile.log("gateway"))
    assert fragile.log("gateway").count('"unexpected"') == before


async def test_sigterm_in_mid_stream_drains(fragile: System) -> None:
    """Health first; the answer under way is finished, nothing new is begun, what does not end is told why."""
    async with narrow_channel(fragile.address) as channel, channel_to(fragile.address) as other:
        async with fragile.admin(TENANT) as admin:
            build = await admin.begin_build("logs")
            put = await admin.put_document("logs", "new", b"# New\n\nText.\n", filename="n.md", build_id=build.build_id)
        watch = operation_pb2.WatchOperationRequest(operation_id=put.operation.operation_id)
        watching = Slow(other, "WatchOperation", watch, bearer(fragile.token("admin", TENANT, roles=["publisher"])))
        assert (await watching.next()).operation.operation_id == put.operation.operation_id
        answering = Slow(channel, "Answer", large_answer(), reader(fragile))
        await answering.begun()
        os.kill(fragile.pid("gateway"), signal.SIGTERM)
        await eventually_async(lambda: health_is(other, NOT_SERVING), 4)
        refused = await ask(other, "ListDocuments", document_pb2.ListDocumentsRequest(), reader(fragile))
        assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        events, code, _ = await answering.rest()
        assert code is grpc.StatusCode.OK
        kinds = [event.WhichOneof("event") for event in events]
        assert (kinds[0], kinds[-1]) == ("packet", "summary")
        assert kinds.count("claim") == events[-1].summary.claims > 0
        _, code, told = await watching.rest()
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "SHUTTING_DOWN" in told
    await eventually(lambda: not runs(fragile.pid("gateway")), 20)


async def health_is(channel: grpc.aio.Channel, status: int) -> bool:
    answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    return bool(answer.status == status)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
async def gateway_again(fragile: System) -> AsyncIterator[grpc.aio.Channel]:
    """A new gateway process in the place of the one that was stopped."""
    if runs(fragile.pid("gateway")):
        os.kill(fragile.pid("gateway"), signal.SIGTERM)
        await eventually(lambda: not runs(fragile.pid("gateway")), 20)
    config = fragile.settings.data_dir.parent / "muniment.toml"
    with fragile.layout.log("gateway-again").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.gateway", "--data-dir", str(fragile.settings.data_dir)),
            env={**os.environ, "MUNIMENT_CONFIG": str(config)},
            stdout=log,
            stderr=log,
        )
        try:
            async with channel_to(fragile.address) as channel:
                await eventually_async(lambda: serving(channel), 60)
                yield channel
        finally:
            process.terminate()
            await process.wait()


async def serving(channel: grpc.aio.Channel) -> bool:
    try:
        return await health_is(channel, health_pb2.HealthCheckResponse.SERVING)
    except grpc.aio.AioRpcError:
        return False


def assert_says_nothing(outcome: Outcome, reason: str) -> None:
    assert (outcome.code, outcome.reason, outcome.answers) == (grpc.StatusCode.UNAVAILABLE, reason, ())
    leaks = ("127.0.0.1", "ECONNREFUSED", "onnect", "sqlite", "malformed", "/", "Error")
    assert not [leak for leak in leaks if leak in outcome.said]


async def test_the_new_gateway_answers_and_keeps_what_was_given_out(
    fragile: System, gateway_again: grpc.aio.Channel
) -> None:
    """Gateways hold no state that matters: an id of the first one resolves at the second."""
    search = evidence_pb2.SearchRequest(query=QUESTION)
    found = (await ask(gateway_again, "Search", search, reader(fragile))).answers[0].packet
    citation = evidence_pb2.ResolveCitationRequest(evidence_id=found.evidence[0].evidence_id)
    assert (await ask(gateway_again, "ResolveCitation", citation, reader(fragile))).code is grpc.StatusCode.OK


async def test_a_killed_store_is_unavailable_and_the_record_serves(
    fragile: System, gateway_again: grpc.aio.Channel
) -> None:
    os.killpg(fragile.pid("weaviate"), signal.SIGKILL)
    await eventually(lambda: not alive_group(fragile, "weaviate"))
    search = evidence_pb2.SearchRequest(query=QUESTION)
    for rpc, request in (("Search", search), ("Answer", evidence_pb2.AnswerRequest(search=search))):
        assert_says_nothing(await ask(gateway_again, rpc, request, reader(fragile)), "STORE_UNAVAILABLE")
    get = document_pb2.GetDocumentRequest(source_id="logs", document_id="log-1")
    assert (await ask(gateway_again, "GetDocument", get, reader(fragile))).code is grpc.StatusCode.OK


def alive_group(system: System, engine: str) -> bool:
    try:
        os.killpg(system.pid(engine), 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_killed_policy_engine_denies_for_good_within_three_seconds(
    fragile: System, gateway_again: grpc.aio.Channel
) -> None:
    """Permissions that are kept may be used until then, and not a moment longer."""
    killed_at = released_at = monotonic()
    os.killpg(fragile.pid("opa"), signal.SIGKILL)
    get = document_pb2.GetDocumentRequest(source_id="logs", document_id="log-1")
    while monotonic() - killed_at < AWAY_AFTER_S + 0.5:
        began = monotonic()
        if (await ask(gateway_again, "GetDocument", get, reader(fragile))).code is grpc.StatusCode.OK:
            released_at = began
    assert released_at - killed_at < AWAY_AFTER_S
    assert_says_nothing(await ask(gateway_again, "GetDocument", get, reader(fragile)), "POLICY_UNAVAILABLE")
    listing = document_pb2.ListDocumentsRequest()
    assert_says_nothing(await ask(gateway_again, "ListDocuments", listing, reader(fragile)), "POLICY_UNAVAILABLE")
