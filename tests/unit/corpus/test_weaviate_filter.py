"""What is asked of Weaviate: never less than the pin, never an empty list, never a missing part."""

import itertools
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weaviate.proto.v1 import base_pb2

from core.document import Span
from core.ids import OPEN_SEQ, FragmentId, RepresentationId, RevisionId, Seq, SourceId, TenantId
from corpus.store import Scope, Selection, StoreQuery, StoreRejected, object_id
from corpus.weaviate_filter import is_empty, search_filter, selection_filter, slots_between
from policy.errors import FilterTooLarge
from policy.filter import And, Compare, Everything, Filter, In, IsNull, Not, Nothing, Op, Or, Overlaps

F = base_pb2.Filters
PIN = [
    ("from_seq", F.OPERATOR_LESS_THAN_EQUAL, 7),
    ("to_seq", F.OPERATOR_GREATER_THAN, 7),
    ("valid_from", F.OPERATOR_LESS_THAN_EQUAL, 100),
    ("valid_to", F.OPERATOR_GREATER_THAN, 100),
]
QUERY = StoreQuery(TenantId("t"), Seq(7), Everything(), valid_at=100, limit=5)


def asked(access: Filter = Everything(), **values: Any) -> list[base_pb2.Filters]:  # noqa: B008 - frozen
    whole = search_filter(replace(QUERY, access=access, **values))
    assert whole.operator == F.OPERATOR_AND
    pin = [(part.target.property, part.operator, part.value_int) for part in whole.filters[:4]]
    assert pin == PIN
    return list(whole.filters[4:])


def every(f: base_pb2.Filters) -> Iterator[base_pb2.Filters]:
    yield f
    for part in f.filters:
        yield from every(part)


def depth(f: base_pb2.Filters) -> int:
    return 1 + max(map(depth, f.filters), default=0)


def test_everything_is_the_pin_and_nothing_else() -> None:
    assert asked(Everything()) == []
    assert asked(Or((Everything(), IsNull("owner")))) == []


@pytest.mark.parametrize(
    "nothing", [Nothing(), Or(()), In("owner", ()), Not(Everything()), And((Nothing(), IsNull("owner")))]
)
def test_nothing_is_not_asked(nothing: Filter) -> None:
    with pytest.raises(StoreRejected):
        search_filter(replace(QUERY, access=nothing))


def test_not_equal_also_asks_for_presence_since_the_stores_matches_what_is_absent() -> None:
    [part] = asked(Compare("owner", Op.NEQ, "ann"))
    assert part.operator == F.OPERATOR_AND
    unequal, present = part.filters
    assert (unequal.operator, unequal.target.property, unequal.value_text) == (F.OPERATOR_NOT_EQUAL, "a_owner", "ann")
    assert (present.operator, present.target.property) == (F.OPERATOR_IS_NULL, "a_owner")
    assert present.HasField("value_boolean")
    assert present.value_boolean is False


def test_values_keep_their_types() -> None:
    [flag] = asked(Compare("public", Op.EQ, False))
    assert flag.HasField("value_boolean")
    assert flag.value_boolean is False
    [level] = asked(Compare("level", Op.LTE, 0))
    assert level.HasField("value_int")
    assert level.value_int == 0
    [levels] = asked(In("level", (1, 3)))
    assert list(levels.value_int_array.values) == [1, 3]
    [groups] = asked(Overlaps("allowed_groups", ("b", "a")))
    assert (groups.operator, list(groups.value_text_array.values)) == (F.OPERATOR_CONTAINS_ANY, ["a", "b"])


def test_scope_and_overlay_are_added_to_the_access() -> None:
    scope = Scope(sources=frozenset({SourceId("s")}), languages=frozenset({"en"}))
    parts = asked(
        Compare("owner", Op.EQ, "ann"),
        scope=scope,
        excluded_revisions=frozenset({RevisionId("r")}),
        excluded_sources=frozenset({SourceId("x")}),
        excluded_fragments=frozenset({FragmentId("f")}),
    )
    named = [(part.target.property, part.operator) for part in parts]
    assert named == [
        ("a_owner", F.OPERATOR_EQUAL),
        ("a_source", F.OPERATOR_CONTAINS_ANY),
        ("a_language", F.OPERATOR_CONTAINS_ANY),
        ("revision_id", F.OPERATOR_CONTAINS_NONE),
        ("a_source", F.OPERATOR_CONTAINS_NONE),
        ("fragment_id", F.OPERATOR_CONTAINS_NONE),
    ]


@pytest.mark.parametrize("name", [field.name for field in fields(Scope)])
def test_an_empty_set_in_the_scope_is_empty_and_is_never_asked(name: str) -> None:
    query = replace(QUERY, scope=Scope(**{name: frozenset()}))
    assert is_empty(query)
    with pytest.raises(StoreRejected):
        search_filter(query)
    assert not is_empty(QUERY)


LEAVES: st.SearchStrategy[Filter] = st.sampled_from(
    [
        *(Everything(), Nothing(), IsNull("level"), Compare("owner", Op.NEQ, "ann"), Compare("level", Op.GT, 3)),
        *(In("owner", ("ann", "bob")), In("owner", ()), Overlaps("labels", ("k:v",)), Overlaps("labels", ())),
    ]
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        parts.map(Not),
        st.lists(parts, max_size=4).map(lambda p: And(tuple(p))),
        st.lists(parts, max_size=4).map(lambda p: Or(tuple(p))),
    ),
    max_leaves=15,
)


@given(FILTERS)
def test_every_message_is_whole_and_flat_enough_for_the_store(access: Filter) -> None:
    try:
        whole = search_filter(replace(QUERY, access=access))
    except (StoreRejected, FilterTooLarge):
        return
    joining = (F.OPERATOR_AND, F.OPERATOR_OR, F.OPERATOR_NOT)
    for part in every(whole):
        assert part.operator != F.OPERATOR_UNSPECIFIED
        assert bool(part.filters) == (part.operator in joining)
        assert bool(part.target.property) != (part.operator in joining)
        assert not part.HasField("value_text_array") or part.value_text_array.values
    assert depth(whole) < 60  # Weaviate's parser gives up at 100


def test_a_filter_nested_too_deep_is_refused() -> None:
    nested: Filter = Compare("owner", Op.EQ, "ann")
    for _ in range(40):
        nested = Not(And((nested, IsNull("level"))))
    with pytest.raises(FilterTooLarge):
        search_filter(replace(QUERY, access=nested))


def test_a_selection_of_documents_binds_each_to_its_source() -> None:
    one = selection_filter(TenantId("t"), Selection(documents=frozenset({(SourceId("s"), "d")})))  # type: ignore[arg-type]
    [pair] = one.filters
    assert [(leaf.target.property, leaf.value_text) for leaf in pair.filters] == [
        ("a_source", "s"),
        ("a_document", "d"),
    ]
    bounded = slots_between(4, 8, one)
    assert [part.value_int for part in bounded.filters[:2]] == [4, 8]
    with pytest.raises(ValueError, match="not by both"):
        Selection(revisions=frozenset(), documents=frozenset())


def test_an_object_id_changes_with_everything_that_makes_a_copy_and_with_nothing_else() -> None:
    variants = itertools.product(
        map(RepresentationId, "ab"),
        map(RevisionId, "rs"),
        (Span(0, 1), Span(0, 2)),
        map(Seq, (1, 2)),
        map(Seq, (3, OPEN_SEQ)),
        (1, 2),
    )
    ids = [object_id(*values) for values in variants]
    assert len(set(ids)) == 64
    assert object_id(RepresentationId("a"), RevisionId("r"), Span(0, 1), Seq(1), Seq(3), 1) == ids[0]
