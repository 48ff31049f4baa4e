"""One suite for every Store: the fake that protocol tests use means the same as the real Weaviate."""

import asyncio
import copy
import math
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.attributes import ATTRIBUTES, Attributes, AttributeType
from core.budget import Budget
from core.document import Span
from core.ids import OPEN_SEQ, DocumentId, FragmentId, RevisionId, Seq, SourceId, TenantId, new_id
from corpus.analyser import Analyser
from corpus.representations import default_representation
from corpus.store import (
    Scope,
    Selection,
    Store,
    StoredFragment,
    StoredHit,
    StoreLate,
    StoreMisconfigured,
    StoreQuery,
    StoreRejected,
    StoreUnavailable,
    TenantMissing,
    object_id,
)
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from corpus.weaviate_schema import collection
from policy.evaluator import permits
from policy.filter import (
    And,
    Compare,
    Everything,
    Filter,
    In,
    IsNull,
    Not,
    Nothing,
    Op,
    Or,
    Overlaps,
)
from tests.engines import running_weaviate
from tests.fakes.memory_store import MemoryStore

DIMENSION = 4
REPRESENTATION = replace(default_representation(), dimension=DIMENSION)
ANALYSER = Analyser()
NOW = 1_800_000_000
_numbers = count(1)


def budget(seconds: float = 60) -> Budget:
    return Budget.of_seconds(seconds)


@dataclass
class Shelf:
    """A tenant of a store, with short words for what the tests do."""

    store: Store
    tenant: TenantId

    async def put(self, text: str = "common", **values: Any) -> StoredFragment:
        made = fragment(self.tenant, text, **values)
        await self.store.insert(self.tenant, [made], budget())
        return made

    async def lexical(self, text: str, **values: Any) -> list[StoredHit]:
        query = self.query(**values)
        return await self.store.lexical(query, ANALYSER.analyse(text), ANALYSER.identifiers(text), budget())

    async def dense(self, vector: tuple[float, ...] = (1, 0, 0, 0), **values: Any) -> list[StoredHit]:
        return await self.store.dense(self.query(**values), vector, budget())

    async def both(self, **values: Any) -> set[str]:
        """Ids that both channels propose for what every fragment has; they must agree."""
        lexical, dense = await self.lexical("common", **values), await self.dense(**values)
        assert {hit.object_id for hit in lexical} == {hit.object_id for hit in dense}
        return {hit.object_id for hit in dense}

    def query(self, **values: Any) -> StoreQuery:
        defaults: dict[str, Any] = {"seq": Seq(5), "access": Everything(), "valid_at": NOW, "limit": 1_000}
        return StoreQuery(tenant_id=self.tenant, **defaults | values)


def fragment(
    tenant: TenantId,
    text: str = "common",
    *,
    from_seq: int = 1,
    to_seq: int = OPEN_SEQ,
    revision: str | None = None,
    vector: tuple[float, ...] = (1, 0, 0, 0),
    **attributes: Any,
) -> StoredFragment:
    number = next(_numbers)
    revision_id = RevisionId(revision or new_id())
    names = {"tenant": tenant, "source": "wiki", "document": f"doc-{number}", **attributes}
    return StoredFragment(
        object_id=object_id(
            REPRESENTATION.representation_id, revision_id, Span(number, number + 1), Seq(from_seq), Seq(to_seq), 1
        ),
        fragment_id=FragmentId(new_id()),
        revision_id=revision_id,
        from_seq=Seq(from_seq),
        to_seq=Seq(to_seq),
        access_version=1,
        ordinal=0,
        attributes={name: value for name, value in names.items() if value is not None},
        analysed=ANALYSER.analyse(text),
        identifiers=ANALYSER.identifiers(text),
        vector=vector,
    )


@pytest.fixture(scope="session")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WeaviateEndpoint]:
    async with running_weaviate(tmp_path_factory.mktemp("weaviate")) as running:
        yield running


@pytest.fixture(scope="session")
async def weaviate(endpoint: WeaviateEndpoint) -> AsyncIterator[WeaviateStore]:
    async with WeaviateStore(endpoint, REPRESENTATION) as store:
        await store.ensure_collection(budget())
        await store.ensure_collection(budget())  # what is there is kept and checked
        yield store


@pytest.fixture(scope="session", params=["memory", "weaviate"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore(REPRESENTATION.representation_id, DIMENSION)
    found: WeaviateStore = request.getfixturevalue("weaviate")
    return found


@pytest.fixture
async def shelf(store: Store) -> Shelf:
    return await new_shelf(store)


async def new_shelf(store: Store) -> Shelf:
    tenant = TenantId(new_id())
    await store.ensure_tenant(tenant, budget())
    await store.ensure_tenant(tenant, budget())  # again is nothing
    return Shelf(store, tenant)


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


# ---- Filters (P1, P3, R8) -------------------------------------------------------------------------------------------

HOSTILE = [
    *("acme", "acme-eu", "ACME", "ACME_test", "acme eu", "eu", "hr", "hr-managers", "a", "the", "not", "THE"),
    *('say "x"', "it's", "back\\slash", "a*", "a?", "*", "?", "%", "a|b", "a,b", "[a]", "{a}", "null", "true", "0"),
    *(
        "é",
        "e\u0301x",
        "éx",
        "ＡＢＣ",
        "ABC",
        "a\nb",
        "a\tb",
        "a  b",
        "a b",
        "a\u200bb",
        "ab",
        "🙂",
        "ß",
        "ss",
        "İ",
        "i",
    ),
    *("x" * 500, "x" * 499, "-", "_", ".", "/", "../x", "1 OR 1=1", "$owner", "\u202eabc"),
]


@pytest.mark.parametrize("attr", ["allowed_groups", "owner"])
async def test_each_value_matches_itself_and_no_look_alike(shelf: Shelf, attr: str) -> None:
    is_list = ATTRIBUTES[attr] is AttributeType.TEXT_LIST
    values: dict[str, dict[str, Any]] = {v: {attr: (v, "everybody") if is_list else v} for v in HOSTILE}
    made = {v: fragment(shelf.tenant, **attributes) for v, attributes in values.items()}
    await shelf.store.insert(shelf.tenant, list(made.values()), budget())
    for value in HOSTILE:
        forms: list[Filter] = (
            [Overlaps(attr, (value,))] if is_list else [Compare(attr, Op.EQ, value), In(attr, (value,))]
        )
        for form in forms:
            assert await shelf.both(access=form) == {made[value].object_id}, (value, form)
        negated = await shelf.both(access=Not(forms[0]))
        assert negated == {f.object_id for v, f in made.items() if v != value}, value


async def test_a_fragment_without_the_attribute_is_seen_by_nobody_who_needs_it(shelf: Shelf) -> None:
    bare = await shelf.put()
    assert await shelf.both(access=Overlaps("allowed_groups", ("hr",))) == set()
    assert await shelf.both(access=Compare("owner", Op.NEQ, "ann")) == set()
    assert await shelf.both(access=Not(Compare("owner", Op.EQ, "ann"))) == {bare.object_id}
    assert await shelf.both(access=IsNull("owner")) == {bare.object_id}


_POOL: Mapping[str, list[Any]] = {
    "owner": ["ann", "bob", "the"],
    "allowed_groups": ["hr", "hr-eu", "HR"],
    "denied_groups": ["hr", "ops"],
    "classification": ["open", "confidential"],
    "labels": ["k:v", "k:w"],
    "level": [0, 1, 2, 5],
    "trust": [1, 2, 3],
    "valid_from": [NOW - 5, NOW - 1],
    "public": [True, False],
}


def _any_attributes(rng: random.Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, pool in _POOL.items():
        if rng.random() < 0.6:
            is_list = ATTRIBUTES[name] is AttributeType.TEXT_LIST
            chosen[name] = tuple(rng.sample(pool, rng.randint(1, len(pool)))) if is_list else rng.choice(pool)
    return chosen


def _leaves(name: str) -> st.SearchStrategy[Filter]:
    values = st.sampled_from(_POOL[name])
    null = st.just(IsNull(name))
    some = st.lists(values, min_size=0, max_size=3, unique=True).map(tuple)
    match ATTRIBUTES[name]:
        case AttributeType.TEXT_LIST:
            return st.one_of(null, some.map(lambda v: Overlaps(name, v)))
        case AttributeType.INT:
            ops, between = st.sampled_from(list(Op)), st.integers(-1, 6) if name != "valid_from" else values
            return st.one_of(null, some.map(lambda v: In(name, v)), st.builds(Compare, st.just(name), ops, between))
        case AttributeType.BOOL:
            return st.one_of(null, st.builds(Compare, st.just(name), st.sampled_from([Op.EQ, Op.NEQ]), values))
        case AttributeType.TEXT:
            equality = st.sampled_from([Op.EQ, Op.NEQ])
            return st.one_of(null, some.map(lambda v: In(name, v)), st.builds(Compare, st.just(name), equality, values))


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of(st.sampled_from([Everything(), Nothing()]), st.sampled_from(sorted(_POOL)).flatmap(_leaves)),
    lambda parts: st.one_of(
        parts.map(Not),
        st.lists(parts, max_size=3).map(lambda p: And(tuple(p))),
        st.lists(parts, max_size=3).map(lambda p: Or(tuple(p))),
    ),
    max_leaves=12,
)


@pytest.fixture(scope="session")
async def assorted(store: Store) -> tuple[Shelf, dict[str, Attributes]]:
    """120 fragments with every mixture of present and absent attributes."""
    rng = random.Random(7)
    shelf = await new_shelf(store)
    made = [fragment(shelf.tenant, **_any_attributes(rng)) for _ in range(120)]
    await store.insert(shelf.tenant, made, budget())
    return shelf, {f.object_id: f.attributes for f in made}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(access=FILTERS)
async def test_the_store_and_the_evaluator_agree_on_every_filter(
    assorted: tuple[Shelf, dict[str, Attributes]], access: Filter
) -> None:
    shelf, attributes = assorted
    expected = {key for key, values in attributes.items() if permits(access, values)}
    try:
        found = await shelf.both(access=access)
    except StoreRejected:
        assert expected == set()  # nothing is not asked
    else:
        assert found == expected


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


# ---- Words and identifiers (R1, R3, R5) -----------------------------------------------------------------------------

IDENTIFIERS = [
    *("CVE-2024-1234", "CVE-2024-12345", "CVE-2024-1235", "ERR_CONN_RESET", "ERR_CONN_REFUSED", "getUserById"),
    *("getUserByName", "MS17-010", "MS17-011", "C++", "C#", "v1.2.3", "v1.2.4", "/usr/lib/python3/site.py"),
    *(
        "/usr/lib/python3/sites.py",
        "E0308",
        "E0309",
        "std::vector",
        "std::vectors",
        "ops@example.com",
        "api.listOrdersOf",
        "ns/dropTableNow/v2",
    ),
]
FILLER = "the service restarted after the network was down and people waited for the report about it to be sent out "


async def test_an_identifier_finds_its_own_fragment_before_any_near_miss(shelf: Shelf) -> None:
    """Near misses are short and repeat themselves; the exact one is said once, in a long fragment of many names."""
    exact: dict[str, StoredFragment] = {}
    for name in IDENTIFIERS:
        exact[name] = await shelf.put(FILLER * 8 + name + f" noise_{len(exact)}_a noise_{len(exact)}_b " + FILLER * 8)
        if name not in ("C++", "C#"):  # their near misses are each other, and C
            await shelf.put(f"{name}x {name}x {name}x {name}0 {name}0 {name}9")
    await shelf.put("C C C")
    for name in IDENTIFIERS:
        for question in (name, f"what happened with {name}?", name.lower()):
            if question == name.lower() and name.isalnum() and name.lower() != name and not any(map(str.isdigit, name)):
                continue  # camel case is lost: only the word is left, which the next assertion covers
            hits = await shelf.lexical(question)
            assert hits[0].object_id == exact[name].object_id, question
        assert exact[name].object_id in {hit.object_id for hit in await shelf.lexical(name.lower())}


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("CVE-2024-1234", "1234"),
        ("ERR_CONN_RESET", "conn reset"),
        ("getUserById", "user"),
        ("getUserById", "getuserbyid"),
        ("MS17-010", "ms17"),
        ("/usr/lib/python3/site.py", "site.py"),
        ("re\u0301sume\u0301", "r\u00e9sum\u00e9"),
        ("r\u00e9sum\u00e9", "re\u0301sume\u0301"),
        ("ＡＢＣ", "abc"),
        ("pass\u00adword", "password"),
        ("zero\u200bwidth", "zerowidth"),
        ("connections", "connected"),
    ],
)
async def test_pieces_forms_and_inflections_are_found(shelf: Shelf, text: str, question: str) -> None:
    made = await shelf.put(text)
    await shelf.put("something else")
    assert [hit.object_id for hit in await shelf.lexical(question)] == [made.object_id]


@pytest.mark.parametrize("question", ["", "  ", "\u200b\u200b", "?!", "the", "to be or not to be"])
async def test_a_question_without_words_gives_no_lexical_hits_and_no_fault(shelf: Shelf, question: str) -> None:
    await shelf.put("to be or not to be, the question")
    assert await shelf.lexical(question) == []


async def test_a_question_of_thirty_kilobytes_is_answered(shelf: Shelf) -> None:
    made = await shelf.put("needle")
    question = " ".join(f"word{n}" for n in range(4_000)) + " needle"
    assert [hit.object_id for hit in await shelf.lexical(question)] == [made.object_id]


# ---- Faults ---------------------------------------------------------------------------------------------------------


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


async def test_an_object_that_weaviate_refuses_is_named_and_the_others_are_written(weaviate: WeaviateStore) -> None:
    shelf = await new_shelf(weaviate)
    good, bad = fragment(shelf.tenant), fragment(shelf.tenant, level="not a number")
    with pytest.raises(StoreRejected) as caught:
        await weaviate.insert(shelf.tenant, [good, bad], budget())
    assert caught.value.object_ids == (bad.object_id,)
    assert "not a number" not in str(caught.value)
    assert await shelf.both() == {good.object_id}


async def test_a_store_that_is_away_is_said_at_once(endpoint: WeaviateEndpoint) -> None:
    away = WeaviateEndpoint("http://127.0.0.1:1", "127.0.0.1:1", endpoint.api_key)
    async with WeaviateStore(away, REPRESENTATION) as store:
        began = time.monotonic()
        for call in (lambda: Shelf(store, TenantId("t")).dense(), lambda: store.check_collection(budget())):
            with pytest.raises(StoreUnavailable):
                await call()
        assert time.monotonic() - began < 5  # the client package would still be sleeping


async def test_a_store_that_never_answers_costs_the_budget_and_no_more(endpoint: WeaviateEndpoint) -> None:
    hanging: list[asyncio.StreamWriter] = []

    def swallow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hanging.append(writer)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(swallow, "127.0.0.1", 0))
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        silent = WeaviateEndpoint(f"http://{address}", address, endpoint.api_key)
        store = await stack.enter_async_context(WeaviateStore(silent, REPRESENTATION))
        shelf = Shelf(store, TenantId("t"))
        began = time.monotonic()
        with pytest.raises(StoreLate):
            await store.dense(shelf.query(), (1, 0, 0, 0), budget(0.2))
        with pytest.raises(StoreLate):
            await store.check_collection(budget(0.2))
        assert time.monotonic() - began < 2
        for writer in hanging:
            writer.close()


async def test_wrong_credentials_are_a_matter_for_the_operator(
    weaviate: WeaviateStore, endpoint: WeaviateEndpoint
) -> None:
    shelf = await new_shelf(weaviate)
    async with WeaviateStore(replace(endpoint, api_key="guess"), REPRESENTATION) as store:
        for call in (lambda: Shelf(store, shelf.tenant).dense(), lambda: store.check_collection(budget())):
            with pytest.raises(StoreMisconfigured) as caught:
                await call()
            assert "guess" not in str(caught.value)
    assert endpoint.api_key not in repr(endpoint)


def _set(path: tuple[str, ...], value: Any) -> Any:
    def change(body: dict[str, Any]) -> None:
        *parents, last = path
        for name in parents:
            body = body[name]
        body[last] = value

    return change


def _set_property(name: str, **values: Any) -> Any:
    def change(body: dict[str, Any]) -> None:
        next(item for item in body["properties"] if item["name"] == name).update(values)

    return change


def _drop_property(name: str) -> Any:
    def change(body: dict[str, Any]) -> None:
        body["properties"] = [item for item in body["properties"] if item["name"] != name]

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_set_property("a_allowed_groups", tokenization="word"), "properties.a_allowed_groups.tokenization"),
        (_set_property("a_owner", tokenization="lowercase"), "properties.a_owner.tokenization"),
        (_set_property("revision_id", tokenization="whitespace"), "properties.revision_id.tokenization"),
        (_set_property("terms", tokenization="word"), "properties.terms.tokenization"),
        (_set_property("a_level", indexFilterable=False), "properties.a_level.indexFilterable"),
        (_set_property("from_seq", indexRangeFilters=False), "properties.from_seq.indexRangeFilters"),
        (_drop_property("a_denied_groups"), "properties.a_denied_groups"),
        (_set(("invertedIndexConfig", "indexNullState"), False), "invertedIndexConfig.indexNullState"),
        (_set(("invertedIndexConfig", "stopwords", "preset"), "en"), "invertedIndexConfig.stopwords.preset"),
        (_set(("invertedIndexConfig", "bm25", "b"), 0.5), "invertedIndexConfig.bm25.b"),
        (_set(("multiTenancyConfig", "autoTenantCreation"), True), "multiTenancyConfig.autoTenantCreation"),
        (_set(("vectorIndexConfig", "distance"), "dot"), "vectorIndexConfig.distance"),
    ],
)
async def test_a_collection_that_would_answer_otherwise_is_refused(
    endpoint: WeaviateEndpoint, change: Any, named: str
) -> None:
    representation = replace(REPRESENTATION, fragmenter=new_id())
    body = copy.deepcopy(collection(representation, 1))
    change(body)
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    async with aiohttp.ClientSession(endpoint.http_url, headers=headers) as session:
        async with session.post("/v1/schema", json=body) as response:
            assert response.status == 200, await response.text()
        async with WeaviateStore(endpoint, representation) as store:
            for call in (store.check_collection, store.ensure_collection):
                with pytest.raises(StoreMisconfigured) as caught:
                    await call(budget())
                assert named in str(caught.value)
        async with session.delete(f"/v1/schema/{body['class']}") as response:
            assert response.status == 200


async def test_a_missing_collection_is_refused_until_it_is_made(endpoint: WeaviateEndpoint) -> None:
    representation = replace(REPRESENTATION, fragmenter=new_id())
    async with WeaviateStore(endpoint, representation) as store:
        with pytest.raises(StoreMisconfigured):
            await store.check_collection(budget())
        await asyncio.gather(*(store.ensure_collection(budget()) for _ in range(3)))  # two processes start at once
        await store.check_collection(budget())
