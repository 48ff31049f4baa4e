"""Which accesses bind a revision: the rules of SetAccess, put and narrowing in one place.

A revision's `binding` is what must permit, all of it: its `own` accesses, the document's current one and those of
later puts in progress. Commands change one of the three and then `refresh` the document.
"""

import json
from collections.abc import Iterable

import sqlalchemy as sa

from core.access import Access, AccessDigest
from corpus.catalog.schema import accesses, documents, intervals, revisions, tenants

PENDING = ("accepted", "staged")
SERVING = (*PENDING, "published")


def remember(tx: sa.Connection, access: Access) -> AccessDigest:
    """Store the value of an access under its digest."""
    known = tx.execute(sa.select(accesses.c.digest).where(accesses.c.digest == access.digest)).first()
    if known is None:
        tx.execute(accesses.insert().values(digest=access.digest, body=access.to_json()))
    return access.digest


def document_revisions(tx: sa.Connection, document_key: int) -> list[sa.Row[tuple[object, ...]]]:
    """The document's revisions that serve or may come to serve, oldest first."""
    query = sa.select(revisions).where(revisions.c.document_key == document_key, revisions.c.state.in_(SERVING))
    return list(tx.execute(query.order_by(revisions.c.number)))


def is_denied(revision: sa.Row[tuple[object, ...]], document: sa.Row[tuple[object, ...]]) -> bool:
    """Retracted, or numbered below its document's tombstone, which a later put does not end for earlier revisions."""
    return bool(revision.retracted) or revision.number < document.tombstone


def active_revision(tx: sa.Connection, document: sa.Row[tuple[object, ...]]) -> sa.Row[tuple[object, ...]] | None:
    """The revision that the tenant's active snapshot serves, if it is not denied."""
    active_seq = sa.select(tenants.c.active_seq).where(tenants.c.tenant_id == document.tenant_id).scalar_subquery()
    query = (
        sa.select(revisions)
        .join(intervals, intervals.c.revision_key == revisions.c.revision_key)
        .where(
            revisions.c.document_key == document.document_key,
            intervals.c.from_seq <= active_seq,
            intervals.c.to_seq > active_seq,
        )
    )
    revision = tx.execute(query).first()
    return None if revision is None or is_denied(revision, document) else revision


def narrow_others(tx: sa.Connection, document_key: int, number: int, access: str, named: int | None) -> None:
    """Bind every earlier revision that the change does not name, until a later change names it.

    `named` is a revision key. Without this a revision that was closed would open again with a newer one.
    """
    for revision in document_revisions(tx, document_key):
        earlier = max(revision.number, revision.named) < number
        own = json.loads(revision.own)
        if earlier and revision.revision_key != named and access not in own:
            _set(tx, revision, own=json.dumps([*own, access]))


def refresh(tx: sa.Connection, document_key: int) -> None:
    """Recompute what binds each revision and which access the store should carry.

    The store carries one access, the newest that binds; the gate applies the rest. `access_version` counts up with
    each change of it, so that no object id ever returns.
    """
    document = tx.execute(sa.select(documents).where(documents.c.document_key == document_key)).one()
    rows = document_revisions(tx, document_key)
    for revision in rows:
        binding = binding_accesses(revision, document, rows)
        store_access = binding[-1]
        changes: dict[str, object] = {}
        if json.dumps(binding) != revision.binding:
            changes["binding"] = json.dumps(binding)
        if store_access != revision.store_access:
            changes |= {"store_access": store_access, "access_version": revision.access_version + 1}
        if changes:
            _set(tx, revision, **changes)


def binding_accesses(
    revision: sa.Row[tuple[object, ...]],
    document: sa.Row[tuple[object, ...]],
    siblings: Iterable[sa.Row[tuple[object, ...]]],
) -> list[str]:
    """Digests that must all permit, each once, the newest last."""
    moved_since = document.access_number > revision.number
    current = document.access if revision.state == "published" or moved_since else revision.given
    later = [
        sibling.given
        for sibling in siblings
        if sibling.state in PENDING and sibling.number > max(revision.number, revision.named)
    ]
    newest_first = [*reversed(later), current, *reversed(json.loads(revision.own))]
    return list(dict.fromkeys(newest_first))[::-1]


def _set(tx: sa.Connection, revision: sa.Row[tuple[object, ...]], **values: object) -> None:
    tx.execute(revisions.update().where(revisions.c.revision_key == revision.revision_key).values(**values))
