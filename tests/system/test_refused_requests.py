"""Each mistake of a caller: a typed error that names it, and nothing is changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from muniment import Access
from muniment._wire import path_of
from muniment.v1 import common_pb2, document_pb2, evidence_pb2, publication_pb2, source_pb2

from tests.system.ledger import nothing_changes
from tests.system.whole import EVERY_ROLE, MAX_DOCUMENT_BYTES, System, eventually
from tests.system.wire import METHODS, Metadata, Outcome, ask_patiently, bearer, channel_to

TENANT = "refusals"
PUBLIC = Access(public=True)
INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
MISSING = grpc.StatusCode.NOT_FOUND
DENIED = grpc.StatusCode.PERMISSION_DENIED
REVIEWED = common_pb2.TRUST_TIER_REVIEWED
CHUNK = 1 << 20

Requests = Message | list[Message]


@dataclass(frozen=True)
class Stored:
    """What is there before the mistakes are made."""

    old_etag: str
    published_build: str
    foreign_page: str
    operation_id: str


@pytest.fixture(scope="module")
async def stored(system: System) -> Stored:
    async with system.admin(TENANT) as admin:
        await admin.create_source("docs", access_template=PUBLIC, writer_groups=["writers"], idempotency_key="taken")
        await admin.create_source("bare")
        for document in ("a", "b", "policy"):
            put = await admin.put_document("docs", document, b"# Policy\n\nOne.\n", filename="p.md", source_version=5)
        old = await admin.get_document("docs", "policy")
        await admin.put_document("docs", "policy", b"# Policy\n\nTwo.\n", filename="p.md", source_version=6)
        await admin.put_document("docs", "keyed", b"# Key\n\nOne.\n", filename="p.md", idempotency_key="taken")
        await admin.set_access("docs", "b", PUBLIC, idempotency_key="taken")
        build = await admin.begin_build("docs", idempotency_key="taken")
        operation = await admin.publish_build(build.build_id)
        await admin.wait_operation(operation.operation_id)
    async with channel_to(system.address) as channel:
        request = document_pb2.ListDocumentsRequest(page_size=1)
        first = await ask_patiently(channel, "ListDocuments", request, bearer(system.token("paula", TENANT)))
    await eventually(lambda: system.at_rest(TENANT))
    return Stored(old.etag, build.build_id, first.answers[0].next_page_token, put.operation.operation_id)


def metadata(content: bytes, document: str = "new", source: str = "docs", **changes: Any) -> Any:
    about: dict[str, Any] = {
        "source_id": source, "document_id": document, "filename": "page.md", "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }  # fmt: skip
    return document_pb2.DocumentMetadata(**(about | changes))


def put(content: bytes = b"# New\n\nText.\n", document: str = "new", source: str = "docs", **changes: Any) -> Requests:
    return list(chunks(metadata(content, document, source, **changes), content))


def chunks(about: document_pb2.DocumentMetadata, content: bytes) -> Iterator[Message]:
    yield document_pb2.PutDocumentRequest(metadata=about, chunk=content[:CHUNK])
    for start in range(CHUNK, len(content), CHUNK):
        yield document_pb2.PutDocumentRequest(chunk=content[start : start + CHUNK])


def search(query: str, **consistency: Any) -> evidence_pb2.SearchRequest:
    return evidence_pb2.SearchRequest(query=query, consistency=evidence_pb2.Consistency(**consistency))


def set_access(access: Access, document: str = "policy", **more: str) -> document_pb2.SetAccessRequest:
    return document_pb2.SetAccessRequest(source_id="docs", document_id=document, access=access, **more)


def create(source_id: str, **more: Any) -> source_pb2.CreateSourceRequest:
    return source_pb2.CreateSourceRequest(source=source_pb2.Source(source_id=source_id, trust=REVIEWED), **more)


def citation(evidence_id: str) -> evidence_pb2.ResolveCitationRequest:
    return evidence_pb2.ResolveCitationRequest(evidence_id=evidence_id)


def cases(there: Stored) -> dict[str, tuple[str, Requests, grpc.StatusCode, str]]:
    whole = b"# Whole\n\nAll of it.\n"
    large = b"x" * (MAX_DOCUMENT_BYTES + 1)
    lying: Requests = [document_pb2.PutDocumentRequest(metadata=metadata(whole), chunk=whole + b"and more")]
    no_metadata: Requests = [document_pb2.PutDocumentRequest(chunk=whole)]
    huge_chunk: Requests = [document_pb2.PutDocumentRequest(metadata=metadata(large[:-1]), chunk=large[:-1])]
    padded = Access(allowed_groups=["staff "])
    text = "INVALID_REQUEST"
    return {
        "empty query": ("Search", search(""), INVALID, text),
        "blank query": ("Search", search(" \u200b\u00a0"), INVALID, text),
        "query of 1 MB": ("Search", search("why " * 250_000), INVALID, text),
        "empty question": ("Answer", evidence_pb2.AnswerRequest(search=search("")), INVALID, text),
        "question of 1 MB": ("Answer", evidence_pb2.AnswerRequest(search=search("why " * 250_000)), INVALID, text),
        "too much evidence": ("Search", evidence_pb2.SearchRequest(query="x", max_evidence=101), INVALID, text),
        "unknown exact snapshot": (
            "Search", search("policy", exact_snapshot="never-a-token"), PRECONDITION, "SNAPSHOT_UNAVAILABLE"
        ),
        "unknown snapshot at least": (
            "Search", search("policy", at_least_snapshot="never-a-token"), PRECONDITION, "SNAPSHOT_UNAVAILABLE"
        ),
        "unknown snapshot": (
            "GetSnapshot", publication_pb2.GetSnapshotRequest(snapshot="x"), PRECONDITION, "SNAPSHOT_UNAVAILABLE"
        ),
        "rollback to an unknown snapshot": (
            "Rollback", publication_pb2.RollbackRequest(snapshot="x"), PRECONDITION, "SNAPSHOT_UNAVAILABLE"
        ),
        "not an evidence id": ("ResolveCitation", citation("[1]"), INVALID, text),
        "page token of another caller": (
            "ListDocuments",
            document_pb2.ListDocumentsRequest(page_size=1, page_token=there.foreign_page),
            INVALID,
            text,
        ),
        "page too long": ("ListDocuments", document_pb2.ListDocumentsRequest(page_size=501), INVALID, text),
        "document without access": ("PutDocument", put(source="bare"), PRECONDITION, "ACCESS_MISSING"),
        "access with outer white space": ("PutDocument", put(access=padded), INVALID, text),
        "access set with outer white space": ("SetAccess", set_access(padded), INVALID, text),
        "label without a key": ("SetAccess", set_access(Access(labels=["eu"])), INVALID, text),
        "wrong hash": ("PutDocument", put(sha256="0" * 64), INVALID, "CONTENT_MISMATCH"),
        "truncated upload": ("PutDocument", put(size_bytes=4_000), INVALID, "CONTENT_MISMATCH"),
        "more than announced": ("PutDocument", lying, INVALID, "CONTENT_MISMATCH"),
        "no metadata": ("PutDocument", no_metadata, INVALID, text),
        "empty file": ("PutDocument", put(b""), INVALID, text),
        "file over the limit": ("PutDocument", put(large), INVALID, "TOO_LARGE"),
        "chunk over its limit": ("PutDocument", huge_chunk, INVALID, text),
        "malformed UTF-8": ("PutDocument", put(b"# caf\xe9\n\n\xff\xfe\xfa\n"), INVALID, text),
        "unknown format": ("PutDocument", put(filename="table.xlsx"), INVALID, "UNSUPPORTED_FORMAT"),
        "document id with outer white space": ("PutDocument", put(document=" new"), INVALID, text),
        "older source version": ("PutDocument", put(document="policy", source_version=4), PRECONDITION,
                                 "OLDER_SOURCE_VERSION"),
        "unknown source": ("PutDocument", put(source="none"), MISSING, "NOT_FOUND"),
        "put into a published build": (
            "PutDocument", put(build_id=there.published_build), PRECONDITION, "BUILD_NOT_OPEN"
        ),
        "build published twice": (
            "PublishBuild",
            publication_pb2.PublishBuildRequest(build_id=there.published_build),
            PRECONDITION,
            "BUILD_NOT_OPEN",
        ),
        "published build abandoned": (
            "AbandonBuild",
            publication_pb2.AbandonBuildRequest(build_id=there.published_build),
            PRECONDITION,
            "BUILD_NOT_OPEN",
        ),
        "stale etag": ("SetAccess", set_access(PUBLIC, etag=there.old_etag), PRECONDITION, "ETAG_MISMATCH"),
        "deletion under a stale etag": (
            "DeleteDocument",
            document_pb2.DeleteDocumentRequest(source_id="docs", document_id="policy", etag=there.old_etag),
            PRECONDITION,
            "ETAG_MISMATCH",
        ),
        "source that exists": ("CreateSource", create("docs"), grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS"),
        "source without trust": (
            "CreateSource", source_pb2.CreateSourceRequest(source=source_pb2.Source(source_id="s")), INVALID, text
        ),
        "key of another put": ("PutDocument", put(idempotency_key="taken"), PRECONDITION, "IDEMPOTENCY_CONFLICT"),
        "key of another source": (
            "CreateSource", create("other", idempotency_key="taken"), PRECONDITION, "IDEMPOTENCY_CONFLICT"
        ),
        "key of another access": (
            "SetAccess", set_access(PUBLIC, "a", idempotency_key="taken"), PRECONDITION, "IDEMPOTENCY_CONFLICT"
        ),
        "key of another build": (
            "BeginBuild",
            publication_pb2.BeginBuildRequest(source_id="bare", idempotency_key="taken"),
            PRECONDITION,
            "IDEMPOTENCY_CONFLICT",
        ),
    }  # fmt: skip


NAMES = tuple(cases(Stored("", "", "", "")))


async def refusal(system: System, who: Metadata, rpc: str, request: Requests) -> Outcome:
    """The outcome of a call that must leave everything as it is."""
    async with nothing_changes(system, TENANT), channel_to(system.address) as channel:
        before = await ask_patiently(channel, "ListDocuments", document_pb2.ListDocumentsRequest(), who)
        outcome = await ask_patiently(channel, rpc, request, who)
        after = await ask_patiently(channel, "ListDocuments", document_pb2.ListDocumentsRequest(), who)
        assert before == after
    return outcome


def admin(system: System) -> Metadata:
    return bearer(system.token("admin", TENANT, groups=["staff"], roles=EVERY_ROLE))


@pytest.mark.parametrize("name", NAMES)
async def test_a_mistake_is_named_and_changes_nothing(name: str, system: System, stored: Stored) -> None:
    rpc, request, code, reason = cases(stored)[name]
    outcome = await refusal(system, admin(system), rpc, request)
    assert (outcome.code, outcome.reason) == (code, reason)
    assert outcome.answers == ()
    if reason == "INVALID_REQUEST":
        assert "field:" in outcome.said, "a client must be told which field is wrong"


async def test_a_writer_without_right_on_the_source_changes_nothing(system: System, stored: Stored) -> None:
    """NOT_FOUND for the source, whatever the document id, and whatever role the token has."""
    who = bearer(system.token("walt", TENANT, groups=["others"], roles=["reader", "writer"]))
    calls: list[tuple[str, Requests]] = [
        ("PutDocument", put(document="policy")),
        ("PutDocument", put(document="unheard-of")),
        ("SetAccess", set_access(Access(allowed_groups=["others"]))),
        ("DeleteDocument", document_pb2.DeleteDocumentRequest(source_id="docs", document_id="policy")),
        ("BeginBuild", publication_pb2.BeginBuildRequest(source_id="docs")),
    ]
    told = [await refusal(system, who, rpc, request) for rpc, request in calls]
    assert {(outcome.code, outcome.reason, outcome.text) for outcome in told} == {(MISSING, "NOT_FOUND", "Not found.")}


async def test_what_a_role_does_not_allow_is_refused(system: System, stored: Stored) -> None:
    writer = bearer(system.token("wanda", TENANT, groups=["writers"], roles=["reader", "writer"]))
    nobody = bearer(system.token("norole", TENANT, roles=[]))
    calls: list[tuple[Metadata, str, Requests]] = [
        (writer, "CreateSource", create("mine")),
        (writer, "Rollback", publication_pb2.RollbackRequest(snapshot="x")),
        (writer, "ListSnapshots", publication_pb2.ListSnapshotsRequest()),
        (writer, "PutDocument", put(access=Access(allowed_groups=["writers"]))),
    ]
    for who, rpc, request in calls:
        outcome = await refusal(system, who, rpc, request)
        assert (outcome.code, outcome.reason) == (DENIED, "NOT_ALLOWED"), rpc
    async with nothing_changes(system, TENANT), channel_to(system.address) as channel:
        reads: list[tuple[str, Requests]] = [
            ("Search", search("policy")),
            ("Answer", evidence_pb2.AnswerRequest(search=search("policy"))),
            ("ListDocuments", document_pb2.ListDocumentsRequest()),
        ]
        for rpc, request in reads:
            outcome = await ask_patiently(channel, rpc, request, nobody)
            assert (outcome.code, outcome.reason) == (DENIED, "NOT_ALLOWED"), rpc


async def test_an_upload_that_is_cut_off_leaves_nothing(system: System, stored: Stored) -> None:
    content = b"y" * (2 * CHUNK)

    async with nothing_changes(system, TENANT), channel_to(system.address) as channel:
        upload: Any = channel.stream_unary(
            path_of(METHODS["PutDocument"]),
            document_pb2.PutDocumentRequest.SerializeToString,
            document_pb2.PutDocumentResponse.FromString,
        )
        call = upload(timeout=20, metadata=tuple(admin(system)))
        await call.write(next(chunks(metadata(content, "cut"), content)))
        assert call.cancel()
        outcome = await ask_patiently(
            channel, "GetDocument", document_pb2.GetDocumentRequest(source_id="docs", document_id="cut"), admin(system)
        )
        assert outcome.code is MISSING


async def test_the_same_request_under_the_same_key_gets_the_same_answer(system: System, stored: Stored) -> None:
    """Also when its document has been published since, or its build closed: that is what keys are for."""
    async with channel_to(system.address) as channel:
        who = admin(system)
        request = put(b"# Kept\n\nText.\n", "kept", idempotency_key="one")
        first = await ask_patiently(channel, "PutDocument", request, who)
        await eventually(lambda: system.at_rest(TENANT))
        assert (await ask_patiently(channel, "PutDocument", request, who)).answers == first.answers
        begin = publication_pb2.BeginBuildRequest(source_id="docs", idempotency_key="two")
        build = (await ask_patiently(channel, "BeginBuild", begin, who)).answers[0].build
        into = put(b"# Kept\n\nMore.\n", "kept", build_id=build.build_id, idempotency_key="three")
        second = await ask_patiently(channel, "PutDocument", into, who)
        publish = publication_pb2.PublishBuildRequest(build_id=build.build_id, idempotency_key="four")
        third = await ask_patiently(channel, "PublishBuild", publish, who)
        await eventually(lambda: system.at_rest(TENANT))
        assert (await ask_patiently(channel, "PublishBuild", publish, who)).answers == third.answers
        assert (await ask_patiently(channel, "BeginBuild", begin, who)).answers[0].build == build
        assert (await ask_patiently(channel, "PutDocument", into, who)).answers == second.answers
