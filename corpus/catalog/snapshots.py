"""Snapshots: the activation log, rollback, and which snapshot a request may be pinned to."""

from dataclasses import dataclass

import sqlalchemy as sa

from core.ids import Seq, TenantId
from corpus.catalog.database import Database
from corpus.catalog.publication import log_activation
from corpus.catalog.schema import snapshots, tenants
from corpus.catalog.tenants import tenant_row
from corpus.errors import SnapshotUnavailable


@dataclass(frozen=True)
class SnapshotRecord:
    """One published snapshot; `published_at` in microseconds since 1970; `rolled_back`: not in the active lineage."""

    seq: Seq
    published_at: int
    documents: int
    active: bool
    rolled_back: bool


_SELECT = """
WITH RECURSIVE lineage(seq) AS (
  SELECT active_seq FROM tenants WHERE tenant_id = :tenant
  UNION ALL
  SELECT s.base_seq FROM snapshots s JOIN lineage l ON s.seq = l.seq WHERE s.tenant_id = :tenant
)
SELECT s.seq, s.published_at, s.documents, s.seq = t.active_seq, s.seq NOT IN (SELECT seq FROM lineage)
FROM snapshots s JOIN tenants t ON t.tenant_id = s.tenant_id WHERE s.tenant_id = :tenant
"""


def rollback(tx: sa.Connection, tenant_id: TenantId, seq: Seq) -> None:
    """Make `seq` the active snapshot at once; the next publish makes a forward snapshot of it first."""
    tenant = tenant_row(tx, tenant_id)
    known = tx.execute(sa.select(snapshots.c.seq).where(snapshots.c.tenant_id == tenant_id, snapshots.c.seq == seq))
    if known.first() is None or seq < tenant.low_seq or seq == tenant.active_seq:
        raise SnapshotUnavailable(f"snapshot {seq}")
    tx.execute(tenants.update().where(tenants.c.tenant_id == tenant_id).values(active_seq=seq))
    log_activation(tx, tenant_id, seq)


def find_snapshot(database: Database, tenant_id: TenantId, seq: int) -> SnapshotRecord | None:
    """The tenant's published snapshot of that number."""
    found = _records(database, tenant_id, "AND s.seq = :seq", {"seq": seq})
    return found[0] if found else None


def list_snapshots(database: Database, tenant_id: TenantId, below: int, limit: int) -> list[SnapshotRecord]:
    """Up to `limit` snapshots numbered below `below`, newest first."""
    return _records(
        database, tenant_id, "AND s.seq < :below ORDER BY s.seq DESC LIMIT :limit", {"below": below, "limit": limit}
    )


def exact_seq(database: Database, tenant_id: TenantId, seq: int) -> Seq:
    """`seq` if it may be read as such: published, kept, and not rolled back."""
    row = find_snapshot(database, tenant_id, seq)
    low = database.read("SELECT low_seq FROM tenants WHERE tenant_id = ?", (tenant_id,))[0][0]
    if row is None or row.rolled_back or seq < low:
        raise SnapshotUnavailable(f"snapshot {seq}")
    return Seq(seq)


def seq_known_at(database: Database, tenant_id: TenantId, at_us: int) -> Seq:
    """The snapshot that was active at `at_us`, rolled back since or not."""
    rows = database.read(
        "SELECT a.seq, t.low_seq FROM activations a JOIN tenants t ON t.tenant_id = a.tenant_id "
        "WHERE a.tenant_id = ? AND a.activated_at <= ? ORDER BY a.position DESC LIMIT 1",
        (tenant_id, at_us),
    )
    if not rows or rows[0][0] < rows[0][1]:
        raise SnapshotUnavailable(f"nothing was active at {at_us}")
    return Seq(rows[0][0])


def _records(database: Database, tenant_id: TenantId, condition: str, values: dict[str, int]) -> list[SnapshotRecord]:
    rows = database.read(_SELECT + condition, {"tenant": tenant_id, **values})
    return [SnapshotRecord(Seq(seq), at, count, bool(active), bool(back)) for seq, at, count, active, back in rows]
