"""Calls as they are on the wire: any RPC with any metadata, and all that its caller is told."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from muniment._wire import OPTIONS, codecs, path_of
from muniment.v1 import document_pb2, evidence_pb2, operation_pb2, publication_pb2, source_pb2

from core.ids import new_id

FILES: tuple[FileDescriptor, ...] = tuple(
    module.DESCRIPTOR for module in (evidence_pb2, source_pb2, document_pb2, publication_pb2, operation_pb2)
)
METHODS: dict[str, MethodDescriptor] = {
    name: method
    for file in FILES
    for service in file.services_by_name.values()
    for name, method in service.methods_by_name.items()
}
REQUEST_ID = "x-request-id"
DETAILS = "grpc-status-details-bin"
TIMEOUT_S = 30.0

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Outcome:
    """Everything that a caller learns from a call, but for the ids that are new with every call.

    `details` are the error details as text, `trailers` the names and values of all other trailing metadata.
    """

    code: grpc.StatusCode
    reason: str
    text: str
    details: tuple[str, ...]
    trailers: tuple[tuple[str, str], ...]
    answers: tuple[Any, ...]

    @property
    def said(self) -> str:
        """All words that left the server."""
        return " ".join((self.text, *self.details, *(value for _, value in self.trailers)))


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def channel_to(address: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=OPTIONS)


async def ask_patiently(
    channel: grpc.aio.Channel, rpc: str, request: Message | Iterable[Message], metadata: Metadata
) -> Outcome:
    """Asked again while a busy machine refuses for want of time."""
    for attempt in range(8):
        outcome = await ask(channel, rpc, request, metadata)
        if outcome.code is not grpc.StatusCode.UNAVAILABLE:
            return outcome
        await asyncio.sleep(0.1 * attempt)
    raise AssertionError(outcome)


async def ask(channel: grpc.aio.Channel, rpc: str, request: Message | Iterable[Message], metadata: Metadata) -> Outcome:
    """Call by the RPC's bare name; an upload takes an iterable of messages."""
    method = METHODS[rpc]
    serializer, deserializer = codecs(method)
    kinds: dict[tuple[bool, bool], Any] = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
    }
    call = kinds[method.client_streaming, method.server_streaming](path_of(method), serializer, deserializer)(
        request, timeout=TIMEOUT_S, metadata=tuple(metadata)
    )
    answers: list[Any] = []
    try:
        if method.server_streaming:
            answers += [answer async for answer in call]
        else:
            answers.append(await call)
    except grpc.aio.AioRpcError as exc:
        return _outcome(exc.code(), exc.details() or "", exc.trailing_metadata(), answers)
    return _outcome(await call.code(), await call.details() or "", await call.trailing_metadata(), answers)


def _outcome(code: grpc.StatusCode, text: str, metadata: Any, answers: list[Any]) -> Outcome:
    trailers = {name: value for name, value in metadata or ()}  # noqa: C416 - dict() of it would look for keys
    request_id = str(trailers.pop(REQUEST_ID, "")) or "no request id"
    status = status_pb2.Status.FromString(trailers.pop(DETAILS, b""))
    reason, details = "", []
    for packed in status.details:
        info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        detail = next(each for each in (info, retry, bad) if packed.Unpack(each))
        reason = reason or info.reason
        details.append(str(detail).replace(request_id, "ID"))
    others = tuple(sorted((name, str(value)) for name, value in trailers.items()))
    return Outcome(code, reason, text.replace(request_id, "ID"), tuple(details), others, tuple(answers))


def absent_id() -> str:
    """An id that was never given to anything."""
    return new_id()
