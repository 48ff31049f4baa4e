"""What is to be done, as the catalog says it: cheap reads that the sweep repeats. The catalog alone is the truth."""

from collections.abc import Iterable
from dataclasses import dataclass

from core.ids import OperationId, RevisionId, TenantId
from corpus.catalog.database import Database
from corpus.publication import unsettled_documents

# The partial index of unfinished operations is used only where its condition stands word for word.
_UNFINISHED = "o.state IN ('pending', 'running')"


@dataclass(frozen=True)
class PendingPut:
    """A put whose content is to be staged; `created_at` in microseconds since 1970."""

    operation_id: OperationId
    tenant_id: TenantId
    revision_id: RevisionId
    created_at: int


@dataclass(frozen=True)
class Unsettled:
    """An operation whose documents the store must be brought to agree on; `created_at` in microseconds since 1970."""

    operation_id: OperationId
    tenant_id: TenantId
    kind: str
    created_at: int


def pending_puts(database: Database, per_tenant: int) -> list[PendingPut]:
    """`per_tenant` puts of each tenant that are accepted and not staged: each build's oldest in turn.

    Puts outside of builds count as one build. So one page need not wait until a large folder before it is read.
    """
    rows = database.read(
        f"""
        SELECT operation_id, tenant_id, revision_id, created_at FROM (
          SELECT t.*, ROW_NUMBER() OVER (PARTITION BY t.tenant_id ORDER BY t.turn, t.operation_id) AS place FROM (
            SELECT o.*, ROW_NUMBER() OVER (PARTITION BY o.tenant_id, o.build_id ORDER BY o.operation_id) AS turn
            FROM operations o WHERE {_UNFINISHED} AND o.state = 'pending' AND o.kind = 'put'
          ) t
        ) WHERE place <= ? ORDER BY turn, operation_id
        """,  # noqa: S608 - our own condition
        (per_tenant,),
    )
    return [PendingPut(*row) for row in rows]


def publishable_tenants(database: Database) -> list[TenantId]:
    """Tenants with staged revisions that may be published, with a sealed build whose puts have all ended, or with a
    publication in progress, which may be a dead publisher's."""
    rows = database.read(
        f"""
        WITH unstaged(build_id) AS (
          SELECT DISTINCT o.build_id FROM operations o
          WHERE {_UNFINISHED} AND o.state = 'pending' AND o.kind = 'put' AND o.build_id IS NOT NULL
        )
        SELECT o.tenant_id FROM operations o
        JOIN revisions r ON r.revision_id = o.revision_id AND r.state = 'staged'
        WHERE {_UNFINISHED} AND o.kind = 'put' AND o.build_id IS NULL
        UNION
        SELECT o.tenant_id FROM operations o
        JOIN builds b ON b.build_id = o.build_id AND b.state = 'sealed'
        WHERE {_UNFINISHED} AND o.kind = 'publish' AND o.build_id NOT IN unstaged
        UNION
        SELECT tenant_id FROM publications
        """  # noqa: S608 - our own condition
    )
    return [TenantId(tenant_id) for (tenant_id,) in rows]


def unsettled_operations(database: Database) -> list[Unsettled]:
    """Access changes, deletions and abandonments that have not ended, and operations that ended and left documents
    unsettled. A put or publication in progress settles with its publication."""
    rows = database.read(
        f"""
        SELECT o.operation_id, o.tenant_id, o.kind, o.created_at FROM operations o
        WHERE {_UNFINISHED} AND o.kind IN ('set_access', 'delete', 'abandon')
        UNION
        SELECT o.operation_id, o.tenant_id, o.kind, o.created_at
        FROM (SELECT DISTINCT operation_id FROM unsettled) u JOIN operations o ON o.operation_id = u.operation_id
        WHERE o.kind IN ('set_access', 'delete', 'abandon') OR o.state IN ('succeeded', 'failed')
        ORDER BY operation_id
        """  # noqa: S608 - our own condition
    )
    return [Unsettled(*row) for row in rows]


def documents_of(database: Database, operations: Iterable[Unsettled]) -> set[int]:
    """Keys of the documents on which the store may differ because of the operations."""
    return {key for each in operations for key in unsettled_documents(database, each.operation_id)}


def publication_in_progress(database: Database, tenant_id: TenantId) -> str | None:
    """The operation of the publication that the catalog knows as begun and not ended."""
    rows = database.read("SELECT operation_id FROM publications WHERE tenant_id = ?", (tenant_id,))
    return str(rows[0][0]) if rows else None


def version(database: Database) -> int:
    """Changes with every commit to the catalog, of this process or another."""
    return int(database.read("PRAGMA data_version")[0][0])
