"""One suite for every Store: the fake that protocol tests use means the same as the real Weaviate."""

import math
from typing import Any

import pytest

from core.ids import DocumentId, FragmentId, RevisionId, Seq, SourceId, TenantId, new_id
from corpus.store import (
    Scope,
    Selection,
    Store,
    StoreLate,
    StoreRejected,
    TenantMissing,
)
from policy.filter import (
    Compare,
    Everything,
    Not,
    Nothing,
    Op,
    Or,
    Overlaps,
)
from tests.contract.shelf import Shelf, budget, fragment, new_shelf


async def test_what_was_written_is_found_listed_and_fetched_as_it_was(shelf: Shelf) -> None:
    near = await shelf.put("the cat sat on the mat", vector=(1, 0, 0, 0), from_seq=3, to_seq=9)
    far = await shelf.put("a dog", vector=(0, 1, 0, 0))
    [hit] = await shelf.lexical("cats")
    assert (hit.object_id, hit.fragment_id, hit.revision_id) == (near.object_id, near.fragment_id, near.revision_id)
    assert (hit.from_seq, hit.to_seq, hit.access_version) == (3, 9, 1)
    assert hit.score > 0
    dense = await shelf.dense((2, 0, 0, 0))
    assert [hit.object_id for hit in dense] == [near.object_id, far.object_id]
    assert dense[0].score == pytest.approx(1.0, abs=1e-5)
    assert dense[1].score == pytest.approx(0.0, abs=1e-5)
    listed = await shelf.store.list_objects(shelf.tenant, Selection(), budget())
    assert {ref.object_id for ref in listed} == {near.object_id, far.object_id}
    [ref] = await shelf.store.fetch(shelf.tenant, [near.object_id, str(new_id())], budget())
    assert (ref.fragment_id, ref.revision_id, ref.to_seq) == (near.fragment_id, near.revision_id, 9)


async def test_writing_the_same_object_again_leaves_one(shelf: Shelf) -> None:
    made = await shelf.put()
    await shelf.store.insert(shelf.tenant, [made], budget())
    assert await shelf.both() == {made.object_id}
    assert len(await shelf.store.list_objects(shelf.tenant, Selection(), budget())) == 1


async def test_equal_scores_come_in_the_order_of_their_ids(shelf: Shelf) -> None:
    made = [fragment(shelf.tenant, "twin") for _ in range(20)]
    await shelf.store.insert(shelf.tenant, made, budget())
    ordered = sorted(f.object_id for f in made)
    assert [hit.object_id for hit in await shelf.lexical("twin")] == ordered
    assert [hit.object_id for hit in await shelf.dense()] == ordered


async def test_nothing_is_refused_and_everything_is_still_pinned(shelf: Shelf) -> None:
    await shelf.put(from_seq=6)
    now = await shelf.put()
    for nothing in (Nothing(), Or(()), Overlaps("allowed_groups", ()), Not(Everything())):
        with pytest.raises(StoreRejected):
            await shelf.lexical("common", access=nothing)
        with pytest.raises(StoreRejected):
            await shelf.dense(access=nothing)
    assert await shelf.both(access=Everything()) == {now.object_id}


async def test_three_thousand_groups_and_two_thousand_exclusions_are_asked(shelf: Shelf) -> None:
    mine = await shelf.put(allowed_groups=("g2999",))
    access = Overlaps("allowed_groups", tuple(f"g{n}" for n in range(3_000)))
    excluded = frozenset(RevisionId(new_id()) for _ in range(2_000))
    assert await shelf.both(access=access, excluded_revisions=excluded) == {mine.object_id}
    assert await shelf.both(access=access, excluded_revisions=excluded | {mine.revision_id}) == set()


async def test_a_fragment_is_in_the_snapshots_of_its_interval_and_in_no_other(shelf: Shelf) -> None:
    closed, open_ = await shelf.put(from_seq=3, to_seq=5), await shelf.put(from_seq=4)
    seen = {seq: await shelf.both(seq=Seq(seq)) for seq in (2, 3, 4, 5, 2**53 - 2)}
    both = {closed.object_id, open_.object_id}
    assert seen == {2: set(), 3: {closed.object_id}, 4: both, 5: {open_.object_id}, 2**53 - 2: {open_.object_id}}


async def test_validity_is_inclusive_at_its_start_exclusive_at_its_end_and_open_where_unset(shelf: Shelf) -> None:
    whole = await shelf.put(valid_from=100, valid_to=200)
    starts, ends, always = await shelf.put(valid_from=100), await shelf.put(valid_to=200), await shelf.put()
    w, s, e, a = (f.object_id for f in (whole, starts, ends, always))
    seen = {at: await shelf.both(valid_at=at) for at in (-5, 99, 100, 199, 200)}
    assert seen == {-5: {e, a}, 99: {e, a}, 100: {w, s, e, a}, 199: {w, s, e, a}, 200: {s, a}}


async def test_scope_only_narrows(shelf: Shelf) -> None:
    wiki = await shelf.put(source="wiki", document="d", language="en", public=False)
    other = await shelf.put(source="mail", document="d", language="de", public=True)
    bare = await shelf.put(source="the", document="e")
    ids = {"wiki": wiki.object_id, "other": other.object_id, "bare": bare.object_id}

    async def seen(**scope: Any) -> set[str]:
        found = await shelf.both(scope=Scope(**{name: frozenset(v) for name, v in scope.items()}))
        return {name for name, key in ids.items() if key in found}

    assert await seen(sources=["wiki"]) == {"wiki"}
    assert await seen(sources=["wik"]) == set()
    assert await seen(sources=["the", "mail"]) == {"other", "bare"}
    assert await seen(documents=["d"]) == {"wiki", "other"}
    assert await seen(languages=["en", "de"]) == {"wiki", "other"}
    assert await seen(sources=["wiki"], languages=["de"]) == set()
    for empty in ("sources", "documents", "languages"):
        assert await seen(**{empty: []}) == set()
    within = Scope(sources=frozenset({SourceId("wiki")}))
    assert await shelf.both(scope=within, access=Compare("public", Op.EQ, True)) == set()


async def test_excluded_revisions_sources_and_fragments_are_left_out(shelf: Shelf) -> None:
    one, two, three = await shelf.put(), await shelf.put(source="mail"), await shelf.put()
    assert await shelf.both(
        excluded_revisions=frozenset({one.revision_id}),
        excluded_sources=frozenset({SourceId("mail")}),
        excluded_fragments=frozenset({FragmentId(new_id())}),
    ) == {three.object_id}
    assert await shelf.both(excluded_fragments=frozenset({three.fragment_id, one.fragment_id})) == {two.object_id}


# ---- Tenants --------------------------------------------------------------------------------------------------------


async def test_two_tenants_with_the_same_documents_never_meet(store: Store) -> None:
    ours, theirs = await new_shelf(store), await new_shelf(store)
    mine = [await ours.put("shared words", document=f"d{n}", revision=f"r{n}") for n in range(5)]
    others = [await theirs.put("shared words", document=f"d{n}", revision=f"r{n}") for n in range(5)]
    for shelf, own in ((ours, mine), (theirs, others)):
        ids = {f.object_id for f in own}
        assert {hit.object_id for hit in await shelf.lexical("shared words")} == ids
        assert {hit.object_id for hit in await shelf.dense()} == ids
    for selection in (
        Selection(),
        Selection(revisions=frozenset(f.revision_id for f in others)),
        Selection(documents=frozenset((f.source_id, f.document_id) for f in others)),
    ):
        listed = await store.list_objects(ours.tenant, selection, budget())
        assert {ref.object_id for ref in listed} == {f.object_id for f in mine}
    their_ids = [f.object_id for f in others]
    assert await store.fetch(ours.tenant, their_ids, budget()) == frozenset()
    await store.delete(ours.tenant, their_ids, budget())
    assert len(await store.fetch(theirs.tenant, their_ids, budget())) == 5


async def test_a_fragment_of_another_tenant_is_not_written(store: Store) -> None:
    ours, theirs = await new_shelf(store), await new_shelf(store)
    with pytest.raises(StoreRejected):
        await store.insert(ours.tenant, [fragment(theirs.tenant)], budget())
    assert await store.list_objects(ours.tenant, Selection(), budget()) == frozenset()


async def test_an_unknown_tenant_is_a_fault_and_not_an_empty_one(store: Store) -> None:
    unknown = Shelf(store, TenantId(new_id()))
    for call in (
        lambda: unknown.lexical("common"),
        lambda: unknown.dense(),
        lambda: store.list_objects(unknown.tenant, Selection(), budget()),
    ):
        with pytest.raises(TenantMissing):
            await call()


# ---- Lists and deletion (P5) ----------------------------------------------------------------------------------------


async def test_ten_thousand_fragments_are_listed_and_deleted_to_the_last(shelf: Shelf) -> None:
    store, total = shelf.store, 10_500
    made = [fragment(shelf.tenant, document="big", revision="big-1") for _ in range(total)]
    await store.insert(shelf.tenant, made, budget(300))
    kept = await shelf.put(document="small")
    big = Selection(documents=frozenset({(SourceId("wiki"), DocumentId("big"))}))
    ids = {f.object_id for f in made}
    assert {ref.object_id for ref in await store.list_objects(shelf.tenant, big, budget(120))} == ids
    by_revision = Selection(revisions=frozenset({RevisionId("big-1")}))
    assert {ref.object_id for ref in await store.list_objects(shelf.tenant, by_revision, budget(120))} == ids
    await store.delete(shelf.tenant, ids, budget(300))
    assert await store.list_objects(shelf.tenant, big, budget(120)) == frozenset()
    everything = await store.list_objects(shelf.tenant, Selection(), budget(120))
    assert {ref.object_id for ref in everything} == {kept.object_id}
    assert await shelf.both() == {kept.object_id}
    await store.delete(shelf.tenant, ids, budget())  # again is nothing


async def test_an_empty_selection_lists_nothing(shelf: Shelf) -> None:
    await shelf.put()
    for empty in (Selection(revisions=frozenset()), Selection(documents=frozenset())):
        assert await shelf.store.list_objects(shelf.tenant, empty, budget()) == frozenset()
    unknown = Selection(documents=frozenset({(SourceId("wik"), DocumentId("the"))}))
    assert await shelf.store.list_objects(shelf.tenant, unknown, budget()) == frozenset()


@pytest.mark.parametrize("vector", [(1, 0, 0), (math.nan, 0, 0, 0), (math.inf, 0, 0, 0), (1, 0, 0, 0, 0)])
async def test_a_vector_that_is_none_is_neither_stored_nor_asked(shelf: Shelf, vector: tuple[float, ...]) -> None:
    with pytest.raises(StoreRejected):
        await shelf.put(vector=vector)
    with pytest.raises(StoreRejected):
        await shelf.dense(vector)
    assert await shelf.store.list_objects(shelf.tenant, Selection(), budget()) == frozenset()


async def test_a_spent_budget_ends_every_call(shelf: Shelf) -> None:
    spent, made = budget(0), fragment(shelf.tenant)
    store = shelf.store
    for call in (
        lambda: store.lexical(shelf.query(), "common", "", spent),
        lambda: store.dense(shelf.query(), (1, 0, 0, 0), spent),
        lambda: store.insert(shelf.tenant, [made], spent),
        lambda: store.delete(shelf.tenant, [made.object_id], spent),
        lambda: store.list_objects(shelf.tenant, Selection(), spent),
        lambda: store.fetch(shelf.tenant, [made.object_id], spent),
        lambda: store.ensure_tenant(shelf.tenant, spent),
        lambda: store.check_collection(spent),
    ):
        with pytest.raises(StoreLate):
            await call()
