"""A real gateway server in this process, with handlers from the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from muniment.v1 import document_pb2, evidence_pb2, operation_pb2, publication_pb2, source_pb2

from corpus.errors import NotFound
from gateway.call import Call
from gateway.interceptors import Deadlines
from gateway.registration import Handler, Service
from gateway.server import GatewayServer, MessageLimits
from tests.unit.gateway.issuing import World

FILES = (document_pb2, evidence_pb2, operation_pb2, publication_pb2, source_pb2)
DESCRIPTORS: tuple[ServiceDescriptor, ...] = tuple(
    service for file in FILES for service in file.DESCRIPTOR.services_by_name.values()
)
METHODS: dict[str, MethodDescriptor] = {
    f"{service.full_name}/{name}": method for service in DESCRIPTORS for name, method in service.methods_by_name.items()
}


async def nothing(request: Any, call: Call) -> bytes:
    raise NotFound


def services(handlers: Mapping[str, Handler]) -> list[Service]:
    """Every service of the contract; RPCs that the test does not name find nothing."""
    names = {name for descriptor in DESCRIPTORS for name in descriptor.methods_by_name}
    assert set(handlers) <= names
    return [
        Service(descriptor, {name: handlers.get(name, nothing) for name in descriptor.methods_by_name})
        for descriptor in DESCRIPTORS
    ]


@asynccontextmanager
async def serving(
    handlers: Mapping[str, Handler],
    world: World,
    *,
    limits: MessageLimits | None = None,
    deadlines: Deadlines | None = None,
    extra: tuple[Service, ...] = (),
) -> AsyncIterator[GatewayServer]:
    """Started on a free port, stopped at once at the end."""
    server = GatewayServer([*services(handlers), *extra], world.authenticator, limits=limits, deadlines=deadlines)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


def bare(channel: grpc.aio.Channel, method: MethodDescriptor, *, raw: bool = False) -> Any:
    """The multi-callable of an RPC; `raw` sends and gives bytes."""
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    codecs = (None, None) if raw else (request.SerializeToString, response.FromString)
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    return getattr(channel, kind)(f"/{method.containing_service.full_name}/{method.name}", *codecs)


async def ask(method: MethodDescriptor, running: Any) -> Any:
    """The answer, or the list of answers."""
    return [item async for item in running] if method.server_streaming else await running


async def eventually(true: Callable[[], bool], within_s: float = 5.0) -> None:
    """Return when `true()`; fail after `within_s`."""
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - there is no event: it watches from outside
            await asyncio.sleep(0.005)
