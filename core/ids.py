"""Ids that must never be swapped."""

import re
import unicodedata
from typing import NewType

import uuid_utils

from core.errors import InvalidValue

TenantId = NewType("TenantId", str)  # internal, random, never used again
SourceId = NewType("SourceId", str)
DocumentId = NewType("DocumentId", str)  # the caller's own id, unique within its source
RevisionId = NewType("RevisionId", str)  # UUIDv7
FragmentId = NewType("FragmentId", str)  # uuid5 of revision, fragmenter version and span: the same in every copy
OperationId = NewType("OperationId", str)
BuildId = NewType("BuildId", str)
RepresentationId = NewType("RepresentationId", str)
PolicyRevision = NewType("PolicyRevision", str)
DataRevision = NewType("DataRevision", int)
Seq = NewType("Seq", int)  # of a tenant's snapshots: grows, never branches, never used again
Epoch = NewType("Epoch", int)  # of a tenant: steps with every denial, deletion and access change
Incarnation = NewType("Incarnation", str)  # of a catalog: renewed at restore and failover

OPEN_SEQ = Seq(2**53 - 1)  # `to_seq` of what is not superseded; the store keeps integers exact up to here

MAX_ID_LENGTH = 512
_OUTER_SPACE = re.compile(r"\A\s|\s\Z")


def new_id() -> str:
    """A fresh UUIDv7 as text."""
    return str(uuid_utils.uuid7())


def clean_text(field: str, value: str, *, limit: int = MAX_ID_LENGTH) -> str:
    """`value` in NFC, or InvalidValue: the store trims and folds what is not clean (design §6)."""
    if not value:
        raise InvalidValue(field, "must not be empty")
    if _OUTER_SPACE.search(value):
        raise InvalidValue(field, "must not begin or end with white space")
    if "\x00" in value or any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise InvalidValue(field, "must not hold NUL or lone surrogates")
    normalised = unicodedata.normalize("NFC", value)
    if len(normalised) > limit:
        raise InvalidValue(field, f"must not be longer than {limit} characters")
    return normalised
