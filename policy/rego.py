"""OPA's JSON syntax trees, read strictly: what is not as expected raises MalformedDecision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from core.attributes import ATTRIBUTES
from policy.errors import IllTypedFilter, MalformedDecision

Json: TypeAlias = Mapping[str, Any]

_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SHAPES: dict[str, type] = {"ref": list, "array": list, "set": list, "object": list, "call": list, "var": str}


@dataclass(frozen=True)
class Location:
    """Where a policy has something; empty and 0 when the engine did not say."""

    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Term:
    """One term: `kind` is OPA's type name, `value` its JSON value."""

    kind: str
    value: Any

    def is_scalar(self) -> bool:
        """A known text, number, boolean or null."""
        return self.kind in _SCALARS

    def scalar(self) -> str | int | bool:
        """The known value; IllTypedFilter for null and fractions, which no attribute has."""
        if self.value is None or isinstance(self.value, float) or not self.is_scalar():
            raise IllTypedFilter("attributes are texts, integers and booleans")
        known: str | int | bool = self.value
        return known

    def path(self) -> tuple[str, ...] | None:
        """The parts of a reference that has only names in it."""
        if self.kind != "ref" or not self.value:
            return None
        head, *rest = map(term, self.value)
        if head.kind != "var" or any(part.kind != "string" for part in rest):
            return None
        return (head.value, *(part.value for part in rest))

    def builtin(self) -> str | None:
        """The name of a called built-in."""
        path = self.path()
        return None if path is None or path[0] in ("data", "input") else ".".join(path)

    def attribute(self) -> str | None:
        """The attribute that `input.fragment.<attribute>` names; IllTypedFilter for one that does not exist."""
        path = self.path()
        if path is None or path[:2] != ("input", "fragment") or len(path) != 3:
            return None
        if path[2] not in ATTRIBUTES:
            raise IllTypedFilter(f"{path[2]} is not an attribute that policy may read")
        return path[2]

    def index_variable(self) -> str | None:
        """The variable of `input.fragment.<attribute>[variable]`."""
        if self.kind != "ref" or len(self.value) != 4:
            return None
        index = term(self.value[3])
        if index.kind != "var":
            return None
        variable: str = index.value
        return variable

    def element_of(self) -> str | None:
        """The attribute of `input.fragment.<attribute>[variable]`."""
        return Term("ref", self.value[:3]).attribute() if self.index_variable() is not None else None

    def members(self) -> list["Term"] | None:
        """The members of a known array or set of scalars."""
        if self.kind not in ("array", "set"):
            return None
        members = [term(part) for part in self.value]
        return members if all(member.is_scalar() for member in members) else None


def scalar(value: Term) -> str | int | bool:
    """`Term.scalar`, for mapping."""
    return value.scalar()


def term(node: object) -> Term:
    """A term whose value has the type that its kind asks for; unknown kinds are kept, for a refusal that names them."""
    read = fields(node, "term", {"type"}, None)
    kind, value = read["type"], read.get("value")
    if not isinstance(kind, str):
        raise MalformedDecision("compile", "a term's type is not a text")
    if kind == "null" and value == {}:  # OPA's spelling
        value = None
    if kind in _SCALARS:
        fits = isinstance(value, _SCALARS[kind]) and (kind != "number" or type(value) is not bool)
    else:
        fits = kind not in _SHAPES or (isinstance(value, _SHAPES[kind]) and not (kind == "ref" and not value))
    if not fits:
        raise MalformedDecision("compile", f"a {kind} has a value of another type")
    return Term(kind, value)


def fields(node: object, what: str, required: set[str], optional: set[str] | None) -> Json:
    """`node` as an object with the required fields, and no others than `optional` unless that is None."""
    if not isinstance(node, dict):
        raise MalformedDecision("compile", f"{what} is not an object")
    if not required <= set(node):
        raise MalformedDecision("compile", f"{what} lacks {min(required - set(node))}")
    if optional is not None and set(node) - required - optional:
        raise MalformedDecision("compile", f"{what} has parts that are not known here")
    return node


def array(node: object, what: str) -> list[Any]:
    """`node` as an array."""
    if not isinstance(node, list):
        raise MalformedDecision("compile", f"{what} is not an array")
    return node


def call_terms(terms: object) -> tuple[Term, list[Term]]:
    """The operator and the operands of a call."""
    operator, *operands = map(term, array(terms, "terms") or [None])
    return operator, operands


def location(node: Json) -> Location:
    """Where the policy has it."""
    given = node.get("location")
    if not isinstance(given, dict):
        return Location()
    file, line = given.get("file", ""), given.get("row", 0)
    return Location(file, line) if isinstance(file, str) and type(line) is int else Location()


def render(expression: Json) -> str:
    """An expression for people, known values left out: they are a principal's, and errors are logged."""
    terms = expression.get("terms")
    shown = "not " if expression.get("negated") is True else ""
    if isinstance(terms, list) and terms:
        operator, *operands = map(_render, terms)
        return f"{shown}{operator}({', '.join(operands)})"
    return shown + (_render(terms) if isinstance(terms, dict) and "type" in terms else "every …")


def _render(node: object) -> str:
    shown = term(node)
    if shown.kind == "var":
        return str(shown.value)
    if shown.kind == "ref":
        head, *rest = map(term, shown.value)
        parts = (f".{part.value}" if part.kind == "string" else f"[{_render_part(part)}]" for part in rest)
        return _render_part(head) + "".join(parts)
    return f"<{shown.kind}>"


def _render_part(part: Term) -> str:
    return str(part.value) if part.kind == "var" else f"<{part.kind}>"
