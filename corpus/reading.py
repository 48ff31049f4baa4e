"""The only way to text that a principal may get (I2): `Corpus.open(pin, access)`.

Everything here reads the catalog anew: the store's word is never enough (I13).
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy.typing as npt

from core.access import Access
from core.attributes import Subject, TrustTier, attributes_of
from core.budget import Budget, BudgetExhausted
from core.ids import DocumentId, Epoch, FragmentId, PolicyRevision, RevisionId, SourceId
from corpus.blobs import Blobs
from corpus.catalog.database import Database
from corpus.errors import RecordDamaged
from corpus.record import FragmentRecord, Pin, RevisionRecord, fragment_of
from corpus.store import Scope, Store, StoredHit, StoreQuery
from policy.evaluator import permits
from policy.filter import Filter, attributes_in

LISTED_AT_ONCE = 200  # documents or revisions, a few milliseconds: between two runs other calls have the event loop
LONG_BYTES = 1 << 20  # of text: about 6 ms to decrypt, hash and decode
OVERLAY_LIMIT = 2_000  # documents; past it the gate and refill do the work

# CROSS JOIN keeps SQLite from starting at all of the tenant's documents, which a release, with its 30 ms, can't afford;
# a search's candidates take half the time by it, too.
_NOT_DENIED = "r.state = 'published' AND r.retracted = 0 AND r.number >= d.tombstone"
_LIVE = (
    "EXISTS (SELECT 1 FROM intervals i "
    "WHERE i.revision_key = r.revision_key AND i.from_seq <= :seq AND :seq < i.to_seq)"
)
_SUBJECT = "d.source_id, d.document_id, s.trust, r.language, r.valid_from, r.valid_to"
_JOINS = (
    "CROSS JOIN documents d ON d.document_key = r.document_key "
    "CROSS JOIN sources s ON s.tenant_id = d.tenant_id AND s.source_id = d.source_id"
)
_RECORD = (
    f"r.revision_key, r.revision_id, d.document_key, r.binding, {_SUBJECT}, r.title, r.canonical_uri, r.media_type, "
    "r.content_hash, r.parser_version, r.provenance, r.canonical_blob"
)


@dataclass(frozen=True)
class Clearing:
    """What the catalog said in one statement."""

    epoch: Epoch
    policy_revision: PolicyRevision
    live: frozenset[int]  # revision keys


@dataclass(frozen=True)
class DocumentRecord:
    """A document and one of its revisions, as its reader may see them."""

    revision: RevisionRecord
    number: int
    size_bytes: int
    warnings: tuple[str, ...]
    active: bool
    access: Access


class Corpus:
    """Record and projection of every tenant, for serving."""

    def __init__(self, database: Database, store: Store, blobs: Blobs) -> None:
        self.database = database
        self._store = store
        self._blobs = blobs

    def open(self, pin: Pin, access: Filter) -> "OpenCorpus":
        """The pinned snapshot as far as `access` permits."""
        return OpenCorpus(pin, access, self.database, self._store, self._blobs)


class OpenCorpus:
    """One request's view. Search channels propose; `judge`, `records` and `clear` say what may be released."""

    def __init__(self, pin: Pin, access: Filter, database: Database, store: Store, blobs: Blobs) -> None:
        self.pin = pin
        self._access = access
        self._database = database
        self._store = store
        self._blobs = blobs
        self._by_document = "document" in attributes_in(access)
        self._permitted_of: dict[tuple[Any, ...], bool] = {}
        self._overlay = self._read_overlay() if pin.unsettled else frozenset()

    async def lexical(
        self, analysed: str, identifiers: str, scope: Scope, excluded: frozenset[FragmentId], limit: int, budget: Budget
    ) -> list[StoredHit]:
        """The store's proposals by words."""
        return await self._store.lexical(self._query(scope, excluded, limit), analysed, identifiers, budget)

    async def dense(
        self, vector: npt.NDArray[Any], scope: Scope, excluded: frozenset[FragmentId], limit: int, budget: Budget
    ) -> list[StoredHit]:
        """The store's proposals by meaning."""
        return await self._store.dense(self._query(scope, excluded, limit), vector, budget)

    def judge(self, fragment_ids: Iterable[FragmentId], scope: Scope) -> frozenset[FragmentId]:
        """Those that the record has in the pinned snapshot, valid at the asked time and permitted: the first pass."""
        rows = self._database.read(
            f"SELECT f.fragment_id, r.binding, {_SUBJECT} FROM json_each(:ids) j "  # noqa: S608 - constants above
            "CROSS JOIN fragments f ON f.fragment_id = j.value "
            f"CROSS JOIN revisions r ON r.revision_key = f.revision_key {_JOINS} "
            f"WHERE d.tenant_id = :tenant AND r.representation_id = :representation AND {_NOT_DENIED} AND {_LIVE}",
            {"ids": json.dumps(list(fragment_ids)), "representation": self.pin.representation_id, **self._pinned()},
        )
        return frozenset(
            fragment_id
            for fragment_id, binding, *about in rows
            if self._is_valid(about[4], about[5]) and in_scope(scope, about) and self._permits(about, binding)
        )

    def records(self, fragment_ids: Sequence[FragmentId]) -> list[FragmentRecord]:
        """The judged fragments with their revisions, in the order given; what is gone meanwhile is left out."""
        rows = self._database.read(
            f"SELECT f.fragment_id, f.ordinal, f.span_start, f.span_end, f.text_hash, f.kind, f.layout, {_RECORD} "  # noqa: S608
            "FROM json_each(:ids) j CROSS JOIN fragments f ON f.fragment_id = j.value "
            f"CROSS JOIN revisions r ON r.revision_key = f.revision_key {_JOINS} WHERE d.tenant_id = :tenant",
            {"ids": json.dumps(list(fragment_ids)), "tenant": self.pin.tenant_id},
        )
        revisions: dict[int, RevisionRecord] = {}
        found: dict[FragmentId, FragmentRecord] = {}
        for row in rows:
            revision = revisions.get(row[7]) or revisions.setdefault(row[7], self._record(row[7:]))
            found[FragmentId(row[0])] = FragmentRecord(fragment_of(*row[:7]), revision)
        return [found[fragment_id] for fragment_id in fragment_ids if fragment_id in found]

    def revisions_by_key(self, revision_keys: Iterable[int], *, live: bool = True) -> list[RevisionRecord]:
        """Revisions as the record has them now and as the access filter permits; `live`: in the pinned snapshot."""
        rows = self._database.read(
            f"SELECT {_RECORD} FROM json_each(:keys) j CROSS JOIN revisions r ON r.revision_key = j.value {_JOINS} "  # noqa: S608
            f"WHERE d.tenant_id = :tenant AND {_NOT_DENIED} AND (:live = 0 OR {_LIVE})",
            {"keys": json.dumps(list(revision_keys)), "live": int(live), **self._pinned()},
        )
        return self._permitted(rows)

    def revision(self, revision_id: RevisionId) -> RevisionRecord | None:
        """A published revision by id, live or superseded, if the access filter permits it."""
        rows = self._database.read(
            f"SELECT {_RECORD} FROM revisions r {_JOINS} "  # noqa: S608
            f"WHERE r.revision_id = :revision AND d.tenant_id = :tenant AND {_NOT_DENIED}",
            {"revision": revision_id, "tenant": self.pin.tenant_id},
        )
        return next(iter(self._permitted(rows)), None)

    def document(self, source_id: str, document_id: str) -> DocumentRecord | None:
        """The document's revision in the pinned snapshot."""
        found = self._documents(
            f"AND d.source_id = :source AND d.document_id = :document AND {_LIVE}",
            {"source": source_id, "document": document_id},
        )
        return found[0] if found else None

    async def documents(
        self, source_id: str, after: tuple[str, str], limit: int, budget: Budget
    ) -> list[DocumentRecord]:
        """Documents of the pinned snapshot after (source id, document id), in order; pages fill after filtering."""
        found: list[DocumentRecord] = []
        while len(found) < limit:
            rows = self._document_rows(
                f"AND (:source = '' OR d.source_id = :source) AND (d.source_id, d.document_id) > (:s, :d) AND {_LIVE} "
                "ORDER BY d.source_id, d.document_id LIMIT :rows",
                {"source": source_id, "s": after[0], "d": after[1], "rows": LISTED_AT_ONCE},
            )
            found += self._document_records(rows)
            if len(rows) < LISTED_AT_ONCE:
                break
            after = (rows[-1][4], rows[-1][5])
            await breath(budget)
        return found[:limit]

    async def document_revisions(
        self, source_id: str, document_id: str, below: str, limit: int, budget: Budget
    ) -> list[DocumentRecord]:
        """The document's published revisions that the principal may see, newest first, with ids below `below`."""
        found: list[DocumentRecord] = []
        while len(found) < limit:
            rows = self._document_rows(
                "AND d.source_id = :source AND d.document_id = :document AND (:below = '' OR r.revision_id < :below) "
                "ORDER BY r.revision_id DESC LIMIT :rows",
                {"source": source_id, "document": document_id, "below": below, "rows": LISTED_AT_ONCE},
            )
            found += self._document_records(rows)
            if len(rows) < LISTED_AT_ONCE:
                break
            below = rows[-1][1]
            await breath(budget)
        return found[:limit]

    def are_long(self, revisions: Iterable[RevisionRecord]) -> bool:
        """Whether reading their texts takes so long that it belongs on a thread: `text` may be called on any."""
        left = LONG_BYTES
        for blob in {revision.canonical_blob for revision in revisions}:
            left -= self._blobs.size(self.pin.tenant_id, blob)
        return left < 0

    def text(self, revision: RevisionRecord) -> str:
        """The revision's canonical text; RecordDamaged unless it has the hash that the catalog has (I6)."""
        document = (revision.subject.source, revision.subject.document)
        data = self._blobs.read(self.pin.tenant_id, document, revision.canonical_blob)
        if hashlib.sha256(data).hexdigest() != revision.content_hash:
            raise RecordDamaged("a canonical text does not match its hash")
        return data.decode()

    def clear(self, revision_keys: Iterable[int], *, live: bool = True) -> Clearing:
        """The release read: epoch, policy revision and which revisions may still be released, in one statement."""
        rows = self._database.read(
            "SELECT t.epoch, t.policy_revision, (SELECT json_group_array(r.revision_key) FROM json_each(:keys) j "  # noqa: S608
            "CROSS JOIN revisions r ON r.revision_key = j.value JOIN documents d ON d.document_key = r.document_key "
            f"WHERE d.tenant_id = t.tenant_id AND {_NOT_DENIED} AND (:live = 0 OR {_LIVE})) "
            "FROM tenants t WHERE t.tenant_id = :tenant",
            {"keys": json.dumps(list(revision_keys)), "live": int(live), **self._pinned()},
        )
        epoch, policy_revision, live_keys = rows[0]
        return Clearing(Epoch(epoch), PolicyRevision(policy_revision), frozenset(json.loads(live_keys)))

    def _read_overlay(self) -> frozenset[RevisionId]:
        """Revisions that unsettled operations make unfit for the pinned seq and this principal."""
        rows = self._database.read(
            f"SELECT r.revision_id, r.binding, {_SUBJECT}, {_NOT_DENIED} AND {_LIVE} "  # noqa: S608
            "FROM (SELECT DISTINCT document_key FROM unsettled WHERE tenant_id = :tenant LIMIT :limit) u "
            f"CROSS JOIN revisions r ON r.document_key = u.document_key {_JOINS} "
            "WHERE r.state = 'published' LIMIT :limit",
            {"limit": OVERLAY_LIMIT + 1, **self._pinned()},
        )
        if len(rows) > OVERLAY_LIMIT:
            return frozenset()
        return frozenset(
            RevisionId(revision_id)
            for revision_id, binding, *about, fit in rows
            if not (fit and self._permits(about, binding))
        )

    def _query(self, scope: Scope, excluded: frozenset[FragmentId], limit: int) -> StoreQuery:
        return StoreQuery(
            tenant_id=self.pin.tenant_id,
            seq=self.pin.seq,
            access=self._access,
            valid_at=self.pin.valid_at,
            limit=limit,
            scope=scope,
            excluded_revisions=self._overlay,
            excluded_fragments=excluded,
        )

    def _pinned(self) -> dict[str, Any]:
        return {"tenant": self.pin.tenant_id, "seq": self.pin.seq}

    def _documents(self, condition: str, values: dict[str, Any]) -> list[DocumentRecord]:
        return self._document_records(self._document_rows(condition, values))

    def _document_rows(self, condition: str, values: dict[str, Any]) -> list[Any]:
        return self._database.read(
            f"SELECT {_RECORD}, d.number, r.size_bytes, r.warnings, a.body, "  # noqa: S608
            "EXISTS (SELECT 1 FROM intervals i JOIN tenants t ON t.tenant_id = i.tenant_id "
            "WHERE i.revision_key = r.revision_key AND i.from_seq <= t.active_seq AND t.active_seq < i.to_seq) "
            f"FROM documents d JOIN revisions r ON r.document_key = d.document_key "
            "JOIN sources s ON s.tenant_id = d.tenant_id AND s.source_id = d.source_id "
            f"JOIN accesses a ON a.digest = d.access WHERE d.tenant_id = :tenant AND {_NOT_DENIED} {condition}",
            {**values, **self._pinned()},
        )

    def _document_records(self, rows: list[Any]) -> list[DocumentRecord]:
        width = len(_RECORD.split(", "))
        records = []
        for row in rows:
            number, size_bytes, warnings, body, active = row[width:]
            records += [
                DocumentRecord(
                    revision, number, size_bytes, tuple(json.loads(warnings)), bool(active), _access_of(body)
                )
                for revision in self._permitted([row[:width]])
            ]
        return records

    def _permitted(self, rows: list[Any]) -> list[RevisionRecord]:
        """Judged before anything is made of a row: what is hidden costs little more than what is not there (I8)."""
        return [self._record(row) for row in rows if self._permits(row[4:10], row[3])]

    def _permits(self, about: Sequence[Any], binding: str) -> bool:
        """Kept for this request by all that the filter may read: most candidates of a search differ in ids alone."""
        source, document, *rest = about
        key = (binding, source, document if self._by_document else None, *rest)
        permitted = self._permitted_of.get(key)
        if permitted is None:
            subject = self._subject(about)
            accesses = self._accesses(binding)
            permitted = all(permits(self._access, attributes_of(subject, access)) for access in accesses)
            self._permitted_of[key] = permitted
        return permitted

    def _is_valid(self, valid_from: int | None, valid_to: int | None) -> bool:
        at = self.pin.valid_at
        return (valid_from is None or valid_from <= at) and (valid_to is None or at < valid_to)

    def _subject(self, about: Sequence[Any]) -> Subject:
        source, document, trust, language, valid_from, valid_to = about
        return Subject(self.pin.tenant_id, source, document, TrustTier(trust), language, valid_from, valid_to)

    def _record(self, row: Sequence[Any]) -> RevisionRecord:
        key, revision_id, document_key, binding = row[:4]
        title, uri, media_type, content_hash, parser_version, provenance, blob = row[10:]
        return RevisionRecord(
            revision_key=key,
            revision_id=RevisionId(revision_id),
            document_key=document_key,
            subject=self._subject(row[4:10]),
            accesses=self._accesses(binding),
            title=title,
            canonical_uri=uri,
            media_type=media_type,
            content_hash=content_hash,
            parser_version=parser_version,
            provenance=json.loads(provenance),
            canonical_blob=blob,
        )

    def _accesses(self, binding: str) -> tuple[Access, ...]:
        return tuple(_access(self._database, digest) for digest in _digests(binding))


async def breath(budget: Budget) -> None:
    """Who may see one of a million documents must not hold up everybody; BudgetExhausted when the call is over."""
    if budget.left_s() <= 0:
        raise BudgetExhausted
    await asyncio.sleep(0)


def in_scope(scope: Scope, about: Sequence[Any]) -> bool:
    """Whether source, document and language lie in the request's scope: the store is not trusted with that either."""
    source, document, language = SourceId(about[0]), DocumentId(about[1]), about[3]
    return (
        (scope.sources is None or source in scope.sources)
        and (scope.documents is None or document in scope.documents)
        and (scope.languages is None or language in scope.languages)
    )


@lru_cache(maxsize=4096)
def _digests(binding: str) -> tuple[str, ...]:
    return tuple(json.loads(binding))


@lru_cache(maxsize=4096)
def _access_of(body: str) -> Access:
    return Access.from_json(body)


@lru_cache(maxsize=16384)
def _access(database: Database, digest: str) -> Access:
    """A digest names one value for ever, so that remembering it can't go stale."""
    rows = database.read("SELECT body FROM accesses WHERE digest = ?", (digest,))
    if not rows:
        raise RecordDamaged("an access is missing")
    return _access_of(rows[0][0])
