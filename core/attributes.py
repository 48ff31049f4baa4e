"""The attributes of a fragment that policy may read: the one declaration for Rego, filters, store and evaluator."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias

from core.access import Access


class AttributeType(Enum):
    """How an attribute is typed in Rego, in filters and in the store."""

    TEXT = "text"
    TEXT_LIST = "text[]"
    INT = "int"
    BOOL = "bool"


class TrustTier(IntEnum):
    """How far a source is trusted; may only narrow what policy gives."""

    UNTRUSTED = 1
    REVIEWED = 2
    AUTHORITATIVE = 3


ATTRIBUTES: Mapping[str, AttributeType] = {
    "tenant": AttributeType.TEXT,
    "source": AttributeType.TEXT,
    "document": AttributeType.TEXT,
    "owner": AttributeType.TEXT,
    "allowed_groups": AttributeType.TEXT_LIST,
    "denied_groups": AttributeType.TEXT_LIST,
    "classification": AttributeType.TEXT,
    "level": AttributeType.INT,
    "labels": AttributeType.TEXT_LIST,
    "trust": AttributeType.INT,
    "language": AttributeType.TEXT,
    "valid_from": AttributeType.INT,  # seconds since 1970, UTC
    "valid_to": AttributeType.INT,  # exclusive
    "public": AttributeType.BOOL,
}

AttributeValue: TypeAlias = str | int | bool | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue]  # an absent name is Rego's undefined and the store's null


@dataclass(frozen=True)
class Subject:
    """What a fragment's attributes say beside its access: the same for every access of one revision."""

    tenant: str
    source: str
    document: str
    trust: TrustTier
    language: str | None
    valid_from: int | None
    valid_to: int | None


def attributes_of(subject: Subject, access: Access) -> dict[str, AttributeValue]:
    """The attributes of a fragment of `subject` under `access`.

    What is unset or an empty list is left out: the store can't tell them apart, so nobody may.
    """
    values: dict[str, AttributeValue | None] = {
        "tenant": subject.tenant,
        "source": subject.source,
        "document": subject.document,
        "owner": access.owner,
        "allowed_groups": access.allowed_groups,
        "denied_groups": access.denied_groups,
        "classification": access.classification,
        "level": access.level,
        "labels": access.labels,
        "trust": int(subject.trust),
        "language": subject.language,
        "valid_from": subject.valid_from,
        "valid_to": subject.valid_to,
        "public": access.public,
    }
    return {name: value for name, value in values.items() if value is not None and value != ()}
