"""I8: what is hidden from a caller answers as what was never there does: status, details, text, counts, pages."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import grpc
import pytest
from google.protobuf.message import Message
from muniment import Access
from muniment.v1 import common_pb2, document_pb2, evidence_pb2, operation_pb2, publication_pb2, source_pb2

from tests.system.ledger import nothing_changes
from tests.system.whole import EVERY_ROLE, System, eventually, publish
from tests.system.wire import Outcome, absent_id, ask_patiently, bearer, channel_to

BOARD = Access(allowed_groups=["board"])
PUBLIC = Access(public=True)


@dataclass(frozen=True)
class Hidden:
    """Ids of things in the tenant acme that the outsider may not know of; the outsider may write to `open`."""

    build_id: str
    sealed_build_id: str
    operation_id: str
    snapshot: str
    evidence_id: str
    page_token: str


@pytest.fixture(scope="module")
async def hidden(system: System) -> AsyncIterator[Hidden]:
    async with system.client("chair", "acme", groups=["board"], roles=EVERY_ROLE) as chair:
        await chair.create_source("open", access_template=PUBLIC, writer_groups=["open-writers"])
        await chair.create_source("secret", access_template=BOARD, writer_groups=["secret-writers"])
        texts = {f"plan-{n}": f"# Plan {n}\n\nThe merger number {n} closes in May.\n" for n in range(5)}
        await publish(chair, "open", {f"{name}-b": text for name, text in texts.items()}, access=BOARD)
        await publish(chair, "open", {f"{name}-a": text.replace("merger", "picnic") for name, text in texts.items()})
        operation = await publish(chair, "secret", texts)
        build, sealed = await chair.begin_build("secret"), await chair.begin_build("secret")
        await chair.wait_operation((await chair.publish_build(sealed.build_id)).operation_id)
        await eventually(lambda: system.at_rest("acme"))
        packet = await chair.search("When does the merger close?", source_ids=["secret"])
        async with channel_to(system.address) as channel:
            token = system.token("chair", "acme", groups=["board"], roles=EVERY_ROLE)
            first = await ask_patiently(
                channel, "ListDocuments", document_pb2.ListDocumentsRequest(page_size=2), bearer(token)
            )
        yield Hidden(
            build_id=build.build_id,
            sealed_build_id=sealed.build_id,
            operation_id=operation.operation_id,
            snapshot=packet.snapshot,
            evidence_id=packet.evidence[0].evidence_id,
            page_token=first.answers[0].next_page_token,
        )
        await chair.abandon_build(build.build_id)


def upload(source: str, document: str, build_id: str = "") -> list[Message]:
    content = b"some text"
    digest = "b94f6f125c79e3a5ffaa826f584c10d52ada669e6762051b826b55776d05aed2"
    about = document_pb2.DocumentMetadata(
        source_id=source, document_id=document, media_type="text/plain", size_bytes=len(content), sha256=digest,
        build_id=build_id,
    )  # fmt: skip
    return [document_pb2.PutDocumentRequest(metadata=about, chunk=content)]


def reads(there: Hidden) -> dict[str, tuple[str, Message, Message]]:
    """By what is looked for: the RPC, the request for what is hidden, the request for what is absent."""
    absent = absent_id()

    def search(source: str, query: str = "When does the merger close?") -> evidence_pb2.SearchRequest:
        return evidence_pb2.SearchRequest(query=query, scope=evidence_pb2.Scope(source_ids=[source]))

    def by_document(document: str) -> evidence_pb2.SearchRequest:
        scope = evidence_pb2.Scope(document_ids=[document])
        return evidence_pb2.SearchRequest(query="When does the merger close?", scope=scope)

    def revisions(source: str, document: str) -> document_pb2.ListRevisionsRequest:
        return document_pb2.ListRevisionsRequest(source_id=source, document_id=document)

    def get(source: str, document: str) -> document_pb2.GetDocumentRequest:
        return document_pb2.GetDocumentRequest(source_id=source, document_id=document)

    evidence = there.evidence_id
    other_evidence = evidence[:5] + ("A" if evidence[5] != "A" else "B") + evidence[6:]
    return {
        "source": (
            "GetSource", source_pb2.GetSourceRequest(source_id="secret"), source_pb2.GetSourceRequest(source_id="none")
        ),
        "document": ("GetDocument", get("secret", "plan-1"), get("secret", "plan-9")),
        "document of an open source": ("GetDocument", get("open", "plan-1-b"), get("open", "plan-9-b")),
        "document of no source": ("GetDocument", get("secret", "plan-1"), get("none", "plan-1")),
        "revisions": ("ListRevisions", revisions("secret", "plan-1"), revisions("none", "plan-1")),
        "documents of a source": (
            "ListDocuments",
            document_pb2.ListDocumentsRequest(source_id="secret"),
            document_pb2.ListDocumentsRequest(source_id="none"),
        ),
        "page": (
            "ListDocuments",
            document_pb2.ListDocumentsRequest(page_size=2, page_token=there.page_token),
            document_pb2.ListDocumentsRequest(page_size=2, page_token=there.page_token[::-1]),
        ),
        "citation": (
            "ResolveCitation",
            evidence_pb2.ResolveCitationRequest(evidence_id=evidence),
            evidence_pb2.ResolveCitationRequest(evidence_id=other_evidence),
        ),
        "operation": (
            "GetOperation",
            operation_pb2.GetOperationRequest(operation_id=there.operation_id),
            operation_pb2.GetOperationRequest(operation_id=absent),
        ),
        "operation to watch": (
            "WatchOperation",
            operation_pb2.WatchOperationRequest(operation_id=there.operation_id),
            operation_pb2.WatchOperationRequest(operation_id=absent),
        ),
        "evidence of a source": ("Search", search("secret"), search("none")),
        "evidence of a document": ("Search", by_document("plan-1-b"), by_document("plan-9-b")),
        "answer": (
            "Answer",
            evidence_pb2.AnswerRequest(search=search("secret")),
            evidence_pb2.AnswerRequest(search=search("none")),
        ),
    }  # fmt: skip


Writes = dict[str, tuple[str, Message | list[Message], Message | list[Message]]]


def writes(there: Hidden) -> Writes:
    absent = absent_id()

    def set_access(source: str, document: str) -> document_pb2.SetAccessRequest:
        return document_pb2.SetAccessRequest(source_id=source, document_id=document, access=PUBLIC)

    def delete(source: str, document: str) -> document_pb2.DeleteDocumentRequest:
        return document_pb2.DeleteDocumentRequest(source_id=source, document_id=document)

    return {
        "put": ("PutDocument", upload("secret", "plan-1"), upload("none", "plan-1")),
        "put of what is absent": ("PutDocument", upload("secret", "plan-1"), upload("secret", "plan-9")),
        "put into a build": (
            "PutDocument",
            upload("open", "mine", build_id=there.build_id),
            upload("open", "mine", build_id=absent),
        ),
        "put into a closed build": (
            "PutDocument",
            upload("open", "mine", build_id=there.sealed_build_id),
            upload("open", "mine", build_id=absent),
        ),
        "access": ("SetAccess", set_access("secret", "plan-1"), set_access("none", "plan-1")),
        "access of a document": ("SetAccess", set_access("secret", "plan-1"), set_access("secret", "plan-9")),
        "deletion": ("DeleteDocument", delete("secret", "plan-1"), delete("none", "plan-1")),
        "deletion of a document": ("DeleteDocument", delete("secret", "plan-1"), delete("secret", "plan-9")),
        "build": (
            "BeginBuild",
            publication_pb2.BeginBuildRequest(source_id="secret"),
            publication_pb2.BeginBuildRequest(source_id="none"),
        ),
        "publication": (
            "PublishBuild",
            publication_pb2.PublishBuildRequest(build_id=there.build_id),
            publication_pb2.PublishBuildRequest(build_id=absent),
        ),
        "publication of a closed build": (
            "PublishBuild",
            publication_pb2.PublishBuildRequest(build_id=there.sealed_build_id),
            publication_pb2.PublishBuildRequest(build_id=absent),
        ),
        "abandoning": (
            "AbandonBuild",
            publication_pb2.AbandonBuildRequest(build_id=there.build_id),
            publication_pb2.AbandonBuildRequest(build_id=absent),
        ),
    }


def snapshots(there: Hidden) -> Writes:
    """Tokens of another tenant's snapshots against text that never was a token."""

    def exact(token: str) -> evidence_pb2.SearchRequest:
        return evidence_pb2.SearchRequest(query="merger", consistency=evidence_pb2.Consistency(exact_snapshot=token))

    def at_least(token: str) -> evidence_pb2.SearchRequest:
        return evidence_pb2.SearchRequest(query="merger", consistency=evidence_pb2.Consistency(at_least_snapshot=token))

    token, never = there.snapshot, there.snapshot[::-1]
    return {
        "exact snapshot": ("Search", exact(token), exact(never)),
        "snapshot at least": ("Search", at_least(token), at_least(never)),
        "snapshot": (
            "GetSnapshot",
            publication_pb2.GetSnapshotRequest(snapshot=token),
            publication_pb2.GetSnapshotRequest(snapshot=never),
        ),
        "rollback": (
            "Rollback",
            publication_pb2.RollbackRequest(snapshot=token),
            publication_pb2.RollbackRequest(snapshot=never),
        ),
    }


async def alike(system: System, token: str, cases: Writes, expected: frozenset[grpc.StatusCode]) -> None:
    async with channel_to(system.address) as channel:
        for name, (rpc, of_hidden, of_absent) in cases.items():
            first = comparable(await ask_patiently(channel, rpc, of_hidden, bearer(token)))
            second = comparable(await ask_patiently(channel, rpc, of_absent, bearer(token)))
            assert first == second, name
            assert first.code in expected, (name, first)


def comparable(outcome: Outcome) -> Outcome:
    """Without what is new with every packet: its ids and times. Answers become their bytes."""
    plain = []
    for answer in outcome.answers:
        packet = answer.packet if "packet" in answer.DESCRIPTOR.fields_by_name else None
        if packet is not None and answer.HasField("packet"):
            packet.packet_id = packet.request_id = packet.receipt.decision_id = ""
            packet.receipt.ClearField("decided_at")
            packet.ClearField("valid_at")
            without_times(packet.diagnostics.stages)
        if answer.DESCRIPTOR.name == "AnswerResponse":
            without_times(answer.summary.stages if answer.HasField("summary") else ())
        plain.append(answer.SerializeToString(deterministic=True))
    return Outcome(outcome.code, outcome.reason, outcome.text, outcome.details, outcome.trailers, tuple(plain))


def without_times(stages: Iterable[evidence_pb2.StageReport]) -> None:
    """That a stage ran at all is told to evaluators and must not differ; how long it took always does."""
    for stage in stages:
        stage.ClearField("elapsed_ms")


READS = frozenset({grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT})
NOT_FOUND = frozenset({grpc.StatusCode.NOT_FOUND})
PRECONDITION = frozenset({grpc.StatusCode.FAILED_PRECONDITION})


async def test_a_writer_of_one_source_learns_nothing_of_another(system: System, hidden: Hidden) -> None:
    token = system.token("walt", "acme", groups=["open-writers"], roles=["reader", "writer"])
    async with nothing_changes(system, "acme"):
        await alike(system, token, dict(reads(hidden)), READS)
        await alike(system, token, writes(hidden), NOT_FOUND)


async def test_another_tenants_publisher_learns_nothing(system: System, hidden: Hidden) -> None:
    """With every role and the same groups: the tenant alone decides."""
    token = system.token("chair", "globex", groups=["board"], roles=EVERY_ROLE)
    async with system.client("chair", "globex", groups=["board"], roles=EVERY_ROLE) as chair:
        await chair.create_source("open", access_template=PUBLIC)
    async with nothing_changes(system, "acme", "globex"):
        await alike(system, token, dict(reads(hidden)), READS)
        await alike(system, token, writes(hidden), NOT_FOUND)
        await alike(system, token, snapshots(hidden), PRECONDITION)


async def test_lists_are_filled_after_filtering(system: System, hidden: Hidden) -> None:
    """Five of ten documents are hidden in turn with the visible ones: pages look as if they had never been there."""
    async with channel_to(system.address) as channel:
        token, sizes, page_token = bearer(system.token("rita", "acme")), [], ""
        while True:
            request = document_pb2.ListDocumentsRequest(source_id="open", page_size=2, page_token=page_token)
            answer = (await ask_patiently(channel, "ListDocuments", request, token)).answers[0]
            sizes.append(len(answer.documents))
            page_token = answer.next_page_token
            if not page_token:
                break
    assert sizes == [2, 2, 1]


async def test_what_a_reader_sees_names_no_number_of_the_tenant(system: System, hidden: Hidden) -> None:
    """Etags, snapshots and page tokens are opaque: a number in them would count what is hidden."""
    async with system.client("rita", "acme") as rita:
        packet = await rita.search("picnic")
        document = await rita.get_document("open", "plan-1-a")
    assert not packet.snapshot.isdigit()
    assert not document.etag.isdigit()
    assert len(packet.snapshot) > 16
    assert not packet.HasField("diagnostics")
    assert document.access == common_pb2.Access()
