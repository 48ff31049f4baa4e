"""Sources: where documents come from, who may write them, and which access a put gets that names none."""

import json
from dataclasses import dataclass

import sqlalchemy as sa

from core.access import Access
from core.attributes import TrustTier
from core.ids import SourceId, TenantId
from corpus.catalog.bindings import remember
from corpus.catalog.database import Database, now_us
from corpus.catalog.schema import sources
from corpus.errors import AlreadyExists


@dataclass(frozen=True)
class SourceRecord:
    """A source. `rights` has the keys writer_groups, writer_subjects, grant_groups and grant_subjects."""

    tenant_id: TenantId
    source_id: SourceId
    display_name: str
    trust: TrustTier
    access_template: Access | None
    writer_groups: tuple[str, ...] = ()
    writer_subjects: tuple[str, ...] = ()
    grant_groups: tuple[str, ...] = ()
    grant_subjects: tuple[str, ...] = ()
    version: int = 1
    created_at: int = 0


RIGHTS = ("writer_groups", "writer_subjects", "grant_groups", "grant_subjects")
_SELECT = (
    "SELECT s.tenant_id, s.source_id, s.display_name, s.trust, a.body, s.rights, s.version, s.created_at "
    "FROM sources s LEFT JOIN accesses a ON a.digest = s.access_template WHERE s.tenant_id = ? "
)


def create_source(tx: sa.Connection, source: SourceRecord) -> SourceRecord:
    """Store a new source; AlreadyExists when its id is taken."""
    taken = sa.select(sources).where(sources.c.tenant_id == source.tenant_id, sources.c.source_id == source.source_id)
    if tx.execute(taken).first():
        raise AlreadyExists(f"source {source.source_id}")
    created_at = now_us()
    tx.execute(
        sources.insert().values(
            tenant_id=source.tenant_id,
            source_id=source.source_id,
            display_name=source.display_name,
            trust=int(source.trust),
            access_template=remember(tx, source.access_template) if source.access_template else None,
            rights=json.dumps({name: list(getattr(source, name)) for name in RIGHTS}),
            created_at=created_at,
        )
    )
    return SourceRecord(**{**source.__dict__, "created_at": created_at})


def find_source(database: Database, tenant_id: TenantId, source_id: str) -> SourceRecord | None:
    """The tenant's source of that id."""
    rows = database.read(_SELECT + "AND s.source_id = ?", (tenant_id, source_id))
    return _record(rows[0]) if rows else None


def list_sources(database: Database, tenant_id: TenantId, after: str, limit: int) -> list[SourceRecord]:
    """Up to `limit` sources whose ids follow `after`, in order of id."""
    rows = database.read(_SELECT + "AND s.source_id > ? ORDER BY s.source_id LIMIT ?", (tenant_id, after, limit))
    return [_record(row) for row in rows]


def _record(row: tuple[object, ...]) -> SourceRecord:
    tenant_id, source_id, display_name, trust, template, rights, version, created_at = row
    groups = {name: tuple(values) for name, values in json.loads(str(rights)).items()}
    return SourceRecord(
        tenant_id=TenantId(str(tenant_id)),
        source_id=SourceId(str(source_id)),
        display_name=str(display_name),
        trust=TrustTier(int(str(trust))),
        access_template=None if template is None else Access.from_json(str(template)),
        version=int(str(version)),
        created_at=int(str(created_at)),
        **groups,
    )
