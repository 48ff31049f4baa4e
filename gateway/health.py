"""`grpc.health.v1.Health`: the one open service. Nothing serves until it is said to; draining is for good."""

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.interceptors import Context

Status: Any = health_pb2.HealthCheckResponse
OVERALL = ""
MAX_WATCHERS = 100  # it is open to strangers, so what they can hold is bounded


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc] # grpc-stubs leave it untyped
    """Serving state per service. Overall is SERVING when every service is.

    Unlike grpcio-health-checking's, its watches end when the server drains: they would hold the drain for its grace.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._serving = dict.fromkeys(services, False)
        self._draining = False
        self._changed = asyncio.Event()
        self._watchers = 0

    def set_serving(self, service: str, serving: bool) -> None:
        """Say whether a service serves; KeyError for one that is not there. Without effect once draining."""
        if self._serving[service] != serving and not self._draining:
            self._serving[service] = serving
            self._announce()

    def drain(self) -> None:
        """NOT_SERVING from now on, whatever is said later."""
        self._draining = True
        self._announce()

    def status(self, service: str) -> int | None:
        """The status to report; None for a service that is not there."""
        if service != OVERALL and service not in self._serving:
            return None
        serving = all(self._serving.values()) if service == OVERALL else self._serving[service]
        status: int = Status.SERVING if serving and not self._draining else Status.NOT_SERVING
        return status

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> Any:  # noqa: N802
        """The status now; NOT_FOUND for a service that is not there."""
        status = self.status(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "No such service.")
        return Status(status=status)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:  # noqa: N802
        """Each change of the status, until the server drains."""
        if self._watchers >= MAX_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many watches.")
        self._watchers += 1
        try:
            last = None
            while True:
                changed, status = self._changed, self.status(request.service)
                if status != last or last is None:
                    last = status
                    await context.write(Status(status=Status.SERVICE_UNKNOWN if status is None else status))
                if self._draining:
                    return
                await changed.wait()
        finally:
            self._watchers -= 1

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
