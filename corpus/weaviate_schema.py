"""The Weaviate collection of one representation, and what is wrong with one that is there; part of the adapter.

Why each setting is what it is: `engines.md` names the trials. The short of it: `field` tokenization makes Equal
equality, the null index makes IsNull possible, range indexes make intervals cheap, no stop words keeps groups named
`the` alive.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from core.attributes import ATTRIBUTES, AttributeType
from core.ids import RepresentationId
from core.representation import Representation
from corpus import weaviate_filter as names

TERMS = "terms"  # words and marked identifiers: the one searchable property
REF = "ref"  # what a hit says of itself, packed; not indexed

_DATA_TYPES = {
    AttributeType.TEXT: "text",
    AttributeType.TEXT_LIST: "text[]",
    AttributeType.INT: "int",
    AttributeType.BOOL: "boolean",
}
_OWN_TEXTS = (names.FRAGMENT_ID, names.REVISION_ID)
_OWN_INTS = (names.FROM_SEQ, names.TO_SEQ, names.VALID_FROM, names.VALID_TO, names.SLOT)


def collection_name(representation_id: RepresentationId) -> str:
    """One collection for each representation: two never mix."""
    return f"Muniment_{representation_id}"


def collection(representation: Representation, replication: int) -> dict[str, Any]:
    """The body that creates the collection; also what `differences` compares with."""
    return {
        "class": collection_name(representation.representation_id),
        "multiTenancyConfig": {"enabled": True, "autoTenantCreation": False, "autoTenantActivation": True},
        "replicationConfig": {"factor": replication},
        "invertedIndexConfig": {
            "bm25": {"k1": 1.2, "b": 0.75},
            "stopwords": {"preset": "none"},
            "indexNullState": True,
        },
        "vectorizer": "none",
        "vectorIndexType": representation.index,
        "vectorIndexConfig": {"distance": representation.distance},
        "properties": list(_properties()),
    }


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """Each setting of `expected` that `actual` has otherwise, as `path: is …, must be …`; empty when all agree."""
    return list(_differences("", expected, actual))


def _properties() -> Iterator[dict[str, Any]]:
    yield _text(TERMS, "text", tokenization="whitespace", filterable=False, searchable=True)
    yield _text(REF, "text", filterable=False)
    for name in _OWN_TEXTS:
        yield _text(name, "text")
    for name in _OWN_INTS:
        yield _number(name)
    for attr, type_ in ATTRIBUTES.items():
        name = names.attribute_property(attr)
        if type_ is AttributeType.INT:
            yield _number(name)
        elif type_ is AttributeType.BOOL:
            yield {"name": name, "dataType": ["boolean"], "indexFilterable": True, "indexSearchable": False}
        else:
            yield _text(name, _DATA_TYPES[type_])


def _text(
    name: str, data_type: str, *, tokenization: str = "field", filterable: bool = True, searchable: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "dataType": [data_type],
        "tokenization": tokenization,
        "indexFilterable": filterable,
        "indexSearchable": searchable,
        "indexRangeFilters": False,
    }


def _number(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "dataType": ["int"],
        "indexFilterable": True,
        "indexSearchable": False,
        "indexRangeFilters": True,
    }


def _differences(path: str, expected: object, actual: object) -> Iterator[str]:
    if isinstance(expected, Mapping):
        found = actual if isinstance(actual, Mapping) else {}
        for key, value in expected.items():
            yield from _differences(f"{path}.{key}" if path else key, value, found.get(key))
    elif path == "properties":
        yield from _differences(path, _by_name(expected), _by_name(actual))
        for name in sorted(_by_name(actual).keys() - _by_name(expected).keys()):
            yield f"properties.{name}: is not ours"
    elif expected != actual:
        yield f"{path}: is {actual!r}, must be {expected!r}"


def _by_name(properties: object) -> dict[str, Any]:
    listed = properties if isinstance(properties, list) else []
    return {str(item["name"]): item for item in listed}
