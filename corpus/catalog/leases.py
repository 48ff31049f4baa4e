"""The publication lease: one publisher per tenant; each grant has a token that fences its predecessors."""

from dataclasses import dataclass

import sqlalchemy as sa

from core.ids import TenantId
from corpus.catalog.database import now_us
from corpus.catalog.schema import leases
from corpus.errors import LeaseLost


@dataclass(frozen=True)
class LeaseTerms:
    """`lasts_s`: how long a grant holds without renewal. `drain_s`: how long after its end a message of the former
    holder, retries included, may still arrive at the store; a successor waits for it."""

    lasts_s: float = 20.0
    drain_s: float = 10.0


@dataclass(frozen=True)
class Lease:
    """A grant."""

    tenant_id: TenantId
    owner: str
    token: int


def take_lease(tx: sa.Connection, tenant_id: TenantId, owner: str, terms: LeaseTerms) -> Lease | None:
    """The lease if it is free, or if its holder has been silent so long that nothing of it can still arrive.

    Its own holder gets it again at once: a process ends or drains every store call before it asks anew.
    """
    now = now_us()
    row = tx.execute(sa.select(leases).where(leases.c.tenant_id == tenant_id)).first()
    if row is None:
        tx.execute(leases.insert().values(tenant_id=tenant_id))
    elif row.owner is not None and row.owner != owner and now < row.expires_at + terms.drain_s * 1e6:
        return None
    token = (row.token if row is not None else 0) + 1
    expires_at = now + int(terms.lasts_s * 1e6)
    _set(tx, tenant_id, owner=owner, token=token, expires_at=expires_at)
    return Lease(tenant_id, owner, token)


def renew(tx: sa.Connection, lease: Lease, terms: LeaseTerms) -> None:
    """Hold on for another term; LeaseLost when it is somebody else's or has run out."""
    row = _held(tx, lease)
    if row is None or row.expires_at < now_us():
        raise LeaseLost(lease.tenant_id)
    _set(tx, lease.tenant_id, expires_at=now_us() + int(terms.lasts_s * 1e6))


def holds(tx: sa.Connection, lease: Lease) -> bool:
    """Whether the grant is still the newest: what the move of the active row is fenced by."""
    return _held(tx, lease) is not None


def release_lease(tx: sa.Connection, lease: Lease) -> None:
    """Give it back, if it is still ours."""
    if holds(tx, lease):
        _set(tx, lease.tenant_id, owner=None, expires_at=0)


def _held(tx: sa.Connection, lease: Lease) -> sa.Row[tuple[object, ...]] | None:
    return tx.execute(
        sa.select(leases).where(
            leases.c.tenant_id == lease.tenant_id, leases.c.owner == lease.owner, leases.c.token == lease.token
        )
    ).first()


def _set(tx: sa.Connection, tenant_id: TenantId, **values: object) -> None:
    tx.execute(leases.update().where(leases.c.tenant_id == tenant_id).values(**values))
