"""What Weaviate is asked for: whatever a writer relies on must hold on every replica."""

from typing import Any

import grpc
import pytest
from weaviate.proto.v1 import base_pb2, batch_delete_pb2, batch_pb2, search_get_pb2

from core.budget import Budget
from corpus.store import Selection
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from tests.protocol.harness import REPRESENTATION, World


class Weaviate:
    """Answers every call with nothing and remembers at which level it was asked."""

    def __init__(self) -> None:
        self.levels: dict[str, set[int]] = {}

    def handlers(self) -> "grpc.GenericRpcHandler[Any, Any]":
        methods = {
            "Search": (search_get_pb2.SearchRequest, search_get_pb2.SearchReply),
            "BatchObjects": (batch_pb2.BatchObjectsRequest, batch_pb2.BatchObjectsReply),
            "BatchDelete": (batch_delete_pb2.BatchDeleteRequest, batch_delete_pb2.BatchDeleteReply),
        }
        return grpc.method_handlers_generic_handler(
            "weaviate.v1.Weaviate", {name: self._handler(name, *types) for name, types in methods.items()}
        )

    def _handler(self, name: str, request: Any, reply: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        async def answer(asked: Any, _context: object) -> Any:
            self.levels.setdefault(name, set()).add(asked.consistency_level)
            return reply()

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=request.FromString, response_serializer=reply.SerializeToString
        )


@pytest.mark.parametrize("call", ["insert", "delete", "list", "fetch"])
async def test_writers_write_to_and_read_back_from_every_replica(world: World, call: str) -> None:
    world.put("D")
    await world.publish()
    fragments, budget = list(world.held.values()), Budget.of_seconds(30)
    weaviate, server = Weaviate(), grpc.aio.server()
    server.add_generic_rpc_handlers((weaviate.handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        endpoint = WeaviateEndpoint("http://127.0.0.1:1", f"127.0.0.1:{port}", "key")
        async with WeaviateStore(endpoint, REPRESENTATION) as store:
            match call:
                case "insert":
                    await store.insert(world.tenant_id, fragments, budget)
                case "delete":
                    await store.delete(world.tenant_id, list(world.held), budget)
                case "list":
                    await store.list_objects(world.tenant_id, Selection(), budget)
                case "fetch":
                    await store.fetch(world.tenant_id, list(world.held), budget)
    finally:
        await server.stop(None)
    assert set.union(*weaviate.levels.values()) == {base_pb2.CONSISTENCY_LEVEL_ALL}
