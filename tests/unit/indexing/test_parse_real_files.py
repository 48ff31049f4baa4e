"""Real documents made by others: states against their named trouble, and a whole handbook."""

import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.document import NodeKind, ParsedDocument, ParseState
from core.ids import RevisionId
from indexing.fragmenter import fragment
from indexing.parsers import DOCX, MARKDOWN, PDF, ParseLimits, ParserPool, media_type_of, parse

_DEFAULT = Path(__file__).resolve().parents[3].parent / "shared" / "datasets"
DATASETS = Path(os.environ.get("MUNIMENT_DATASETS", _DEFAULT))
FORMATS = DATASETS / "docs-multiformat"
HANDBOOK = DATASETS / "handbook-sourcegraph" / "content"

pytestmark = pytest.mark.skipif(not FORMATS.is_dir(), reason=f"no datasets at {DATASETS}: set MUNIMENT_DATASETS")

# All others of an accepted format are READY.
STATES = {
    "unstructured__pdf__password.pdf": ParseState.ENCRYPTED,
    "sample-files__005-libreoffice-writer-password__libreoffice-writer-password.pdf": ParseState.ENCRYPTED,
    "unstructured__pdf__single_table.pdf": ParseState.NO_TEXT,
    "unstructured__pdf__table-multi-row-column-cells.pdf": ParseState.NO_TEXT,
    "unstructured__umlauts-non-utf8.md": ParseState.BAD_ENCODING,
    "unstructured__fake-text-all-whitespace.txt": ParseState.EMPTY,
}


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(size=2, timeout_s=30)
    yield pool
    await pool.close()


async def read(pool: ParserPool, name: str) -> ParsedDocument:
    data = (FORMATS / name).read_bytes()
    media_type = media_type_of(name, data[:4096])
    assert media_type is not None, name
    return await pool.parse(media_type, name, data)


def complete(document: ParsedDocument) -> None:
    """Fragments are exact, in order, apart, and hold every character that is not white space."""
    at = 0
    for piece in fragment(document, RevisionId("r")):
        assert piece.span.start >= at
        assert not document.text[at : piece.span.start].strip()
        assert piece.span.cut(document.text).strip() == piece.span.cut(document.text)
        at = piece.span.end
    assert not document.text[at:].strip()


async def test_every_file_of_an_accepted_format_ends_in_the_state_that_its_trouble_asks_for(pool: ParserPool) -> None:
    manifest = [json.loads(line) for line in (FORMATS / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines()]
    seen = 0
    for entry in manifest:
        name = entry["file"]
        data = (FORMATS / name).read_bytes()
        media_type = media_type_of(name, data[:4096])
        if media_type is None:
            assert Path(name).suffix not in (".md", ".html", ".txt", ".pdf", ".docx"), name
            continue
        document = await pool.parse(media_type, name, data)
        assert document.state is STATES.get(name, ParseState.READY), (name, entry["trouble"])
        pages = [node.level for node in document.nodes if node.kind is NodeKind.PAGE]
        assert pages == list(range(1, len(pages) + 1)), name
        assert bool(pages) == (document.serves and media_type == PDF), name
        assert bool(fragment(document, RevisionId("r"))) == document.serves, name
        complete(document)
        seen += 1
    assert seen > 60


async def test_an_owner_password_does_not_keep_readers_out(pool: ParserPool) -> None:
    document = await read(pool, "unstructured__pdf__copy-protected.pdf")
    assert (document.state, document.metadata["pages"]) == (ParseState.READY, "2")


async def test_c8_columns_are_read_one_after_the_other(pool: ParserPool) -> None:
    document = await read(pool, "unstructured__pdf__multi-column-2p.pdf")
    flat = re.sub(r"-\s*|\s+", " ", document.text)
    assert "to select candidate contexts, where traditional sparse vector space models, such as TF IDF or BM25" in flat


async def test_c8_repeated_running_heads_and_a_doubled_page_are_kept(pool: ParserPool) -> None:
    assert "I Am A Header" in (await read(pool, "unstructured__pdf__header-test-doc.pdf")).text
    document = await read(pool, "unstructured__pdf__fake-memo-with-duplicate-page.pdf")
    pages = [node.span.cut(document.text) for node in document.nodes if node.kind is NodeKind.PAGE]
    assert pages[0] == pages[1]
    flagged = await read(pool, "docling__pdf__table_mislabeled_as_picture.pdf")
    assert "text_quality" in flagged.warnings


async def test_c9_docx_tables_lists_boxes_and_comments(pool: ParserPool) -> None:
    tables = await read(pool, "docling__docx__word_tables.docx")
    assert "Cell 1.0\tMerged Cell 1.1 1.2" in tables.text
    assert tables.text.index("A uniform table") < tables.text.index("Header 0.0\tHeader 0.1")
    assert "Suggested Reportable Symptoms:" in (await read(pool, "docling__docx__textbox.docx")).text
    comments = await read(pool, "docling__docx__docx_comments.docx")
    assert comments.text.endswith("This paragraph has an anonymous comment.")
    running = await read(pool, "unstructured__docx-hdrftr.docx")
    assert (running.text, running.warnings) == ("Main document", ("left_out:running_heads",))


async def test_html_scripts_and_boilerplate(pool: ParserPool) -> None:
    document = await read(pool, "unstructured__example-with-scripts.html")
    assert "Belarusian forces remain unlikely to attack Ukraine" in document.text
    assert "function(" not in document.text
    assert "<script" not in document.text
    assert document.language == "en"


@pytest.mark.skipif(not HANDBOOK.is_dir(), reason=f"no handbook at {HANDBOOK}")
def test_the_whole_handbook_is_read_and_every_fragment_equals_its_span() -> None:
    paths = sorted(HANDBOOK.rglob("*.md"))
    assert len(paths) == 883
    empty = []
    for path in paths:
        data = path.read_bytes()
        document = parse(MARKDOWN, path.name, data, ParseLimits())
        assert document.text.encode() == data.removeprefix(b"\xef\xbb\xbf"), path
        if not document.serves:
            assert (document.state, data.strip()) == (ParseState.EMPTY, b""), path
            empty.append(path.name)
        complete(document)
    assert len(empty) == 3


async def test_docx_text_holds_every_word_that_the_reader_found(pool: ParserPool) -> None:
    import kreuzberg

    for path in sorted(FORMATS.glob("*.docx")):
        configuration = kreuzberg.ExtractionConfig(use_cache=False, output_format="plain")
        whole = kreuzberg.extract_bytes_sync(path.read_bytes(), DOCX, configuration).content
        document = await read(pool, path.name)
        if "left_out:image" in document.warnings:
            whole = re.sub(r"\[Image: [^]]*\]", "", whole)
        # Tabs that kreuzberg drops glue words, so the letters are compared.
        letters = "".join(re.findall(r"\w", whole))
        assert letters == "".join(re.findall(r"\w", document.text)), path.name
