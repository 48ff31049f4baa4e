"""Tenants: names from the settings, internal ids that are never used again."""

from collections.abc import Iterable
from uuid import uuid4

import sqlalchemy as sa

from core.ids import PolicyRevision, RepresentationId, TenantId
from corpus.catalog.database import Database, now_us
from corpus.catalog.schema import tenants
from corpus.errors import CatalogUnavailable


def ensure_tenants(tx: sa.Connection, names: Iterable[str], representation_id: RepresentationId) -> dict[str, TenantId]:
    """The internal id of each name, made where there is none."""
    known = {row.name: TenantId(row.tenant_id) for row in tx.execute(sa.select(tenants.c.name, tenants.c.tenant_id))}
    for name in names:
        if name not in known:
            known[name] = TenantId(uuid4().hex)
            tx.execute(
                tenants.insert().values(
                    tenant_id=known[name],
                    name=name,
                    created_at=now_us(),
                    representation_id=representation_id,
                    policy_revision="",
                )
            )
    return known


def activate_policy(tx: sa.Connection, revision: PolicyRevision) -> None:
    """Make `revision` the one under which every tenant is decided from this commit on."""
    tx.execute(tenants.update().values(policy_revision=revision))


def tenant_ids(database: Database) -> dict[str, TenantId]:
    """Every tenant's internal id by name."""
    return {name: TenantId(tenant_id) for name, tenant_id in database.read("SELECT name, tenant_id FROM tenants")}


def step_epoch(tx: sa.Connection, tenant_id: TenantId) -> None:
    """Say that something was denied, deleted or changed in access: whoever judged before must judge again."""
    tx.execute(tenants.update().where(tenants.c.tenant_id == tenant_id).values(epoch=tenants.c.epoch + 1))


def tenant_row(tx: sa.Connection, tenant_id: TenantId) -> sa.Row[tuple[object, ...]]:
    """The tenant's row within a transaction."""
    row = tx.execute(sa.select(tenants).where(tenants.c.tenant_id == tenant_id)).first()
    if row is None:
        raise CatalogUnavailable(f"tenant {tenant_id} is not in the catalog")
    return row
