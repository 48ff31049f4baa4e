"""Normalising keeps the meaning and gives one form; what is ill-typed or too large is refused."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.attributes import ATTRIBUTES, Attributes, AttributeType
from core.ids import DataRevision, PolicyRevision
from policy.errors import FilterTooLarge, IllTypedFilter
from policy.evaluator import permits
from policy.filter import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_VALUES,
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
    attributes_in,
    canonical,
    describe,
    fingerprint,
    normalise,
)

ATTRS = ("owner", "language", "level", "public", "labels", "allowed_groups")
TEXTS = st.sampled_from(["a", "b", "c"])
INTS = st.integers(0, 3)


def _leaf(attr: str) -> st.SearchStrategy[Filter]:
    null: st.SearchStrategy[Filter] = st.just(IsNull(attr))
    match ATTRIBUTES[attr]:
        case AttributeType.TEXT_LIST:
            return null | st.builds(Overlaps, st.just(attr), st.lists(TEXTS, max_size=3).map(tuple))
        case AttributeType.TEXT:
            equal = st.builds(Compare, st.just(attr), st.sampled_from([Op.EQ, Op.NEQ]), TEXTS)
            return null | equal | st.builds(In, st.just(attr), st.lists(TEXTS, max_size=3).map(tuple))
        case AttributeType.INT:
            compare = st.builds(Compare, st.just(attr), st.sampled_from(Op), INTS)
            return null | compare | st.builds(In, st.just(attr), st.lists(INTS, max_size=3).map(tuple))
        case AttributeType.BOOL:
            return null | st.builds(Compare, st.just(attr), st.sampled_from([Op.EQ, Op.NEQ]), st.booleans())


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.sampled_from(ATTRS).flatmap(_leaf) | st.sampled_from([Everything(), Nothing()]),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, max_size=4).map(tuple))
        | st.builds(Or, st.lists(inner, max_size=4).map(tuple))
    ),
    max_leaves=12,
)
ATTRIBUTE_SETS = st.fixed_dictionaries(
    {},
    optional={
        "owner": TEXTS,
        "language": TEXTS,
        "level": INTS,
        "public": st.booleans(),
        "labels": st.lists(TEXTS, min_size=1, max_size=2, unique=True).map(tuple),
        "allowed_groups": st.lists(TEXTS, min_size=1, max_size=2, unique=True).map(tuple),
    },
)


@given(f=FILTERS, sets=st.lists(ATTRIBUTE_SETS, min_size=1, max_size=10))
def test_normalising_keeps_the_meaning(f: Filter, sets: list[Attributes]) -> None:
    flat = normalise(f)
    for attributes in sets:
        assert permits(flat, attributes) == permits(f, attributes)


@given(f=FILTERS, ours=ATTRIBUTE_SETS, others=ATTRIBUTE_SETS)
def test_only_the_named_attributes_decide(f: Filter, ours: Attributes, others: Attributes) -> None:
    named = attributes_in(f)
    mixed = {k: v for k, v in ours.items() if k in named} | {k: v for k, v in others.items() if k not in named}
    assert permits(f, mixed) == permits(f, ours)


@given(f=FILTERS)
def test_normalising_again_changes_nothing(f: Filter) -> None:
    assert normalise(normalise(f)) == normalise(f)


@given(f=FILTERS)
def test_normal_form_is_flat(f: Filter) -> None:
    def check(part: Filter) -> None:
        match part:
            case And(parts) | Or(parts):
                assert len(parts) >= 2
                assert not any(isinstance(child, type(part) | Everything | Nothing) for child in parts)
                for child in parts:
                    check(child)
            case Not(child):
                assert not isinstance(child, Not | Everything | Nothing)
                check(child)
            case In(_, values) | Overlaps(_, values):
                assert len(values) == len(set(values)) > 0

    check(normalise(f))


@given(f=FILTERS, order=st.randoms())
def test_order_and_repetition_do_not_matter(f: Filter, order: Random) -> None:
    if isinstance(f, And | Or):
        parts = [*f.parts, *f.parts]
        order.shuffle(parts)
        assert canonical(type(f)(tuple(parts))) == canonical(f)


def test_equalities_and_overlaps_are_merged_and_guards_factored_out() -> None:
    guard = Compare("tenant", Op.EQ, "t")
    f = Or(
        (
            And((guard, Compare("owner", Op.EQ, "b"))),
            And((guard, Compare("owner", Op.EQ, "a"))),
            And((guard, Overlaps("allowed_groups", ("y",)))),
            And((guard, Overlaps("allowed_groups", ("x", "y")))),
        )
    )
    merged = Or((Overlaps("allowed_groups", ("x", "y")), In("owner", ("a", "b"))))
    assert normalise(f) == normalise(And((merged, guard)))
    assert "owner is one of 'a', 'b'" in describe(normalise(f))
    assert describe(normalise(f)).count("tenant == 't'") == 1


@pytest.mark.parametrize("empty", [In("owner", ()), Overlaps("allowed_groups", ()), Or(())])
def test_empty_lists_mean_nothing(empty: Filter) -> None:
    assert normalise(empty) == Nothing()
    assert not permits(empty, {"owner": "a", "allowed_groups": ("a",)})
    assert normalise(Not(empty)) == Everything()


@pytest.mark.parametrize(
    ("f", "absent", "same", "other"),
    [
        (Compare("level", Op.EQ, 2), False, True, False),
        (Compare("level", Op.NEQ, 2), False, False, True),
        (Compare("level", Op.LT, 2), False, False, False),
        (Compare("level", Op.LTE, 2), False, True, False),
        (Compare("level", Op.GT, 2), False, False, True),
        (Compare("level", Op.GTE, 2), False, True, True),
        (In("level", (1, 2)), False, True, False),
        (IsNull("level"), True, False, False),
        (Not(Compare("level", Op.EQ, 2)), True, False, True),
        (Not(Compare("level", Op.NEQ, 2)), True, True, False),
    ],
)
def test_truth_table(f: Filter, absent: bool, same: bool, other: bool) -> None:
    assert [permits(f, {}), permits(f, {"level": 2}), permits(f, {"level": 3})] == [absent, same, other]


def test_true_is_not_one() -> None:
    assert not permits(Compare("level", Op.EQ, 1), {"level": True})
    assert not permits(Compare("public", Op.EQ, True), {"public": 1})


@pytest.mark.parametrize(
    ("attr", "op", "value"),
    [
        ("colour", Op.EQ, "red"),
        ("level", Op.EQ, "3"),
        ("level", Op.LTE, True),
        ("owner", Op.EQ, 3),
        ("owner", Op.LT, "b"),
        ("public", Op.EQ, 1),
        ("public", Op.GT, False),
        ("labels", Op.EQ, "a"),
        ("level", Op.EQ, 2**53),
        ("owner", Op.EQ, ""),
        ("owner", Op.EQ, "a "),
        ("owner", Op.EQ, "\u00a0a"),
        ("owner", Op.EQ, "a\x00"),
        ("owner", Op.EQ, "\ud800"),
    ],
)
def test_ill_typed_comparisons_are_refused(attr: str, op: Op, value: str | int | bool) -> None:
    with pytest.raises(IllTypedFilter):
        Compare(attr, op, value)


def test_ill_typed_lists_are_refused() -> None:
    for attr, values in (("labels", ("a",)), ("public", (True,)), ("level", ("a",)), ("owner", (1,)), ("no", ("a",))):
        with pytest.raises(IllTypedFilter):
            In(attr, values)
    for attr, texts in (("owner", ("a",)), ("labels", (1,)), ("labels", ("",))):
        with pytest.raises(IllTypedFilter):
            Overlaps(attr, texts)  # type: ignore[arg-type]
    with pytest.raises(IllTypedFilter):
        IsNull("no")


def test_depth_is_bounded_without_recursion() -> None:
    f: Filter = IsNull("owner")
    for i in range(20_000):
        f = And((f, IsNull("level"))) if i % 2 else Or((f, IsNull("public")))
    with pytest.raises(FilterTooLarge) as refusal:
        normalise(f)
    assert (refusal.value.measure, refusal.value.limit) == ("depth", MAX_DEPTH)


def test_size_is_bounded() -> None:
    nodes = And(tuple(Not(Compare("owner", Op.EQ, f"o{i}")) for i in range(MAX_NODES // 2 + 1)))
    with pytest.raises(FilterTooLarge, match="nodes"):
        normalise(nodes)
    values = Overlaps("allowed_groups", tuple(f"g{i}" for i in range(MAX_VALUES + 1)))
    with pytest.raises(FilterTooLarge, match="values"):
        normalise(values)


def test_fingerprint_depends_on_all_that_decides() -> None:
    f = Compare("owner", Op.EQ, "a")
    p1, p2, d0, d1 = PolicyRevision("p-1"), PolicyRevision("p-2"), DataRevision(0), DataRevision(1)
    prints = [
        fingerprint(f, p1, d0, None),
        fingerprint(Compare("owner", Op.EQ, "b"), p1, d0, None),
        fingerprint(f, p2, d0, None),
        fingerprint(f, p1, d1, None),
        fingerprint(f, p1, d0, 5),
        fingerprint(f, p1, d0, 6),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(And((f, f)), p1, d0, None) == prints[0]


def test_values_that_look_alike_have_different_bytes() -> None:
    forms: list[Filter] = [
        In("owner", ("a", "b")),
        In("owner", ("a,b", "c")),
        In("language", ("a", "b")),
        Overlaps("labels", ("a", "b")),
        Compare("owner", Op.EQ, "1"),
        Compare("level", Op.EQ, 1),
        Compare("public", Op.EQ, True),
    ]
    assert len({canonical(f) for f in forms}) == len(forms)
