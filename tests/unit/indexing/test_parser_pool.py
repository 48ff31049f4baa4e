"""PDF and DOCX in real worker processes: what they read, what they refuse, and how they end."""

import asyncio
import io
import os
import signal
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from core.document import NodeKind, ParsedDocument, ParseState
from core.ids import RevisionId
from indexing.fragmenter import fragment
from indexing.parsers import DOCX, PDF, PLAIN, ParseLimits, ParserPool, ParserUnavailable
from tests.unit.indexing.samples import docx_of, paragraph, pdf_of, run, table, text_box


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(size=2, timeout_s=20)
    yield pool
    await pool.close()


async def eventually(holds: Callable[[], bool], within_s: float = 10) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not become true"
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def check_confined(pid: int, network_removed: bool | None) -> None:
    process = Path(f"/proc/{pid}")
    assert b"canary" not in (process / "environ").read_bytes()
    limits = (process / "limits").read_text(encoding="ascii").splitlines()
    assert next(line for line in limits if line.startswith("Max file size")).split()[3:5] == ["0", "0"]
    apart = (process / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    assert network_removed is apart  # what it says is so, whatever the kernel allows


def texts(document: ParsedDocument, kind: NodeKind) -> list[str]:
    return [node.span.cut(document.text) for node in document.nodes if node.kind is kind]


async def test_a4_pages_count_from_one_also_after_a_blank_page(pool: ParserPool) -> None:
    document = await pool.parse(PDF, "x.pdf", pdf_of("", "Alpha word.", "Beta word."))
    assert document.state is ParseState.PARTIAL
    assert document.warnings == ("pages_without_text:1",)
    pages = {n.level: n.span.cut(document.text) for n in document.nodes if n.kind is NodeKind.PAGE}
    assert pages == {1: "", 2: "Alpha word.", 3: "Beta word."}
    (only,) = fragment(document, RevisionId("r"))
    assert only.pages == (2, 3)


async def test_c7_one_scanned_page_of_ten_is_partial(pool: ParserPool) -> None:
    pages = [f"Page {n} says something." for n in range(1, 11)]
    document = await pool.parse(PDF, "x.pdf", pdf_of(*pages[:6], None, *pages[7:]))
    assert (document.state, document.warnings) == (ParseState.PARTIAL, ("pages_without_text:7",))
    assert document.metadata["pages"] == "10"


@pytest.mark.parametrize(
    ("media_type", "data", "state"),
    [
        (PDF, pdf_of(None, None), ParseState.NO_TEXT),
        (PDF, b"", ParseState.EMPTY),
        (DOCX, b"", ParseState.EMPTY),
        (PDF, b"garbage", ParseState.CORRUPT),
        (PDF, b"%PDF-1.4 and nothing else", ParseState.CORRUPT),
        (DOCX, b"garbage", ParseState.CORRUPT),
        (DOCX, docx_of(paragraph(run("x")))[:200], ParseState.CORRUPT),
        (DOCX, docx_of(""), ParseState.EMPTY),
        (DOCX, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), ParseState.ENCRYPTED),
        (DOCX, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an old .doc", ParseState.CORRUPT),
    ],
)
async def test_c7_nothing_extracted_is_never_ready(
    pool: ParserPool, media_type: str, data: bytes, state: ParseState
) -> None:
    document = await pool.parse(media_type, "file", data)
    assert (document.state, document.text, document.nodes) == (state, "", ())


async def test_a_zip_without_a_document_and_a_zip_bomb_are_refused(pool: ParserPool) -> None:
    other, bomb = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a.txt", "x")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            archive.writestr(f"word/{number}.xml", bytes(64 * 1024 * 1024))
    assert (await pool.parse(DOCX, "x.docx", other.getvalue())).state is ParseState.CORRUPT
    assert (await pool.parse(DOCX, "x.docx", bomb.getvalue())).state is ParseState.TOO_LARGE


async def test_c8_a_ligature_stays_and_broken_characters_are_flagged(pool: ParserPool) -> None:
    fine = await pool.parse(PDF, "x.pdf", pdf_of(r"An of\001ce of ef\001cient people.", differences="1 /fi"))
    assert fine.text.replace("ﬁ", "fi") == "An office of efficient people."
    assert fine.warnings == ()
    broken = await pool.parse(PDF, "x.pdf", pdf_of(r"\001\002\003 word", differences="1 /g1 /g2 /g3"))
    assert "text_quality" in broken.warnings


async def test_c8_a_running_head_that_is_also_a_heading_is_kept(pool: ParserPool) -> None:
    document = await pool.parse(PDF, "x.pdf", pdf_of(*["Results"] * 10))
    assert texts(document, NodeKind.PARAGRAPH) == ["Results"] * 10


C9_BODY = (
    paragraph(run("Top"), "Heading1")
    + paragraph(run("before"))
    + table((paragraph(run("h1")), paragraph(run("h2"))), (paragraph(run("a")), table((paragraph(run("nested")),))))
    + paragraph(run("after"))
    + paragraph(
        run("price is ")
        + f'<w:ins w:id="1" w:author="x">{run("42 EUR")}</w:ins>'
        + '<w:del w:id="2" w:author="x"><w:r><w:delText>41 EUR</w:delText></w:r></w:del>'
    )
    + paragraph(run("in ") + f'<w:smartTag w:uri="u" w:element="place">{run("Lisbon")}</w:smartTag>')
    + paragraph(f'<w:fldSimple w:instr="AUTHOR">{run("field")}</w:fldSimple>')
    + f"<w:sdt><w:sdtContent>{paragraph(run('control'))}</w:sdtContent></w:sdt>"
    + paragraph(text_box("box"))
    + paragraph(f'<w:moveTo w:id="5">{run("moved")}</w:moveTo><w:moveFrom w:id="6">{run("gone")}</w:moveFrom>')
    + paragraph("<w:r><w:t>tab</w:t><w:tab/><w:t>ped</w:t><w:noBreakHyphen/><w:t>on</w:t></w:r>")
    + paragraph(run("noted") + '<w:r><w:footnoteReference w:id="2"/></w:r>')
)


async def test_c9_a_docx_keeps_order_and_inserted_text_and_drops_deleted_text(pool: ParserPool) -> None:
    note = f'<w:footnote w:id="2">{paragraph(run("footnote"))}</w:footnote>'
    document = await pool.parse(DOCX, "x.docx", docx_of(C9_BODY, note))
    assert document.state is ParseState.READY
    assert document.text.split("\n\n") == [
        *("Top", "before", "h1\th2\na\tnested", "after", "price is 42 EUR", "in Lisbon", "field", "control", "box"),
        *("moved", "tab\tped-on", "noted[^2]", "footnote"),
    ]
    assert texts(document, NodeKind.HEADING) == ["Top"]
    assert texts(document, NodeKind.TABLE_ROW) == ["h1\th2", "a\tnested"]
    assert fragment(document, RevisionId("r"))[0].section_path == ("Top",)


async def test_c9_what_a_docx_loses_is_listed(pool: ParserPool) -> None:
    body = paragraph(run("kept") + text_box("lost", older_form=False))
    document = await pool.parse(DOCX, "x.docx", docx_of(body))
    assert (document.text, document.warnings) == ("kept", ("left_out:text_boxes",))


async def test_a_worker_is_used_again_and_a_dead_one_is_replaced(pool: ParserPool) -> None:
    await pool.parse(PDF, "x.pdf", pdf_of("one"))
    before = pool.pids
    await pool.parse(PDF, "x.pdf", pdf_of("two"))
    assert pool.pids == before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    document = await pool.parse(PDF, "x.pdf", pdf_of("three"))
    assert document.text == "three"
    assert not set(before) & set(pool.pids)


async def test_text_formats_start_no_process() -> None:
    pool = ParserPool(size=1, timeout_s=5)
    assert (await pool.parse(PLAIN, "x.txt", b"text " * 100_000)).state is ParseState.READY
    assert (await pool.parse(PDF, "x.pdf", bytes(10), ParseLimits(max_bytes=9))).state is ParseState.TOO_LARGE
    assert pool.pids == ()
    await pool.close()


LONG = pdf_of(*["Some words on a page."] * 4000)


async def test_a_document_that_takes_too_long_is_timed_out_and_its_worker_killed() -> None:
    pool = ParserPool(size=1, timeout_s=20)
    await pool.parse(PDF, "x.pdf", pdf_of("warm"))
    (pid,) = pool.pids
    pool.timeout_s = 0.01
    assert (await pool.parse(PDF, "x.pdf", LONG)).state is ParseState.TIMED_OUT
    await eventually(lambda: not alive(pid))
    pool.timeout_s = 20
    assert (await pool.parse(PDF, "x.pdf", pdf_of("next"))).text == "next"
    await pool.close()


async def test_cancelling_kills_the_worker_and_frees_its_place() -> None:
    pool = ParserPool(size=1, timeout_s=20)
    task = asyncio.create_task(pool.parse(PDF, "x.pdf", LONG))
    await eventually(lambda: len(pool.pids) == 1)
    (pid,) = pool.pids
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not alive(pid))
    assert (await pool.parse(PDF, "x.pdf", pdf_of("next"))).text == "next"
    await pool.close()


async def test_closing_leaves_no_process_and_refuses_more() -> None:
    pool = ParserPool(size=2, timeout_s=20)
    await asyncio.gather(*(pool.parse(PDF, "x.pdf", pdf_of("x")) for _ in range(4)))
    pids = pool.pids
    assert 1 <= len(pids) <= 2
    reading = asyncio.create_task(pool.parse(PDF, "x.pdf", LONG))
    await eventually(lambda: reading.done() or len(pool.pids) > 0)
    await pool.close()
    assert not [pid for pid in pids if alive(pid)]
    with pytest.raises(ParserUnavailable):
        await reading
    with pytest.raises(ParserUnavailable):
        await pool.parse(PDF, "x.pdf", pdf_of("x"))


async def test_a_worker_that_can_not_start_is_our_fault_and_not_the_documents() -> None:
    pool = ParserPool(size=1, timeout_s=5, memory_bytes=16 * 1024 * 1024)
    with pytest.raises(ParserUnavailable):
        await pool.parse(PDF, "x.pdf", pdf_of("x"))
    await pool.close()


async def test_a_worker_has_no_network_no_environment_and_writes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_CANARY", "canary")
    fresh = ParserPool(size=1, timeout_s=20)
    await fresh.parse(PDF, "x.pdf", pdf_of("x"))
    (pid,) = fresh.pids
    check_confined(pid, fresh.network_removed)
    await fresh.close()
