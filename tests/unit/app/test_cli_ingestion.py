"""A folder becomes one build: what is counted, and what becomes of the build when something goes wrong.

The gateway here is a grpc server that speaks the contract and misbehaves on demand; the real one is in tests/e2e.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from muniment import Access, AsyncClient, NotFound, OperationFailed, Unavailable
from muniment.v1 import document_pb2, operation_pb2, publication_pb2

from app.cli.folder import File, files_of
from app.cli.ingestion import ATTEMPTS, CONCURRENT_PUTS, Report, ingest_files

Context = grpc.aio.ServicerContext[Any, Any]


class StubGateway:
    """Stores by the file's name: `same` is unchanged, `png` unsupported, `locked` fails later, `flaky` is away once."""

    def __init__(self) -> None:
        self.states: dict[str, int] = {}
        self.build = "open"
        self.metadata: list[document_pb2.DocumentMetadata] = []
        self.running = self.most = 0
        self.tries: dict[str, int] = {}
        self.hang = asyncio.Event()
        self.reached = asyncio.Event()
        self.full = asyncio.Event()
        self.publish_fails = False

    async def begin(self, request: publication_pb2.BeginBuildRequest, context: Context) -> Any:
        if request.source_id == "nowhere":
            await _abort(context, grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
        return publication_pb2.BeginBuildResponse(build=publication_pb2.Build(build_id="b1"))

    async def put(self, requests: AsyncIterator[document_pb2.PutDocumentRequest], context: Context) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == CONCURRENT_PUTS:
            self.full.set()
        try:
            first = await anext(requests)
            async for _ in requests:
                pass
            return await self._store(first.metadata, context)
        finally:
            self.running -= 1

    async def _store(self, metadata: document_pb2.DocumentMetadata, context: Context) -> Any:
        self.metadata.append(metadata)
        name = metadata.document_id
        self.tries[name] = self.tries.get(name, 0) + 1
        if "hang" in name:
            self.reached.set()
            await self.hang.wait()
        if "away" in name or ("flaky" in name and self.tries[name] == 1):
            await _abort(context, grpc.StatusCode.UNAVAILABLE, "OVERLOADED", retry_after_s=0)
        if name.endswith(".png"):
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_FORMAT")
        if "same" in name:
            return document_pb2.PutDocumentResponse(unchanged=True)
        self.states[f"o-{name}"] = operation_pb2.OPERATION_STATE_PENDING
        return document_pb2.PutDocumentResponse(operation=operation_pb2.Operation(operation_id=f"o-{name}"))

    async def publish(self, request: publication_pb2.PublishBuildRequest, context: Context) -> Any:
        self.build = "published"
        for name in self.states:
            failed = "locked" in name
            self.states[name] = (
                operation_pb2.OPERATION_STATE_FAILED if failed else operation_pb2.OPERATION_STATE_SUCCEEDED
            )
        self.states["publish"] = (
            operation_pb2.OPERATION_STATE_FAILED if self.publish_fails else operation_pb2.OPERATION_STATE_SUCCEEDED
        )
        return publication_pb2.PublishBuildResponse(operation=operation_pb2.Operation(operation_id="publish"))

    async def abandon(self, request: publication_pb2.AbandonBuildRequest, context: Context) -> Any:
        if self.build == "published":
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, "BUILD_NOT_OPEN")
        self.build = "abandoned"
        return publication_pb2.AbandonBuildResponse()

    async def get(self, request: operation_pb2.GetOperationRequest, context: Context) -> Any:
        return operation_pb2.GetOperationResponse(operation=self._operation(request.operation_id))

    async def watch(self, request: operation_pb2.WatchOperationRequest, context: Context) -> AsyncIterator[Any]:
        yield operation_pb2.WatchOperationResponse(operation=self._operation(request.operation_id))

    def _operation(self, operation_id: str) -> operation_pb2.Operation:
        operation = operation_pb2.Operation(operation_id=operation_id, snapshot="s2")
        operation.state = self.states[operation_id]  # type: ignore[assignment]
        if operation.state == operation_pb2.OPERATION_STATE_FAILED:
            operation.error.failure = operation_pb2.OPERATION_FAILURE_ENCRYPTED
        return operation


async def _abort(context: Context, code: grpc.StatusCode, reason: str, retry_after_s: int | None = None) -> None:
    details = [error_details_pb2.ErrorInfo(reason=reason, domain="muniment")]
    status = status_pb2.Status(code=code.value[0])
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    if retry_after_s is not None:
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.RetryInfo())
        status.details.append(packed)
    await context.abort(code, "refused", (("grpc-status-details-bin", status.SerializeToString()),))


def _handlers(gateway: StubGateway) -> list["grpc.GenericRpcHandler[Any, Any]"]:
    def unary(behaviour: Any, request: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(behaviour, request.FromString, lambda m: m.SerializeToString())

    put = grpc.stream_unary_rpc_method_handler(
        gateway.put, document_pb2.PutDocumentRequest.FromString, lambda m: m.SerializeToString()
    )
    watch = grpc.unary_stream_rpc_method_handler(
        gateway.watch, operation_pb2.WatchOperationRequest.FromString, lambda m: m.SerializeToString()
    )
    services: dict[str, dict[str, Any]] = {
        "DocumentService": {"PutDocument": put},
        "PublicationService": {
            "BeginBuild": unary(gateway.begin, publication_pb2.BeginBuildRequest),
            "PublishBuild": unary(gateway.publish, publication_pb2.PublishBuildRequest),
            "AbandonBuild": unary(gateway.abandon, publication_pb2.AbandonBuildRequest),
        },
        "OperationService": {
            "GetOperation": unary(gateway.get, operation_pb2.GetOperationRequest),
            "WatchOperation": watch,
        },
    }
    return [grpc.method_handlers_generic_handler(f"muniment.v1.{name}", methods) for name, methods in services.items()]


@pytest.fixture
async def gateway() -> StubGateway:
    return StubGateway()


@pytest.fixture
async def client(gateway: StubGateway) -> AsyncIterator[AsyncClient]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(_handlers(gateway)))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with AsyncClient(f"127.0.0.1:{port}", "token") as connected:
        yield connected
    await server.stop(0)


def _folder(folder: Path, *names: str) -> list[File]:
    for name in names:
        (folder / name).write_text(f"text of {name}")
    return files_of(folder)


def _outcomes(report: Report) -> dict[str, str]:
    return {put.document_id: put.outcome for put in report.puts}


async def test_files_in_are_stored_plus_unchanged_plus_refused(
    client: AsyncClient, gateway: StubGateway, tmp_path: Path
) -> None:
    files = _folder(tmp_path, "a.md", "b.md", "same.md", "image.png", "locked.pdf")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    report = await ingest_files(client, "s", files_of(tmp_path))

    assert len(files) == 5
    assert _outcomes(report) == {
        "a.md": "stored",
        "b.md": "stored",
        "image.png": "refused",
        "link.md": "refused",
        "locked.pdf": "refused",
        "same.md": "unchanged",
    }
    assert str(report) == "6 files = 2 stored + 1 unchanged + 3 refused"
    assert {put.document_id: put.reason for put in report.puts if put.reason} == {
        "image.png": "unsupported format: refused",
        "link.md": "is a symbolic link",
        "locked.pdf": "encrypted",
    }
    assert (report.snapshot, gateway.build) == ("s2", "published")


async def test_all_puts_join_one_build_with_the_access_that_was_given(
    client: AsyncClient, gateway: StubGateway, tmp_path: Path
) -> None:
    access = Access(allowed_groups=["people"], level=3)
    await ingest_files(client, "s", _folder(tmp_path, "a.md", "b.md"), access)

    assert {(put.build_id, put.source_id, put.filename) for put in gateway.metadata} == {
        ("b1", "s", "a.md"),
        ("b1", "s", "b.md"),
    }
    assert all(put.access == access for put in gateway.metadata)


async def test_without_an_access_the_template_is_asked_for(
    client: AsyncClient, gateway: StubGateway, tmp_path: Path
) -> None:
    await ingest_files(client, "s", _folder(tmp_path, "a.md"))

    assert not gateway.metadata[0].HasField("access")


async def test_nothing_that_a_touch_changes_is_sent(client: AsyncClient, gateway: StubGateway, tmp_path: Path) -> None:
    """Else the same folder, checked out again, would be stored again."""
    await ingest_files(client, "s", _folder(tmp_path, "a.md"))

    assert not gateway.metadata[0].provenance.HasField("modified_at")


async def test_the_same_again_publishes_nothing(client: AsyncClient, tmp_path: Path) -> None:
    report = await ingest_files(client, "s", _folder(tmp_path, "same.md"))

    assert (report.counts["unchanged"], report.snapshot) == (1, "")


async def test_puts_run_side_by_side_but_not_too_many(
    client: AsyncClient, gateway: StubGateway, tmp_path: Path
) -> None:
    names = [f"hang-{number:03}.md" for number in range(3 * CONCURRENT_PUTS)]
    ingesting = asyncio.create_task(ingest_files(client, "s", _folder(tmp_path, *names)))
    async with asyncio.timeout(10):
        await gateway.full.wait()
    gateway.hang.set()
    report = await ingesting

    assert gateway.most == CONCURRENT_PUTS
    assert [put.document_id for put in report.puts] == names


async def test_an_outage_that_heals_is_waited_for(client: AsyncClient, gateway: StubGateway, tmp_path: Path) -> None:
    report = await ingest_files(client, "s", _folder(tmp_path, "flaky.md"))

    assert (_outcomes(report), gateway.tries["flaky.md"]) == ({"flaky.md": "stored"}, 2)


async def test_an_outage_that_stays_abandons_the_build(
    client: AsyncClient, gateway: StubGateway, tmp_path: Path
) -> None:
    told: list[tuple[str, int]] = []
    with pytest.raises(Unavailable):
        await ingest_files(
            client,
            "s",
            _folder(tmp_path, "a.md", "away.md"),
            on_progress=lambda what, steps: told.append((what, steps)),
        )

    assert (gateway.build, gateway.tries["away.md"]) == ("abandoned", ATTEMPTS)
    assert (told[0], told[-1]) == (("putting", 2), ("abandoned", 0))


async def test_cancelling_abandons_the_build(client: AsyncClient, gateway: StubGateway, tmp_path: Path) -> None:
    """What Ctrl-C does."""
    ingesting = asyncio.create_task(ingest_files(client, "s", _folder(tmp_path, "a.md", "hang.md")))
    async with asyncio.timeout(10):
        await gateway.reached.wait()
    ingesting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ingesting

    assert gateway.build == "abandoned"


async def test_an_unknown_source_begins_no_build(client: AsyncClient, gateway: StubGateway, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await ingest_files(client, "nowhere", _folder(tmp_path, "a.md"))

    assert gateway.metadata == []


async def test_a_publication_that_fails_is_an_error(client: AsyncClient, gateway: StubGateway, tmp_path: Path) -> None:
    gateway.publish_fails = True
    with pytest.raises(OperationFailed):
        await ingest_files(client, "s", _folder(tmp_path, "a.md"))


async def test_a_file_that_vanishes_meanwhile_is_refused(client: AsyncClient, tmp_path: Path) -> None:
    files = _folder(tmp_path, "a.md", "b.md")
    (tmp_path / "a.md").unlink()
    report = await ingest_files(client, "s", files)

    assert _outcomes(report) == {"a.md": "refused", "b.md": "stored"}
