"""The contract as a whole: no field names a tenant (I1), and every RPC of it is answered by a running system."""

import json
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from muniment import Access
from muniment.v1 import operation_pb2

from tests.system.whole import EVERY_ROLE, System, eventually, publish
from tests.system.wire import FILES, METHODS, channel_to

TENANT = "story"


def messages_of(message: Descriptor, seen: set[str]) -> Iterator[Descriptor]:
    """The message and all that it can hold, each once."""
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    yield message
    for field in message.fields:
        if field.message_type is not None:
            yield from messages_of(field.message_type, seen)


def test_i1_no_field_of_any_message_names_a_tenant() -> None:
    """AdminService's `target_tenant_id` will be the only one; until then there is none."""
    assert len(METHODS) == 20
    for file in FILES:
        for service in file.services_by_name.values():
            assert service.name != "AdminService"
            for method in service.methods:
                for root in (method.input_type, method.output_type):
                    for message in messages_of(root, set()):
                        names = [field.name for field in message.fields] + [message.name]
                        assert not [name for name in names if "tenant" in name.lower()], message.full_name


def test_each_rpc_has_messages_of_its_own() -> None:
    for name, method in METHODS.items():
        assert method.input_type.name == f"{name}Request"
        assert method.output_type.name == f"{name}Response"


def answered(system: System) -> set[str]:
    """RPCs that the gateway's log says it has answered with OK."""
    lines = [json.loads(line) for line in system.log("gateway").split("\n") if line.startswith("{")]
    return {line["rpc"].rpartition("/")[2] for line in lines if line.get("event") == "rpc" and line["status"] == "OK"}


async def test_every_rpc_is_answered_in_the_life_of_a_document(system: System) -> None:
    before = system.layout.log("gateway").stat().st_size
    async with system.client("boss", TENANT, groups=["staff"], roles=EVERY_ROLE) as boss:
        source = await boss.create_source("life", access_template=Access(public=True))
        assert await boss.get_source("life") == source
        assert source.source_id in [each.source_id async for each in boss.list_sources()]

        first = await publish(boss, "life", {"oath": "# Oath\n\nThe oath is taken on the first day.\n"})
        await boss.put_document("life", "oath", b"# Oath\n\nThe oath is taken on the second day.\n", filename="o.md")
        given_up = await boss.begin_build("life")
        await boss.put_document("life", "draft", b"# Draft\n", filename="d.md", build_id=given_up.build_id)
        await boss.abandon_build(given_up.build_id)

        document = await boss.get_document("life", "oath")
        assert [each.document_id async for each in boss.list_documents("life")] == ["oath"]
        revisions = [each async for each in boss.list_revisions("life", "oath")]
        assert len(revisions) == 2

        packet = await boss.search("When is the oath taken?")
        assert "second day" in packet.evidence[0].passages[0].text
        events = [event async for event in boss.answer("When is the oath taken?")]
        assert "second day" in events[1].claim.text
        assert (await boss.resolve_citation(packet.evidence[0].evidence_id)).current

        snapshots = [each async for each in boss.list_snapshots()]
        assert first.snapshot in [each.snapshot for each in snapshots]
        assert (await boss.get_snapshot(first.snapshot)).snapshot == first.snapshot
        await boss.rollback(first.snapshot)
        earlier = await boss.search("When is the oath taken?")
        assert "first day" in earlier.evidence[0].passages[0].text
        assert not (await boss.resolve_citation(packet.evidence[0].evidence_id)).current

        document = await boss.get_document("life", "oath")
        changed = await boss.set_access("life", "oath", Access(allowed_groups=["staff"]), etag=document.etag)
        deleted = await boss.delete_document("life", "oath", etag=changed.etag)
        ended = [each async for each in boss.watch_operation(deleted.operation_id)][-1]
        assert ended.state == operation_pb2.OPERATION_STATE_SUCCEEDED
        assert await boss.get_operation(deleted.operation_id) == ended
        assert not (await boss.search("When is the oath taken?")).evidence
    await eventually(lambda: METHODS.keys() <= answered(system), 5)
    assert METHODS.keys() - answered(system) == set()
    assert system.layout.log("gateway").stat().st_size > before


async def test_every_service_of_the_contract_reports_its_health(system: System) -> None:
    async with channel_to(system.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for file in FILES:
            for service in file.services_by_name.values():
                answer = await health.Check(health_pb2.HealthCheckRequest(service=service.full_name))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
