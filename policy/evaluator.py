"""Does a filter permit these attributes? The one truth table that OPA, this evaluator and the store must share.

An attribute is present with a value of its type, or absent (Rego's undefined, the store's null; never both, never an
explicit null, never an empty list).

| filter                                  | absent | present                             |
|-----------------------------------------|--------|-------------------------------------|
| Compare(a, ==, v)                       | false  | value == v                          |
| Compare(a, !=, v)                       | false  | value != v   (the store: AND present)|
| Compare(a, < <= > >=, v)                | false  | integers in their order             |
| In(a, vs)                               | false  | value is one of vs                  |
| Overlaps(a, vs)                         | false  | some member is one of vs            |
| IsNull(a)                               | true   | false                               |
| Not(f)                                  | not f  | not f        (two-valued, as Rego's) |
| And of none, Everything / Or of none, Nothing | true / false | true / false            |

So Not(Compare(a, ==, v)) is true for an absent attribute while Compare(a, !=, v) is false.
"""

from core.attributes import Attributes, AttributeValue
from policy.filter import And, Compare, Everything, Filter, In, IsNull, Not, Nothing, Op, Or, Overlaps, Scalar


def permits(f: Filter, attributes: Attributes) -> bool:
    """Whether a fragment with `attributes` satisfies `f`."""
    match f:
        case Everything():
            return True
        case Nothing():
            return False
        case And(parts):
            return all(permits(part, attributes) for part in parts)
        case Or(parts):
            return any(permits(part, attributes) for part in parts)
        case Not(part):
            return not permits(part, attributes)
        case IsNull(attr):
            return attr not in attributes
        case Compare(attr, op, value):
            return attr in attributes and _compares(attributes[attr], op, value)
        case In(attr, values):
            return attr in attributes and any(_same(attributes[attr], value) for value in values)
        case Overlaps(attr, texts):
            members = attributes.get(attr)
            return isinstance(members, tuple) and not set(members).isdisjoint(texts)


def _same(actual: AttributeValue, value: Scalar) -> bool:
    return type(actual) is type(value) and actual == value  # True is not 1


def _compares(actual: AttributeValue, op: Op, value: Scalar) -> bool:
    if op is Op.EQ:
        return _same(actual, value)
    if op is Op.NEQ:
        return not _same(actual, value)
    if type(actual) is not int or type(value) is not int:
        return False
    match op:
        case Op.LT:
            return actual < value
        case Op.LTE:
            return actual <= value
        case Op.GT:
            return actual > value
        case Op.GTE:
            return actual >= value
