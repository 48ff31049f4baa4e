"""Access: who may see a document, as a normalised value with a digest."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NewType

from core.errors import InvalidValue
from core.ids import clean_text

AccessDigest = NewType("AccessDigest", str)

MAX_VALUES = 1_000  # groups or labels of one access
MAX_LEVEL = 1_000_000


@dataclass(frozen=True)
class Access:
    """Build it with `Access.of`, which normalises; equal accesses have equal digests.

    Groups and labels are sorted and without duplicates; labels are `key:value`.
    """

    owner: str | None = None
    allowed_groups: tuple[str, ...] = ()
    denied_groups: tuple[str, ...] = ()
    classification: str | None = None
    level: int | None = None
    labels: tuple[str, ...] = ()
    public: bool = False

    @classmethod
    def of(
        cls,
        *,
        owner: str | None = None,
        allowed_groups: Iterable[str] = (),
        denied_groups: Iterable[str] = (),
        classification: str | None = None,
        level: int | None = None,
        labels: Iterable[str] = (),
        public: bool = False,
        field: str = "access",
    ) -> "Access":
        """The normalised access; raises InvalidValue naming the part of `field` that is wrong."""
        if level is not None and not 0 <= level <= MAX_LEVEL:
            raise InvalidValue(f"{field}.level", f"must lie between 0 and {MAX_LEVEL}")
        clean_labels = _clean_all(f"{field}.labels", labels)
        for label in clean_labels:
            key, colon, value = label.partition(":")
            if not (key and colon and value):
                raise InvalidValue(f"{field}.labels", "must be key:value")
        return cls(
            owner=None if owner is None else clean_text(f"{field}.owner", owner),
            allowed_groups=_clean_all(f"{field}.allowed_groups", allowed_groups),
            denied_groups=_clean_all(f"{field}.denied_groups", denied_groups),
            classification=None if classification is None else clean_text(f"{field}.classification", classification),
            level=level,
            labels=clean_labels,
            public=public,
        )

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no blanks; what the catalog stores and the digest covers."""
        return json.dumps(_fields(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Access":
        """The inverse of `to_json`; the catalog is trusted, so nothing is checked again."""
        fields = json.loads(text)
        for name in ("allowed_groups", "denied_groups", "labels"):
            fields[name] = tuple(fields[name])
        return cls(**fields)

    @cached_property
    def digest(self) -> AccessDigest:
        """SHA-256 of the canonical JSON, in hex."""
        return AccessDigest(hashlib.sha256(self.to_json().encode()).hexdigest())


def _fields(access: Access) -> dict[str, object]:
    return {name: getattr(access, name) for name in Access.__dataclass_fields__}


def _clean_all(field: str, values: Iterable[str]) -> tuple[str, ...]:
    clean = tuple(sorted({clean_text(field, value) for value in values}))
    if len(clean) > MAX_VALUES:
        raise InvalidValue(field, f"must not hold more than {MAX_VALUES} values")
    return clean
