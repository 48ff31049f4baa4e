"""What an upload may say of itself, and that checking a large one leaves the event loop to others."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest
from muniment.v1 import document_pb2

from core.errors import InvalidValue
from core.ids import TenantId
from corpus.catalog.idempotency import MAX_KEY_LENGTH, Request
from gateway import upload
from gateway.upload import MAX_CHUNK, Upload, first_of, receive


def metadata(data: bytes = b"text", source_version: int = 0) -> document_pb2.DocumentMetadata:
    return document_pb2.DocumentMetadata(
        source_id="files", document_id="plan", filename="plan.txt", size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(), source_version=source_version,
    )  # fmt: skip


async def messages(data: bytes, first: document_pb2.DocumentMetadata) -> AsyncIterator[document_pb2.PutDocumentRequest]:
    yield document_pb2.PutDocumentRequest(metadata=first)
    for start in range(0, len(data), MAX_CHUNK):
        yield document_pb2.PutDocumentRequest(chunk=data[start : start + MAX_CHUNK])


async def test_a_source_version_that_the_catalog_can_not_keep_is_refused() -> None:
    with pytest.raises(InvalidValue) as refused:
        await first_of(messages(b"", metadata(source_version=2**63)))
    assert refused.value.field == "metadata.source_version"


def test_an_idempotency_key_is_short() -> None:
    Request(TenantId("t"), "caller", "rpc", "k" * MAX_KEY_LENGTH, "digest")
    with pytest.raises(InvalidValue):
        Request(TenantId("t"), "caller", "rpc", "k" * (MAX_KEY_LENGTH + 1), "digest")


async def test_a_large_upload_is_checked_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, threads = asyncio.get_running_loop(), list[bool]()
    checked = upload._checked

    def noted(first: document_pb2.DocumentMetadata, content: bytes) -> Upload:
        threads.append(asyncio._get_running_loop() is loop)
        return checked(first, content)

    monkeypatch.setattr(upload, "_checked", noted)
    for data in (b"text", b"text " * 400_000):
        sent = messages(data, metadata(data))
        received = await receive(await first_of(sent), sent, len(data))
        assert received.data == data
    assert threads == [True, False]
