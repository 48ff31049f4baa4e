"""OperationService: work that outlives the call that began it."""

import asyncio

from muniment.v1 import operation_pb2

from corpus.catalog.operations import Operation, find_operation
from corpus.errors import NotFound
from gateway.call import Call, StreamCall
from gateway.encode import operation_message
from gateway.registration import Service
from gateway.serving import Serving, caller_of, require
from policy.principal import Role

_DESCRIPTOR = operation_pb2.DESCRIPTOR.services_by_name["OperationService"]
LOOK_EVERY_S = 0.05


def operation_service(serving: Serving) -> Service:
    """The service with its handlers."""
    handlers = _Operations(serving)
    return Service(_DESCRIPTOR, {"GetOperation": handlers.get, "WatchOperation": handlers.watch})


class _Operations:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def get(self, request: operation_pb2.GetOperationRequest, call: Call) -> operation_pb2.GetOperationResponse:
        await require(self._serving, call, "GetOperation")
        operation = self._find(request.operation_id, call)
        return operation_pb2.GetOperationResponse(operation=operation_message(operation, self._serving.tokens))

    async def watch(self, request: operation_pb2.WatchOperationRequest, call: StreamCall) -> None:
        await require(self._serving, call, "WatchOperation")
        told: Operation | None = None
        while told is None or not told.ended:
            self._serving.gate.check_token(call.principal)
            operation = self._find(request.operation_id, call)
            if operation != told:
                told = operation
                message = operation_message(operation, self._serving.tokens)
                await call.write(operation_pb2.WatchOperationResponse(operation=message))
            else:
                await asyncio.sleep(LOOK_EVERY_S)

    def _find(self, operation_id: str, call: Call) -> Operation:
        """Operations are shown to who began them, and to publishers."""
        operation = find_operation(self._serving.database, call.principal.tenant_id, operation_id)
        if operation is not None and (
            operation.created_by == caller_of(call.principal) or Role.PUBLISHER in call.principal.roles
        ):
            return operation
        raise NotFound(f"operation {operation_id}")
