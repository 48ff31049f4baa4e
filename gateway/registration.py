"""From functions to grpc handlers, by descriptor: the only way in, so no RPC can be served without the layers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from gateway.call import Call, Reply, StreamCall, encoded
from gateway.errors import MalformedRequest, Unauthenticated
from gateway.interceptors import Context, Exchange, Layer, compose

NOTICED_WITHIN_S = 1.0  # that a client is gone

# (request, call) -> Reply; the request is an async iterator where the client streams. Where the server streams, the
# call is a StreamCall, the handler writes to it and returns None. The adapter knows messages by descriptor only.
Handler = Callable[[Any, Any], Awaitable[Reply | None]]


@dataclass(frozen=True)
class Service:
    """All RPCs of one service of the contract with their handlers, by method name."""

    descriptor: ServiceDescriptor
    handlers: Mapping[str, Handler]

    def __post_init__(self) -> None:
        missing = set(self.descriptor.methods_by_name) ^ set(self.handlers)
        if missing:
            raise ValueError(f"{self.name}: RPCs and handlers differ in {sorted(missing)}")

    @property
    def name(self) -> str:
        """`muniment.v1.EvidenceService`: also its name in the health service."""
        return self.descriptor.full_name


def generic_handler(
    service: Service, layers: tuple[Layer, ...], max_reply_bytes: int
) -> "grpc.GenericRpcHandler[Any, Any]":
    """What grpc serves for the service. grpc itself parses nothing: its parser's errors would reach strangers."""
    by_name = {
        name: _method_handler(method, service.handlers[name], layers, max_reply_bytes)
        for name, method in service.descriptor.methods_by_name.items()
    }
    generic: grpc.GenericRpcHandler[Any, Any] = grpc.method_handlers_generic_handler(service.name, by_name)
    return generic


def _method_handler(
    method: MethodDescriptor, handler: Handler, layers: tuple[Layer, ...], max_reply_bytes: int
) -> "grpc.RpcMethodHandler[Any, Any]":
    run = compose(layers, _innermost(method, handler, max_reply_bytes))

    async def behaviour(request: bytes | AsyncIterator[bytes], context: Context) -> bytes | None:
        return await run(Exchange(method, request, context))

    kinds: dict[tuple[bool, bool], Callable[[Any], Any]] = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    made: grpc.RpcMethodHandler[Any, Any] = kinds[method.client_streaming, method.server_streaming](behaviour)
    return made


def _innermost(
    method: MethodDescriptor, handler: Handler, max_reply_bytes: int
) -> Callable[[Exchange], Awaitable[bytes | None]]:
    message_class = GetMessageClass(method.input_type)

    async def invoke(exchange: Exchange) -> bytes | None:
        raw = exchange.request
        request = _decoded(message_class, raw) if isinstance(raw, bytes) else _decoded_all(message_class, raw)
        if method.server_streaming:
            await handler(request, _stream_call(exchange, max_reply_bytes))
            return None
        reply = await handler(request, _call(exchange))
        if reply is None:
            raise TypeError(f"{exchange.rpc}: the handler gave no answer")
        return encoded(reply, max_reply_bytes)

    return invoke


def _call(exchange: Exchange) -> Call:
    if exchange.principal is None or exchange.budget is None:
        raise Unauthenticated("no layer authenticated the call")
    return Call(exchange.principal, exchange.budget, exchange.request_id, exchange.stages)


def _stream_call(exchange: Exchange, max_reply_bytes: int) -> StreamCall:
    call = _call(exchange)
    send = partial(_send, exchange.context)
    return StreamCall(call.principal, call.budget, call.request_id, call.stages, send, max_reply_bytes)


async def _send(context: Context, raw: bytes) -> None:
    try:
        await context.write(raw)
    except grpc.aio.InternalError:
        # The client went away during the write. grpc cancels this task for it, a moment later (tried), and that is
        # how the call is to end: as the client's doing, not as a fault of ours.
        await asyncio.sleep(NOTICED_WITHIN_S)
        raise


def _decoded(message_class: type[Message], raw: bytes) -> Message:
    try:
        return message_class.FromString(raw)
    except DecodeError as exc:
        raise MalformedRequest(message_class.DESCRIPTOR.full_name) from exc


async def _decoded_all(message_class: type[Message], raw: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    # A message over the limit, and a client that goes away, end the iteration like a proper end (tried): handlers
    # of uploads must know by other means that all has come.
    async for part in raw:
        yield _decoded(message_class, part)
