"""Opaque authenticated tokens for clients: numbers of snapshots and places in lists would count hidden activity.

Deterministic (AES-SIV): equal snapshots have equal tokens. Bound to tenant and catalog incarnation. Of one length for
all numbers: the cipher hides digits, not how many there are.
"""

import base64
import json
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from core.errors import InvalidValue
from core.ids import Incarnation, Seq, TenantId
from corpus.errors import SnapshotUnavailable

_DIGITS = 16  # of a sequence number at most


class OpaqueTokens:
    """Seals and opens; `key` has 32 bytes."""

    def __init__(self, key: bytes, incarnation: Incarnation) -> None:
        self._cipher = AESSIV(key)
        self._incarnation = incarnation

    def snapshot(self, tenant_id: TenantId, seq: Seq) -> str:
        """The token of a snapshot."""
        return self._seal("snapshot", tenant_id, [seq])

    def seq(self, tenant_id: TenantId, token: str) -> int:
        """The snapshot's number; SnapshotUnavailable for what was never a token of this tenant's catalog."""
        opened = self._open("snapshot", tenant_id, token)
        if opened is None:
            raise SnapshotUnavailable("not a snapshot token")
        return int(opened[0])

    def page(self, tenant_id: TenantId, bound_to: str, place: list[Any]) -> str:
        """The token of the next page; `bound_to` is the digest of the request and of what its caller may see.

        Integers of `place` come back as text.
        """
        return self._seal(f"page:{bound_to}", tenant_id, place)

    def place(self, tenant_id: TenantId, bound_to: str, token: str) -> list[Any] | None:
        """Where the page begins, None for the first; InvalidValue for a token of another request or caller."""
        if not token:
            return None
        opened = self._open(f"page:{bound_to}", tenant_id, token)
        if opened is None:
            raise InvalidValue("page_token", "belongs to no earlier answer to this request")
        return opened

    def _seal(self, purpose: str, tenant_id: TenantId, values: list[Any]) -> str:
        even = [f"{value:0{_DIGITS}d}" if isinstance(value, int) else value for value in values]
        sealed = self._cipher.encrypt(json.dumps(even).encode(), self._context(purpose, tenant_id))
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def _open(self, purpose: str, tenant_id: TenantId, token: str) -> list[Any] | None:
        try:
            sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            opened: list[Any] = json.loads(self._cipher.decrypt(sealed, self._context(purpose, tenant_id)))
        except (ValueError, InvalidTag):  # not base64, too short, or not ours
            return None
        return opened

    def _context(self, purpose: str, tenant_id: TenantId) -> list[bytes]:
        return [purpose.encode(), tenant_id.encode(), self._incarnation.encode()]
