"""Evidence ids: deterministic opaque text that says which spans of which revision were shown.

`ev1` + base64url without padding of: 16 bytes of the revision's UUID, then for each passage one byte of role and two
varints (LEB128), start and length in code points. An id is valid for ever and grants nothing: whoever resolves it is
authorized anew, and must check that the spans lie within the text. There is one spelling of each id: `decode` refuses
all others, so equal evidence has equal ids everywhere (logs, feedback, caches).
"""

import base64
import binascii
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from core.document import Span
from core.errors import InvalidValue
from core.ids import RevisionId
from retrieval.types import PassageRole

PREFIX = "ev1"
MAX_PASSAGES = 16
MAX_OFFSET = 2**32 - 1  # uint32 in the contract
MAX_LENGTH = len(PREFIX) + -(-(16 + MAX_PASSAGES * 11) * 4 // 3)  # role and two varints of at most 5 bytes each

# Part of the format: never renumber.
_ROLE_BYTES = {PassageRole.BODY: 1, PassageRole.TABLE_HEADER: 2, PassageRole.LIST_INTRO: 3}
_ROLES = {byte: role for role, byte in _ROLE_BYTES.items()}


class Spanned(Protocol):
    """A passage, with or without text."""

    @property
    def span(self) -> Span:
        """Code points of the canonical text."""
        ...

    @property
    def role(self) -> PassageRole:
        """What it is to its item."""
        ...


@dataclass(frozen=True)
class EvidenceRef:
    """What an evidence id names."""

    revision_id: RevisionId
    passages: tuple[tuple[Span, PassageRole], ...]


def encode(revision_id: RevisionId, passages: Sequence[Spanned]) -> str:
    """The id of these passages, in their order. ValueError for what no packet can hold."""
    return _encode(revision_id, [(passage.span, passage.role) for passage in passages])


def decode(text: str) -> EvidenceRef:
    """The inverse of `encode`; InvalidValue for everything that `encode` does not make."""
    try:
        ref = _decode(text)
        canonical = _encode(ref.revision_id, ref.passages) == text
    except (ValueError, IndexError, KeyError, binascii.Error) as exc:
        raise _malformed() from exc
    if not canonical:
        raise _malformed()
    return ref


def _encode(revision_id: RevisionId, passages: Sequence[tuple[Span, PassageRole]]) -> str:
    if not 1 <= len(passages) <= MAX_PASSAGES:
        raise ValueError(f"an item has between 1 and {MAX_PASSAGES} passages")
    parsed = uuid.UUID(revision_id)
    if str(parsed) != revision_id:
        raise ValueError("a revision id is a UUID in lower case")
    raw = bytearray(parsed.bytes)
    for span, role in passages:
        if span.start == span.end or span.end > MAX_OFFSET:
            raise ValueError("a passage is not empty and ends within the contract's range")
        raw.append(_ROLE_BYTES[role])
        raw += _varint(span.start) + _varint(span.end - span.start)
    return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decode(text: str) -> EvidenceRef:
    if not text.startswith(PREFIX) or len(text) > MAX_LENGTH or not text.isascii():
        raise ValueError("not an evidence id")
    body = text[len(PREFIX) :]
    raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    revision_id = RevisionId(str(uuid.UUID(bytes=raw[:16])))
    passages, at = [], 16
    while at < len(raw):
        role = _ROLES[raw[at]]
        start, at = _read_varint(raw, at + 1)
        length, at = _read_varint(raw, at)
        passages.append((Span(start, start + length), role))
    return EvidenceRef(revision_id, tuple(passages))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """The value and where the next one begins."""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _malformed() -> InvalidValue:
    return InvalidValue("evidence_id", "is not an evidence id")
