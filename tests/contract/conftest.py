"""The stores that each contract is held against: the fake and a real Weaviate."""

from collections.abc import AsyncIterator

import pytest

from corpus.store import (
    Store,
)
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from tests.contract.shelf import DIMENSION, REPRESENTATION, Shelf, budget, new_shelf
from tests.engines import running_weaviate
from tests.fakes.memory_store import MemoryStore


@pytest.fixture(scope="session")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WeaviateEndpoint]:
    async with running_weaviate(tmp_path_factory.mktemp("weaviate")) as running:
        yield running


@pytest.fixture(scope="session")
async def weaviate(endpoint: WeaviateEndpoint) -> AsyncIterator[WeaviateStore]:
    async with WeaviateStore(endpoint, REPRESENTATION) as store:
        await store.ensure_collection(budget())
        await store.ensure_collection(budget())  # what is there is kept and checked
        yield store


@pytest.fixture(scope="session", params=["memory", "weaviate"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore(REPRESENTATION.representation_id, DIMENSION)
    found: WeaviateStore = request.getfixturevalue("weaviate")
    return found


@pytest.fixture
async def shelf(store: Store) -> Shelf:
    return await new_shelf(store)
