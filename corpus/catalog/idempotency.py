"""Idempotency keys: the same request under the same key gets the same answer, for a day."""

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from core.errors import InvalidValue
from core.ids import TenantId
from corpus.catalog.database import now_us
from corpus.catalog.schema import idempotency
from corpus.errors import IdempotencyConflict

KEPT_S = 86_400
MAX_KEY_LENGTH = 256


@dataclass(frozen=True)
class Request:
    """Who asks what under which key; without a key nothing is kept. InvalidValue for a key that is too long."""

    tenant_id: TenantId
    caller: str
    rpc: str
    key: str
    request_digest: str

    def __post_init__(self) -> None:
        if len(self.key) > MAX_KEY_LENGTH:  # it is kept for a day
            raise InvalidValue("idempotency_key", f"must not be longer than {MAX_KEY_LENGTH} characters")


def once(tx: sa.Connection, request: Request, command: Callable[[sa.Connection], bytes]) -> bytes:
    """The kept answer of an equal request, else that of `command`, kept in the same transaction.

    IdempotencyConflict when the key belongs to another request.
    """
    if not request.key:
        return command(tx)
    now = now_us()
    tx.execute(idempotency.delete().where(idempotency.c.created_at < now - KEPT_S * 1_000_000))
    kept = kept_answer(tx, request)
    if kept is not None:
        return kept
    answer = command(tx)
    tx.execute(idempotency.insert().values(answer=answer, created_at=now, **request.__dict__))
    return answer


def kept_answer(tx: sa.Connection, request: Request) -> bytes | None:
    """The answer that an equal request got under the key; IdempotencyConflict when another request did."""
    kept = tx.execute(
        sa.select(idempotency.c.request_digest, idempotency.c.answer).where(
            idempotency.c.tenant_id == request.tenant_id,
            idempotency.c.caller == request.caller,
            idempotency.c.rpc == request.rpc,
            idempotency.c.key == request.key,
        )
    ).first()
    if kept is None:
        return None
    if kept.request_digest != request.request_digest:
        raise IdempotencyConflict(request.rpc)
    return bytes(kept.answer)
