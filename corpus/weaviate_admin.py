"""Collections and tenants of the Weaviate adapter, over REST."""

from dataclasses import dataclass, field
from typing import Any

import aiohttp

from core.budget import Budget
from core.ids import TenantId
from core.representation import Representation
from corpus.store import StoreError, StoreLate, StoreMisconfigured, StoreRejected, StoreUnavailable
from corpus.weaviate_schema import collection, collection_name, differences


@dataclass(frozen=True)
class WeaviateEndpoint:
    """Where Weaviate answers: `http_url` like `http://127.0.0.1:8080`, `grpc_target` like `127.0.0.1:50051`."""

    http_url: str
    grpc_target: str
    api_key: str = field(repr=False)
    tls: bool = False  # of the gRPC port; REST says it in its URL


class WeaviateAdmin:
    """The schema side of WeaviateStore, for one representation."""

    def __init__(self, endpoint: WeaviateEndpoint, representation: Representation, replication: int) -> None:
        self._endpoint = endpoint
        self._expected = collection(representation, replication)
        self._path = f"/v1/schema/{collection_name(representation.representation_id)}"

    async def open(self) -> None:
        """Make the session; connects at the first call."""
        headers = {"Authorization": f"Bearer {self._endpoint.api_key}"}
        self._session = aiohttp.ClientSession(self._endpoint.http_url, headers=headers)

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()

    async def ensure_collection(self, budget: Budget) -> None:
        """Create what is missing, then check: of two that create at once, one is refused and both find it there."""
        status, _ = await self._call("GET", self._path, None, budget, expect=(200, 404))
        if status == 404:
            await self._call("POST", "/v1/schema", self._expected, budget, expect=(200, 422))
        await self.check_collection(budget)

    async def check_collection(self, budget: Budget) -> None:
        """StoreMisconfigured with every difference in its text."""
        status, actual = await self._call("GET", self._path, None, budget, expect=(200, 404))
        if status == 404:
            raise StoreMisconfigured("the representation has no collection")
        wrong = differences(self._expected, actual)
        if wrong:
            raise StoreMisconfigured("; ".join(wrong))

    async def ensure_tenant(self, tenant_id: TenantId, budget: Budget) -> None:
        """Inactive costs neither memory nor descriptors; Weaviate leaves a tenant that is there as it is."""
        body = [{"name": tenant_id, "activityStatus": "INACTIVE"}]
        await self._call("POST", f"{self._path}/tenants", body, budget, expect=(200,))

    async def _call(
        self, method: str, path: str, body: Any, budget: Budget, expect: tuple[int, ...]
    ) -> tuple[int, dict[str, Any]]:
        left_s = budget.left_s()
        if left_s <= 0:
            raise StoreLate
        try:
            timeout = aiohttp.ClientTimeout(total=left_s)
            async with self._session.request(method, path, json=body, timeout=timeout) as response:
                if response.status not in expect:
                    raise _fault(response.status)
                answer = await response.json() if response.status == 200 else None
        except TimeoutError as exc:  # before ClientError: aiohttp's timeouts are both
            raise StoreLate from exc
        except (aiohttp.ClientError, ValueError) as exc:
            raise StoreUnavailable("the store can't be reached") from exc
        return response.status, answer if isinstance(answer, dict) else {}


def _fault(status: int) -> StoreError:
    if status in (401, 403):
        return StoreMisconfigured("the store does not accept our credentials")
    if status >= 500:
        return StoreUnavailable(f"the store answered {status}")
    return StoreRejected(f"the store refused a call with {status}")
