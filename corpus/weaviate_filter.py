"""The access algebra and the pin in Weaviate's filter language; part of the store adapter.

Null semantics (`policy.evaluator` has the truth table; the contract suite compares both on generated filters):
Weaviate's NotEqual matches objects that lack the property, Rego's undefined is false: so NEQ becomes NotEqual AND
present. Its Not is the plain complement, as the algebra's: nothing to add. Every message is built by us, not by the
client's helpers, which silently drop a None among the parts.
"""

from collections.abc import Iterable
from functools import lru_cache

from weaviate.proto.v1 import base_pb2

from core.attributes import ATTRIBUTES, AttributeType
from core.ids import OPEN_SEQ, DocumentId, SourceId, TenantId
from corpus.store import Selection, StoreQuery, StoreRejected
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
    Scalar,
    normalise,
)

ATTRIBUTE_PREFIX = "a_"

# Properties that are ours, not policy's.
FRAGMENT_ID = "fragment_id"
REVISION_ID = "revision_id"
FROM_SEQ = "from_seq"
TO_SEQ = "to_seq"
SLOT = "slot"
VALID_FROM = "valid_from"  # unlike policy's a_valid_from never null: an open side holds the bounds below
VALID_TO = "valid_to"
EARLIEST = -OPEN_SEQ
LATEST = int(OPEN_SEQ)

_F = base_pb2.Filters
_OPERATORS = {
    Op.EQ: _F.OPERATOR_EQUAL,
    Op.NEQ: _F.OPERATOR_NOT_EQUAL,
    Op.LT: _F.OPERATOR_LESS_THAN,
    Op.LTE: _F.OPERATOR_LESS_THAN_EQUAL,
    Op.GT: _F.OPERATOR_GREATER_THAN,
    Op.GTE: _F.OPERATOR_GREATER_THAN_EQUAL,
}


def attribute_property(attr: str) -> str:
    """The property that holds an attribute."""
    return ATTRIBUTE_PREFIX + attr


def search_filter(query: StoreQuery) -> base_pb2.Filters:
    """Policy AND pin AND scope AND NOT overlay, flat at the top.

    Raises StoreRejected where nothing can match: an access of Nothing, or an empty set in the scope (`is_empty`).
    """
    parts = [
        _int_leaf(FROM_SEQ, _F.OPERATOR_LESS_THAN_EQUAL, query.seq),
        _int_leaf(TO_SEQ, _F.OPERATOR_GREATER_THAN, query.seq),
        _int_leaf(VALID_FROM, _F.OPERATOR_LESS_THAN_EQUAL, query.valid_at),
        _int_leaf(VALID_TO, _F.OPERATOR_GREATER_THAN, query.valid_at),
    ]
    access = access_filter(query.access)
    if access is not None:
        parts.append(access)
    scope = query.scope
    for name, wanted in (("source", scope.sources), ("document", scope.documents), ("language", scope.languages)):
        if wanted is not None:
            parts.append(any_of_texts(attribute_property(name), wanted))
    excluded: tuple[tuple[str, frozenset[str]], ...] = (
        (REVISION_ID, frozenset(query.excluded_revisions)),
        (attribute_property("source"), frozenset(query.excluded_sources)),
        (FRAGMENT_ID, frozenset(query.excluded_fragments)),
    )
    parts += [_texts(name, _F.OPERATOR_CONTAINS_NONE, values) for name, values in excluded if values]
    return _F(operator=_F.OPERATOR_AND, filters=parts)


def is_empty(query: StoreQuery) -> bool:
    """Whether the scope can match nothing: an empty list is no condition to Weaviate, and an error to its client."""
    scope = query.scope
    return any(wanted is not None and not wanted for wanted in (scope.sources, scope.documents, scope.languages))


@lru_cache(maxsize=256)
def access_filter(access: Filter) -> base_pb2.Filters | None:
    """The translated access; None for Everything. The message is shared: never change it.

    Raises StoreRejected for Nothing, FilterTooLarge for what the algebra's bounds refuse.
    """
    normal = normalise(access)
    if isinstance(normal, Nothing):
        raise StoreRejected("a filter that permits nothing must not be asked")
    return None if isinstance(normal, Everything) else _translated(normal)


def selection_filter(tenant_id: TenantId, chunk: Selection) -> base_pb2.Filters:
    """The objects of a selection; of the whole tenant where it selects neither revisions nor documents."""
    if chunk.revisions is not None:
        return any_of_texts(REVISION_ID, chunk.revisions)
    if chunk.documents is not None:
        return _joined(_F.OPERATOR_OR, [_document(source, name) for source, name in sorted(chunk.documents)])
    return _translated(Compare("tenant", Op.EQ, tenant_id))


def slots_between(low: int, high: int, within: base_pb2.Filters) -> base_pb2.Filters:
    """`within`, restricted to slots of `[low, high)`."""
    bounds = [_int_leaf(SLOT, _F.OPERATOR_GREATER_THAN_EQUAL, low), _int_leaf(SLOT, _F.OPERATOR_LESS_THAN, high)]
    return _F(operator=_F.OPERATOR_AND, filters=[*bounds, within])


def any_of_texts(name: str, values: Iterable[str]) -> base_pb2.Filters:
    """The property (or a member of it) is one of `values`; StoreRejected when there are none."""
    return _texts(name, _F.OPERATOR_CONTAINS_ANY, values)


def _document(source_id: SourceId, document_id: DocumentId) -> base_pb2.Filters:
    leaves = (Compare("source", Op.EQ, source_id), Compare("document", Op.EQ, document_id))
    return _joined(_F.OPERATOR_AND, map(_translated, leaves))


def _translated(f: Filter) -> base_pb2.Filters:
    """Of a normalised filter: Everything and Nothing are only ever its root."""
    match f:
        case And(parts):
            return _joined(_F.OPERATOR_AND, map(_translated, parts))
        case Or(parts):
            return _joined(_F.OPERATOR_OR, map(_translated, parts))
        case Not(part):
            return _F(operator=_F.OPERATOR_NOT, filters=[_translated(part)])
        case Compare(attr, op, value):
            leaf = _scalar_leaf(attr, op, value)
            return _joined(_F.OPERATOR_AND, [leaf, _null_leaf(attr, False)]) if op is Op.NEQ else leaf
        case In(attr, values):
            return _members(attr, values)
        case Overlaps(attr, texts):
            return any_of_texts(attribute_property(attr), texts)
        case IsNull(attr):
            return _null_leaf(attr, True)
        case Everything() | Nothing():
            raise StoreRejected("an access filter was not normalised")


def _scalar_leaf(attr: str, op: Op, value: Scalar) -> base_pb2.Filters:
    leaf = _F(operator=_OPERATORS[op], target=_target(attribute_property(attr)))
    if isinstance(value, bool):  # before int: True is an int
        leaf.value_boolean = value
    elif isinstance(value, int):
        leaf.value_int = value
    else:
        leaf.value_text = value
    return leaf


def _members(attr: str, values: tuple[Scalar, ...]) -> base_pb2.Filters:
    if ATTRIBUTES[attr] is AttributeType.INT:
        numbers = base_pb2.IntArray(values=[int(value) for value in values])
        target = _target(attribute_property(attr))
        return _F(operator=_F.OPERATOR_CONTAINS_ANY, target=target, value_int_array=numbers)
    return any_of_texts(attribute_property(attr), map(str, values))


def _texts(name: str, operator: base_pb2.Filters.Operator, values: Iterable[str]) -> base_pb2.Filters:
    listed = sorted(values)
    if not listed:
        raise StoreRejected(f"an empty list of {name} must not be asked")
    return _F(operator=operator, target=_target(name), value_text_array=base_pb2.TextArray(values=listed))


def _null_leaf(attr: str, null: bool) -> base_pb2.Filters:
    return _F(operator=_F.OPERATOR_IS_NULL, target=_target(attribute_property(attr)), value_boolean=null)


def _int_leaf(name: str, operator: base_pb2.Filters.Operator, value: int) -> base_pb2.Filters:
    return _F(operator=operator, target=_target(name), value_int=value)


def _joined(operator: base_pb2.Filters.Operator, parts: Iterable[base_pb2.Filters]) -> base_pb2.Filters:
    return _F(operator=operator, filters=list(parts))


def _target(name: str) -> base_pb2.FilterTarget:
    return base_pb2.FilterTarget(property=name)
