"""Whatever is not exactly a response of the Compile API to our query is a typed refusal, never a filter."""

import copy
from itertools import pairwise
from typing import Any

import pytest

from policy.errors import (
    FilterTooLarge,
    MalformedDecision,
    PolicyError,
    RevisionUnproved,
    UntranslatableResidual,
)
from policy.filter import Compare, Everything, Nothing, Op
from policy.residual import MAX_QUERIES, translate


def var(name: str) -> dict[str, Any]:
    return {"type": "var", "value": name}


def text(value: str) -> dict[str, Any]:
    return {"type": "string", "value": value}


def ref(head: str, *names: str) -> dict[str, Any]:
    return {"type": "ref", "value": [var(head), *map(text, names)]}


def call(operator: str, *operands: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "terms": [ref(operator), *operands]}


def bindings(rev: str = "p-1", data: int = 0, reads_now: bool = False) -> list[dict[str, Any]]:
    return [
        call("eq", var("rev"), text(rev)),
        call("eq", {"type": "number", "value": data}, var("data_rev")),
        call("eq", var("reads_now"), {"type": "boolean", "value": reads_now}),
    ]


OWNER = call("eq", ref("input", "fragment", "owner"), text("a"))


def response(*queries: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"result": {"queries": list(queries), **more}}


def support(name: str, *bodies: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    head = {"name": name, "value": {"type": "boolean", "value": True}, "ref": [var(name)]}
    rules = [{"head": head, "body": body} | copy.deepcopy(changes) for body in bodies]
    return {"package": {"path": [var("data"), text("partial")]}, "rules": rules}


def negated(name: str) -> dict[str, Any]:
    return {"index": 0, "negated": True, "terms": ref("data", "partial", name)}


def test_no_queries_are_nothing_and_prove_nothing() -> None:
    results: list[dict[str, Any]] = [{}, {"queries": []}]
    for result in results:
        residual = translate({"result": result})
        assert residual.filter == Nothing()
        assert residual.proof is None


def test_a_query_without_conditions_is_everything() -> None:
    residual = translate(response([OWNER, *bindings()], bindings()))
    assert residual.filter == Everything()
    assert residual.proof is not None
    assert (residual.proof.policy_revision, residual.proof.data_revision) == ("p-1", 0)


def test_an_empty_query_without_proof_is_no_permission() -> None:
    with pytest.raises(RevisionUnproved):
        translate(response([]))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_every_query_proves_all_revisions(missing: int) -> None:
    partly = [b for i, b in enumerate(bindings()) if i != missing]
    with pytest.raises(RevisionUnproved):
        translate(response([OWNER, *bindings()], [OWNER, *partly]))


def test_queries_of_different_revisions_prove_nothing() -> None:
    for other in (bindings("p-2"), bindings(data=1), bindings(reads_now=True)):
        with pytest.raises(RevisionUnproved):
            translate(response([OWNER, *bindings()], [OWNER, *other]))


def test_a_revision_is_bound_once_and_well_typed() -> None:
    for wrong in (
        [*bindings(), *bindings("p-2")],
        bindings(""),
        bindings(data=-1),
        [call("eq", var("rev"), {"type": "number", "value": 1}), *bindings()[1:]],
        [*bindings()[:1], call("eq", var("data_rev"), {"type": "number", "value": 1.5}), *bindings()[2:]],
    ):
        with pytest.raises(RevisionUnproved):
            translate(response([OWNER, *wrong]))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        [],
        "true",
        True,
        {"result": None},
        {"result": []},
        {"result": True},
        {"result": {"queries": None}},
        {"result": {"queries": {}}},
        {"result": {"queries": [{}]}},
        {"result": {"queries": [[None]]}},
        {"result": {"queries": [["true"]]}},
        {"result": {"queries": [[{}]]}},
        {"result": {"queries": [[{"terms": None}]]}},
        {"result": {"queries": [[{"terms": [{"type": "ref"}]}]]}},
        {"result": {"queries": [[{"terms": [ref("eq"), {"type": "string", "value": 3}, var("rev")]}]]}},
        {"result": {"queries": [], "allow": True}},
        {"result": {"query": []}},
        {"result": {"queries": []}, "errors": []},
        {"code": "internal_error", "message": "…"},
        response([OWNER, *bindings()], support={}),
        response([OWNER, *bindings()], support=[{}]),
        response([OWNER, *bindings()], support=[{"package": {"path": []}, "rules": []}]),
        response([OWNER | {"negated": "yes"}, *bindings()]),
        response([OWNER, *bindings(), {"terms": {"type": "boolean", "value": 1}}]),
    ],
)
def test_unexpected_shapes_are_refused(answer: object) -> None:
    with pytest.raises((MalformedDecision, RevisionUnproved)):
        translate(answer)


@pytest.mark.parametrize(
    "expression",
    [
        OWNER | {"with": [{"target": ref("input"), "value": text("x")}]},
        OWNER | {"generated": True},
        {"terms": []},
        {"terms": {"type": "boolean", "value": True}},
        {"terms": {"type": "boolean", "value": False}},
        {"terms": {"symbols": [var("x")]}},
        {"terms": var("x")},
        {"terms": {"type": "later", "value": 1}},
        {"terms": {"type": "ref", "value": []}},
        call("eq", var("x"), text("a")),
        call("eq", text("a"), text("a")),
        call("eq", ref("input", "principal", "owner"), text("a")),
        call("eq", ref("input", "fragment", "owner", "name"), text("a")),
        call("eq", ref("data", "fragment", "owner"), text("a")),
        call("neq", ref("input", "fragment", "labels"), text("a")),
        call("eq", ref("input", "fragment", "owner"), text("a"), var("result")),
        call("internal.member_3", text("0"), text("a"), ref("input", "fragment", "labels")),
        negated("absent"),
    ],
)
def test_other_expressions_are_refused_never_dropped(expression: dict[str, Any]) -> None:
    with pytest.raises((UntranslatableResidual, MalformedDecision)):
        translate(response([OWNER, expression, *bindings()]))


def test_a_list_element_in_two_conditions_is_not_two_elements() -> None:
    element = {"type": "ref", "value": [*ref("input", "fragment", "labels")["value"], var("i")]}
    once = call("eq", element, text("a"))
    assert translate(response([once, *bindings()]))
    for twice in ([once, call("eq", element, text("b"))], [once, call("eq", var("i"), {"type": "number", "value": 0})]):
        with pytest.raises(UntranslatableResidual):
            translate(response([*twice, *bindings()]))


@pytest.mark.parametrize(
    "changes",
    [
        {"default": True},
        {"else": {"head": {}, "body": []}},
        {"head": {"name": "r", "value": {"type": "boolean", "value": False}}},
        {"head": {"name": "r", "value": {"type": "string", "value": "yes"}}},
        {"head": {"name": "r", "value": {"type": "boolean", "value": True}, "args": [var("x")]}},
        {"head": {"name": "r", "value": {"type": "boolean", "value": True}, "key": var("x")}},
        {"head": {"name": "r", "value": {"type": "boolean", "value": True}, "ref": [var("r"), text("s")]}},
        {"head": {"name": "r"}},
    ],
)
def test_only_rules_that_are_true_or_undefined_are_inlined(changes: dict[str, Any]) -> None:
    plain = response([negated("r"), *bindings()], support=[support("r", [OWNER])])
    assert translate(plain).filter != Everything()
    changed = response([negated("r"), *bindings()], support=[support("r", [OWNER], **changes)])
    with pytest.raises((UntranslatableResidual, MalformedDecision)):
        translate(changed)


def test_one_other_rule_of_several_is_enough_to_refuse() -> None:
    modules = [support("r", [OWNER]), support("r", [OWNER], default=True)]
    with pytest.raises(UntranslatableResidual):
        translate(response([negated("r"), *bindings()], support=modules))


def test_rules_that_need_each_other_end_in_a_refusal() -> None:
    modules = [support("a", [negated("b")]), support("b", [negated("a")])]
    with pytest.raises(UntranslatableResidual):
        translate(response([negated("a"), *bindings()], support=modules))


def test_rules_that_multiply_end_in_a_refusal() -> None:
    names = [f"r{i}" for i in range(9)]
    modules = [support(name, *[[negated(below)]] * 10) for name, below in pairwise(names)]
    with pytest.raises((UntranslatableResidual, FilterTooLarge)):
        translate(response([negated("r0"), *bindings()], support=[*modules, support("r8", [OWNER])]))


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(UntranslatableResidual):
        translate(response(*[[OWNER, *bindings()]] * (MAX_QUERIES + 1)))
    assert translate(response(*[[OWNER, *bindings()]] * MAX_QUERIES)).filter == Compare("owner", Op.EQ, "a")


def test_the_refusal_says_where() -> None:
    expression = call("startswith", ref("input", "fragment", "owner"), text("secret"))
    expression["location"] = {"file": "t1/include.rego", "row": 7, "col": 2}
    with pytest.raises(UntranslatableResidual) as refusal:
        translate(response([expression, *bindings()]))
    assert (refusal.value.file, refusal.value.line) == ("t1/include.rego", 7)
    assert refusal.value.expression == "startswith(input.fragment.owner, <string>)"
    assert "secret" not in str(refusal.value)
    assert isinstance(refusal.value, PolicyError)
