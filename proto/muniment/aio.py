"""The asynchronous client."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from time import monotonic
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from muniment import _rpcs
from muniment._shapes import Pages, Stream, Unary, Upload
from muniment._wire import (
    ENDED,
    OPTIONS,
    WATCH_RETRY_S,
    Endpoint,
    Token,
    codecs,
    named_like,
    path_of,
    waits_for,
)
from muniment.errors import DeadlineExceeded, OperationFailed, Unavailable, from_rpc_error
from muniment.v1 import document_pb2, operation_pb2

P = ParamSpec("P")
T = TypeVar("T")


def _unary(
    build: Callable[P, Unary[T]],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_unary(build(*args, **kwargs))

    return named_like(method, build)


def _stream(build: Callable[P, Stream[T]]) -> "Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]]":
    def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return self._run_stream(build(*args, **kwargs))

    return named_like(method, build)


def _pages(build: Callable[P, Pages[T]]) -> "Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]":
    def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._run_pages(build(*args, **kwargs))

    return named_like(method, build)


def _upload(
    build: Callable[P, Upload],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, document_pb2.PutDocumentResponse]]":
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> document_pb2.PutDocumentResponse:
        # Reading and hashing a large file would hold up the loop.
        return await self._run_upload(await asyncio.to_thread(build, *args, **kwargs))

    return named_like(method, build)


class AsyncClient:
    """A gateway, asked from an event loop. Make it on the loop, close it, or use it as a context manager.

    `address` is `host:port`; `token` a bearer token or a function that gives one for each call. TLS is used unless
    the address is on loopback; `tls` overrides that, `root_certificates` (PEM) replaces the system's roots. Every
    method takes `timeout` in seconds, raises MunimentError, and returns messages of `muniment.v1`.
    """

    def __init__(
        self, address: str, token: Token, *, tls: bool | None = None, root_certificates: bytes | None = None
    ) -> None:
        self._endpoint = Endpoint(address, token, tls, root_certificates)
        credentials = self._endpoint.credentials
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=OPTIONS)

    async def close(self) -> None:
        """Close the connection; calls that run are cancelled."""
        await self._channel.close(None)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    search = _unary(_rpcs.search)
    answer = _stream(_rpcs.answer)
    resolve_citation = _unary(_rpcs.resolve_citation)
    create_source = _unary(_rpcs.create_source)
    get_source = _unary(_rpcs.get_source)
    list_sources = _pages(_rpcs.list_sources)
    put_document = _upload(_rpcs.put_document)
    get_document = _unary(_rpcs.get_document)
    list_documents = _pages(_rpcs.list_documents)
    list_revisions = _pages(_rpcs.list_revisions)
    set_access = _unary(_rpcs.set_access)
    delete_document = _unary(_rpcs.delete_document)
    begin_build = _unary(_rpcs.begin_build)
    publish_build = _unary(_rpcs.publish_build)
    abandon_build = _unary(_rpcs.abandon_build)
    list_snapshots = _pages(_rpcs.list_snapshots)
    get_snapshot = _unary(_rpcs.get_snapshot)
    rollback = _unary(_rpcs.rollback)
    get_operation = _unary(_rpcs.get_operation)
    watch_operation = _stream(_rpcs.watch_operation)

    async def wait_operation(
        self, operation_id: str, *, timeout: float = _rpcs.UPLOAD_TIMEOUT
    ) -> operation_pb2.Operation:
        """The Operation once it has ended, well or not; DeadlineExceeded when that takes longer than `timeout`.

        Watches again when the server restarts meanwhile.
        """
        deadline = monotonic() + timeout
        while True:
            left = deadline - monotonic()
            try:
                async for operation in self.watch_operation(operation_id, timeout=max(left, 0.0)):
                    if operation.state in ENDED:
                        return operation
            except (Unavailable, DeadlineExceeded):
                if deadline - monotonic() <= WATCH_RETRY_S:
                    raise
            await asyncio.sleep(WATCH_RETRY_S)

    async def _run_unary(self, call: Unary[T]) -> T:
        serializer, deserializer = codecs(call.method)
        ask = self._channel.unary_unary(path_of(call.method), serializer, deserializer)
        try:
            return call.pick(await ask(call.request, timeout=call.timeout, metadata=self._endpoint.metadata))
        except grpc.RpcError as exc:
            raise from_rpc_error(exc) from exc

    async def _run_stream(self, call: Stream[T]) -> AsyncGenerator[T, None]:
        serializer, deserializer = codecs(call.method)
        ask = self._channel.unary_stream(path_of(call.method), serializer, deserializer)
        running = ask(call.request, timeout=call.timeout, metadata=self._endpoint.metadata)
        try:
            async for response in running:
                yield call.pick(response)
        except grpc.RpcError as exc:
            raise from_rpc_error(exc) from exc
        finally:
            running.cancel()

    async def _run_pages(self, call: Pages[T]) -> AsyncIterator[T]:
        request = type(call.request)()
        request.CopyFrom(call.request)
        while True:
            page: Any = await self._run_unary(Unary(call.method, request, lambda response: response, call.timeout))
            for item in call.pick(page):
                yield item
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def _run_upload(self, upload: Upload) -> document_pb2.PutDocumentResponse:
        serializer, deserializer = codecs(upload.method)
        ask = self._channel.stream_unary(path_of(upload.method), serializer, deserializer)
        metadata = self._endpoint.metadata
        try:
            response: document_pb2.PutDocumentResponse = await ask(
                upload.messages(), timeout=upload.timeout, metadata=metadata
            )
        except grpc.RpcError as exc:
            raise from_rpc_error(exc) from exc
        wait_s = waits_for(upload, response.operation)
        if wait_s is not None:
            ended = await self.wait_operation(response.operation.operation_id, timeout=wait_s)
            response.operation.CopyFrom(ended)
        if upload.wait is not None and response.operation.state == operation_pb2.OPERATION_STATE_FAILED:
            raise OperationFailed(response.operation)
        return response
