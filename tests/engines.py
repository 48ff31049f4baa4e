"""Real engines for tests: each starts one on free ports, in a directory of its own, and stops it at the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from corpus.weaviate_admin import WeaviateEndpoint
from deploy import Supervisor
from deploy.engines import EngineCredentials, WeaviatePorts, ensure, weaviate_child


@asynccontextmanager
async def running_weaviate(directory: Path) -> AsyncIterator[WeaviateEndpoint]:
    """One Weaviate node with its data under `directory`, ready to serve."""
    binary = ensure(["weaviate"])["weaviate"]
    ports, credentials = WeaviatePorts.pick(), EngineCredentials.generate()
    child = weaviate_child(binary, ports, directory / "data", credentials, directory / "logs" / "weaviate.log")
    async with Supervisor(handle_signals=False) as supervisor:
        await supervisor.start(child)
        yield WeaviateEndpoint(
            f"http://127.0.0.1:{ports.http}", f"127.0.0.1:{ports.grpc}", credentials.weaviate_api_key
        )
