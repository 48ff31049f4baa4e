"""What the protocol tests put in place of engines: a policy on the filter algebra, an encoder, a faulty network."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from core.attributes import Attributes
from core.budget import Budget
from core.ids import TenantId
from corpus.catalog.database import Database
from corpus.store import Selection, StoredFragment, StoredHit, StoredRef, StoreLate, StoreQuery, StoreUnavailable
from policy.engine import AccessDecision, Permission, Revisions, SourceRights, Verdicts
from policy.evaluator import permits
from policy.filter import Compare, Filter, Nothing, Op, Or, Overlaps, fingerprint, normalise
from policy.principal import Principal
from tests.fakes.memory_store import MemoryStore

DIMENSION = 4
Hook = Callable[[], None]


def nothing() -> None:
    """The hook that does nothing."""


class HashEncoder:
    """Vectors of length 1 that depend on the text alone."""

    dimension = DIMENSION

    def encode_query(self, text: str) -> npt.NDArray[np.float32]:
        raw = np.frombuffer(hashlib.sha256(text.encode()).digest()[: 4 * DIMENSION], dtype=np.uint32)
        vector = raw.astype(np.float32) + 1
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack([self.encode_query(text) for text in texts])


class GroupPolicy:
    """Public documents, and those of one's own groups. `judging` is called when the second check is asked."""

    def __init__(self) -> None:
        self.judging: Hook = nothing
        self.judgements = 0

    def rule(self, principal: Principal) -> Filter:
        return normalise(Or((Compare("public", Op.EQ, True), Overlaps("allowed_groups", principal.groups))))

    async def access_filter(
        self, principal: Principal, now: int, budget: Budget, *, expected: Revisions
    ) -> AccessDecision:
        access = self.rule(principal) if principal.groups else Nothing()
        name = fingerprint(access, expected.policy, expected.data, None)
        return AccessDecision(access, expected.policy, expected.data, name, False)

    async def visible(
        self,
        principal: Principal,
        items: Sequence[tuple[str, Attributes]],
        now: int,
        budget: Budget,
        *,
        expected: Revisions,
    ) -> Verdicts:
        access = self.rule(principal)
        refused = {name for name, attributes in items if not permits(access, attributes)}
        ids = frozenset(name for name, _ in items) - refused
        self.judgements += 1
        self.judging()
        return Verdicts(ids, expected.policy, expected.data, False)

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        return Permission(True, True)

    async def revisions(self, budget: Budget) -> Revisions:
        raise NotImplementedError("no test asks")


class SteppedDatabase(Database):
    """The real catalog; `cleared` is called after each release read, as if it were still on its way back."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.cleared: Hook = nothing
        self.clearings = 0

        @sa.event.listens_for(self._engine, "connect")
        def hurry(connection: Any, _record: object) -> None:  # no test here pulls the plug
            connection.execute("PRAGMA synchronous = OFF")

    def read(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        rows = super().read(sql, parameters)
        if "json_group_array(r.revision_key)" in sql:
            self.clearings += 1
            self.cleared()
        return rows


class FaultyStore(MemoryStore):
    """Two replicas behind a network.

    `late` and `lost` name operations whose next call is answered StoreLate; a late one has its effect when `deliver` is
    called. While `away`, the second replica hears nothing: what must reach all replicas does not succeed, and searches
    are answered by it. `acting` is called before each call takes effect.
    """

    def __init__(self, representation_id: Any, dimension: int) -> None:
        super().__init__(representation_id, dimension, self._pass)
        self.late: list[str] = []
        self.lost: list[str] = []
        self.in_flight: list[tuple[str, tuple[Any, ...]]] = []
        self.calls: list[str] = []
        self.queries: list[StoreQuery] = []
        self.acting: Callable[[str], None] = lambda op: None
        self.away = False
        self._replica: dict[str, StoredFragment] = {}

    async def _pass(self, op: str, args: tuple[Any, ...]) -> None:
        self.calls.append(op)
        self.acting(op)
        if op in self.lost:
            self.lost.remove(op)
            raise StoreLate
        if op in self.late:
            self.late.remove(op)
            if op in ("insert", "delete"):
                self.in_flight.append((op, args))
            raise StoreLate

    def deliver(self) -> None:
        """What was late arrives."""
        for op, (tenant_id, what) in self.in_flight:
            self.apply(op, tenant_id, what)
        self.in_flight.clear()

    def apply(self, op: str, tenant_id: TenantId, what: Any) -> None:
        """The effect of one write."""
        held = self.objects[tenant_id]
        if op == "insert":
            held.update({fragment.object_id: fragment for fragment in what})
        else:
            for object_id in what:
                held.pop(object_id, None)

    def leave(self, tenant_id: TenantId) -> None:
        """The second replica goes away with what it holds."""
        self.away, self._replica = True, dict(self.objects[tenant_id])

    def come_back(self) -> None:
        """The second replica catches up."""
        self.away = False

    async def insert(self, tenant_id: TenantId, objects: Sequence[StoredFragment], budget: Budget) -> None:
        await super().insert(tenant_id, objects, budget)
        self._all_replicas()

    async def list_objects(self, tenant_id: TenantId, selection: Selection, budget: Budget) -> frozenset[StoredRef]:
        self._all_replicas()
        return await super().list_objects(tenant_id, selection, budget)

    async def lexical(self, query: StoreQuery, analysed: str, identifiers: str, budget: Budget) -> list[StoredHit]:
        self.queries.append(query)
        with _Searched(self, query.tenant_id):
            return await super().lexical(query, analysed, identifiers, budget)

    async def dense(
        self, query: StoreQuery, vector: Sequence[float] | npt.NDArray[Any], budget: Budget
    ) -> list[StoredHit]:
        self.queries.append(query)
        with _Searched(self, query.tenant_id):
            return await super().dense(query, vector, budget)

    def _all_replicas(self) -> None:
        if self.away:
            raise StoreUnavailable("a replica is away")

    def replica(self) -> dict[str, StoredFragment]:
        """What the second replica holds while it is away."""
        return self._replica


class _Searched:
    """Within: searches see the replica that answers them."""

    def __init__(self, store: FaultyStore, tenant_id: TenantId) -> None:
        self._store = store
        self._tenant_id = tenant_id

    def __enter__(self) -> None:
        self._primary = self._store.objects[self._tenant_id]
        if self._store.away:
            self._store.objects[self._tenant_id] = self._store.replica()

    def __exit__(self, *_exc: object) -> None:
        self._store.objects[self._tenant_id] = self._primary
