"""The indexer on a store in memory: what is accepted is published, whatever fails or dies on the way."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest

from core.access import Access
from core.budget import Budget
from core.ids import Seq
from corpus.catalog.builds import abandon_build, begin_build, seal_build
from corpus.catalog.documents import delete_document, retract_revision, set_access
from corpus.projection import Step, StoreTerms
from corpus.store import StoreQuery, StoreRejected, StoreUnavailable
from indexing.sweep import SweepTerms
from indexing.worklist import pending_puts
from policy.filter import Everything
from tests.fakes.dying_indexer import DIED
from tests.fakes.memory_store import MemoryStore
from tests.indexing_world import (
    CALLER,
    DIMENSION,
    REPRESENTATION,
    SOURCE,
    SWEEP_TERMS,
    LetterEncoder,
    Record,
    World,
    eventually,
    record,
)

TEXT = "# Leave\n\nEveryone has thirty days of zebra leave.\n"
SECRET = Access.of(allowed_groups=["board"])


@pytest.fixture
async def acme(tmp_path: Path) -> AsyncIterator[Record]:
    async with record(tmp_path) as made:
        yield made


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(REPRESENTATION.representation_id, DIMENSION)


@pytest.fixture
def world(acme: Record, store: MemoryStore) -> World:
    return World(acme, store)


async def found(world: World, word: str, tenant: str = "acme") -> list[str]:
    """Revisions that the lexical channel proposes in the active snapshot."""
    record, tenant_id = world.record, world.record.tenants[tenant]
    active = record.value("SELECT active_seq FROM tenants WHERE tenant_id = ?", tenant_id)
    query = StoreQuery(tenant_id, Seq(active), Everything(), 1_800_000_000, 100)
    return [hit.revision_id for hit in await world.store.lexical(query, word, "", Budget.of_seconds(5))]


async def test_a_put_is_staged_published_and_found(world: World) -> None:
    operation_id, revision_id = world.record.put("leave.md", TEXT)
    await world.run_until(lambda: world.record.state(operation_id) == "succeeded")
    operation = world.record.operation(operation_id)
    assert (operation.seq, operation.done) == (1, 1)
    assert await found(world, "zebra") == [revision_id]
    assert not await found(world, "nothing")
    await world.record.assert_store_agrees(world.store)


async def test_puts_while_it_runs_are_found_by_the_sweep(world: World) -> None:
    async with world.indexer():
        for number in range(5):
            operation_id, _ = world.record.put(f"{number}.md", TEXT)
            await eventually(lambda it=operation_id: world.record.state(it) == "succeeded")  # type: ignore[misc]
        await eventually(lambda: not world.record.unsettled())
    await world.record.assert_store_agrees(world.store)


async def test_content_that_cannot_serve_fails_its_put_and_the_old_revision_serves_on(world: World) -> None:
    first, revision_id = world.record.put("leave.md", TEXT)
    await world.run_until(lambda: world.record.state(first) == "succeeded")
    second, _ = world.record.put("leave.md", "  \n")
    await world.run_until(lambda: world.record.state(second) == "failed")
    assert world.record.operation(second).failure == "empty"
    assert await found(world, "zebra") == [revision_id]
    await world.record.assert_store_agrees(world.store)


async def test_a_newer_revision_replaces_the_older_one(world: World) -> None:
    first, _ = world.record.put("leave.md", TEXT)
    await world.run_until(lambda: world.record.state(first) == "succeeded")
    second, revision_id = world.record.put("leave.md", TEXT + "\nAnd more.\n")
    await world.run_until(lambda: world.record.state(second) == "succeeded")
    assert await found(world, "zebra") == [revision_id]
    await world.record.assert_store_agrees(world.store)


async def test_access_changes_deletions_and_retractions_end_and_the_store_follows(world: World) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    revisions = {name: record.put(name, TEXT)[1] for name in ("a", "b", "c", "d")}
    write = record.database.write_now
    async with world.indexer():
        await eventually(lambda: record.value("SELECT count(*) FROM intervals") == 4)
        _, changed = write(lambda tx: set_access(tx, tenant_id, SOURCE, "a", SECRET, "", CALLER))
        deleted = write(lambda tx: delete_document(tx, tenant_id, SOURCE, "b", "", CALLER))
        retracted = write(lambda tx: retract_revision(tx, tenant_id, revisions["c"], CALLER))
        await eventually(lambda: {record.state(each) for each in (changed, deleted, retracted)} == {"succeeded"})
        await eventually(lambda: not record.unsettled())
    assert set(await found(world, "zebra")) == {revisions["a"], revisions["d"]}
    held = world.store.objects[tenant_id].values()  # type: ignore[attr-defined]
    groups = {f.document_id: f.attributes.get("allowed_groups") for f in held}
    assert groups == {"a": ("board",), "d": None}
    assert record.operation(changed).done == 1
    await record.assert_store_agrees(world.store)


async def test_many_access_changes_of_a_tenant_are_settled_together(world: World) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    for number in range(60):
        record.put(f"{number}", TEXT)
    async with world.indexer():
        await eventually(lambda: record.value("SELECT count(*) FROM intervals") == 60)
        await eventually(lambda: not record.unsettled())
        began = monotonic()
        for number in range(60):
            record.database.write_now(
                lambda tx, it=str(number): set_access(tx, tenant_id, SOURCE, it, SECRET, "", CALLER)  # type: ignore[misc]
            )
        await eventually(lambda: not record.unsettled())
    assert monotonic() - began < 60 * world.store_terms.search_s  # one by one it takes longer
    await record.assert_store_agrees(world.store)


async def test_a_build_is_published_as_one_when_it_is_sealed(world: World) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    build = record.database.write_now(lambda tx: begin_build(tx, tenant_id, SOURCE, CALLER))
    empty = record.database.write_now(lambda tx: begin_build(tx, tenant_id, SOURCE, CALLER))
    puts = [record.put(f"{n}.md", TEXT if n else "", build_id=build.build_id)[0] for n in range(20)]
    async with world.indexer():
        await eventually(lambda: record.value("SELECT count(*) FROM revisions WHERE state = 'accepted'") == 0)
        assert record.value("SELECT active_seq FROM tenants WHERE tenant_id = ?", tenant_id) == 0
        sealed = record.database.write_now(lambda tx: seal_build(tx, tenant_id, build.build_id, CALLER))
        await eventually(lambda: record.state(sealed) == "succeeded")
        nothing = record.database.write_now(lambda tx: seal_build(tx, tenant_id, empty.build_id, CALLER))
        await eventually(lambda: record.state(nothing) == "succeeded")
        await eventually(lambda: not record.unsettled())
    operation = record.operation(sealed)
    assert (operation.seq, operation.done, operation.total, operation.failed) == (1, 19, 20, 1)
    assert [record.state(each) for each in puts] == ["failed"] + ["succeeded"] * 19
    await record.assert_store_agrees(world.store)


async def test_one_page_need_not_wait_until_a_large_folder_is_read(world: World) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    folder, other = (
        record.database.write_now(lambda tx: begin_build(tx, tenant_id, SOURCE, CALLER)).build_id for _ in range(2)
    )
    large = [record.put(f"{n}.md", TEXT, build_id=folder)[0] for n in range(9)]
    page, in_other = record.put("page.md", TEXT)[0], record.put("other.md", TEXT, build_id=other)[0]

    order = [put.operation_id for put in pending_puts(record.database, 5)]
    assert order == [large[0], page, in_other, *large[1:3]]


async def test_an_abandoned_build_leaves_nothing_in_the_store(world: World, store: MemoryStore) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    build = record.database.write_now(lambda tx: begin_build(tx, tenant_id, SOURCE, CALLER))
    operation_id, _ = record.put("leave.md", TEXT, build_id=build.build_id)
    async with world.indexer():
        await eventually(lambda: record.state(operation_id) == "running")
        abandoned = record.database.write_now(lambda tx: abandon_build(tx, tenant_id, build.build_id, CALLER))
        await eventually(lambda: record.state(abandoned) == "succeeded")
    assert record.operation(operation_id).failure == "superseded"
    assert not store.objects[tenant_id]


async def test_while_the_store_is_away_attempts_grow_rarer_and_nothing_is_lost(
    world: World, store: MemoryStore
) -> None:
    away, calls = True, 0

    async def before(_op: str, _args: object) -> None:
        nonlocal calls
        calls += 1
        if away:
            raise StoreUnavailable("away")

    store.before = before
    operations = [world.record.put(f"{n}.md", TEXT)[0] for n in range(3)]
    async with world.indexer():
        await eventually(lambda: calls >= 3)
        began, before_calls = monotonic(), calls
        await eventually(lambda: monotonic() - began > 1.0)
        # publishing and settling each wait until no message can be under way any more
        assert calls - before_calls <= 2 * (1 + 1.0 / world.store_terms.drain_s)
        away = False
        await eventually(lambda: {world.record.state(each) for each in operations} == {"succeeded"})
        await eventually(lambda: not world.record.unsettled())
    await world.record.assert_store_agrees(store)


async def test_one_tenants_trouble_does_not_hold_up_another(world: World, store: MemoryStore) -> None:
    record, released = world.record, asyncio.Event()

    async def before(op: str, args: tuple[object, ...]) -> None:
        if op == "insert" and args[0] == record.tenants["acme"]:
            await released.wait()

    store.before = before
    stuck, _ = record.put("leave.md", TEXT)
    async with world.indexer():
        await eventually(lambda: record.value("SELECT count(*) FROM publications") == 1)
        others = [record.put(f"{n}.md", TEXT, tenant="globex")[0] for n in range(3)]
        await eventually(lambda: {record.state(each, "globex") for each in others} == {"succeeded"})
        assert record.state(stuck) == "running"
        released.set()
        await eventually(lambda: record.state(stuck) == "succeeded")


async def test_a_document_that_breaks_staging_is_given_up_and_its_neighbours_are_published(world: World) -> None:
    def fail(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise ValueError("poison")

    world.encoder = LetterEncoder(fail)
    good = [world.record.put(f"{n}.md", TEXT)[0] for n in range(4)]
    bad, _ = world.record.put("bad.md", "poison")
    await world.run_until(lambda: world.record.state(bad) == "failed")
    await world.run_until(lambda: {world.record.state(each) for each in good} == {"succeeded"})
    operation = world.record.operation(bad)
    assert (operation.failure, operation.message) == ("internal", "The document could not be processed.")


async def test_a_document_that_kills_the_process_is_given_up_after_a_few_starts(world: World) -> None:
    record = world.record
    bad, _ = record.put("bad.md", "poison")
    good = [record.put(f"{n}.md", TEXT)[0] for n in range(3)]
    ends: list[int] = []
    while len(ends) <= SWEEP_TERMS.attempts and (not ends or ends[-1] == DIED):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.fakes.dying_indexer", str(record.directory), cwd=Path(__file__).parents[3]
        )
        ends.append(await process.wait())
    assert ends == [DIED] * SWEEP_TERMS.attempts + [0]
    assert record.operation(bad).failure == "internal"
    assert {record.state(each) for each in good} == {"succeeded"}


@pytest.mark.parametrize("fault", ["damaged", "rejected"])
async def test_a_staged_revision_that_cannot_be_published_does_not_block_its_tenant(
    world: World, store: MemoryStore, fault: str
) -> None:
    record = world.record
    build = record.database.write_now(lambda tx: begin_build(tx, record.tenants["acme"], SOURCE, CALLER))
    bad, revision_id = record.put("bad.md", TEXT, build_id=build.build_id)
    good, _ = record.put("good.md", TEXT, build_id=build.build_id)
    await world.stage_only()

    async def refuse(op: str, args: tuple[object, ...]) -> None:
        if op == "insert":
            named = tuple(each.object_id for each in args[1] if each.revision_id == revision_id)  # type: ignore[attr-defined]
            if named:
                raise StoreRejected("no", named)

    if fault == "rejected":
        store.before = refuse
    else:
        (name,) = record.database.read("SELECT vectors_blob FROM revisions WHERE revision_id = ?", (revision_id,))[0]
        next((record.directory / "blobs").rglob(name)).write_bytes(bytes(100))
    record.database.write_now(lambda tx: seal_build(tx, record.tenants["acme"], build.build_id, CALLER))
    await world.run_until(lambda: record.state(good) == "succeeded")
    assert record.operation(bad).failure == "internal"
    await record.assert_store_agrees(store)


@pytest.mark.parametrize("last", [Step.PLANNED, Step.COPIED, Step.READ_BACK, Step.MOVED, Step.LISTED])
async def test_a_publication_whose_process_died_is_undone_or_finished(
    world: World, store: MemoryStore, last: Step
) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    operation_id, revision_id = record.put("leave.md", TEXT)
    await world.stage_only()
    steps = world.publisher("a process that died").publish(tenant_id)
    async for step in steps:
        if step is last:
            break
    await world.run_until(lambda: record.state(operation_id) == "succeeded")
    moved = last in (Step.MOVED, Step.LISTED)
    assert record.operation(operation_id).seq == (1 if moved else 2)
    assert record.value("SELECT count(*) FROM intervals") == 1
    assert await found(world, "zebra") == [revision_id]
    await record.assert_store_agrees(store)
    await steps.aclose()  # type: ignore[attr-defined]


async def test_what_a_former_process_left_unsettled_waits_until_its_messages_cannot_arrive(
    world: World, store: MemoryStore
) -> None:
    record, tenant_id = world.record, world.record.tenants["acme"]
    first, _ = record.put("leave.md", TEXT)
    await world.run_until(lambda: record.state(first) == "succeeded")
    _, changed = record.database.write_now(lambda tx: set_access(tx, tenant_id, SOURCE, "leave.md", SECRET, "", CALLER))
    world.store_terms = StoreTerms(call_s=5.0, drain_s=0.5, search_s=0.05)
    called: list[float] = []

    async def note(_op: str, _args: object) -> None:
        called.append(monotonic())

    store.before = note
    began = monotonic()
    await world.run_until(lambda: record.state(changed) == "succeeded")
    assert min(called) - began >= 0.5


async def test_an_indexer_that_is_asked_to_end_finishes_what_is_under_way(world: World, store: MemoryStore) -> None:
    entered = asyncio.Event()

    async def note(op: str, _args: object) -> None:
        if op == "insert":
            entered.set()

    store.before = note
    operation_id, _ = world.record.put("leave.md", TEXT)
    async with world.indexer():
        await entered.wait()
    assert world.record.state(operation_id) == "succeeded"
    assert not world.record.unsettled()


async def test_workflows_hold_ids_and_counts_as_json_and_are_named_by_their_operations(world: World) -> None:
    async with world.indexer():
        operation_id, _ = world.record.put("zebra-name.md", TEXT)
        await eventually(lambda: world.record.state(operation_id) == "succeeded")
        await eventually(lambda: not world.record.unsettled())
    with closing(sqlite3.connect(world.workflows_path())) as connection:
        rows = connection.execute("SELECT workflow_uuid, serialization, status FROM workflow_status").fetchall()
        everything = "\n".join(connection.iterdump())
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert operation_id in {row[0] for row in rows}
    assert {row[1:] for row in rows} == {("portable_json", "SUCCESS")}
    assert "zebra" not in everything


async def test_work_runs_in_the_loop_that_started_it(world: World, store: MemoryStore) -> None:
    loops = set()

    async def note(_op: str, _args: object) -> None:
        loops.add(asyncio.get_running_loop())

    store.before = note
    operation_id, _ = world.record.put("leave.md", TEXT)
    await world.run_until(lambda: world.record.state(operation_id) == "succeeded")
    assert loops == {asyncio.get_running_loop()}


async def test_an_idle_indexer_asks_the_store_nothing(world: World, store: MemoryStore) -> None:
    first, _ = world.record.put("leave.md", TEXT)
    world.terms = SweepTerms(poll_s=0.001, look_s=0.002, retry=SWEEP_TERMS.retry)
    async with world.indexer():
        await eventually(lambda: world.record.state(first) == "succeeded" and not world.record.unsettled())
        calls: list[str] = []

        async def note(op: str, _args: object) -> None:
            calls.append(op)

        store.before = note
        began = monotonic()
        await eventually(lambda: monotonic() - began > 0.5)
    assert not calls
