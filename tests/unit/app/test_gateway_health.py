"""Health says what holds: it falls with policy, catalog and audit, and rises with them."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from app import gateway
from corpus.errors import CatalogUnavailable
from gateway.registration import Service
from gateway.server import GatewayServer
from gateway.serving import Serving
from policy.heartbeat import PolicyLiveness
from tests.unit.gateway.serving import eventually, services


@dataclass
class Server:
    serving: dict[str, bool] = field(default_factory=dict)

    def set_serving(self, service: str, serving: bool) -> None:
        self.serving[service] = serving


@dataclass
class Parts:
    """The catalog, the gate and all that else could be away."""

    readable: bool = True
    records: bool = True

    @property
    def database(self) -> "Parts":
        return self

    @property
    def gate(self) -> "Parts":
        return self

    def read(self, _sql: str) -> list[Any]:
        if not self.readable:
            raise CatalogUnavailable
        return [(1,)]


async def test_every_service_falls_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "WATCH_EVERY_S", 0.005)
    now, parts, server, all_services = [0.0], Parts(), Server(), services({})
    liveness = PolicyLiveness(lambda: now[0])
    watched: list[Service] = all_services
    watch = asyncio.create_task(gateway._watch(cast(GatewayServer, server), watched, cast(Serving, parts), liveness))

    async def says(serving: bool) -> None:
        await eventually(lambda: set(server.serving.values()) == {serving} and len(server.serving) == len(watched))

    await says(False)  # policy has never answered
    liveness.succeeded(0.0)
    await says(True)
    for name in ("readable", "records"):
        setattr(parts, name, False)
        await says(False)
        setattr(parts, name, True)
        await says(True)
    now[0] = 3.0
    await says(False)
    watch.cancel()
    await asyncio.wait([watch])
