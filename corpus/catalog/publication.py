"""Publication in the catalog: what a publish plans, and the one transaction that moves the active row.

The steps and their order are those of the protocol model; `corpus.publication` drives them against the store.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from core.ids import OPEN_SEQ, OperationId, Seq, TenantId
from corpus.catalog.bindings import PENDING, SERVING, narrow_others, refresh
from corpus.catalog.database import in_batches, now_us
from corpus.catalog.documents import end_pending
from corpus.catalog.leases import Lease, holds
from corpus.catalog.operations import (
    OperationKind,
    OperationState,
    fail_operation,
    open_operation,
    settle,
    update_operation,
)
from corpus.catalog.schema import (
    activations,
    builds,
    documents,
    intervals,
    operations,
    publication_entries,
    publications,
    revisions,
    snapshots,
    tenants,
    unsettled,
)
from corpus.catalog.tenants import step_epoch, tenant_row
from corpus.errors import LeaseLost

Rows = list[sa.Row[tuple[object, ...]]]


@dataclass(frozen=True)
class Publication:
    """A snapshot in the making. `fresh` and `added` are revision keys (fresh ones included in added)."""

    tenant_id: TenantId
    seq: Seq
    base_seq: Seq
    operation_id: OperationId
    fresh: frozenset[int]
    added: frozenset[int]
    closed: frozenset[int]
    document_keys: frozenset[int]


@dataclass(frozen=True)
class Dropped:
    """Nothing planned yet: staged revisions fell out, and the store must follow on their documents first."""

    operation_id: OperationId
    document_keys: frozenset[int]


def undo_dead_publication(tx: sa.Connection, lease: Lease) -> OperationId | None:
    """With a new lease: forget the publication that its predecessor left, whose documents stay unsettled.

    Answers the operation that the new holder must settle, None when there was none. LeaseLost when the lease is not
    the newest any more: what is found may be a successor's, which is alive.
    """
    if not holds(tx, lease):
        raise LeaseLost(lease.tenant_id)
    row = tx.execute(sa.select(publications).where(publications.c.tenant_id == lease.tenant_id)).first()
    if row is None:
        return None
    _forget(tx, lease.tenant_id)
    fail_operation(tx, row.operation_id, "superseded", "The publisher stopped; its successor begins anew.")
    return OperationId(row.operation_id)


def plan(tx: sa.Connection, lease: Lease) -> Publication | Dropped | None:
    """Drop what must not be published; else draw a seq and record the publication; None: nothing to publish."""
    if not holds(tx, lease):
        raise LeaseLost(lease.tenant_id)
    tenant = tenant_row(tx, lease.tenant_id)
    rolled_back = tenant.active_seq != tenant.head_seq
    opened = _open_at(tx, lease.tenant_id, OPEN_SEQ - 1)
    serving = _open_at(tx, lease.tenant_id, tenant.active_seq) if rolled_back else opened
    target = {row.document_key: row for row in serving if not _denied(row)}
    fresh: dict[int, sa.Row[tuple[object, ...]]] = {}
    dropped: Rows = []
    for row in _staged(tx, lease.tenant_id):
        live = target.get(row.document_key)
        if _denied(row) or (live is not None and row.number < live.number):
            dropped.append(row)
        else:
            older = fresh.get(row.document_key)
            if older is not None:
                dropped.append(older)
            fresh[row.document_key] = row
    if dropped:
        return _drop(tx, lease.tenant_id, dropped)
    if not fresh:
        _end_builds(tx, lease.tenant_id, Seq(tenant.active_seq))
        return None
    if rolled_back:  # a forward snapshot of what was rolled back to comes first
        fresh = {}
    return _record(tx, lease.tenant_id, tenant, opened, target, fresh)


def move(tx: sa.Connection, lease: Lease, publication: Publication) -> bool:
    """The transaction that publishes: lease, base and revisions are checked, active row and intervals move together.

    False: the publication may not be published and is forgotten; its documents are unsettled.
    """
    if not holds(tx, lease):
        raise LeaseLost(lease.tenant_id)
    tenant = tenant_row(tx, lease.tenant_id)
    fresh = _still_fit(tx, publication.fresh)
    if {row.revision_key for row in fresh} != publication.fresh or tenant.active_seq != publication.base_seq:
        _forget(tx, lease.tenant_id)
        fail_operation(tx, publication.operation_id, "superseded", "What it was to publish changed meanwhile.")
        return False
    _move_intervals(tx, publication, {row.revision_key: row.document_key for row in _added(tx, publication)})
    _activate(tx, publication)
    alone = _alone_in_their_documents(tx, fresh)
    _serve_alone(tx, [row for row in fresh if row.revision_key in alone], publication)
    for row in fresh:
        if row.revision_key not in alone:
            _serve(tx, row, publication)
    _end_builds(tx, lease.tenant_id, publication.seq)
    step_epoch(tx, lease.tenant_id)
    _forget(tx, lease.tenant_id)
    update_operation(
        tx, publication.operation_id,
        state=OperationState.SUCCEEDED, seq=publication.seq, done=len(publication.fresh), total=len(publication.fresh),
    )  # fmt: skip
    return True


def _drop(tx: sa.Connection, tenant_id: TenantId, dropped: Rows) -> Dropped:
    keys = frozenset(row.document_key for row in dropped)
    operation_id = open_operation(tx, tenant_id, OperationKind.PUBLISH, "", document_keys=keys)
    update_operation(tx, operation_id, state=OperationState.SUCCEEDED)
    for row in dropped:
        end_pending(tx, row, "dropped")
        fail_operation(tx, row.operation_id, "superseded", "A newer revision or a deletion came first.")
        settle(tx, row.operation_id)
    return Dropped(operation_id, keys)


def _record(
    tx: sa.Connection,
    tenant_id: TenantId,
    tenant: sa.Row[tuple[object, ...]],
    opened: Rows,
    target: dict[int, sa.Row[tuple[object, ...]]],
    fresh: dict[int, sa.Row[tuple[object, ...]]],
) -> Publication:
    wanted = {row.revision_key: row.document_key for row in {**target, **fresh}.values()}
    open_now = {row.revision_key: row.document_key for row in opened}
    added, closed = wanted.keys() - open_now.keys(), open_now.keys() - wanted.keys()
    document_keys = {(wanted | open_now)[key] for key in added | closed}
    seq = Seq(tenant.last_seq + 1)
    tx.execute(_tenants(tenant_id).values(last_seq=seq))
    operation_id = open_operation(tx, tenant_id, OperationKind.PUBLISH, "", document_keys=document_keys)
    update_operation(tx, operation_id, state=OperationState.RUNNING, total=len(fresh))
    tx.execute(
        publications.insert().values(
            tenant_id=tenant_id, seq=seq, base_seq=tenant.active_seq, operation_id=operation_id, started_at=now_us()
        )
    )
    fresh_keys = frozenset(row.revision_key for row in fresh.values())
    entries = [
        {"tenant_id": tenant_id, "revision_key": key, "action": action}
        for action, keys in (("fresh", fresh_keys), ("add", added - fresh_keys), ("close", closed))
        for key in keys
    ]
    for batch in in_batches(entries):
        tx.execute(publication_entries.insert(), list(batch))
    return Publication(
        tenant_id, seq, Seq(tenant.active_seq), operation_id,
        fresh_keys, frozenset(added), frozenset(closed), frozenset(document_keys),
    )  # fmt: skip


def _serve(tx: sa.Connection, row: sa.Row[tuple[object, ...]], publication: Publication) -> None:
    """A fresh revision is published: its access becomes the document's, unless that moved since it was accepted."""
    tx.execute(
        documents.update()
        .where(documents.c.document_key == row.document_key, documents.c.access_number < row.number)
        .values(access=row.given, access_number=row.number)
    )
    tx.execute(revisions.update().where(revisions.c.revision_key == row.revision_key).values(state="published"))
    narrow_others(tx, row.document_key, row.number, row.given, row.revision_key)
    refresh(tx, row.document_key)
    update_operation(tx, row.operation_id, state=OperationState.SUCCEEDED, seq=publication.seq, done=1)
    settle(tx, row.operation_id)  # the publication's own operation covers the document


def _alone_in_their_documents(tx: sa.Connection, rows: Rows) -> set[int]:
    """Keys of the revisions beside which their document has none that serves or is pending: they bind no other."""
    found: set[int] = set()
    for batch in in_batches([row.document_key for row in rows]):
        query = sa.select(sa.func.min(revisions.c.revision_key)).where(
            revisions.c.document_key.in_(batch), revisions.c.state.in_(SERVING)
        )
        found |= set(tx.execute(query.group_by(revisions.c.document_key).having(sa.func.count() == 1)).scalars())
    return found


def _serve_alone(tx: sa.Connection, rows: Rows, publication: Publication) -> None:
    """What `_serve` does, for many new documents at once: denials wait for the write lock, so it is held briefly."""
    if not rows:
        return
    values = [
        {
            "document": row.document_key, "given_": row.given, "number_": row.number,
            "revision": row.revision_key, "operation": row.operation_id,
        }
        for row in rows
    ]  # fmt: skip
    number = sa.bindparam("number_", type_=sa.BigInteger)
    operation = sa.bindparam("operation", type_=sa.Text)
    for statement in (
        documents.update()
        .where(documents.c.document_key == sa.bindparam("document"), documents.c.access_number < number)
        .values(access=sa.bindparam("given_"), access_number=number),
        revisions.update().where(revisions.c.revision_key == sa.bindparam("revision")).values(state="published"),
        operations.update()
        .where(
            operations.c.operation_id == operation,
            sa.or_(operations.c.state == "pending", operations.c.state == "running"),
        )
        .values(state=OperationState.SUCCEEDED, seq=publication.seq, done=1, updated_at=now_us()),
        unsettled.delete().where(unsettled.c.operation_id == operation),
    ):
        tx.execute(statement, values)


def _move_intervals(tx: sa.Connection, publication: Publication, added: dict[int, int]) -> None:
    for batch in in_batches(sorted(publication.closed)):
        tx.execute(
            intervals.update()
            .where(intervals.c.revision_key.in_(batch), intervals.c.to_seq == OPEN_SEQ)
            .values(to_seq=publication.seq)
        )
    rows = [
        {
            "revision_key": revision_key, "from_seq": publication.seq, "to_seq": OPEN_SEQ,
            "document_key": document_key, "tenant_id": publication.tenant_id,
        }
        for revision_key, document_key in added.items()
    ]  # fmt: skip
    for part in in_batches(rows):
        tx.execute(intervals.insert(), list(part))


def _activate(tx: sa.Connection, publication: Publication) -> None:
    tx.execute(_tenants(publication.tenant_id).values(active_seq=publication.seq, head_seq=publication.seq))
    count = sa.select(sa.func.count()).where(
        intervals.c.tenant_id == publication.tenant_id, intervals.c.to_seq == OPEN_SEQ
    )
    tx.execute(
        snapshots.insert().values(
            tenant_id=publication.tenant_id, seq=publication.seq, base_seq=publication.base_seq,
            published_at=now_us(), documents=tx.execute(count).scalar_one(),
        )
    )  # fmt: skip
    log_activation(tx, publication.tenant_id, publication.seq)


def log_activation(tx: sa.Connection, tenant_id: TenantId, seq: Seq) -> None:
    """Append to the activation log: `known_at` resolves through it."""
    position = sa.select(sa.func.coalesce(sa.func.max(activations.c.position), 0) + 1).where(
        activations.c.tenant_id == tenant_id
    )
    tx.execute(
        activations.insert().values(
            tenant_id=tenant_id, position=tx.execute(position).scalar_one(), seq=seq, activated_at=now_us()
        )
    )


def _end_builds(tx: sa.Connection, tenant_id: TenantId, seq: Seq) -> None:
    """Sealed builds whose puts have all ended are published; their operations end with the serving snapshot."""
    sealed = tx.execute(sa.select(builds).where(builds.c.tenant_id == tenant_id, builds.c.state == "sealed"))
    for build in list(sealed):
        states = [
            row.state for row in tx.execute(sa.select(revisions.c.state).where(revisions.c.build_id == build.build_id))
        ]
        if any(state in PENDING for state in states):
            continue
        published = sum(state == "published" for state in states)
        tx.execute(builds.update().where(builds.c.build_id == build.build_id).values(state="published"))
        update_operation(
            tx, build.operation_id,
            state=OperationState.SUCCEEDED, seq=seq, done=published, total=len(states), failed=len(states) - published,
        )  # fmt: skip


def _forget(tx: sa.Connection, tenant_id: TenantId) -> None:
    for table in (publication_entries, publications):
        tx.execute(table.delete().where(table.c.tenant_id == tenant_id))


def _still_fit(tx: sa.Connection, keys: frozenset[int]) -> Rows:
    """Those of the revisions that are still staged and not denied, in order of number."""
    found: Rows = []
    for batch in in_batches(sorted(keys)):
        query = _with_tombstone().where(revisions.c.revision_key.in_(batch), revisions.c.state == "staged")
        found += [row for row in tx.execute(query) if not _denied(row)]
    return found


def _added(tx: sa.Connection, publication: Publication) -> Rows:
    found: Rows = []
    for batch in in_batches(sorted(publication.added)):
        found += tx.execute(
            sa.select(revisions.c.revision_key, revisions.c.document_key).where(revisions.c.revision_key.in_(batch))
        )
    return found


def _open_at(tx: sa.Connection, tenant_id: TenantId, seq: int) -> Rows:
    """Revisions whose interval holds `seq`, denied ones included."""
    query = (
        _with_tombstone()
        .join(intervals, intervals.c.revision_key == revisions.c.revision_key)
        .where(intervals.c.tenant_id == tenant_id, intervals.c.from_seq <= seq, intervals.c.to_seq > seq)
    )
    return list(tx.execute(query))


def _staged(tx: sa.Connection, tenant_id: TenantId) -> Rows:
    """Staged revisions that may be published: without a build, or of a sealed one whose puts have all been staged."""
    unfinished = sa.select(revisions.c.build_id).where(
        revisions.c.build_id.is_not(None), revisions.c.state == "accepted", revisions.c.tenant_id == tenant_id
    )
    sealed = sa.select(builds.c.build_id).where(builds.c.tenant_id == tenant_id, builds.c.state == "sealed")
    query = _with_tombstone().where(
        revisions.c.tenant_id == tenant_id,
        revisions.c.state == "staged",
        sa.or_(
            revisions.c.build_id.is_(None),
            sa.and_(revisions.c.build_id.in_(sealed), revisions.c.build_id.not_in(unfinished)),
        ),
    )
    return list(tx.execute(query.order_by(revisions.c.document_key, revisions.c.number)))


def _with_tombstone() -> sa.Select[tuple[object, ...]]:
    return sa.select(
        revisions.c.revision_key, revisions.c.document_key, revisions.c.number, revisions.c.retracted,
        revisions.c.given, revisions.c.own, revisions.c.operation_id, documents.c.tombstone,
    ).join(documents, documents.c.document_key == revisions.c.document_key)  # fmt: skip


def _denied(row: sa.Row[tuple[object, ...]]) -> bool:
    return bool(row.retracted) or row.number < row.tombstone


def _tenants(tenant_id: TenantId) -> sa.Update:
    return tenants.update().where(tenants.c.tenant_id == tenant_id)
