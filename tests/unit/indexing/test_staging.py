"""Staging: what it records, what it refuses, and that doing it again changes nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from core.document import ParseState
from corpus.catalog.builds import abandon_build, begin_build
from corpus.contents import MAX_TITLE
from corpus.encoder import EncoderFailed
from corpus.errors import RecordDamaged
from indexing.parsers import ParserPool
from indexing.staging import ENCODED_AT_ONCE, StageOutcome, Stager
from tests.indexing_world import CALLER, SOURCE, LetterEncoder, Record, record

TEXT = "# Leave\n\nEveryone has thirty days.\n\n## Sick leave\n\nCall before nine.\n"


@pytest.fixture
async def acme(tmp_path: Path) -> AsyncIterator[Record]:
    async with record(tmp_path) as made:
        yield made


@pytest.fixture
async def parsers() -> AsyncIterator[ParserPool]:
    pool = ParserPool(1, 20.0)
    yield pool
    await pool.close()


def stager(acme: Record, parsers: ParserPool, encoder: LetterEncoder | None = None) -> Stager:
    return Stager(acme.database, acme.blobs, parsers, encoder or LetterEncoder(), acme.representation_id)


def dump(acme: Record) -> list[object]:
    return [acme.database.read(f"SELECT * FROM {table}") for table in ("revisions", "fragments", "operations")]  # noqa: S608


def blobs(acme: Record) -> set[Path]:
    return {path for path in (acme.directory / "blobs").rglob("*") if path.is_file()}


async def test_staged_fragments_equal_their_spans_of_the_canonical_text(acme: Record, parsers: ParserPool) -> None:
    operation_id, revision_id = acme.put("leave.md", TEXT)
    with stager(acme, parsers) as it:
        assert await it.stage(revision_id) is StageOutcome.STAGED
    key, canonical = acme.database.read("SELECT revision_key, canonical_blob FROM revisions")[0]
    text = acme.blobs.read(acme.tenants["acme"], (SOURCE, "leave.md"), canonical).decode()
    fragments = acme.contents().fragments(key)
    assert text == TEXT
    assert fragments
    assert all(each.span.cut(text).strip() for each in fragments)
    assert acme.state(operation_id) == "running"


async def test_a_title_of_any_length_is_cut_to_what_a_put_may_name(acme: Record, parsers: ParserPool) -> None:
    _, revision_id = acme.put("long.md", "# " + "long " * 100_000 + "\n\nText.\n")
    with stager(acme, parsers) as it:
        assert await it.stage(revision_id) is StageOutcome.STAGED
    ((title,),) = acme.database.read("SELECT title FROM revisions")
    assert title.startswith("long long")
    assert len(title) <= MAX_TITLE


async def test_staging_again_changes_nothing(acme: Record, parsers: ParserPool) -> None:
    _, revision_id = acme.put("leave.md", TEXT)
    with stager(acme, parsers) as it:
        await it.stage(revision_id)
        before, files = dump(acme), blobs(acme)
        assert await it.stage(revision_id) is StageOutcome.ENDED
    assert dump(acme) == before
    assert blobs(acme) == files


async def test_a_crash_before_the_record_leaves_blobs_that_the_next_attempt_finds(
    acme: Record, parsers: ParserPool
) -> None:
    _, revision_id = acme.put("leave.md", TEXT)
    _execute(acme, "CREATE TRIGGER no BEFORE UPDATE ON revisions BEGIN SELECT RAISE(ABORT, 'no'); END")
    with stager(acme, parsers) as it, pytest.raises(sa.exc.IntegrityError):
        await it.stage(revision_id)
    _execute(acme, "DROP TRIGGER no")
    files = blobs(acme)
    assert len(files) == 4
    assert acme.value("SELECT count(*) FROM fragments") == 0
    with stager(acme, parsers) as it:
        assert await it.stage(revision_id) is StageOutcome.STAGED
    assert blobs(acme) == files


def _execute(acme: Record, sql: str) -> None:
    acme.database.write_now(lambda tx: tx.exec_driver_sql(sql))


@pytest.mark.parametrize(
    ("content", "media_type", "state"),
    [
        (b"", "text/markdown", ParseState.EMPTY),
        (b" \n\t\n", "text/plain", ParseState.EMPTY),
        (b"\xff\xfe\x00", "text/plain", ParseState.BAD_ENCODING),
        (b"GIF89a", "image/gif", ParseState.UNSUPPORTED),
        (b"%PDF-1.7 and nothing else", "application/pdf", ParseState.CORRUPT),
        (b"<html><body></body></html>", "text/html", ParseState.EMPTY),
    ],
)
async def test_content_that_cannot_serve_ends_the_put_as_failed(
    acme: Record, parsers: ParserPool, content: bytes, media_type: str, state: ParseState
) -> None:
    operation_id, revision_id = acme.put("bad", content, media_type=media_type)
    with stager(acme, parsers) as it:
        assert await it.stage(revision_id) is StageOutcome.REFUSED
    operation = acme.operation(operation_id)
    assert (operation.state, operation.failure) == ("failed", state)
    assert operation.message.endswith(".")
    assert acme.value("SELECT count(*) FROM fragments") == 0


async def test_a_put_that_is_abandoned_while_it_is_staged_stays_abandoned(acme: Record, parsers: ParserPool) -> None:
    tenant_id = acme.tenants["acme"]
    build = acme.database.write_now(lambda tx: begin_build(tx, tenant_id, SOURCE, CALLER))
    _, revision_id = acme.put("leave.md", TEXT, build_id=build.build_id)

    def abandon(_texts: object) -> None:
        acme.database.write_now(lambda tx: abandon_build(tx, tenant_id, build.build_id, CALLER))

    with stager(acme, parsers, LetterEncoder(abandon)) as it:
        assert await it.stage(revision_id) is StageOutcome.ENDED
    assert acme.database.read("SELECT state FROM revisions") == [("abandoned",)]
    assert acme.value("SELECT count(*) FROM fragments") == 0


async def test_a_damaged_original_and_a_failing_model_are_told_and_change_nothing(
    acme: Record, parsers: ParserPool
) -> None:
    def fail(_texts: object) -> None:
        raise EncoderFailed("not finite")

    _, revision_id = acme.put("leave.md", TEXT)
    before = dump(acme)
    with stager(acme, parsers, LetterEncoder(fail)) as it, pytest.raises(EncoderFailed):
        await it.stage(revision_id)
    for path in blobs(acme):
        path.write_bytes(bytes(100))
    with stager(acme, parsers) as it, pytest.raises(RecordDamaged):
        await it.stage(revision_id)
    assert dump(acme) == before


async def test_a_long_document_is_embedded_in_parts_in_order(acme: Record, parsers: ParserPool) -> None:
    sizes: list[int] = []
    text = "".join(f"# Part {i}\n\n{'a' * (i % 7)} words of part {i} {'long ' * 250}\n\n" for i in range(150))
    _, revision_id = acme.put("long.md", text)
    with stager(acme, parsers, LetterEncoder(lambda texts: sizes.append(len(texts)))) as it:
        await it.stage(revision_id)
    count = acme.value("SELECT count(*) FROM fragments")
    assert sum(sizes) == count
    assert max(sizes) == ENCODED_AT_ONCE
