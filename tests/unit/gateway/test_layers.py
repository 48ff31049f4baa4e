"""Every call of every arity passes the same layers, on a real server (G2, G3, G4, G6, G8, J8, O5)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
import structlog
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from muniment.errors import MunimentError, from_rpc_error
from muniment.v1 import document_pb2, evidence_pb2, source_pb2
from structlog.testing import capture_logs

from core.errors import InvalidValue
from corpus.errors import NotFound
from gateway.call import Call, StreamCall
from gateway.interceptors import NOT_FOUND_S, Deadlines, Exchange, Inflight, Layer, chain, compose
from gateway.registration import Handler, Service, generic_handler
from gateway.server import GatewayServer, MessageLimits
from tests.unit.gateway.issuing import World
from tests.unit.gateway.serving import METHODS, ask, bare, eventually, serving

SEARCH = METHODS["muniment.v1.EvidenceService/Search"]
ANSWER = METHODS["muniment.v1.EvidenceService/Answer"]
PUT = METHODS["muniment.v1.DocumentService/PutDocument"]
GET_SOURCE = METHODS["muniment.v1.SourceService/GetSource"]


def echo_service() -> Service:
    """A service with the one arity that the contract does not have."""
    file = descriptor_pb2.FileDescriptorProto(name="tests/echo.proto", package="tests", syntax="proto3")
    file.message_type.add(name="Word").field.add(
        name="text", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING, label=1
    )
    file.service.add(name="Echo").method.add(
        name="Both", input_type=".tests.Word", output_type=".tests.Word", client_streaming=True, server_streaming=True
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    async def both(words: AsyncIterator[Any], call: StreamCall) -> None:
        async for word in words:
            await call.write(word)

    return Service(pool.FindServiceByName("tests.Echo"), {"Both": both})


def request_of(method: MethodDescriptor, raw: bytes = b"") -> Any:
    """Raw bytes, or an iterator of them. Where both sides stream, nothing is sent: grpc.aio's client turns a send that
    comes after the server's refusal into an INTERNAL of its own (seen in 4 of 1,500).
    """
    if method.client_streaming and method.server_streaming:
        return None
    return iter([raw]) if method.client_streaming else raw


async def refusal(method: MethodDescriptor, running: Any) -> MunimentError:
    with pytest.raises(grpc.RpcError) as caught:
        await ask(method, running)
    return from_rpc_error(caught.value)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def channel_to() -> AsyncIterator[Any]:
    open_channels = []

    def make(server: GatewayServer, **options: int) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(server.address, options=tuple(options.items()))
        open_channels.append(channel)
        return channel

    yield make
    for channel in open_channels:
        await channel.close(None)


async def test_all_four_arities_answer(world: World, channel_to: Any) -> None:
    seen: list[Call] = []

    async def search(request: evidence_pb2.SearchRequest, call: Call) -> evidence_pb2.SearchResponse:
        seen.append(call)
        return evidence_pb2.SearchResponse(packet=evidence_pb2.EvidencePacket(packet_id=request.query))

    async def answer(request: evidence_pb2.AnswerRequest, call: StreamCall) -> None:
        for text in "ab":
            event = evidence_pb2.AnswerResponse(claim=evidence_pb2.Claim(text=text))
            await call.write(event.SerializeToString())  # ready bytes pass as they are

    async def put(requests: AsyncIterator[document_pb2.PutDocumentRequest], call: Call) -> bytes:
        chunks = [request.chunk async for request in requests]
        return document_pb2.PutDocumentResponse(revision_id=b"".join(chunks).decode()).SerializeToString()

    echo = echo_service()
    handlers: dict[str, Handler] = {"Search": search, "Answer": answer, "PutDocument": put}
    async with serving(handlers, world, extra=(echo,)) as server:
        channel, metadata = channel_to(server), world.bearer()
        found = await bare(channel, SEARCH)(evidence_pb2.SearchRequest(query="q"), metadata=metadata, timeout=7)
        assert found.packet.packet_id == "q"
        events = [event async for event in bare(channel, ANSWER)(evidence_pb2.AnswerRequest(), metadata=metadata)]
        assert [event.claim.text for event in events] == ["a", "b"]
        parts = [document_pb2.PutDocumentRequest(chunk=part) for part in (b"x", b"y")]
        assert (await bare(channel, PUT)(iter(parts), metadata=metadata)).revision_id == "xy"
        both = echo.descriptor.methods_by_name["Both"]
        words = [
            word async for word in bare(channel, both, raw=True)(iter([b"\n\x01a", b"\n\x01b"]), metadata=metadata)
        ]
        assert words == [b"\n\x01a", b"\n\x01b"]
    call = seen[0]
    assert call.principal.subject == "ada"
    assert 6 < call.budget.left_s() <= 7
    assert call.stages.reports[0].stage == "authentication"


@pytest.mark.parametrize("name", [*METHODS, "tests.Echo/Both"])
async def test_g8_no_handler_runs_without_identity(world: World, channel_to: Any, name: str) -> None:
    ran = []

    async def spy(request: Any, call: Call) -> bytes:
        ran.append(name)
        return b""

    echo = echo_service()
    echo = replace(echo, handlers={"Both": spy})
    method = METHODS.get(name) or echo.descriptor.methods_by_name["Both"]
    handlers = {method.name: spy} if name in METHODS else {}
    two = (*world.bearer(), *world.bearer())
    async with serving(handlers, world, extra=(echo,)) as server:
        channel = channel_to(server)
        # Also bytes that don't parse: a stranger learns nothing of what would.
        for metadata in ((), (("authorization", "Bearer a.b.c"),), two):
            for raw in (b"", b"\xff\xff"):
                error = await refusal(
                    method, bare(channel, method, raw=True)(request_of(method, raw), metadata=metadata, timeout=5)
                )
                assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
                assert error.message == "A valid bearer token is needed."
    assert ran == []


async def test_g8_what_is_not_in_the_contract_is_not_served(world: World, channel_to: Any) -> None:
    async with serving({}, world) as server:
        for path in ("/muniment.v1.EvidenceService/Nothing", "/grpc.reflection.v1alpha.ServerReflection/Info", "/x/y"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel_to(server).unary_unary(path)(b"", metadata=world.bearer())
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_j8_a_tenant_in_metadata_can_only_agree(world: World, channel_to: Any) -> None:
    async with serving({}, world) as server:
        ask_source = bare(channel_to(server), GET_SOURCE)
        metadata = (*world.bearer(), ("x-tenant-id", "globex"))
        error = await refusal(GET_SOURCE, ask_source(source_pb2.GetSourceRequest(), metadata=metadata))
        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_ALLOWED")


async def test_bytes_that_are_not_the_message_are_refused_in_our_words(world: World, channel_to: Any) -> None:
    async def read(requests: AsyncIterator[Any], call: Call) -> bytes:
        async for _ in requests:
            pass
        return b""

    async with serving({"PutDocument": read}, world) as server:
        for method in (SEARCH, PUT):
            ask_raw = bare(channel_to(server), method, raw=True)
            error = await refusal(method, ask_raw(request_of(method, b"\xff\xff"), metadata=world.bearer()))
            assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
            assert error.message == "The request can't be decoded."


async def test_g2_a_cancelled_error_inside_a_handler_is_answered_at_once(world: World, channel_to: Any) -> None:
    async def raises(request: Any, call: Call) -> bytes:
        raise asyncio.CancelledError

    async def awaits_a_cancelled_sibling(request: Any, call: Call) -> None:
        sibling = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(sibling.cancel)
        await sibling

    handlers = {"Search": raises, "Answer": awaits_a_cancelled_sibling, "PutDocument": raises}
    async with serving(handlers, world) as server:
        for method in (SEARCH, ANSWER, PUT):
            began = asyncio.get_running_loop().time()
            running = bare(channel_to(server), method, raw=True)(
                request_of(method), metadata=world.bearer(), timeout=20
            )
            error = await refusal(method, running)
            assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
            assert asyncio.get_running_loop().time() - began < 2


@pytest.mark.parametrize("method", [SEARCH, ANSWER, PUT], ids=lambda m: m.name)
async def test_g3_the_work_ends_when_the_client_goes_away(
    world: World, channel_to: Any, method: MethodDescriptor
) -> None:
    events: list[str] = []

    async def works(request: Any, call: Call) -> bytes:
        events.append("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        events.append("went on")
        return b""

    async with serving({method.name: works}, world) as server:
        with capture_logs() as lines:
            running = bare(channel_to(server), method, raw=True)(request_of(method), metadata=world.bearer())
            asking = asyncio.create_task(ask(method, running))
            await eventually(lambda: events == ["began"])
            running.cancel()
            await asyncio.wait([asking])
            await eventually(lambda: server.in_flight == 0)
            assert events == ["began", "cancelled"]
            await eventually(lambda: any(line["event"] == "rpc" for line in lines))
        assert [line["status"] for line in lines if line["event"] == "rpc"] == ["CANCELLED"]
        assert not [line for line in lines if line["log_level"] == "error"]


async def test_g3_the_clients_deadline_ends_the_work(world: World, channel_to: Any) -> None:
    ended = asyncio.Event()

    async def works(request: Any, call: Call) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    async with serving({"Search": works}, world) as server:
        running = bare(channel_to(server), SEARCH, raw=True)(b"", metadata=world.bearer(), timeout=0.2)
        assert (await refusal(SEARCH, running)).code == grpc.StatusCode.DEADLINE_EXCEEDED
        async with asyncio.timeout(2):
            await ended.wait()


async def test_g3_without_a_deadline_the_servers_own_applies(world: World, channel_to: Any) -> None:
    budgets = []

    async def works(request: Any, call: Call) -> bytes:
        budgets.append(call.budget.left_s())
        await asyncio.Event().wait()
        return b""

    deadlines = Deadlines(default_s=0.1, max_s=0.3)
    async with serving({"Search": works, "Answer": works}, world, deadlines=deadlines) as server:
        channel = channel_to(server)
        for method, timeout in ((SEARCH, None), (SEARCH, 60), (ANSWER, None)):
            running = bare(channel, method, raw=True)(b"", metadata=world.bearer(), timeout=timeout)
            error = await refusal(method, running)
            assert (error.code, error.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
            assert error.request_id
    assert budgets[0] <= 0.1 < budgets[1] <= 0.3


async def test_a_timeout_inside_the_handler_is_not_the_calls_deadline(world: World, channel_to: Any) -> None:
    async def works(request: Any, call: Call) -> bytes:
        raise TimeoutError

    async with serving({"Search": works}, world) as server:
        running = bare(channel_to(server), SEARCH, raw=True)(b"", metadata=world.bearer())
        assert (await refusal(SEARCH, running)).code == grpc.StatusCode.INTERNAL


SECRETS = "postgresql://root:hunter2@db/x /srv/tenants/globex 極秘計画\n第二行"


async def test_g6_the_text_of_an_exception_goes_nowhere_and_its_place_into_the_log(
    world: World, channel_to: Any
) -> None:
    async def breaks(request: Any, call: Call) -> bytes:
        raise RuntimeError(SECRETS) from KeyError(SECRETS)

    async with serving({"Search": breaks, "Answer": breaks, "PutDocument": breaks}, world) as server:
        for method in (SEARCH, ANSWER, PUT):
            with capture_logs() as lines:
                running = bare(channel_to(server), method, raw=True)(request_of(method), metadata=world.bearer())
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await ask(method, running)
            error = from_rpc_error(caught.value)
            assert error.message == f"Internal error. Request {error.request_id}."
            told = f"{caught.value.details()} {caught.value.trailing_metadata()}"
            for secret in ("hunter2", "globex", "極秘", "RuntimeError"):
                assert secret not in told
                assert secret.encode() not in told.encode()
            logged = [line for line in lines if line["event"] == "unexpected"]
            assert all(secret not in str(lines) for secret in ("hunter2", "globex", "極秘"))
            assert [each["error"] for each in logged[0]["trace"]] == ["builtins.RuntimeError", "builtins.KeyError"]
            assert logged[0]["trace"][0]["frames"][-1].endswith(" breaks")


async def test_g6_intended_details_survive_unicode_and_length(world: World, channel_to: Any) -> None:
    async def refuses(request: Any, call: Call) -> bytes:
        raise InvalidValue("access.labels", f"muß\n日本語 {'長' * 20_000}")

    async with serving({"Search": refuses}, world) as server:
        running = bare(channel_to(server), SEARCH, raw=True)(b"", metadata=world.bearer())
        error = await refusal(SEARCH, running)
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.violations[0].field == "access.labels"
    assert error.violations[0].description.startswith("muß\n日本語 長長")


async def test_g4_a_reply_over_the_limit_is_refused_by_us(world: World, channel_to: Any) -> None:
    async def large(request: Any, call: Call) -> bytes:
        return b"x" * 5_000

    async def large_stream(request: Any, call: StreamCall) -> None:
        await call.write(b"x" * 5_000)

    limits = MessageLimits(max_send_bytes=4_096)
    async with serving({"Search": large, "Answer": large_stream}, world, limits=limits) as server:
        for method in (SEARCH, ANSWER):
            running = bare(channel_to(server), method, raw=True)(b"", metadata=world.bearer())
            error = await refusal(method, running)
            assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE")


async def test_g4_a_request_over_the_limit_never_reaches_a_handler_whole(world: World, channel_to: Any) -> None:
    """The limit is in the error; an upload that is cut by it looks to its handler like a short one."""
    seen = []

    async def put(requests: AsyncIterator[Any], call: Call) -> bytes:
        seen.extend([len(request.chunk) async for request in requests])
        return b""

    limits = MessageLimits(max_receive_bytes=4_096)
    async with serving({"PutDocument": put}, world, limits=limits) as server:
        parts = [document_pb2.PutDocumentRequest(chunk=b"x" * size) for size in (10, 5_000)]
        error = await refusal(PUT, bare(channel_to(server), PUT)(iter(parts), metadata=world.bearer()))
        assert error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "4096" in error.message
    assert 5_000 not in seen


async def test_a_token_of_many_groups_fits_into_the_metadata(world: World, channel_to: Any) -> None:
    async def count(request: Any, call: Call) -> bytes:
        return evidence_pb2.SearchResponse(
            packet=evidence_pb2.EvidencePacket(packet_id=str(len(call.principal.groups)))
        ).SerializeToString()

    metadata = world.bearer(groups=[f"department-{number:04}" for number in range(1_500)])
    async with serving({"Search": count}, world) as server:
        found = await bare(channel_to(server), SEARCH)(evidence_pb2.SearchRequest(), metadata=metadata)
        assert found.packet.packet_id == "1500"


async def test_o5_each_log_line_carries_its_own_request(world: World, channel_to: Any) -> None:
    arrived, go = [], asyncio.Event()

    async def mark(request: evidence_pb2.SearchRequest, call: Call) -> bytes:
        arrived.append(request.query)
        await go.wait()
        context = structlog.contextvars.get_contextvars()
        assert context["request_id"] == call.request_id
        return evidence_pb2.SearchResponse(
            packet=evidence_pb2.EvidencePacket(request_id=call.request_id)
        ).SerializeToString()

    async with serving({"Search": mark}, world) as server:
        ask_search = bare(channel_to(server), SEARCH)
        calls = [ask_search(evidence_pb2.SearchRequest(query=str(n)), metadata=world.bearer()) for n in range(50)]
        answers = asyncio.gather(*calls)
        await eventually(lambda: len(arrived) == 50)
        go.set()
        ids = {answer.packet.request_id for answer in await answers}
        assert len(ids) == 50
        told = {value for call in calls for name, value in await call.trailing_metadata() if name == "x-request-id"}
        assert told == ids


async def test_o4_a_log_line_holds_no_content(world: World, channel_to: Any) -> None:
    canary = "CANARY-7"

    async def find(request: Any, call: Call) -> bytes:
        return b""

    async with serving({"Search": find}, world) as server:
        with capture_logs() as lines:
            good = world.bearer(sub=canary, groups=[canary], jti=canary)
            await bare(channel_to(server), SEARCH)(evidence_pb2.SearchRequest(query=canary), metadata=good)
            bad = (("authorization", f"Bearer {world.token(kid=canary)}"), ("x-other", canary))
            await refusal(SEARCH, bare(channel_to(server), SEARCH, raw=True)(canary.encode(), metadata=bad))
            await eventually(lambda: sum(line["event"] == "rpc" for line in lines) == 2)
    assert [line["status"] for line in lines if line["event"] == "rpc"] == ["OK", "UNAUTHENTICATED"]
    assert canary not in str(lines)
    assert not [line for line in lines if line["log_level"] == "error"]


@pytest.mark.parametrize("method", [SEARCH, ANSWER], ids=lambda m: m.name)
async def test_bytes_are_handed_over_before_the_loop_runs_anything_else(world: World, method: MethodDescriptor) -> None:
    """The release rule counts a message as gone when handed over: with the loop held, the client still gets it."""
    received = threading.Event()
    outcome: list[bool] = []

    def hold_the_loop() -> None:
        """From the next step of the loop on, until the client has the message."""
        asyncio.get_running_loop().call_soon(lambda: outcome.append(received.wait(10)))

    async def search(request: Any, call: Call) -> bytes:
        hold_the_loop()
        return b""

    async def answer(request: Any, call: StreamCall) -> None:
        hold_the_loop()
        await call.write(b"")

    def client(address: str) -> None:
        with grpc.insecure_channel(address) as channel:
            path = f"/{method.containing_service.full_name}/{method.name}"
            # A unary answer is asked for as a stream: on the wire they are the same, and its bytes show at once.
            for _ in channel.unary_stream(path, None, None)(b"", metadata=world.bearer(), timeout=20):
                received.set()

    async with serving({"Search": search, "Answer": answer}, world) as server:
        await asyncio.to_thread(client, server.address)
    assert outcome == [True]


def test_the_order_of_the_layers_is_fixed_and_each_says_why(world: World) -> None:
    layers = chain(world.authenticator, Deadlines(), Inflight())
    assert [layer.name for layer in layers] == [
        "request id",
        "telemetry",
        "errors",
        "drain",
        "deadline",
        "even time",
        "authentication",
    ]
    assert all(len(layer.reason) > 20 for layer in layers)


@pytest.mark.parametrize("work_s", [0.0, NOT_FOUND_S / 2])
async def test_i8_not_found_is_said_at_the_same_time_however_soon_it_was_known(world: World, work_s: float) -> None:
    even_time = next(
        layer for layer in chain(world.authenticator, Deadlines(), Inflight()) if layer.name == "even time"
    )

    async def innermost(exchange: Exchange) -> bytes:
        await asyncio.sleep(work_s)
        raise NotFound

    began = asyncio.get_running_loop().time()
    with pytest.raises(NotFound):
        await compose([even_time], innermost)(Exchange(SEARCH, b"", context=None))  # type: ignore[arg-type]
    # The lower bound alone: how much later a busy machine goes on is not ours. The timer's grain is a millisecond.
    assert asyncio.get_running_loop().time() - began >= NOT_FOUND_S - 0.002


async def test_layers_run_outermost_first() -> None:
    order: list[str] = []

    def layer(name: str) -> Layer:
        async def apply(exchange: Exchange, proceed: Any) -> bytes | None:
            order.append(name)
            result: bytes | None = await proceed(exchange)
            return result

        return Layer(name, "", apply)

    async def innermost(exchange: Exchange) -> bytes:
        return b"done"

    exchange = Exchange(SEARCH, b"", context=None)  # type: ignore[arg-type] # no layer here looks at it
    assert await compose([layer("a"), layer("b")], innermost)(exchange) == b"done"
    assert order == ["a", "b"]


def test_a_service_must_handle_exactly_its_rpcs() -> None:
    echo = echo_service()
    with pytest.raises(ValueError, match="Both"):
        Service(echo.descriptor, {})
    with pytest.raises(ValueError, match="More"):
        Service(echo.descriptor, {**echo.handlers, "More": echo.handlers["Both"]})


async def test_without_the_layers_a_handler_refuses_to_run(channel_to: Any) -> None:
    """Structure, not care: a chain that forgot authentication serves nobody."""
    ran = []

    async def spy(words: AsyncIterator[Any], call: StreamCall) -> None:
        ran.append(call)

    echo = replace(echo_service(), handlers={"Both": spy})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((generic_handler(echo, (), 100),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        both = echo.descriptor.methods_by_name["Both"]
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(both, bare(channel, both, raw=True)(iter([b""])))
    await server.stop(None)
    assert ran == []
