"""What somebody without Muniment would run: embed the query, then ask the store twice, side by side, under one filter.

The filter, the pin and the limits are the very ones that Search uses: policy is asked once, beforehand. This module
reaches behind the gateway on purpose: the store's own calls are what Search is compared with.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from app.issuer import ISSUER
from app.layout import Endpoints, Layout
from core.budget import Budget
from core.ids import TenantId
from corpus.analyser import Analyser
from corpus.catalog.database import Database
from corpus.encoder import AsyncQueryEncoder, MiniLmEncoder, Vectors
from corpus.pinning import take_pin
from corpus.representations import default_representation
from corpus.store import Scope, StoreQuery
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from deploy.engines import EngineCredentials
from policy.engine import Revisions
from policy.heartbeat import PolicyLiveness
from policy.opa import OpaEngine
from policy.principal import Principal, Role
from retrieval.plan import PROFILES

BUDGET_S = 30.0


class BareSearch:
    """Use it in `async with`."""

    def __init__(self, data_dir: Path, tenant: str, subject: str, roles: tuple[str, ...]) -> None:
        self._data_dir = data_dir
        self._tenant = tenant
        self._subject = subject
        self._roles = roles
        self._analyser = Analyser()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        endpoints = Endpoints.read(self._data_dir)
        credentials = EngineCredentials.load_or_generate(self._data_dir)
        endpoint = WeaviateEndpoint(
            endpoints.weaviate_http, endpoints.weaviate_grpc, credentials.weaviate_api_key, False
        )
        self._store = await self._stack.enter_async_context(WeaviateStore(endpoint, default_representation()))
        self._model = MiniLmEncoder()
        self._encoder = await self._stack.enter_async_context(AsyncQueryEncoder(self._model))
        self._query = await self._store_query(endpoints, credentials)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def __call__(self, query: str) -> int:
        """Embed, then both calls side by side; the number of hits."""
        budget = Budget.of_seconds(BUDGET_S)
        vector = self._model.encode_query(query)
        return sum(await asyncio.gather(self._by_words(query, budget), self._by_meaning(vector, budget)))

    async def overlapped(self, query: str) -> int:
        """As the gateway does it: on a thread the query is embedded while the words are looked up."""
        budget = Budget.of_seconds(BUDGET_S)

        async def by_meaning() -> int:
            return await self._by_meaning(await self._encoder.encode_query(query, budget), budget)

        return sum(await asyncio.gather(self._by_words(query, budget), by_meaning()))

    async def _by_words(self, query: str, budget: Budget) -> int:
        analysed, identifiers = self._analyser.analyse(query), self._analyser.identifiers(query)
        return len(await self._store.lexical(self._query, analysed, identifiers, budget))

    async def _by_meaning(self, vector: Vectors, budget: Budget) -> int:
        return len(await self._store.dense(self._query, vector, budget))

    async def _store_query(self, endpoints: Endpoints, credentials: EngineCredentials) -> StoreQuery:
        database = Database(Layout(self._data_dir).catalog)
        try:
            rows = database.read("SELECT tenant_id FROM tenants WHERE name = ?", (self._tenant,))
            now = int(time.time())
            pin = take_pin(database, TenantId(rows[0][0]), now)
        finally:
            database.close()
        roles = frozenset(map(Role, self._roles))
        principal = Principal(ISSUER, self._subject, pin.tenant_id, (), roles, "bench", now + 3_600)
        revisions = Revisions(pin.policy_revision, pin.data_revision)
        async with OpaEngine(endpoints.opa, credentials.opa_token, PolicyLiveness()) as opa:
            decision = await opa.access_filter(principal, now, Budget.of_seconds(BUDGET_S), expected=revisions)
        return StoreQuery(
            tenant_id=pin.tenant_id,
            seq=pin.seq,
            access=decision.filter,
            valid_at=now,
            limit=PROFILES["default"].depth,
            scope=Scope(),
        )
