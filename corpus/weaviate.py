"""The Store on Weaviate: gRPC for data here, REST for collection and tenants in `weaviate_admin`.

It speaks with the client package's message types over a channel of its own, not through its client: that one sleeps
and retries UNAVAILABLE up to four times behind the caller's back, and its wrappers cost as much as a small search.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

import grpc
import numpy.typing as npt
from weaviate.proto.v1 import base_pb2, base_search_pb2, batch_delete_pb2, batch_pb2, search_get_pb2

from core.budget import Budget
from core.ids import RepresentationId, TenantId
from core.representation import Representation
from corpus import weaviate_filter as filters
from corpus import weaviate_objects as objects
from corpus.analyser import lexical_query
from corpus.store import (
    Selection,
    StoredFragment,
    StoredHit,
    StoredRef,
    StoreError,
    StoreLate,
    StoreMisconfigured,
    StoreQuery,
    StoreRejected,
    StoreUnavailable,
    TenantMissing,
)
from corpus.weaviate_admin import WeaviateAdmin, WeaviateEndpoint
from corpus.weaviate_schema import TERMS, collection_name

_SERVICE = "/weaviate.v1.Weaviate"
_MESSAGE_BYTES = 100 << 20  # the server's own bound
_CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # the default of two minutes would outlast the store's restart
]
_ALL = base_pb2.CONSISTENCY_LEVEL_ALL
_ONE = base_pb2.CONSISTENCY_LEVEL_ONE
INSERT_OBJECTS = 200  # a message
DELETE_OBJECTS = 500
PAGE_OBJECTS = 5_000  # below the server's QUERY_MAXIMUM_RESULTS of 10,000
SELECTED_AT_ONCE = 500  # revisions or documents in one filter
_DELETE_AGAIN_S = 0.05

Request = TypeVar("Request", contravariant=True)
Reply = TypeVar("Reply", covariant=True)
Item = TypeVar("Item")


class _Method(Protocol[Request, Reply]):
    """A unary RPC as grpc.aio's channel gives it."""

    async def __call__(self, request: Request, *, timeout: float, metadata: tuple[tuple[str, str], ...]) -> Reply: ...


class WeaviateStore:
    """Use it in `async with`. One representation, any number of tenants; safe to share within one event loop."""

    def __init__(self, endpoint: WeaviateEndpoint, representation: Representation, *, replication: int = 1) -> None:
        self._endpoint = endpoint
        self._admin = WeaviateAdmin(endpoint, representation, replication)
        self._dimension = representation.dimension
        self.representation_id: RepresentationId = representation.representation_id
        self._collection = collection_name(self.representation_id)
        self._metadata = (("authorization", f"Bearer {endpoint.api_key}"),)

    async def __aenter__(self) -> "WeaviateStore":
        await self._admin.open()
        target = self._endpoint.grpc_target
        if self._endpoint.tls:
            credentials = grpc.ssl_channel_credentials()
            self._channel = grpc.aio.secure_channel(target, credentials, options=_CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
        self._search = self._method("Search", search_get_pb2.SearchRequest, search_get_pb2.SearchReply)
        self._insert = self._method("BatchObjects", batch_pb2.BatchObjectsRequest, batch_pb2.BatchObjectsReply)
        self._delete = self._method(
            "BatchDelete", batch_delete_pb2.BatchDeleteRequest, batch_delete_pb2.BatchDeleteReply
        )
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._channel.close(None)
        await self._admin.close()

    async def ensure_collection(self, budget: Budget) -> None:
        """See Store."""
        await self._admin.ensure_collection(budget)

    async def check_collection(self, budget: Budget) -> None:
        """See Store."""
        await self._admin.check_collection(budget)

    async def ensure_tenant(self, tenant_id: TenantId, budget: Budget) -> None:
        """See Store."""
        await self._admin.ensure_tenant(tenant_id, budget)

    async def lexical(self, query: StoreQuery, analysed: str, identifiers: str, budget: Budget) -> list[StoredHit]:
        """See Store; `score` is BM25 with k1 1.2 and b 0.75 over the tenant's fragments, hidden ones included."""
        terms = lexical_query(analysed, identifiers)
        if not terms or filters.is_empty(query):
            return []
        request = self._search_request(query, search_get_pb2.MetadataRequest(uuid=True, score=True))
        request.bm25_search.query = terms
        request.bm25_search.properties.append(TERMS)
        reply = await self._call(self._search, request, budget)
        return objects.ranked(objects.hit(result, result.metadata.score) for result in reply.results)

    async def dense(
        self, query: StoreQuery, vector: Sequence[float] | npt.NDArray[Any], budget: Budget
    ) -> list[StoredHit]:
        """See Store."""
        if filters.is_empty(query):
            return []
        request = self._search_request(query, search_get_pb2.MetadataRequest(uuid=True, distance=True))
        packed = base_pb2.Vectors(
            vector_bytes=objects.vector_bytes(vector, self._dimension),
            type=base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32,
        )
        request.near_vector.CopyFrom(base_search_pb2.NearVector(vectors=[packed]))
        reply = await self._call(self._search, request, budget)
        return objects.ranked(objects.hit(result, 1.0 - result.metadata.distance) for result in reply.results)

    async def insert(self, tenant_id: TenantId, fragments: Sequence[StoredFragment], budget: Budget) -> None:
        """See Store."""
        refused: list[str] = []
        for chunk in _chunks(fragments, INSERT_OBJECTS):
            built = [objects.batch_object(f, self._collection, tenant_id, self._dimension) for f in chunk]
            request = batch_pb2.BatchObjectsRequest(objects=built, consistency_level=_ALL)
            reply = await self._call(self._insert, request, budget)
            refused += [chunk[error.index].object_id for error in reply.errors]
        if refused:
            raise StoreRejected(f"{len(refused)} of {len(fragments)} objects were not taken", tuple(refused))

    async def delete(self, tenant_id: TenantId, object_ids: Collection[str], budget: Budget) -> None:
        """See Store."""
        for chunk in _chunks(sorted(object_ids), DELETE_OBJECTS):
            left: Sequence[str] = chunk
            while left:
                await self._call(self._delete, self._delete_request(tenant_id, left), budget)
                left = sorted(ref.object_id for ref in await self.fetch(tenant_id, left, budget))
                if left:  # a replica was away: what it still has must go, too, or StoreLate says that it did not
                    await asyncio.sleep(min(_DELETE_AGAIN_S, budget.left_s()))

    async def list_objects(self, tenant_id: TenantId, selection: Selection, budget: Budget) -> frozenset[StoredRef]:
        """See Store. A full page is halved by slot until none is full: complete without offsets or cursors."""
        found: set[StoredRef] = set()
        for chunk in _selections(selection):
            within = filters.selection_filter(tenant_id, chunk)
            open_ranges = [(0, objects.SLOTS)]
            while open_ranges:
                low, high = open_ranges.pop()
                page = await self._page(tenant_id, filters.slots_between(low, high, within), budget)
                if len(page) < PAGE_OBJECTS:
                    found.update(page)
                    continue
                middle = (low + high) // 2
                if middle == low:
                    raise StoreRejected("more objects share a slot than a page holds")
                open_ranges += [(low, middle), (middle, high)]
        return frozenset(found)

    async def fetch(self, tenant_id: TenantId, object_ids: Collection[str], budget: Budget) -> frozenset[StoredRef]:
        """See Store."""
        found: set[StoredRef] = set()
        for chunk in _chunks(sorted(object_ids), DELETE_OBJECTS):
            found.update(await self._page(tenant_id, filters.any_of_texts(objects.OBJECT_ID, chunk), budget))
        return frozenset(found)

    async def _page(self, tenant_id: TenantId, where: base_pb2.Filters, budget: Budget) -> list[StoredRef]:
        request = self._request(tenant_id, where, PAGE_OBJECTS, search_get_pb2.MetadataRequest(uuid=True), _ALL)
        reply = await self._call(self._search, request, budget)
        return [objects.ref(result) for result in reply.results]

    def _search_request(
        self, query: StoreQuery, metadata: search_get_pb2.MetadataRequest
    ) -> search_get_pb2.SearchRequest:
        # One replica: the level governs only which bodies are read, not which ids match, and the gate checks both
        return self._request(query.tenant_id, filters.search_filter(query), query.limit, metadata, _ONE)

    def _request(
        self,
        tenant_id: TenantId,
        where: base_pb2.Filters,
        limit: int,
        metadata: search_get_pb2.MetadataRequest,
        consistency: base_pb2.ConsistencyLevel,
    ) -> search_get_pb2.SearchRequest:
        if not tenant_id or limit < 1:
            raise StoreRejected("a search needs a tenant and a limit of at least 1")
        return search_get_pb2.SearchRequest(
            collection=self._collection,
            tenant=tenant_id,
            consistency_level=consistency,
            properties=objects.RETURNED,
            metadata=metadata,
            limit=limit,
            filters=where,
            uses_123_api=True,
            uses_125_api=True,
            uses_127_api=True,
        )

    def _delete_request(self, tenant_id: TenantId, object_ids: Iterable[str]) -> batch_delete_pb2.BatchDeleteRequest:
        return batch_delete_pb2.BatchDeleteRequest(
            collection=self._collection,
            tenant=tenant_id,
            filters=filters.any_of_texts(objects.OBJECT_ID, object_ids),
            consistency_level=_ALL,
        )

    def _method(self, name: str, request: type[Any], reply: type[Any]) -> Any:
        return self._channel.unary_unary(
            f"{_SERVICE}/{name}", request_serializer=request.SerializeToString, response_deserializer=reply.FromString
        )

    async def _call(self, method: _Method[Request, Reply], request: Request, budget: Budget) -> Reply:
        left_s = budget.left_s()
        if left_s <= 0:
            raise StoreLate
        try:
            return await method(request, timeout=left_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as exc:
            raise _fault(exc) from exc


def _fault(exc: grpc.aio.AioRpcError) -> StoreError:
    """Ours for theirs. Their text may quote values of a filter, so it stays in the cause."""
    details = exc.details() or ""
    match exc.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return StoreLate()
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.RESOURCE_EXHAUSTED:
            return StoreUnavailable("the store can't be reached or is overloaded")
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return StoreMisconfigured("the store does not accept our credentials")
    if details.startswith("extract auth:"):  # Weaviate 1.38 gives all of its own faults as UNKNOWN
        return StoreMisconfigured("the store does not accept our credentials")
    if "tenant not found" in details:
        return TenantMissing("the store does not know the tenant")
    return StoreRejected(f"the store refused a call with {exc.code().name}")


def _selections(selection: Selection) -> Iterator[Selection]:
    if selection.revisions is not None:
        yield from (Selection(revisions=frozenset(c)) for c in _chunks(sorted(selection.revisions), SELECTED_AT_ONCE))
    elif selection.documents is not None:
        yield from (Selection(documents=frozenset(c)) for c in _chunks(sorted(selection.documents), SELECTED_AT_ONCE))
    else:
        yield selection


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
