"""The access filter: what policy lets a principal see, as a typed predicate over `core.attributes.ATTRIBUTES`.

Leaves: Compare (one value), In (a scalar attribute is one of), Overlaps (a list attribute shares a value), IsNull.
A leaf but IsNull on an absent attribute is false; `Not` is plain two-valued negation; the truth table is in
`policy.evaluator`. Construction checks types; `normalise` gives the one form that is asked, compared and digested.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from core.attributes import ATTRIBUTES, AttributeType
from core.errors import InvalidValue
from core.ids import DataRevision, PolicyRevision, clean_text
from core.keys import digest, framed
from policy.errors import FilterTooLarge, IllTypedFilter

MAX_DEPTH = 30  # the store's message parser gives up at 100, its translation adds levels
MAX_NODES = 2_000
MAX_VALUES = 10_000  # over all leaves
MAX_INT = 2**53 - 1  # the store rounds beyond
MAX_TEXT_LENGTH = 5_000  # compares exactly in the store up to here

Scalar: TypeAlias = str | int | bool


class Op(StrEnum):
    """LT, LTE, GT and GTE are for INT attributes only: nothing else has an order that Rego and the store share."""

    EQ = "=="
    NEQ = "!="
    LT = "<"
    LTE = "<="
    GT = ">"
    GTE = ">="


@dataclass(frozen=True, slots=True)
class Everything:
    """True for each fragment of the store: the caller still adds tenant, pin and scope."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """False for each fragment: the store must not be asked at all."""


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; of no parts: true."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One part holds; of no parts: false."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`part` does not hold, be it for an absent attribute."""

    part: "Filter"


@dataclass(frozen=True, slots=True)
class Compare:
    """The attribute is present and compares so with `value`; also NEQ is false when it is absent."""

    attr: str
    op: Op
    value: Scalar

    def __post_init__(self) -> None:
        type_ = _type_of(self.attr)
        if type_ is AttributeType.TEXT_LIST:
            raise IllTypedFilter(f"{self.attr} is a list and can't be compared with one value")
        if self.op not in (Op.EQ, Op.NEQ) and type_ is not AttributeType.INT:
            raise IllTypedFilter(f"{self.attr} is {type_.value} and has no order")
        _check_value(self.attr, type_, self.value)


@dataclass(frozen=True, slots=True)
class In:
    """The attribute (TEXT or INT) is present and equals one of `values`; of no values: false."""

    attr: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        type_ = _type_of(self.attr)
        if type_ not in (AttributeType.TEXT, AttributeType.INT):
            raise IllTypedFilter(f"{self.attr} is {type_.value} and can't be looked up in a list")
        for value in self.values:
            _check_value(self.attr, type_, value)


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The attribute (TEXT_LIST) is present and has one of `values` as a member; of no values: false."""

    attr: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if _type_of(self.attr) is not AttributeType.TEXT_LIST:
            raise IllTypedFilter(f"{self.attr} is not a list and has no members")
        for value in self.values:
            _check_value(self.attr, AttributeType.TEXT, value)


@dataclass(frozen=True, slots=True)
class IsNull:
    """The attribute is absent."""

    attr: str

    def __post_init__(self) -> None:
        _type_of(self.attr)


Filter: TypeAlias = Everything | Nothing | And | Or | Not | Compare | In | Overlaps | IsNull


def _type_of(attr: str) -> AttributeType:
    type_ = ATTRIBUTES.get(attr)
    if type_ is None:
        raise IllTypedFilter(f"{attr} is not an attribute that policy may read")
    return type_


_PYTHON_TYPE: dict[AttributeType, type] = {
    AttributeType.TEXT: str,
    AttributeType.INT: int,
    AttributeType.BOOL: bool,
}


def _check_value(attr: str, type_: AttributeType, value: object) -> None:
    # `type() is`, not isinstance: True is an int in Python and nowhere else
    if type(value) is not _PYTHON_TYPE[type_]:
        raise IllTypedFilter(f"{attr} is {type_.value}, compared with {type(value).__name__}")
    if isinstance(value, str):
        try:
            clean_text(attr, value, limit=MAX_TEXT_LENGTH)
        except InvalidValue as exc:  # the store would trim it and find what the policy did not mean
            raise IllTypedFilter(str(exc)) from exc
    elif isinstance(value, int) and abs(value) > MAX_INT:
        raise IllTypedFilter(f"{attr} is compared with an integer that the store can't hold exactly")


def normalise(f: Filter) -> Filter:
    """The equivalent flat, sorted, merged form; normalising it again changes nothing.

    Raises FilterTooLarge when `f` is nested deeper than MAX_DEPTH or the result is over MAX_NODES or MAX_VALUES.
    """
    _check_depth(f)
    result = _simplify(f)
    nodes, values = _measure(result)
    if nodes > MAX_NODES:
        raise FilterTooLarge("nodes", nodes, MAX_NODES)
    if values > MAX_VALUES:
        raise FilterTooLarge("values", values, MAX_VALUES)
    _check_depth(result)
    return result


def canonical(f: Filter) -> bytes:
    """Bytes that equal filters (after `normalise`) share and different ones do not."""
    return _encode(normalise(f))


def fingerprint(f: Filter, policy_revision: PolicyRevision, data_revision: DataRevision, now: int | None) -> str:
    """Digest of what is seen and by which rules; `now` in seconds since 1970 when policy reads it, else None.

    It must leave the process only as a keyed hash.
    """
    moment: tuple[str | int, ...] = ("any time",) if now is None else ("at", now)
    return digest(canonical(f), policy_revision, data_revision, *moment)


def attributes_in(f: Filter) -> frozenset[str]:
    """The attributes that decide whether the filter permits: what else a fragment has makes no difference."""
    names, queue = set[str](), [f]
    while queue:
        part = queue.pop()
        if isinstance(part, Compare | In | Overlaps | IsNull):
            names.add(part.attr)
        queue.extend(_children(part))
    return frozenset(names)


def describe(f: Filter) -> str:
    """The filter in words, for people who write policies."""
    match f:
        case Everything():
            return "everything"
        case Nothing():
            return "nothing"
        case And(parts):
            return _joined(" and ", parts, describe(Everything()))
        case Or(parts):
            return _joined(" or ", parts, describe(Nothing()))
        case Not(part):
            return f"not ({describe(part)})"
        case Compare(attr, op, value):
            return f"{attr} {op.value} {_word(value)}"
        case In(attr, values):
            return f"{attr} is one of {', '.join(map(_word, values)) or 'no values'}"
        case Overlaps(attr, values):
            return f"{attr} has one of {', '.join(map(_word, values)) or 'no values'}"
        case IsNull(attr):
            return f"{attr} is absent"


def _joined(word: str, parts: tuple[Filter, ...], empty: str) -> str:
    return word.join(f"({describe(p)})" if isinstance(p, And | Or) else describe(p) for p in parts) or empty


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _simplify(f: Filter) -> Filter:
    match f:
        case And(parts):
            return _all_of(map(_simplify, parts))
        case Or(parts):
            return _any_of(map(_simplify, parts))
        case Not(part):
            return _negated(_simplify(part))
        case In(attr, values):
            return _member(attr, values)
        case Overlaps(attr, values):
            return Overlaps(attr, tuple(sorted(set(values)))) if values else Nothing()
        case _:
            return f


def _member(attr: str, values: Iterable[Scalar]) -> Filter:
    unique = sorted(set(values), key=_scalar_order)
    if not unique:
        return Nothing()
    return Compare(attr, Op.EQ, unique[0]) if len(unique) == 1 else In(attr, tuple(unique))


def _scalar_order(value: Scalar) -> tuple[str, int, str]:
    return (type(value).__name__, value, "") if isinstance(value, int) else (type(value).__name__, 0, value)


def _negated(part: Filter) -> Filter:
    match part:
        case Everything():
            return Nothing()
        case Nothing():
            return Everything()
        case Not(inner):
            return inner
        case _:
            return Not(part)


def _all_of(parts: Iterable[Filter]) -> Filter:
    flat: set[Filter] = set()
    for part in parts:
        flat.update(part.parts if isinstance(part, And) else (part,))
    flat.discard(Everything())
    if Nothing() in flat or any(isinstance(part, Not) and part.part in flat for part in flat):
        return Nothing()
    return _combined(flat, And, Everything())


def _any_of(parts: Iterable[Filter]) -> Filter:
    flat: set[Filter] = set()
    for part in parts:
        flat.update(part.parts if isinstance(part, Or) else (part,))
    flat.discard(Nothing())
    if Everything() in flat or any(isinstance(part, Not) and part.part in flat for part in flat):
        return Everything()
    branches = [frozenset(part.parts) if isinstance(part, And) else frozenset((part,)) for part in flat]
    common = frozenset.intersection(*branches) if len(branches) > 1 else frozenset()
    if common:  # (a and b) or (a and c): a and (b or c), since residuals repeat the guards in each query
        rests = [_combined(branch - common, And, Everything()) for branch in branches]
        return _all_of([*common, _any_of(rests)])
    return _combined(_merged_members(flat), Or, Nothing())


def _merged_members(parts: set[Filter]) -> set[Filter]:
    """Equalities of one attribute become one In, overlaps of one attribute one Overlaps."""
    members: dict[str, set[Scalar]] = {}
    overlaps: dict[str, set[str]] = {}
    rest: set[Filter] = set()
    for part in parts:
        match part:
            case Compare(attr, Op.EQ, value) if ATTRIBUTES[attr] is not AttributeType.BOOL:
                members.setdefault(attr, set()).add(value)
            case In(attr, values):
                members.setdefault(attr, set()).update(values)
            case Overlaps(attr, texts):
                overlaps.setdefault(attr, set()).update(texts)
            case _:
                rest.add(part)
    rest.update(_member(attr, values) for attr, values in members.items())
    rest.update(Overlaps(attr, tuple(sorted(texts))) for attr, texts in overlaps.items())
    return rest


def _combined(parts: Iterable[Filter], kind: Callable[[tuple[Filter, ...]], Filter], empty: Filter) -> Filter:
    ordered = sorted(parts, key=_encode)
    if not ordered:
        return empty
    return ordered[0] if len(ordered) == 1 else kind(tuple(ordered))


def _encode(f: Filter) -> bytes:
    match f:
        case Everything() | Nothing():
            return framed([type(f).__name__])
        case And(parts) | Or(parts):
            return framed([type(f).__name__, *map(_encode, parts)])
        case Not(part):
            return framed(["Not", _encode(part)])
        case Compare(attr, op, value):
            return framed(["Compare", attr, op.value, *_scalar_parts(value)])
        case In(attr, values):
            return framed(["In", attr, *(part for value in values for part in _scalar_parts(value))])
        case Overlaps(attr, texts):
            return framed(["Overlaps", attr, *texts])
        case IsNull(attr):
            return framed(["IsNull", attr])


def _scalar_parts(value: Scalar) -> tuple[str, str | int]:
    return (type(value).__name__, value)


def _children(f: Filter) -> tuple[Filter, ...]:
    match f:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
        case _:
            return ()


def _check_depth(f: Filter) -> None:
    """Level by level, not by recursion: a hostile depth must end in FilterTooLarge, not in RecursionError."""
    level: tuple[Filter, ...] = (f,)
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise FilterTooLarge("depth", depth, MAX_DEPTH)
        level = tuple(child for part in level for child in _children(part))


def _measure(f: Filter) -> tuple[int, int]:
    """Nodes and values of the whole tree."""
    nodes, values, queue = 0, 0, [f]
    while queue:
        part = queue.pop()
        nodes += 1
        values += len(part.values) if isinstance(part, In | Overlaps) else 0
        queue.extend(_children(part))
    return nodes, values
