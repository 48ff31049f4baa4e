"""What clients were told, and the model's rules for it, restated apart from the catalog: an oracle.

An access is the set of principals, of `p` and `q`, whom policy permits.
"""

from dataclasses import dataclass, field

from core.ids import RevisionId

EVERYBODY = frozenset("pq")
PENDING = ("accepted", "staged")
Who = frozenset[str]


@dataclass
class Document:
    """`access_number` is that of the change which set `current`."""

    number: int = 0
    current: Who = EVERYBODY
    access_number: int = 0
    tombstone: int = 0


@dataclass
class Revision:
    """`own`: whom its accesses permit; `named`: number of the last SetAccess on it; `allowed`: who may see it now."""

    document: str
    number: int
    given: Who
    own: Who
    allowed: Who
    named: int = 0
    state: str = "accepted"


@dataclass(frozen=True)
class Event:
    """A change as its caller knows it, committed at `at`. `seen` is the number under which a SetAccess looked."""

    kind: str
    document: str
    number: int
    access: Who | None
    revision: RevisionId | None
    seen: int
    at: float


@dataclass
class Ghost:
    """The tenant as the model has it."""

    documents: dict[str, Document] = field(default_factory=dict)
    revisions: dict[RevisionId, Revision] = field(default_factory=dict)
    snapshots: dict[int, frozenset[RevisionId]] = field(default_factory=lambda: {0: frozenset()})
    bases: dict[int, int] = field(default_factory=dict)
    active: int = 0
    rolled_back: bool = False
    events: list[Event] = field(default_factory=list)
    awaiting: set[tuple[str, RevisionId, str]] = field(default_factory=set)

    # ---- Commands -----------------------------------------------------------------------------------------------

    def put(self, revision: RevisionId, document: str, who: Who, operation: str, at: float) -> None:
        d = self.documents.setdefault(document, Document(current=who))
        d.number += 1
        self.revisions[revision] = Revision(document, d.number, who, who, who)
        self.events.append(Event("put", document, d.number, who, revision, 0, at))
        self._refresh(document, operation)

    def end_pending(self, revision: RevisionId, state: str, operation: str) -> None:
        """Dropped or failed: what it narrowed stays narrow."""
        v = self.revisions[revision]
        v.state = state
        self._narrow_others(v.document, v.number, v.given, revision)
        self._refresh(v.document, operation)

    def abandon(self, revisions: list[RevisionId], operation: str) -> None:
        """Their narrowing ends with them."""
        for revision in revisions:
            self.revisions[revision].state = "abandoned"
        self.events = [e for e in self.events if not (e.kind == "put" and e.revision in revisions)]
        for document in {self.revisions[revision].document for revision in revisions}:
            self._refresh(document, operation)

    def set_access(self, document: str, who: Who, named: RevisionId | None, operation: str, at: float) -> None:
        d = self.documents[document]
        seen, d.number = d.number, d.number + 1
        d.current, d.access_number = who, d.number
        self._narrow_others(document, d.number, who, named)
        if named is not None:
            self.revisions[named].own, self.revisions[named].named = who, d.number
        self.events.append(Event("set", document, d.number, who, named, seen, at))
        self._refresh(document, operation)

    def delete(self, document: str, at: float) -> None:
        d = self.documents[document]
        d.number += 1
        d.tombstone = d.number
        self.events.append(Event("delete", document, d.number, None, None, 0, at))

    def rollback(self, seq: int) -> None:
        self.active, self.rolled_back = seq, True

    def publish(self, seq: int, base: int, fresh: list[RevisionId], operation: str) -> None:
        """The active row moves: what it was based on without what is denied, and the fresh ones."""
        replaced = {self.revisions[revision].document for revision in fresh}
        kept = {r for r in self.snapshots[base] if not self.denied(r) and self.revisions[r].document not in replaced}
        self.snapshots[seq], self.bases[seq], self.active = frozenset(kept | set(fresh)), base, seq
        for revision in fresh:
            v = self.revisions[revision]
            d = self.documents[v.document]
            v.state = "published"
            if d.access_number < v.number:
                d.current, d.access_number = v.given, v.number
            self._narrow_others(v.document, v.number, v.given, revision)
            self._refresh(v.document, operation)

    # ---- What follows -------------------------------------------------------------------------------------------

    def denied(self, revision: RevisionId) -> bool:
        v = self.revisions[revision]
        return v.number < self.documents[v.document].tombstone

    def serving(self, document: str) -> RevisionId | None:
        live = [r for r in self.snapshots[self.active] if self.revisions[r].document == document]
        return next((r for r in live if not self.denied(r)), None)

    def lineage(self) -> set[int]:
        """The snapshots that the active one grew from."""
        seqs, seq = set(), self.active
        while seq:
            seqs.add(seq)
            seq = self.bases[seq]
        return seqs

    def may_see(self, revision: RevisionId, who: str) -> bool:
        return not self.denied(revision) and who in self.revisions[revision].allowed

    def check_sent(self, who: str, sent: set[RevisionId], now: float, acknowledged_after_s: float) -> None:
        """Nothing is sent that a denial acknowledged before covers, however much was opened since beside it."""
        for revision in sent:
            v = self.revisions[revision]
            assert v.state == "published", f"{revision} is {v.state}"
            for e in self.events:
                if e.document != v.document or now < e.at + acknowledged_after_s:
                    continue
                assert e.kind != "delete" or v.number > e.number, f"{revision} was deleted by {e}"
                if e.access is not None and v.number <= e.number and who not in e.access:
                    assert self._opened_since(revision, who, e), f"{revision} is closed to {who} by {e}"

    def _opened_since(self, revision: RevisionId, who: str, closed: Event) -> bool:
        return any(
            e.kind == "set" and e.revision == revision and e.access and who in e.access and e.seen >= closed.number
            for e in self.events
        )

    def _accesses(self, revision: RevisionId) -> list[Who]:
        v = self.revisions[revision]
        d = self.documents[v.document]
        later = [
            x.given
            for x in self.revisions.values()
            if x.document == v.document and x.state in PENDING and x.number > max(v.number, v.named)
        ]
        current = d.current if v.state == "published" or d.access_number > v.number else v.given
        return [v.own, current, *later]

    def _narrow_others(self, document: str, number: int, who: Who, named: RevisionId | None) -> None:
        for revision, v in self.revisions.items():
            if v.document == document and max(v.number, v.named) < number and revision != named:
                v.own &= who

    def _refresh(self, document: str, operation: str) -> None:
        for revision, v in self.revisions.items():
            if v.document == document:
                allowed = frozenset.intersection(*self._accesses(revision))
                self.awaiting |= {(operation, revision, who) for who in allowed - v.allowed}
                v.allowed = allowed
