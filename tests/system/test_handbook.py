"""A whole handbook ingested as people do it: nothing is lost on the way, and the same folder again does nothing.

The real handbook where the data sets lie beside the checkout (or where MUNIMENT_DATASETS says), else one made here.
Its vectors are worthless: embedding 13,000 fragments would take minutes and has no part in what is shown here.
"""

import asyncio
import hashlib
import os
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from muniment import Access

from app.cli.folder import files_of
from app.cli.ingestion import Report, ingest_files
from app.indexer import run as run_indexer
from corpus.encoder import DIMENSION, Vectors
from tests.system.ledger import ledger
from tests.system.whole import System, eventually, whole_system

TENANT = "handbook"
DATASETS = Path(os.environ.get("MUNIMENT_DATASETS", Path(__file__).resolve().parents[3] / "shared" / "datasets"))
REAL = DATASETS / "handbook-sourcegraph" / "content"
# What the same folder again must leave alone; builds and operations tell of the attempt.
KEPT = ("sources", "documents", "revisions", "intervals", "snapshots", "activations", "blobs", "unsettled")


# A write that is late is made again, and here that is hundreds of documents.
PATIENT_INDEXER = {"store_call_s": 30.0, "drain_s": 0.2, "search_s": 0.2, "lease_s": 60.0}


@dataclass(frozen=True)
class Ingested:
    folder: Path
    report: Report


class CheapEncoder:
    """Vectors of length 1 that are made of a text's digest."""

    dimension = DIMENSION

    def encode_query(self, text: str) -> Vectors:
        vector: Vectors = self.encode_documents([text])[0]
        return vector

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
        rows = np.array([np.random.default_rng(seed).normal(size=DIMENSION) for seed in seeds], dtype=np.float32)
        vectors: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return vectors


@pytest.fixture(scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """Everything is as `muniment up` runs it, but that the indexer works in this process, with the cheap encoder."""
    directory = tmp_path_factory.mktemp("handbook-system")
    async with whole_system(directory, only=["gateway"], indexer=PATIENT_INDEXER) as whole:
        stop = asyncio.Event()
        indexing = asyncio.ensure_future(run_indexer(whole.settings, stop, CheapEncoder()))
        try:
            yield whole
        finally:
            stop.set()
            await indexing


def made_up(folder: Path) -> Path:
    """Forty pages, an empty one, and two files of other kinds."""
    rng, words = (
        random.Random(7),
        ["team", "review", "on-call", "release", "budget", "hiring", "résumé", "🦀"],
    )
    for number in range(40):
        page = folder / f"section-{number % 4}" / f"page-{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        parts = [f"## {rng.choice(words)}\n\n" + " ".join(rng.choices(words, k=60)) + ".\n" for _ in range(5)]
        page.write_bytes((f"# Page {number}\r\n\r\n" + "\n".join(parts)).encode())
    (folder / "empty.md").touch()
    for name in ("CODENOTIFY", "sheet.xlsx"):
        (folder / name).write_text("not a document")
    return folder


@pytest.fixture(scope="module")
async def ingested(system: System, tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    folder = REAL if REAL.is_dir() else made_up(tmp_path_factory.mktemp("handbook"))
    async with system.admin(TENANT) as admin:
        await admin.create_source("handbook")
        report = await ingest_files(admin, "handbook", files_of(folder), Access(public=True))
    await eventually(lambda: system.at_rest(TENANT), 120)
    return Ingested(folder, report)


def pages(folder: Path) -> list[Path]:
    """What there is to be stored: an empty page holds nothing to serve."""
    return [path for path in folder.rglob("*.md") if path.is_file() and path.stat().st_size]


@pytest.mark.timeout(900)
async def test_files_in_are_stored_or_refused_with_a_reason(ingested: Ingested) -> None:
    counts, files = ingested.report.counts, [path for path in ingested.folder.rglob("*") if path.is_file()]
    assert len(files) == counts["stored"] + counts["refused"]
    assert counts["stored"] == len(pages(ingested.folder))
    assert ingested.report.snapshot
    for put in ingested.report.puts:
        if put.outcome == "refused":
            page = put.document_id.endswith(".md")
            assert ("must not be 0" if page else "format") in put.reason, put


async def test_every_page_is_listed_once(system: System, ingested: Ingested) -> None:
    async with system.client("ada", TENANT) as ada:
        listed = [document.document_id async for document in ada.list_documents("handbook", page_size=500)]
    assert sorted(listed) == sorted(path.relative_to(ingested.folder).as_posix() for path in pages(ingested.folder))


async def test_every_fragments_text_is_its_span_and_has_its_hash(system: System, ingested: Ingested) -> None:
    """From record and blobs themselves; a page's canonical text is its bytes, decoded."""
    tenant_id = system.tenant_id(TENANT)
    revisions = system.catalog.read(
        "SELECT r.revision_key, d.document_id, r.canonical_blob, r.content_hash FROM revisions r "
        "JOIN documents d ON d.document_key = r.document_key WHERE r.tenant_id = ? AND r.state = 'published'",
        (tenant_id,),
    )
    assert len(revisions) == len(pages(ingested.folder))
    for key, document, blob, content_hash in revisions:
        data = system.blobs.read(tenant_id, ("handbook", document), blob)  # type: ignore[arg-type]
        text = data.decode()
        assert text == (ingested.folder / document).read_bytes().decode().removeprefix("\ufeff")
        assert hashlib.sha256(data).hexdigest() == content_hash
        fragments = system.catalog.read(
            "SELECT span_start, span_end, text_hash FROM fragments WHERE revision_key = ? ORDER BY ordinal", (key,)
        )
        assert fragments or not text.strip(), document
        assert [row[0] for row in fragments] == sorted(row[0] for row in fragments)
        for start, end, text_hash in fragments:
            assert hashlib.sha256(text[start:end].encode()).hexdigest() == text_hash
            assert text[start:end]


async def test_what_is_found_resolves_to_the_files_own_words(system: System, ingested: Ingested) -> None:
    async with system.client("ada", TENANT) as ada:
        packet = await ada.search("Who is on call and how does a release work?", max_evidence=50, max_tokens=50_000)
        assert len(packet.evidence) >= 10
        for item in packet.evidence:
            text = (ingested.folder / item.document_id).read_bytes().decode().removeprefix("\ufeff")
            resolved = await ada.resolve_citation(item.evidence_id)
            for passage in resolved.evidence.passages:
                assert passage.text == text[passage.span.start : passage.span.end]


async def test_the_same_folder_again_stores_and_publishes_nothing(system: System, ingested: Ingested) -> None:
    before = ledger(system, TENANT)
    async with system.admin(TENANT) as admin:
        report = await ingest_files(admin, "handbook", files_of(ingested.folder), Access(public=True))
    await eventually(lambda: system.at_rest(TENANT))
    after = ledger(system, TENANT)
    assert report.snapshot == ""
    assert report.counts["stored"] == 0
    assert report.counts["unchanged"] == ingested.report.counts["stored"]
    assert report.counts["refused"] == ingested.report.counts["refused"]
    assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}
