"""Both clients against a real server: each RPC of the contract, typed errors, uploads, waiting."""

import asyncio
import hashlib
import inspect
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import muniment
import pytest
from grpc.aio import AioRpcError, Metadata
from muniment import AsyncClient, Client
from muniment._shapes import CHUNK_BYTES
from muniment._wire import Endpoint, is_loopback
from muniment.errors import from_rpc_error
from muniment.v1 import common_pb2, document_pb2, evidence_pb2, operation_pb2, source_pb2

import corpus.errors
import policy.errors
from core.errors import InvalidValue
from gateway.call import Call, StreamCall
from gateway.registration import Handler
from tests.unit.gateway.issuing import World
from tests.unit.gateway.serving import DESCRIPTORS, serving

RUNNING, SUCCEEDED, FAILED = (
    operation_pb2.OPERATION_STATE_RUNNING,
    operation_pb2.OPERATION_STATE_SUCCEEDED,
    operation_pb2.OPERATION_STATE_FAILED,
)


@pytest.fixture
def world() -> World:
    return World()


async def in_thread(world: World, address: str, use: Callable[[Client], Any]) -> Any:
    """What `use` gives with a sync client, outside of the loop that serves it."""

    def run() -> Any:
        with Client(address, world.token()) as client:
            return use(client)

    return await asyncio.to_thread(run)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_every_rpc_of_the_contract_has_a_documented_method(client: type) -> None:
    for descriptor in DESCRIPTORS:
        for name in descriptor.methods_by_name:
            method = getattr(client, snake(name))
            assert method.__doc__
            assert next(iter(inspect.signature(method).parameters)) == "self"
            assert "timeout" in inspect.signature(method).parameters


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    def public(client: type) -> dict[str, str]:
        methods = inspect.getmembers(client, inspect.isfunction)
        return {name: str(inspect.signature(method)) for name, method in methods if not name.startswith("_")}

    ours, theirs = public(Client), public(AsyncClient)
    assert ours.keys() == theirs.keys()
    assert {name: text for name, text in ours.items() if theirs[name] != text} == {}


def searching(seen: list[evidence_pb2.SearchRequest]) -> Handler:
    async def search(request: evidence_pb2.SearchRequest, call: Call) -> evidence_pb2.SearchResponse:
        seen.append(request)
        return evidence_pb2.SearchResponse(packet=evidence_pb2.EvidencePacket(packet_id="p"))

    return search


async def test_search_says_what_was_asked(world: World) -> None:
    seen: list[evidence_pb2.SearchRequest] = []
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    asked: dict[str, Any] = {
        "conversation": [("user", "Hello"), ("assistant", "Yes?")],
        "source_ids": ["wiki"],
        "max_staleness": timedelta(minutes=5),
        "valid_at": moment,
        "max_evidence": 3,
        "basic": True,
    }
    async with serving({"Search": searching(seen)}, world) as server:
        async with AsyncClient(server.address, world.token()) as client:
            assert (await client.search("leave?", **asked)).packet_id == "p"
            await client.search("bare")
        packet = await in_thread(world, server.address, lambda client: client.search("leave?", **asked))
        assert packet.packet_id == "p"
    assert seen[0] == seen[2]
    assert seen[1] == evidence_pb2.SearchRequest(query="bare")
    first = seen[0]
    assert [(turn.role, turn.text) for turn in first.conversation] == [(1, "Hello"), (2, "Yes?")]
    assert list(first.scope.source_ids) == ["wiki"]
    assert first.consistency.max_staleness.seconds == 300
    assert first.valid_at.ToDatetime(UTC) == moment
    assert (first.max_evidence, first.view) == (3, evidence_pb2.PACKET_VIEW_BASIC)


async def test_arguments_that_contradict_or_lack_a_zone_are_refused_before_the_call(world: World) -> None:
    client = AsyncClient("localhost:1", "token")
    with pytest.raises(ValueError, match="only one of"):
        await client.search("q", exact_snapshot="a", at_least_snapshot="b")
    with pytest.raises(ValueError, match="time zone"):
        await client.search("q", valid_at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the fault
    await client.close()


async def test_answers_are_iterated_as_they_come(world: World) -> None:
    go = asyncio.Event()

    async def answer(request: evidence_pb2.AnswerRequest, call: StreamCall) -> None:
        await call.write(evidence_pb2.AnswerResponse(claim=evidence_pb2.Claim(text="one")))
        await go.wait()
        await call.write(evidence_pb2.AnswerResponse(summary=evidence_pb2.AnswerSummary(claims=1)))

    async with serving({"Answer": answer}, world) as server:
        async with AsyncClient(server.address, world.token()) as client:
            events = client.answer("q", max_claims=2)
            assert (await anext(events)).claim.text == "one"
            go.set()
            assert [event.WhichOneof("event") async for event in events] == ["summary"]
        kinds = await in_thread(
            world, server.address, lambda client: [event.WhichOneof("event") for event in client.answer("q")]
        )
        assert kinds == ["claim", "summary"]


async def test_lists_follow_the_pages(world: World) -> None:
    async def list_sources(request: source_pb2.ListSourcesRequest, call: Call) -> source_pb2.ListSourcesResponse:
        page = int(request.page_token or 0)
        sources = [source_pb2.Source(source_id=f"{page}-{n}-{request.page_size}") for n in range(2)]
        return source_pb2.ListSourcesResponse(sources=sources, next_page_token=str(page + 1) if page < 2 else "")

    wanted = [f"{page}-{n}-2" for page in range(3) for n in range(2)]
    async with serving({"ListSources": list_sources}, world) as server:
        async with AsyncClient(server.address, world.token()) as client:
            assert [source.source_id async for source in client.list_sources(page_size=2)] == wanted
        names = await in_thread(
            world, server.address, lambda client: [source.source_id for source in client.list_sources(page_size=2)]
        )
        assert names == wanted


REFUSALS: list[tuple[Exception, type[muniment.MunimentError], str]] = [
    (InvalidValue("query", "must not be empty"), muniment.InvalidArgument, "INVALID_REQUEST"),
    (corpus.errors.NotFound(), muniment.NotFound, "NOT_FOUND"),
    (corpus.errors.NotAllowed(), muniment.PermissionDenied, "NOT_ALLOWED"),
    (corpus.errors.AlreadyExists(), muniment.AlreadyExists, "ALREADY_EXISTS"),
    (corpus.errors.EtagMismatch(), muniment.FailedPrecondition, "ETAG_MISMATCH"),
    (policy.errors.PolicyUnavailable(), muniment.Unavailable, "POLICY_UNAVAILABLE"),
    (RuntimeError("secret"), muniment.MunimentError, "INTERNAL"),
]


@pytest.mark.parametrize(("fault", "cls", "reason"), REFUSALS, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_errors_are_typed(world: World, fault: Exception, cls: type[muniment.MunimentError], reason: str) -> None:
    async def refuses(request: Any, call: Call) -> bytes:
        raise fault

    async with serving({"Search": refuses, "Answer": refuses, "ListSources": refuses}, world) as server:
        async with AsyncClient(server.address, world.token()) as client:
            calls: list[Callable[[], Any]] = [
                lambda: client.search("q"),
                lambda: anext(client.answer("q")),
                lambda: anext(client.list_sources()),
            ]
            for call in calls:
                with pytest.raises(cls) as caught:
                    await call()
                assert type(caught.value) is cls
                assert caught.value.reason == reason
                assert len(caught.value.request_id) == 36
                assert "secret" not in str(caught.value)

        def sync(client: Client) -> muniment.MunimentError:
            with pytest.raises(cls):
                next(client.answer("q"))
            with pytest.raises(cls) as error:
                client.search("q")
            return error.value

        error = await in_thread(world, server.address, sync)
        assert (error.reason, len(error.request_id)) == (reason, 36)
        if isinstance(fault, InvalidValue):
            assert error.violations == (muniment.Violation("query", "must not be empty"),)
            assert "query: must not be empty" in str(error)
        if isinstance(fault, policy.errors.PolicyUnavailable):
            assert error.retry_after == 1.0


async def test_no_server_and_no_token(world: World) -> None:
    async with serving({}, world) as server:
        address = server.address
        async with AsyncClient(address, "a.b.c") as client:
            with pytest.raises(muniment.Unauthenticated):
                await client.get_source("s")
    async with AsyncClient(address, "a.b.c") as client:
        with pytest.raises(muniment.Unavailable):
            await client.get_source("s")


async def test_a_token_function_is_asked_for_each_call(world: World) -> None:
    tokens = iter([world.token(sub="ada"), world.token(sub="bob")])
    subjects = []

    async def search(request: Any, call: Call) -> bytes:
        subjects.append(call.principal.subject)
        return b""

    async with (
        serving({"Search": search}, world) as server,
        AsyncClient(server.address, lambda: next(tokens)) as client,
    ):
        await client.search("q")
        await client.search("q")
    assert subjects == ["ada", "bob"]


class Documents:
    """Takes uploads whole, and reports operations as they are set."""

    def __init__(self) -> None:
        self.puts: list[tuple[document_pb2.DocumentMetadata, list[int], bytes]] = []
        self.states = [RUNNING, SUCCEEDED]
        self.watches = 0
        self.faults: list[Exception] = []

    async def put(
        self, requests: AsyncIterator[document_pb2.PutDocumentRequest], call: Call
    ) -> document_pb2.PutDocumentResponse:
        messages = [request async for request in requests]
        content = b"".join(message.chunk for message in messages)
        self.puts.append((messages[0].metadata, [len(message.chunk) for message in messages], content))
        operation = operation_pb2.Operation(operation_id="o-1", state=operation_pb2.OPERATION_STATE_PENDING)
        return document_pb2.PutDocumentResponse(revision_id="r-1", operation=operation)

    async def watch(self, request: operation_pb2.WatchOperationRequest, call: StreamCall) -> None:
        self.watches += 1
        if self.faults:
            raise self.faults.pop()
        for state in self.states:
            error = operation_pb2.OperationError(
                failure=operation_pb2.OPERATION_FAILURE_ENCRYPTED, message="The file is encrypted."
            )
            operation = operation_pb2.Operation(
                operation_id=request.operation_id, state=state, error=error if state == FAILED else None
            )
            await call.write(operation_pb2.WatchOperationResponse(operation=operation))

    @property
    def handlers(self) -> dict[str, Handler]:
        return {"PutDocument": self.put, "WatchOperation": self.watch}


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
async def test_uploads_are_chunked_hashed_and_awaited(world: World, size: int) -> None:
    documents, content = Documents(), bytes(index % 251 for index in range(size))
    async with serving(documents.handlers, world) as server:
        async with AsyncClient(server.address, world.token()) as client:
            response = await client.put_document("wiki", "a", content, title="A", valid_from=datetime.now(UTC))
        assert response.operation.state == SUCCEEDED
        synced = await in_thread(world, server.address, lambda client: client.put_document("wiki", "a", content))
        assert synced.operation.state == SUCCEEDED
    for metadata, chunks, received in documents.puts:
        assert received == content
        assert max(chunks) <= CHUNK_BYTES
        assert metadata.size_bytes == size
        assert metadata.sha256 == hashlib.sha256(content).hexdigest()
    assert documents.puts[0][0].valid.HasField("from")


async def test_a_path_names_the_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "leave.md"
    path.write_bytes(b"# Leave\n")
    documents = Documents()
    async with serving(documents.handlers, world) as server, AsyncClient(server.address, world.token()) as client:
        await client.put_document("wiki", "a", path, wait=False)
        with pytest.raises(FileNotFoundError):
            await client.put_document("wiki", "b", tmp_path / "none.md")
    [(metadata, _, content)] = documents.puts
    assert (metadata.filename, content) == ("leave.md", b"# Leave\n")
    assert documents.watches == 0


async def test_a_put_that_is_never_served_raises(world: World) -> None:
    documents = Documents()
    documents.states = [RUNNING, FAILED]
    async with serving(documents.handlers, world) as server:
        async with AsyncClient(server.address, world.token()) as client:
            with pytest.raises(muniment.OperationFailed, match="ENCRYPTED: The file is encrypted") as caught:
                await client.put_document("wiki", "a", b"x")
            assert caught.value.operation.operation_id == "o-1"
            await client.put_document("wiki", "a", b"x", build_id="b-1")  # served when the build is published

        def sync(client: Client) -> None:
            with pytest.raises(muniment.OperationFailed):
                client.put_document("wiki", "a", b"x")

        await in_thread(world, server.address, sync)
    assert documents.watches == 2


async def test_waiting_outlives_a_restart_of_the_server_but_not_its_own_timeout(world: World) -> None:
    documents = Documents()
    documents.faults = [corpus.errors.CatalogUnavailable(), policy.errors.PolicyUnavailable()]
    async with serving(documents.handlers, world) as server, AsyncClient(server.address, world.token()) as client:
        assert (await client.wait_operation("o-1")).state == SUCCEEDED
        assert documents.watches == 3
        documents.states = [RUNNING]
        documents.faults = [corpus.errors.CatalogUnavailable()]
        with pytest.raises(muniment.Unavailable):
            await client.wait_operation("o-1", timeout=0.3)
        documents.faults = [corpus.errors.NotFound()]
        with pytest.raises(muniment.NotFound):
            await client.wait_operation("o-2")


async def test_an_upload_that_is_refused_early_is_typed_all_the_same(world: World) -> None:
    async with serving({}, world) as server, AsyncClient(server.address, "a.b.c") as client:
        with pytest.raises(muniment.Unauthenticated):
            await client.put_document("wiki", "a", b"x" * (8 * CHUNK_BYTES))


async def test_a_client_that_leaves_its_iterator_ends_the_call(world: World) -> None:
    ended = asyncio.Event()

    async def answer(request: Any, call: StreamCall) -> None:
        try:
            await call.write(evidence_pb2.AnswerResponse(claim=evidence_pb2.Claim(text="one")))
            await asyncio.Event().wait()
        finally:
            ended.set()

    def first_of(client: Client) -> None:
        events = client.answer("q")
        next(events)
        events.close()

    async with serving({"Answer": answer}, world) as server:
        await in_thread(world, server.address, first_of)
        async with asyncio.timeout(5):
            await ended.wait()
        ended.clear()
        async with AsyncClient(server.address, world.token()) as client:
            events = client.answer("q")
            await anext(events)
            await events.aclose()
            async with asyncio.timeout(5):
                await ended.wait()


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("localhost:1", True),
        ("127.0.0.1:1", True),
        ("127.1.2.3:1", True),
        ("[::1]:1", True),
        ("unix:/tmp/x", True),
        ("10.0.0.1:1", False),
        ("muniment.example:443", False),
        ("localhost.example:1", False),
        ("127.0.0.1.example:1", False),
        ("0.0.0.0:1", False),
    ],
)
def test_tls_is_on_beyond_loopback(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
    assert (Endpoint(address, "t").credentials is None) is loopback
    assert Endpoint(address, "t", tls=False).credentials is None
    assert Endpoint(address, "t", tls=True).credentials is not None


def test_details_of_somebody_elses_proxy_do_not_hide_the_code() -> None:
    trailers = Metadata(("grpc-status-details-bin", b"\xff\xff not a status"))
    error = from_rpc_error(AioRpcError(grpc.StatusCode.NOT_FOUND, Metadata(), trailers, "gone", None))
    assert isinstance(error, muniment.NotFound)
    assert (error.reason, error.message) == ("", "gone")


def test_access_is_built_from_the_package_alone() -> None:
    access = muniment.Access(allowed_groups=["eng"], level=3)
    assert isinstance(access, common_pb2.Access)
