"""The pin: one read of the catalog that fixes a request to a snapshot, an epoch and the revisions of policy."""

from dataclasses import dataclass

from core.ids import DataRevision, Epoch, PolicyRevision, RepresentationId, Seq, TenantId
from corpus.catalog.database import Database
from corpus.catalog.snapshots import exact_seq, seq_known_at
from corpus.errors import CatalogUnavailable, SnapshotUnavailable
from corpus.record import Pin


@dataclass(frozen=True)
class Consistency:
    """Which snapshot a request asks for; nothing set: the latest. At most one is set."""

    at_least: int | None = None
    exact: int | None = None
    known_at_us: int | None = None
    max_staleness_s: float | None = None


LATEST = Consistency()
_PIN = """
SELECT t.active_seq, t.epoch, t.representation_id, t.policy_revision, t.data_revision, t.low_seq,
       EXISTS (SELECT 1 FROM unsettled u WHERE u.tenant_id = t.tenant_id)
FROM tenants t WHERE t.tenant_id = ?
"""


def take_pin(
    database: Database, tenant_id: TenantId, now: int, *, consistency: Consistency = LATEST, valid_at: int | None = None
) -> Pin:
    """The pin of a request that begins at `now` (whole seconds since 1970), or SnapshotUnavailable."""
    rows = database.read(_PIN, (tenant_id,))
    if not rows:
        raise CatalogUnavailable("the tenant is not in the catalog")
    active, epoch, representation_id, policy_revision, data_revision, low, unsettled = rows[0]
    return Pin(
        tenant_id=tenant_id,
        incarnation=database.incarnation,
        seq=_seq(database, tenant_id, consistency, active, low, now),
        epoch=Epoch(epoch),
        representation_id=RepresentationId(representation_id),
        policy_revision=PolicyRevision(policy_revision),
        data_revision=DataRevision(data_revision),
        now=now,
        valid_at=now if valid_at is None else valid_at,
        unsettled=bool(unsettled),
    )


def _seq(database: Database, tenant_id: TenantId, consistency: Consistency, active: int, low: int, now: int) -> Seq:
    if consistency.exact is not None:
        return exact_seq(database, tenant_id, consistency.exact)
    if consistency.known_at_us is not None:
        return seq_known_at(database, tenant_id, consistency.known_at_us)
    if active < low or (consistency.at_least is not None and consistency.at_least > active):
        raise SnapshotUnavailable("the latest snapshot is older than asked for")
    if consistency.max_staleness_s is not None:
        rows = database.read("SELECT published_at FROM snapshots WHERE tenant_id = ? AND seq = ?", (tenant_id, active))
        if not rows or now - rows[0][0] / 1e6 > consistency.max_staleness_s:
            raise SnapshotUnavailable("the latest snapshot is staler than allowed")
    return Seq(active)
