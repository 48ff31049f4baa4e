"""Builds: puts that are published together."""

from dataclasses import dataclass

import sqlalchemy as sa

from core.ids import BuildId, OperationId, SourceId, TenantId, new_id
from corpus.catalog.bindings import PENDING, refresh
from corpus.catalog.database import Database, now_us
from corpus.catalog.operations import OperationKind, fail_operation, open_operation, settle
from corpus.catalog.schema import builds, revisions
from corpus.catalog.tenants import step_epoch
from corpus.errors import BuildNotOpen, NotFound


@dataclass(frozen=True)
class BuildRecord:
    """One build; `created_by` is issuer and subject, `state` open, sealed, published or abandoned."""

    build_id: BuildId
    source_id: SourceId
    state: str
    created_by: str
    created_at: int


def begin_build(tx: sa.Connection, tenant_id: TenantId, source_id: str, caller: str) -> BuildRecord:
    """A new open build of one source."""
    build = BuildRecord(BuildId(new_id()), SourceId(source_id), "open", caller, now_us())
    tx.execute(builds.insert().values(tenant_id=tenant_id, **build.__dict__))
    return build


def find_build(database: Database, tenant_id: TenantId, build_id: str) -> BuildRecord | None:
    """The tenant's build of that id."""
    rows = database.read(
        "SELECT build_id, source_id, state, created_by, created_at FROM builds WHERE tenant_id = ? AND build_id = ?",
        (tenant_id, build_id),
    )
    return BuildRecord(*rows[0]) if rows else None


def seal_build(tx: sa.Connection, tenant_id: TenantId, build_id: str, caller: str) -> OperationId:
    """Close the build for puts and ask for its publication, which begins when all of its puts are staged."""
    _open_build(tx, tenant_id, build_id, ("open",))
    total = tx.execute(sa.select(sa.func.count()).where(revisions.c.build_id == build_id)).scalar_one()
    operation_id = open_operation(tx, tenant_id, OperationKind.PUBLISH, caller, build_id=build_id, total=total)
    tx.execute(builds.update().where(builds.c.build_id == build_id).values(state="sealed", operation_id=operation_id))
    return operation_id


def abandon_build(tx: sa.Connection, tenant_id: TenantId, build_id: str, caller: str) -> OperationId:
    """End the build: nothing of it is ever served, and its puts' narrowing ends, too."""
    build = _open_build(tx, tenant_id, build_id, ("open", "sealed"))
    pending = list(
        tx.execute(sa.select(revisions).where(revisions.c.build_id == build_id, revisions.c.state.in_(PENDING)))
    )
    for revision in pending:
        tx.execute(
            revisions.update().where(revisions.c.revision_key == revision.revision_key).values(state="abandoned")
        )
        fail_operation(tx, revision.operation_id, "superseded", "The build was abandoned.")
        settle(tx, revision.operation_id)  # the operation opened below takes its documents over
    document_keys = {revision.document_key for revision in pending}
    for key in document_keys:
        refresh(tx, key)
    step_epoch(tx, tenant_id)
    tx.execute(builds.update().where(builds.c.build_id == build_id).values(state="abandoned"))
    if build.operation_id:
        fail_operation(tx, build.operation_id, "superseded", "The build was abandoned.")
    return open_operation(tx, tenant_id, OperationKind.ABANDON, caller, document_keys=document_keys, build_id=build_id)


def _open_build(
    tx: sa.Connection, tenant_id: TenantId, build_id: str, states: tuple[str, ...]
) -> sa.Row[tuple[object, ...]]:
    row = tx.execute(sa.select(builds).where(builds.c.build_id == build_id, builds.c.tenant_id == tenant_id)).first()
    if row is None:
        raise NotFound(f"build {build_id}")
    if row.state not in states:
        raise BuildNotOpen(f"build {build_id}")
    return row
