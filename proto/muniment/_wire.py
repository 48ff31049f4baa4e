"""Where and how to connect: address, TLS, token, limits; the same for both clients."""

import inspect
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from muniment._shapes import Upload
from muniment.v1 import operation_pb2

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")
Token = str | Callable[[], str]

ENDED = (operation_pb2.OPERATION_STATE_SUCCEEDED, operation_pb2.OPERATION_STATE_FAILED)
WATCH_RETRY_S = 0.5
# What the server sends and accepts at most; a limit raised on one side only does not help.
OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", 4 * 1024 * 1024),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.absolute_max_metadata_size", 64 * 1024),
)


@dataclass(frozen=True)
class Endpoint:
    """A gateway and who asks. `tls` None: on, unless the address is on loopback."""

    address: str
    token: Token
    tls: bool | None = None
    root_certificates: bytes | None = None

    @property
    def credentials(self) -> grpc.ChannelCredentials | None:
        """None for a channel without TLS."""
        secure = not is_loopback(self.address) if self.tls is None else self.tls
        return grpc.ssl_channel_credentials(self.root_certificates) if secure else None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of one call; a callable token is asked each time, so that it may renew itself."""
        token = self.token() if callable(self.token) else self.token
        return (("authorization", f"Bearer {token}"),)


def is_loopback(address: str) -> bool:
    """Whether `host:port` names this machine, judged by its text alone."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def path_of(method: MethodDescriptor) -> str:
    """`/muniment.v1.EvidenceService/Search`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def codecs(method: MethodDescriptor) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Serializer of requests, deserializer of answers."""
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return request.SerializeToString, response.FromString


def waits_for(upload: Upload, operation: operation_pb2.Operation) -> float | None:
    """Seconds to wait for the operation of a put; None when there is nothing to wait for."""
    return None if operation.state in ENDED or not operation.operation_id else upload.wait


def named_like(method: Callable[Concatenate[C, P], R], build: Callable[P, Any]) -> Callable[Concatenate[C, P], R]:
    """`method` with name, text and arguments of the function that it was made from, for `help`."""
    method.__name__, method.__doc__ = build.__name__, build.__doc__
    signature = inspect.signature(build)
    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [self_parameter, *signature.parameters.values()]
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
    return method
