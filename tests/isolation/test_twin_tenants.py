"""Two tenants with the same documents, policy, snapshot number, people and questions never meet."""

import asyncio

import grpc
import pytest
from muniment import Access, FailedPrecondition, NotFound
from muniment.v1 import document_pb2

from tests.system.whole import EVERY_ROLE, System, eventually, publish
from tests.system.wire import ask_patiently, bearer, channel_to

TWINS = ("twin-a", "twin-b")
QUESTION = "How many days of leave do employees have?"
TEXTS = {
    "leave": "# Leave\n\nEmployees have 25 days of leave every year.\n",
    "sick": "# Sickness\n\nEmployees have 10 days of paid sick leave.\n",
    "board": "# Board\n\nBoard members have 40 days of leave every year.\n",
}


@pytest.fixture(scope="module", autouse=True)
async def twins(system: System) -> None:
    """The same calls in the same order with the same keys, so that the snapshots get the same numbers."""

    async def fill(tenant: str) -> None:
        async with system.admin(tenant) as admin:
            await admin.create_source("hr", access_template=Access(public=True), idempotency_key="the same")
            await publish(admin, "hr", TEXTS)
            await admin.set_access("hr", "board", Access(allowed_groups=["board"]), idempotency_key="the same")
        await eventually(lambda: system.at_rest(tenant))

    await asyncio.gather(*map(fill, TWINS))
    seqs = system.catalog.read("SELECT active_seq, epoch, policy_revision FROM tenants WHERE name IN (?, ?)", TWINS)
    assert seqs[0] == seqs[1]


async def everything_of(system: System, tenant: str) -> tuple[set[str], set[str]]:
    """Each id and token that one person is given, and each text."""
    async with system.client("ada", tenant, groups=["staff"]) as ada:
        packet = await ada.search(QUESTION)
        events = [event async for event in ada.answer(QUESTION)]
        documents = [document async for document in ada.list_documents()]
        revisions = [revision async for revision in ada.list_revisions("hr", "leave")]
    ids = {packet.packet_id, packet.request_id, packet.snapshot, packet.receipt.decision_id, packet.receipt.fingerprint}
    for found in (packet, events[0].packet):
        for item in found.evidence:
            ids |= {item.evidence_id, item.revision_id, item.fragment_id}
    for document in documents:
        ids |= {document.etag, document.revision.revision_id}
    ids |= {revision.revision_id for revision in revisions}
    texts = {passage.text for item in packet.evidence for passage in item.passages}
    return ids, texts | {event.claim.text for event in events if event.HasField("claim")}


async def test_the_same_words_under_ids_that_share_nothing(system: System) -> None:
    (ids_a, texts_a), (ids_b, texts_b) = [await everything_of(system, tenant) for tenant in TWINS]
    assert texts_a == texts_b
    assert texts_a
    assert not ids_a & ids_b
    assert not any("Board members" in text for text in texts_a)


async def test_one_twins_ids_and_tokens_are_nothing_to_the_other(system: System) -> None:
    async with (
        system.client("ada", TWINS[0], groups=["staff"], roles=EVERY_ROLE) as ours,
        system.client("ada", TWINS[1], groups=["staff"], roles=EVERY_ROLE) as theirs,
    ):
        packet = await ours.search(QUESTION)
        with pytest.raises(NotFound):
            await theirs.resolve_citation(packet.evidence[0].evidence_id)
        with pytest.raises(FailedPrecondition, match="SNAPSHOT_UNAVAILABLE"):
            await theirs.search(QUESTION, exact_snapshot=packet.snapshot)
        with pytest.raises(FailedPrecondition, match="SNAPSHOT_UNAVAILABLE"):
            await theirs.rollback(packet.snapshot)
        build = await ours.begin_build("hr")
        for call in (theirs.publish_build, theirs.abandon_build):
            with pytest.raises(NotFound):
                await call(build.build_id)
        operation = await ours.abandon_build(build.build_id)
        with pytest.raises(NotFound):
            await theirs.get_operation(operation.operation_id)
        assert (await ours.wait_operation(operation.operation_id)).operation_id == operation.operation_id


async def test_a_page_token_of_one_is_refused_by_the_other(system: System) -> None:
    request = document_pb2.ListDocumentsRequest(page_size=1)
    async with channel_to(system.address) as channel:
        first = await ask_patiently(channel, "ListDocuments", request, bearer(system.token("ada", TWINS[0])))
        request.page_token = first.answers[0].next_page_token
        assert request.page_token
        second = await ask_patiently(channel, "ListDocuments", request, bearer(system.token("ada", TWINS[1])))
    assert (second.code, second.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


async def test_deleting_from_one_leaves_the_other(system: System) -> None:
    async with system.admin(TWINS[0]) as ours, system.admin(TWINS[1]) as theirs:
        before = await theirs.search(QUESTION)
        deletion = await ours.delete_document("hr", "sick")
        after = await theirs.search(QUESTION)
        assert [item.evidence_id for item in after.evidence] == [item.evidence_id for item in before.evidence]
        assert {item.document_id for item in (await ours.search(QUESTION)).evidence} == {"leave"}
        await ours.wait_operation(deletion.operation_id)
        kept = await theirs.get_document("hr", "sick")
        assert kept.revision.title == "Sickness"
