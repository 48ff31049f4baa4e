"""Documents of every format through the API: evidence and citations are exact slices of the canonical text."""

import hashlib
import re
from dataclasses import dataclass

import pytest
from muniment import Access, InvalidArgument, OperationFailed
from muniment.v1 import evidence_pb2, operation_pb2

from tests.system.ledger import nothing_changes
from tests.system.samples import DOCX, HTML, MARKDOWN, PDF, TEXT, encrypted_pdf
from tests.system.whole import PatientClient, System, eventually

TENANT = "formats"


@dataclass(frozen=True)
class Sample:
    """A file, what its canonical text must be (None: what the parser makes of it), and a question for it."""

    filename: str
    content: bytes
    canonical: str | None
    question: str
    holds: str


SAMPLES = {
    sample.filename: sample
    for sample in (
        Sample("heron.md", MARKDOWN.encode(), MARKDOWN, "Where does the heron stand?", "stands in the reeds"),
        Sample("badger.txt", TEXT.encode(), TEXT.removeprefix("\ufeff"), "When does the badger dig?", "digs at night"),
        Sample("wide.txt", TEXT.encode("utf-16"), None, "When does the badger sleep?", "sleeps by day"),
        Sample("otter.html", HTML.encode(), None, "Where does the otter swim?", "swims in the river & sleeps"),
        Sample("falcon.pdf", PDF, None, "When does the falcon hunt?", "hunts in the morning"),
        Sample("beaver.docx", DOCX, None, "What does the beaver build?", "builds a dam across the stream"),
    )
}


@pytest.fixture(scope="module", autouse=True)
async def filled(system: System) -> None:
    async with system.admin(TENANT) as admin:
        await admin.create_source("files", access_template=Access(public=True))
        for sample in SAMPLES.values():
            await admin.put_document("files", sample.filename, sample.content, filename=sample.filename)


def canonical_text(system: System, revision_id: str) -> str:
    """As the record has it, read past the gateway."""
    name, content_hash, document = system.catalog.read(
        "SELECT r.canonical_blob, r.content_hash, d.document_id FROM revisions r "
        "JOIN documents d ON d.document_key = r.document_key WHERE r.revision_id = ?",
        (revision_id,),
    )[0]
    data = system.blobs.read(system.tenant_id(TENANT), ("files", document), name)  # type: ignore[arg-type]
    assert hashlib.sha256(data).hexdigest() == content_hash
    return data.decode()


def assert_exact(item: evidence_pb2.Evidence, text: str) -> None:
    assert item.passages
    for passage in item.passages:
        assert passage.text == text[passage.span.start : passage.span.end]
        assert passage.text


@pytest.mark.parametrize("filename", SAMPLES)
async def test_evidence_and_citation_are_slices_of_the_canonical_text(filename: str, system: System) -> None:
    sample = SAMPLES[filename]
    async with system.client("ada", TENANT) as ada:
        packet = await ada.search(sample.question, document_ids=[filename])
        item = packet.evidence[0]
        text = canonical_text(system, item.revision_id)
        if sample.canonical is not None:
            assert text == sample.canonical
        assert sample.holds in re.sub(r"\s+", " ", text)
        assert "steal" not in text
        assert hashlib.sha256(text.encode()).hexdigest() == item.content_hash
        for found in packet.evidence:
            assert_exact(found, text)
        resolved = await ada.resolve_citation(item.evidence_id)
        assert resolved.current
        assert [passage.text for passage in resolved.evidence.passages] == [p.text for p in item.passages]
        assert_exact(resolved.evidence, text)


async def test_the_answers_quotes_are_slices_too(system: System) -> None:
    async with system.client("ada", TENANT) as ada:
        quotes = 0
        for sample in SAMPLES.values():
            async for event in ada.answer(sample.question):
                for citation in event.claim.citations:
                    text = canonical_text(system, citation.revision_id)
                    assert text[citation.span.start : citation.span.end] == citation.quote
                    quotes += 1
    assert quotes >= len(SAMPLES) - 1


async def test_pages_are_counted_from_one_and_absent_where_there_are_none(system: System) -> None:
    async with system.client("ada", TENANT) as ada:
        packet = await ada.search("When does the falcon hunt?", document_ids=["falcon.pdf", "heron.md"])
    pages: set[object] = set()
    for item in packet.evidence:
        for passage in item.passages:
            numbered = passage.HasField("page_first")
            pages.add((item.document_id, passage.page_first, passage.page_last) if numbered else item.document_id)
    assert "heron.md" in pages
    assert "falcon.pdf" not in pages
    assert min(page[1] for page in pages if isinstance(page, tuple)) >= 1


async def test_an_encrypted_pdf_fails_while_the_old_revision_serves(system: System) -> None:
    async with system.admin(TENANT) as admin:
        before = await admin.get_document("files", "falcon.pdf")
        with pytest.raises(OperationFailed) as caught:
            await admin.put_document("files", "falcon.pdf", encrypted_pdf(), filename="falcon.pdf")
        assert caught.value.reason == "ENCRYPTED"
        assert caught.value.operation.state == operation_pb2.OPERATION_STATE_FAILED
        assert not caught.value.operation.snapshot
        await eventually(lambda: system.at_rest(TENANT))
        await assert_still_served(admin, before.revision.revision_id)


async def assert_still_served(admin: PatientClient, revision_id: str) -> None:
    after = await admin.get_document("files", "falcon.pdf")
    assert after.revision.revision_id == revision_id
    assert [revision.revision_id async for revision in admin.list_revisions("files", "falcon.pdf")] == [revision_id]
    packet = await admin.search("When does the falcon hunt?")
    assert revision_id in {item.revision_id for item in packet.evidence}


@pytest.mark.parametrize(
    ("content", "filename", "failure"),
    [
        (PDF[: len(PDF) // 3], "falcon.pdf", {"CORRUPT", "NO_TEXT"}),
        (DOCX[:200], "beaver.docx", {"CORRUPT"}),
        (b" \n\t\n", "heron.md", {"NO_TEXT", "EMPTY"}),
        (b"<html><body><script>only()</script></body></html>", "otter.html", {"NO_TEXT", "EMPTY"}),
    ],
)
async def test_what_holds_no_text_is_never_ready(
    content: bytes, filename: str, failure: set[str], system: System
) -> None:
    async with system.admin(TENANT) as admin:
        before = await admin.get_document("files", filename)
        with pytest.raises(OperationFailed) as caught:
            await admin.put_document("files", filename, content, filename=filename)
        assert caught.value.reason in failure
        assert (await admin.get_document("files", filename)).revision.revision_id == before.revision.revision_id


async def test_the_same_file_again_is_unchanged(system: System) -> None:
    async with system.admin(TENANT) as admin:
        sample = SAMPLES["beaver.docx"]
        first = await admin.put_document("files", "again.docx", sample.content, filename="again.docx")
        assert not first.unchanged
        async with nothing_changes(system, TENANT):
            again = await admin.put_document("files", "again.docx", sample.content, filename="again.docx")
        assert again.unchanged
        assert again.revision_id == first.revision_id


@pytest.mark.parametrize(
    ("filename", "content"),
    [("table.xlsx", b"PK\x03\x04"), ("page.md", b"%PDF-1.4 not what it says"), ("noname", b"text")],
)
async def test_what_is_not_accepted_is_refused_at_once(filename: str, content: bytes, system: System) -> None:
    async with system.admin(TENANT) as admin, nothing_changes(system, TENANT):
        with pytest.raises(InvalidArgument) as caught:
            await admin.put_document("files", filename, content, filename=filename)
    assert caught.value.reason == "UNSUPPORTED_FORMAT"
