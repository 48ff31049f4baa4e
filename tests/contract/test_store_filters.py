"""Filters mean in every Store what the evaluator says: hostile values, absent attributes, generated filters."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.attributes import ATTRIBUTES, Attributes, AttributeType
from corpus.store import (
    Store,
    StoreRejected,
)
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
from tests.contract.shelf import NOW, Shelf, budget, fragment, new_shelf

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
