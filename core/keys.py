"""The one module that makes cache keys and keyed hashes (I9): parts are length-prefixed, so no two meet by accident."""

import hashlib
import hmac
from collections.abc import Iterable


def framed(parts: Iterable[bytes | str | int]) -> bytes:
    """The parts with type and length before each: distinct sequences give distinct bytes."""
    out = bytearray()
    for part in parts:
        kind, raw = _raw(part)
        out += kind + len(raw).to_bytes(8, "big") + raw
    return bytes(out)


def digest(*parts: bytes | str | int) -> str:
    """SHA-256 over the framed parts, in hex."""
    return hashlib.sha256(framed(parts)).hexdigest()


def keyed_digest(key: bytes, *parts: bytes | str | int) -> str:
    """HMAC-SHA-256 over the framed parts, in hex: what may leave the process where a digest may not."""
    return hmac.new(key, framed(parts), hashlib.sha256).hexdigest()


def _raw(part: bytes | str | int) -> tuple[bytes, bytes]:
    if isinstance(part, bytes):
        return b"b", part
    if isinstance(part, str):
        return b"s", part.encode()
    return b"i", str(part).encode()
