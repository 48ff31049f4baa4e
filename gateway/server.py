"""The grpc.aio server of a gateway process: ports, limits, health, and a stop that drains."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2_grpc

from gateway.addresses import is_loopback
from gateway.authentication import Authenticator
from gateway.health import Health
from gateway.interceptors import Deadlines, Inflight, chain
from gateway.registration import Service, generic_handler

STOP_MARGIN_S = 1.0  # for cut calls to send their status, after the grace


class ListenFault(OSError):
    """The address can't be listened on."""


@dataclass(frozen=True)
class Listener:
    """Where to listen: port 0 is any free one. TLS where certificate and key (PEM files) are given."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    reuse_port: bool = False  # several worker processes on one port


@dataclass(frozen=True)
class MessageLimits:
    """Bytes of one message and of a call's metadata; the client sets the same."""

    max_receive_bytes: int = 4 * 1024 * 1024
    max_send_bytes: int = 16 * 1024 * 1024
    max_metadata_bytes: int = 64 * 1024


class GatewayServer:
    """Serves the services behind the layers, and health in the open. Make and use it on one event loop."""

    def __init__(
        self,
        services: Sequence[Service],
        authenticator: Authenticator,
        listener: Listener | None = None,
        limits: MessageLimits | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._listener = listener or Listener()
        self._inflight = Inflight()
        limits = limits or MessageLimits()
        layers = chain(authenticator, deadlines or Deadlines(), self._inflight)
        self._health = Health(service.name for service in services)
        self._server = grpc.aio.server(options=_options(limits, self._listener))
        self._server.add_generic_rpc_handlers(
            tuple(generic_handler(service, layers, limits.max_send_bytes) for service in services)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.port = 0

    @property
    def address(self) -> str:
        """`host:port`, once started."""
        host = self._listener.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def in_flight(self) -> int:
        """Calls that run now, health not counted."""
        return len(self._inflight)

    async def start(self) -> None:
        """Listen. Every service is NOT_SERVING until `set_serving`; raises OSError or ValueError when it can't."""
        credentials = _credentials(self._listener)
        self.port = self._listener.port
        try:
            if credentials is None:
                self.port = self._server.add_insecure_port(self.address)
            else:
                self.port = self._server.add_secure_port(self.address, credentials)
        except RuntimeError as exc:
            raise ListenFault(f"can't listen on {self.address}: is the port taken, or the address not ours?") from exc
        await self._server.start()

    def set_serving(self, service: str, serving: bool) -> None:
        """Say by its full name whether a service serves."""
        self._health.set_serving(service, serving)

    async def stop(self, grace_s: float) -> None:
        """Health NOT_SERVING, new calls refused, running ones may end within `grace_s`; then they end SHUTTING_DOWN."""
        self._health.drain()
        await self._inflight.drain(grace_s)
        await self._server.stop(STOP_MARGIN_S)


def _options(limits: MessageLimits, listener: Listener) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_receive_message_length", limits.max_receive_bytes),
        ("grpc.max_send_message_length", limits.max_send_bytes),
        ("grpc.max_metadata_size", limits.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", limits.max_metadata_bytes),
        # grpc's default shares the port silently with whoever else listens on it.
        ("grpc.so_reuseport", int(listener.reuse_port)),
    )


def _credentials(listener: Listener) -> grpc.ServerCredentials | None:
    if listener.certificate is None or listener.key is None:
        if not is_loopback(listener.host):
            raise ValueError("a listener that is not on loopback needs TLS")
        return None
    pair = (listener.key.read_bytes(), listener.certificate.read_bytes())
    return grpc.ssl_server_credentials([pair])
