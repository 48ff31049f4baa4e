"""A tenant of a store, with short words for what the store's contract tests do."""

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from core.budget import Budget
from core.document import Span
from core.ids import OPEN_SEQ, FragmentId, RevisionId, Seq, TenantId, new_id
from corpus.analyser import Analyser
from corpus.representations import default_representation
from corpus.store import (
    Store,
    StoredFragment,
    StoredHit,
    StoreQuery,
    object_id,
)
from policy.filter import (
    Everything,
)

DIMENSION = 4
REPRESENTATION = replace(default_representation(), dimension=DIMENSION)
ANALYSER = Analyser()
NOW = 1_800_000_000
_numbers = count(1)


def budget(seconds: float = 60) -> Budget:
    return Budget.of_seconds(seconds)


@dataclass
class Shelf:
    """A tenant of a store, with short words for what the tests do."""

    store: Store
    tenant: TenantId

    async def put(self, text: str = "common", **values: Any) -> StoredFragment:
        made = fragment(self.tenant, text, **values)
        await self.store.insert(self.tenant, [made], budget())
        return made

    async def lexical(self, text: str, **values: Any) -> list[StoredHit]:
        query = self.query(**values)
        return await self.store.lexical(query, ANALYSER.analyse(text), ANALYSER.identifiers(text), budget())

    async def dense(self, vector: tuple[float, ...] = (1, 0, 0, 0), **values: Any) -> list[StoredHit]:
        return await self.store.dense(self.query(**values), vector, budget())

    async def both(self, **values: Any) -> set[str]:
        """Ids that both channels propose for what every fragment has; they must agree."""
        lexical, dense = await self.lexical("common", **values), await self.dense(**values)
        assert {hit.object_id for hit in lexical} == {hit.object_id for hit in dense}
        return {hit.object_id for hit in dense}

    def query(self, **values: Any) -> StoreQuery:
        defaults: dict[str, Any] = {"seq": Seq(5), "access": Everything(), "valid_at": NOW, "limit": 1_000}
        return StoreQuery(tenant_id=self.tenant, **defaults | values)


def fragment(
    tenant: TenantId,
    text: str = "common",
    *,
    from_seq: int = 1,
    to_seq: int = OPEN_SEQ,
    revision: str | None = None,
    vector: tuple[float, ...] = (1, 0, 0, 0),
    **attributes: Any,
) -> StoredFragment:
    number = next(_numbers)
    revision_id = RevisionId(revision or new_id())
    names = {"tenant": tenant, "source": "wiki", "document": f"doc-{number}", **attributes}
    return StoredFragment(
        object_id=object_id(
            REPRESENTATION.representation_id, revision_id, Span(number, number + 1), Seq(from_seq), Seq(to_seq), 1
        ),
        fragment_id=FragmentId(new_id()),
        revision_id=revision_id,
        from_seq=Seq(from_seq),
        to_seq=Seq(to_seq),
        access_version=1,
        ordinal=0,
        attributes={name: value for name, value in names.items() if value is not None},
        analysed=ANALYSER.analyse(text),
        identifiers=ANALYSER.identifiers(text),
        vector=vector,
    )


async def new_shelf(store: Store) -> Shelf:
    tenant = TenantId(new_id())
    await store.ensure_tenant(tenant, budget())
    await store.ensure_tenant(tenant, budget())  # again is nothing
    return Shelf(store, tenant)
