"""All that the record holds of a tenant, to prove that a refused call changed nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.system.whole import System, eventually

TABLES = (
    "tenants", "sources", "documents", "revisions", "intervals", "snapshots", "activations", "builds", "publications",
    "operations", "unsettled", "idempotency",
)  # fmt: skip


def ledger(system: System, tenant: str) -> dict[str, Any]:
    """Every row of the tenant, and the names of its blobs."""
    tenant_id = system.tenant_id(tenant)
    rows: dict[str, Any] = {
        table: system.catalog.read(f"SELECT * FROM {table} WHERE tenant_id = ? ORDER BY 1, 2", (tenant_id,))  # noqa: S608
        for table in TABLES
    }
    blobs = system.layout.blobs / tenant_id
    rows["blobs"] = sorted(path.name for path in blobs.rglob("*") if path.is_file())
    return rows


@asynccontextmanager
async def nothing_changes(system: System, *tenants: str) -> AsyncIterator[None]:
    """The tenants' record at rest is the same after the block as before."""
    for tenant in tenants:
        await eventually(lambda tenant=tenant: system.at_rest(tenant))  # type: ignore[misc]
    before = {tenant: ledger(system, tenant) for tenant in tenants}
    yield
    assert {tenant: ledger(system, tenant) for tenant in tenants} == before
