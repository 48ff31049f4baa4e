"""A second gateway on the same record and engines, in the test's own process, with some part of it replaced."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from app.gateway import authenticator_of, services_of, serving_of
from gateway.server import GatewayServer, Listener
from gateway.serving import Serving
from policy.heartbeat import PolicyLiveness
from tests.system.whole import System

Change = Callable[[Serving], Serving]


@asynccontextmanager
async def gateway_beside(system: System, change: Change) -> AsyncIterator[GatewayServer]:
    """Started and stopped around the block; whatever it is asked is decided by the same policy and record."""
    async with AsyncExitStack() as stack:
        serving = await serving_of(system.settings, PolicyLiveness(), stack)
        authenticator = await authenticator_of(system.settings, serving.database, stack)
        server = GatewayServer(services_of(change(serving)), authenticator, Listener())
        await server.start()
        try:
            yield server
        finally:
            await server.stop(1.0)
