"""What only the real store can do wrong: refuse, be away, hang, be set up otherwise."""

import asyncio
import copy
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from core.ids import TenantId, new_id
from corpus.store import (
    StoreLate,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
)
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from corpus.weaviate_schema import collection
from tests.contract.shelf import REPRESENTATION, Shelf, budget, fragment, new_shelf


async def test_an_object_that_weaviate_refuses_is_named_and_the_others_are_written(weaviate: WeaviateStore) -> None:
    shelf = await new_shelf(weaviate)
    good, bad = fragment(shelf.tenant), fragment(shelf.tenant, level="not a number")
    with pytest.raises(StoreRejected) as caught:
        await weaviate.insert(shelf.tenant, [good, bad], budget())
    assert caught.value.object_ids == (bad.object_id,)
    assert "not a number" not in str(caught.value)
    assert await shelf.both() == {good.object_id}


async def test_a_store_that_is_away_is_said_at_once(endpoint: WeaviateEndpoint) -> None:
    away = WeaviateEndpoint("http://127.0.0.1:1", "127.0.0.1:1", endpoint.api_key)
    async with WeaviateStore(away, REPRESENTATION) as store:
        began = time.monotonic()
        for call in (lambda: Shelf(store, TenantId("t")).dense(), lambda: store.check_collection(budget())):
            with pytest.raises(StoreUnavailable):
                await call()
        assert time.monotonic() - began < 5  # the client package would still be sleeping


async def test_a_store_that_never_answers_costs_the_budget_and_no_more(endpoint: WeaviateEndpoint) -> None:
    hanging: list[asyncio.StreamWriter] = []

    def swallow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hanging.append(writer)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(swallow, "127.0.0.1", 0))
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        silent = WeaviateEndpoint(f"http://{address}", address, endpoint.api_key)
        store = await stack.enter_async_context(WeaviateStore(silent, REPRESENTATION))
        shelf = Shelf(store, TenantId("t"))
        began = time.monotonic()
        with pytest.raises(StoreLate):
            await store.dense(shelf.query(), (1, 0, 0, 0), budget(0.2))
        with pytest.raises(StoreLate):
            await store.check_collection(budget(0.2))
        assert time.monotonic() - began < 2
        for writer in hanging:
            writer.close()


async def test_wrong_credentials_are_a_matter_for_the_operator(
    weaviate: WeaviateStore, endpoint: WeaviateEndpoint
) -> None:
    shelf = await new_shelf(weaviate)
    async with WeaviateStore(replace(endpoint, api_key="guess"), REPRESENTATION) as store:
        for call in (lambda: Shelf(store, shelf.tenant).dense(), lambda: store.check_collection(budget())):
            with pytest.raises(StoreMisconfigured) as caught:
                await call()
            assert "guess" not in str(caught.value)
    assert endpoint.api_key not in repr(endpoint)


def _set(path: tuple[str, ...], value: Any) -> Any:
    def change(body: dict[str, Any]) -> None:
        *parents, last = path
        for name in parents:
            body = body[name]
        body[last] = value

    return change


def _set_property(name: str, **values: Any) -> Any:
    def change(body: dict[str, Any]) -> None:
        next(item for item in body["properties"] if item["name"] == name).update(values)

    return change


def _drop_property(name: str) -> Any:
    def change(body: dict[str, Any]) -> None:
        body["properties"] = [item for item in body["properties"] if item["name"] != name]

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_set_property("a_allowed_groups", tokenization="word"), "properties.a_allowed_groups.tokenization"),
        (_set_property("a_owner", tokenization="lowercase"), "properties.a_owner.tokenization"),
        (_set_property("revision_id", tokenization="whitespace"), "properties.revision_id.tokenization"),
        (_set_property("terms", tokenization="word"), "properties.terms.tokenization"),
        (_set_property("a_level", indexFilterable=False), "properties.a_level.indexFilterable"),
        (_set_property("from_seq", indexRangeFilters=False), "properties.from_seq.indexRangeFilters"),
        (_drop_property("a_denied_groups"), "properties.a_denied_groups"),
        (_set(("invertedIndexConfig", "indexNullState"), False), "invertedIndexConfig.indexNullState"),
        (_set(("invertedIndexConfig", "stopwords", "preset"), "en"), "invertedIndexConfig.stopwords.preset"),
        (_set(("invertedIndexConfig", "bm25", "b"), 0.5), "invertedIndexConfig.bm25.b"),
        (_set(("multiTenancyConfig", "autoTenantCreation"), True), "multiTenancyConfig.autoTenantCreation"),
        (_set(("vectorIndexConfig", "distance"), "dot"), "vectorIndexConfig.distance"),
    ],
)
async def test_a_collection_that_would_answer_otherwise_is_refused(
    endpoint: WeaviateEndpoint, change: Any, named: str
) -> None:
    representation = replace(REPRESENTATION, fragmenter=new_id())
    body = copy.deepcopy(collection(representation, 1))
    change(body)
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    async with aiohttp.ClientSession(endpoint.http_url, headers=headers) as session:
        async with session.post("/v1/schema", json=body) as response:
            assert response.status == 200, await response.text()
        async with WeaviateStore(endpoint, representation) as store:
            for call in (store.check_collection, store.ensure_collection):
                with pytest.raises(StoreMisconfigured) as caught:
                    await call(budget())
                assert named in str(caught.value)
        async with session.delete(f"/v1/schema/{body['class']}") as response:
            assert response.status == 200


async def test_a_missing_collection_is_refused_until_it_is_made(endpoint: WeaviateEndpoint) -> None:
    representation = replace(REPRESENTATION, fragmenter=new_id())
    async with WeaviateStore(endpoint, representation) as store:
        with pytest.raises(StoreMisconfigured):
            await store.check_collection(budget())
        await asyncio.gather(*(store.ensure_collection(budget()) for _ in range(3)))  # two processes start at once
        await store.check_collection(budget())
