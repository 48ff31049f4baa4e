"""PublicationService: builds, snapshots, rollback."""

from collections.abc import Callable

import sqlalchemy as sa
from google.protobuf.message import Message
from muniment.v1 import publication_pb2

from core.ids import OPEN_SEQ, Seq
from core.keys import digest
from corpus.acknowledge import acknowledgeable
from corpus.catalog.builds import BuildRecord, abandon_build, begin_build, seal_build
from corpus.catalog.idempotency import Request, once
from corpus.catalog.operations import read_operation
from corpus.catalog.snapshots import SnapshotRecord, find_snapshot, list_snapshots, rollback
from corpus.errors import SnapshotUnavailable
from gateway.call import Call
from gateway.encode import operation_message
from gateway.registration import Service
from gateway.serving import Serving, build_for, caller_of, page_size, require, source_for

_DESCRIPTOR = publication_pb2.DESCRIPTOR.services_by_name["PublicationService"]
_STATES = {
    "open": publication_pb2.BUILD_STATE_OPEN,
    "sealed": publication_pb2.BUILD_STATE_SEALED,
    "published": publication_pb2.BUILD_STATE_PUBLISHED,
    "abandoned": publication_pb2.BUILD_STATE_ABANDONED,
}


def publication_service(serving: Serving) -> Service:
    """The service with its handlers."""
    handlers = _Publication(serving)
    return Service(
        _DESCRIPTOR,
        {
            "BeginBuild": handlers.begin,
            "PublishBuild": handlers.publish,
            "AbandonBuild": handlers.abandon,
            "ListSnapshots": handlers.list_snapshots,
            "GetSnapshot": handlers.get_snapshot,
            "Rollback": handlers.rollback,
        },
    )


class _Publication:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def begin(self, request: publication_pb2.BeginBuildRequest, call: Call) -> bytes:
        source, _ = await source_for(self._serving, call, "BeginBuild", request.source_id)

        def command(tx: sa.Connection) -> bytes:
            build = begin_build(tx, source.tenant_id, source.source_id, caller_of(call.principal))
            return _raw(publication_pb2.BeginBuildResponse(build=_build_message(build)))

        return await self._once(call, "BeginBuild", request.idempotency_key, request, command)

    async def publish(self, request: publication_pb2.PublishBuildRequest, call: Call) -> bytes:
        build = await build_for(self._serving, call, "PublishBuild", "PublishOthersBuild", request.build_id)

        def command(tx: sa.Connection) -> bytes:
            operation_id = seal_build(tx, call.principal.tenant_id, build.build_id, caller_of(call.principal))
            operation = operation_message(read_operation(tx, operation_id), self._serving.tokens)
            return _raw(publication_pb2.PublishBuildResponse(operation=operation))

        return await self._once(call, "PublishBuild", request.idempotency_key, request, command)

    async def abandon(self, request: publication_pb2.AbandonBuildRequest, call: Call) -> bytes:
        build = await build_for(self._serving, call, "AbandonBuild", "AbandonOthersBuild", request.build_id)

        def command(tx: sa.Connection) -> bytes:
            operation_id = abandon_build(tx, call.principal.tenant_id, build.build_id, caller_of(call.principal))
            operation = operation_message(read_operation(tx, operation_id), self._serving.tokens)
            return _raw(publication_pb2.AbandonBuildResponse(operation=operation))

        raw = await self._once(call, "AbandonBuild", request.idempotency_key, request, command)
        await acknowledgeable()
        return raw

    async def list_snapshots(
        self, request: publication_pb2.ListSnapshotsRequest, call: Call
    ) -> publication_pb2.ListSnapshotsResponse:
        await require(self._serving, call, "ListSnapshots")
        size, tenant_id = page_size(request.page_size), call.principal.tenant_id
        bound_to = digest("ListSnapshots", call.principal.digest)
        place = self._serving.tokens.place(tenant_id, bound_to, request.page_token)
        below = OPEN_SEQ if place is None else int(place[0])
        found = list_snapshots(self._serving.database, tenant_id, below, size + 1)
        token = self._serving.tokens.page(tenant_id, bound_to, [found[size - 1].seq]) if len(found) > size else ""
        return publication_pb2.ListSnapshotsResponse(
            snapshots=[self._message(call, record) for record in found[:size]], next_page_token=token
        )

    async def get_snapshot(
        self, request: publication_pb2.GetSnapshotRequest, call: Call
    ) -> publication_pb2.GetSnapshotResponse:
        await require(self._serving, call, "GetSnapshot")
        record = self._snapshot(call, request.snapshot)
        return publication_pb2.GetSnapshotResponse(snapshot=self._message(call, record))

    async def rollback(self, request: publication_pb2.RollbackRequest, call: Call) -> bytes:
        await require(self._serving, call, "Rollback")
        tenant_id = call.principal.tenant_id
        seq = Seq(self._serving.tokens.seq(tenant_id, request.snapshot))

        def command(tx: sa.Connection) -> bytes:
            rollback(tx, tenant_id, seq)
            return b""

        await self._once(call, "Rollback", request.idempotency_key, request, command)
        record = self._snapshot(call, request.snapshot)
        return _raw(publication_pb2.RollbackResponse(snapshot=self._message(call, record)))

    def _snapshot(self, call: Call, token: str) -> SnapshotRecord:
        tenant_id = call.principal.tenant_id
        record = find_snapshot(self._serving.database, tenant_id, self._serving.tokens.seq(tenant_id, token))
        if record is None:
            raise SnapshotUnavailable("no such snapshot")
        return record

    def _message(self, call: Call, record: SnapshotRecord) -> publication_pb2.Snapshot:
        message = publication_pb2.Snapshot(
            snapshot=self._serving.tokens.snapshot(call.principal.tenant_id, record.seq),
            active=record.active,
            documents=record.documents,
            rolled_back=record.rolled_back,
        )
        message.publish_time.FromMicroseconds(record.published_at)
        return message

    async def _once(
        self, call: Call, rpc: str, key: str, request: Message, command: Callable[[sa.Connection], bytes]
    ) -> bytes:
        raw = request.SerializeToString(deterministic=True)
        kept = Request(call.principal.tenant_id, caller_of(call.principal), rpc, key, digest(raw))
        return await self._serving.database.write(lambda tx: once(tx, kept, command))


def _build_message(build: BuildRecord) -> publication_pb2.Build:
    message = publication_pb2.Build(build_id=build.build_id, state=_STATES[build.state], source_id=build.source_id)
    message.create_time.FromMicroseconds(build.created_at)
    return message


def _raw(message: Message) -> bytes:
    raw: bytes = message.SerializeToString()
    return raw
