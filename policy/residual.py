"""From what OPA leaves of `include` when the fragment is unknown to a filter, exactly or not at all.

Input is the JSON of the classic Compile API. Accepted is what the table of idioms names; anything else raises, so a
condition is never dropped and a filter never partial. Variables other than the index of one list element, `with`,
`else`, `default`, `every`, comprehensions and calls of other built-ins are refused.

What OPA's partial evaluation loses (tried on 1.22.3): an attribute that is bound to a variable or an argument before it
is negated (`o := input.fragment.owner; not o == "a"`) must be defined in full evaluation, but leaves the same residual
as `not input.fragment.owner == "a"`, which is true without an owner. The filter then lets through what the second
check, which evaluates in full, does not release.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeGuard

from core.attributes import ATTRIBUTES, AttributeType
from core.ids import DataRevision, PolicyRevision
from policy.errors import IllTypedFilter, MalformedDecision, RevisionUnproved, UntranslatableResidual
from policy.filter import And, Compare, Filter, In, IsNull, Not, Nothing, Op, Or, Overlaps, normalise
from policy.rego import Json, Term, array, call_terms, fields, location, render, scalar, term

QUERY: Final = (
    "data.muniment.authz.include == true; rev = data.muniment.authz.revision; "
    "data_rev = data.muniment.authz.data_revision; reads_now = data.muniment.authz.reads_now"
)
UNKNOWNS: Final = ("input.fragment",)

MAX_QUERIES = 2_000
MAX_SPELLED_OUT_VALUES = 200  # of one list attribute, one expression each: beyond, OPA itself gets slow
MAX_NESTED_RULES = 10
MAX_INLINED_RULES = 10_000  # rules that use rules grow by multiplication

_MIRRORED = {Op.EQ: Op.EQ, Op.NEQ: Op.NEQ, Op.LT: Op.GT, Op.LTE: Op.GTE, Op.GT: Op.LT, Op.GTE: Op.LTE}
_OPERATORS = {"eq": Op.EQ, "equal": Op.EQ, "neq": Op.NEQ, "lt": Op.LT, "lte": Op.LTE, "gt": Op.GT, "gte": Op.GTE}
_PROOFS = ("rev", "data_rev", "reads_now")
_ADVICE = "only comparisons of one attribute with known values, `in`, `some … in` and `not` become a filter"


@dataclass(frozen=True)
class RevisionProof:
    """By which rules and data a residual was made, from the same evaluation; `reads_now`: it holds for this `now`."""

    policy_revision: PolicyRevision
    data_revision: DataRevision
    reads_now: bool


@dataclass(frozen=True)
class Residual:
    """A normalised filter; `proof` is None when nothing was left: then the filter is Nothing and proves nothing."""

    filter: Filter
    proof: RevisionProof | None


def translate(response: object) -> Residual:
    """The filter that a whole response of the Compile API to QUERY means.

    Raises UntranslatableResidual (the policy's author must change it), RevisionUnproved, FilterTooLarge, and
    MalformedDecision for what is no such response.
    """
    result = fields(fields(response, "response", {"result"}, {"metrics", "warning"})["result"], "result", set(), None)
    unknown = set(result) - {"queries", "support"}
    if unknown:
        raise MalformedDecision("compile", "the result has parts that are not known here")
    if "queries" not in result:
        return Residual(Nothing(), None)
    queries = [array(query, "query") for query in array(result["queries"], "queries")]
    if not queries:
        return Residual(Nothing(), None)
    if len(queries) > MAX_QUERIES:
        raise UntranslatableResidual("", 0, f"{len(queries)} alternatives", f"at most {MAX_QUERIES} are translated")
    translator = _Translator(_support_rules(result.get("support", [])))
    proofs: set[RevisionProof] = set()
    alternatives = []
    for query in queries:
        proof, conditions = _split(query)
        proofs.add(proof)
        alternatives.append(translator.conjunction(conditions, 0))
    if len(proofs) != 1:
        raise RevisionUnproved("alternatives of one answer name different revisions")
    return Residual(normalise(Or(tuple(alternatives))), proofs.pop())


def _split(query: Sequence[Json]) -> tuple[RevisionProof, list[Json]]:
    """The revisions that a query proves, and its other expressions."""
    found: dict[str, object] = {}
    conditions: list[Json] = []
    for expression in map(_expression_object, query):
        binding = _binding(expression)
        if binding is None:
            conditions.append(expression)
            continue
        name, value = binding
        if name in found:
            raise RevisionUnproved(f"{name} is bound twice")
        found[name] = value
    return _proof(found), conditions


def _expression_object(node: object) -> Json:
    return fields(node, "expression", {"terms"}, None)


def _proof(found: Mapping[str, object]) -> RevisionProof:
    policy, data, reads_now = (found.get(name) for name in _PROOFS)
    if not isinstance(policy, str) or not policy:
        raise RevisionUnproved("an alternative does not prove the policy revision")
    if type(data) is not int or data < 0:
        raise RevisionUnproved("an alternative does not prove the data revision")
    if type(reads_now) is not bool:
        raise RevisionUnproved("an alternative does not say whether policy reads the time")
    return RevisionProof(PolicyRevision(policy), DataRevision(data), reads_now)


def _binding(expression: Json) -> tuple[str, object] | None:
    """`rev = "…"` and its like, else None."""
    if set(expression) - {"index", "terms", "location"} or not isinstance(expression.get("terms"), list):
        return None
    operator, operands = call_terms(expression["terms"])
    if operator.builtin() != "eq" or len(operands) != 2:
        return None
    for variable, value in (operands, reversed(operands)):
        if variable.kind == "var" and variable.value in _PROOFS and value.is_scalar():
            return str(variable.value), value.value
    return None


def _support_rules(support: object) -> dict[tuple[str, ...], list[Json]]:
    """The rules of the support modules by their path below `data`."""
    rules: dict[tuple[str, ...], list[Json]] = {}
    for module in array(support, "support"):
        package = fields(module, "support module", {"package", "rules"}, None)
        path = term({"type": "ref", "value": fields(package["package"], "package", {"path"}, None)["path"]}).path()
        if path is None or path[0] != "data":
            raise MalformedDecision("compile", "a support module's package is not below data")
        for rule in array(package["rules"], "rules"):
            head = fields(fields(rule, "rule", {"head", "body"}, None)["head"], "rule head", set(), None)
            name = head.get("name")
            if isinstance(name, str):  # a rule without a plain name is found by nobody, and whoever needs it is refused
                rules.setdefault((*path[1:], name), []).append(rule)
    return rules


class _Translator:
    """Translates the expressions of one response; refuses by raising."""

    def __init__(self, rules: Mapping[tuple[str, ...], Sequence[Json]]) -> None:
        self._rules = rules
        self._spelled_out: dict[str, set[str]] = {}
        self._inlined = 0

    def conjunction(self, expressions: Sequence[Json], nesting: int) -> Filter:
        """All of `expressions`; `nesting` counts the support rules around them."""
        occurrences = Counter(name for expression in expressions for name in _variables(expression))
        return And(tuple(self._expression(expression, occurrences, nesting) for expression in expressions))

    def _expression(self, expression: Json, occurrences: Counter[str], nesting: int) -> Filter:
        unknown = set(expression) - {"index", "terms", "location", "negated"}
        if unknown:
            _refuse(expression, f"`{min(unknown)}` can't become a filter: {_ADVICE}")
        negated = expression.get("negated", False)
        if type(negated) is not bool:
            raise MalformedDecision("compile", "`negated` is not a boolean")
        try:
            positive = self._positive(expression, occurrences, nesting, negated=negated)
        except IllTypedFilter as exc:
            where = location(expression)
            raise UntranslatableResidual(where.file, where.line, render(expression), str(exc)) from exc
        if not negated:
            return positive
        return And((Not(positive), *_hoisted(expression)))

    def _positive(self, expression: Json, occurrences: Counter[str], nesting: int, *, negated: bool) -> Filter:
        terms = expression.get("terms")
        if isinstance(terms, dict):
            bare = term(terms) if "type" in terms else _refuse(expression, f"`every` can't become a filter: {_ADVICE}")
            path = bare.path()
            if negated and path is not None and path[:2] == ("data", "partial"):
                return self._rule(expression, path[1:], nesting)
            return _bare(expression, bare)
        operator, operands = call_terms(terms)
        name = operator.builtin()
        if name is None or len(operands) != 2:
            _refuse(expression, f"this call can't become a filter: {_ADVICE}")
        left, right = operands
        elements = {variable for operand in operands if (variable := operand.index_variable()) is not None}
        if any(occurrences[variable] != 1 for variable in elements):
            _refuse(expression, "one list element in two conditions can't become a filter: write `g in known_values`")
        if name == "internal.member_2":
            return self._membership(expression, left, right)
        if name in _OPERATORS:
            return self._comparison(expression, _OPERATORS[name], left, right)
        return _refuse(expression, f"{name} can't become a filter: {_ADVICE}")

    def _rule(self, expression: Json, path: tuple[str, ...], nesting: int) -> Filter:
        """The support rule at `path` in full: one of its bodies holds."""
        if nesting >= MAX_NESTED_RULES:
            _refuse(expression, f"`not` is nested deeper than {MAX_NESTED_RULES} rules")
        rules = self._rules.get(path)
        if not rules:
            _refuse(expression, "the rule under `not` is not in the answer")
        self._inlined += 1
        if self._inlined > MAX_INLINED_RULES:
            _refuse(expression, f"over {MAX_INLINED_RULES} uses of rules under `not`")
        return Or(tuple(self.conjunction(_body(rule, expression), nesting + 1) for rule in rules))

    def _membership(self, expression: Json, member: Term, collection: Term) -> Filter:
        known = collection.members()
        if known is not None:
            attr = member.attribute()
            if attr is not None:
                return In(attr, tuple(scalar(value) for value in known))
            attr = member.element_of()
            if attr is not None:
                return Overlaps(attr, _texts(expression, known))
        attr = collection.attribute()
        if attr is not None and member.is_scalar():
            return self._spelled(expression, attr, member)
        return _refuse(expression, f"this membership can't become a filter: {_ADVICE}")

    def _comparison(self, expression: Json, op: Op, left: Term, right: Term) -> Filter:
        unknown, known = (right, left) if left.is_scalar() else (left, right)
        if not known.is_scalar():
            _refuse(expression, f"two unknown sides, or no single value: {_ADVICE}")
        if unknown is right:
            op = _MIRRORED[op]
        attr = unknown.attribute()
        if attr is not None:
            return _null_comparison(expression, attr, op) if known.kind == "null" else Compare(attr, op, known.scalar())
        attr = unknown.element_of()
        if attr is not None and op is Op.EQ:
            return self._spelled(expression, attr, known)
        return _refuse(expression, f"this comparison can't become a filter: {_ADVICE}")

    def _spelled(self, expression: Json, attr: str, value: Term) -> Filter:
        """One value in a list attribute: what a loop over known values leaves once for each."""
        (text,) = _texts(expression, [value])
        seen = self._spelled_out.setdefault(attr, set())
        seen.add(text)
        if len(seen) > MAX_SPELLED_OUT_VALUES:
            advice = f"over {MAX_SPELLED_OUT_VALUES} values one by one: write `some g in input.fragment.{attr}; g in …`"
            _refuse(expression, advice)
        return Overlaps(attr, (text,))


def _body(rule: Json, expression: Json) -> Sequence[Json]:
    """A support rule's body; refuses one whose truth is more than that its body holds."""
    head = fields(rule["head"], "rule head", {"name", "value"}, None)
    value = term(head["value"])
    plain = set(rule) <= {"head", "body", "location"} and set(head) <= {"name", "value", "ref", "location", "assign"}
    ref = [part.value for part in map(term, array(head.get("ref", []), "ref"))]
    if not plain or value.kind != "boolean" or value.value is not True or ref not in ([], [head["name"]]):
        advice = "a rule under `not` must be true or undefined: no `default`, no `else`, no other value, no arguments"
        _refuse(rule if "location" in rule else expression, advice, expression)
    return [_expression_object(part) for part in array(rule["body"], "body")]


def _hoisted(expression: Json) -> list[Filter]:
    """What OPA evaluates before a negation, and so demands to be defined: an attribute under a built-in but equality.

    `not input.fragment.level > 3` is false without a level, for OPA reads the level first; the residual does not show
    it. Through a rule (`not too_high`) it is true, and the residual has the rule.
    """
    terms = expression["terms"]
    if not isinstance(terms, list):
        return []
    operator, operands = call_terms(terms)
    if operator.builtin() in ("eq", "equal"):
        return []
    attrs = (operand.attribute() or operand.element_of() for operand in operands)
    return [Not(IsNull(attr)) for attr in attrs if attr is not None]


def _bare(expression: Json, bare: Term) -> Filter:
    attr = bare.attribute()
    if attr is None or ATTRIBUTES[attr] is not AttributeType.BOOL:
        path = bare.path() or ("",)
        if path[0] == "data":
            _refuse(expression, "this rule has a `default`, an `else` or other values than true: write it without")
        _refuse(
            expression, f"only a boolean attribute can stand alone; to ask for presence compare with null: {_ADVICE}"
        )
    return Compare(attr, Op.EQ, True)


def _null_comparison(expression: Json, attr: str, op: Op) -> Filter:
    """An attribute is never an explicit null: equality is never true, inequality is presence."""
    if op is Op.EQ:
        return Nothing()
    if op is Op.NEQ:
        return Not(IsNull(attr))
    return _refuse(expression, "null has no order")


def _texts(expression: Json, values: Sequence[Term]) -> tuple[str, ...]:
    texts = tuple(value.value for value in values if isinstance(value.value, str) and value.kind == "string")
    if len(texts) != len(values):
        _refuse(expression, "members of a list attribute are compared with texts only")
    return texts


def _variables(expression: Json) -> list[str]:
    """Names of all variables anywhere in an expression, each occurrence; heads of references are none."""
    names: list[str] = []
    queue: list[tuple[object, bool]] = [(expression.get("terms"), False)]
    while queue:
        node, is_head = queue.pop()
        if isinstance(node, list):
            queue.extend((part, False) for part in node)
        elif isinstance(node, dict):
            value = node.get("value")
            if node.get("type") == "var" and isinstance(value, str) and not is_head:
                names.append(value)
            elif node.get("type") == "ref" and isinstance(value, list):
                queue.extend((part, position == 0 and _is_document(part)) for position, part in enumerate(value))
            else:
                queue.extend((part, False) for part in node.values())
    return names


def _is_document(head: object) -> TypeGuard[Json]:
    return isinstance(head, dict) and head.get("value") in ("input", "data", "internal", *_OPERATORS)


def _refuse(expression: Json, advice: str, shown: Json | None = None) -> NoReturn:
    where = location(expression)
    raise UntranslatableResidual(where.file, where.line, render(shown or expression), advice)
