"""OPA over HTTP: asks, and believes only an answer of exactly the expected shape."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import aiohttp

from core.attributes import Attributes, AttributeValue
from core.budget import Budget
from core.ids import DataRevision, PolicyRevision
from core.stages import Stage, limit_ms
from policy.engine import AccessDecision, Permission, Revisions, SourceRights, Verdicts
from policy.errors import MalformedDecision, PolicyRevisionMoved, PolicyUnavailable, RevisionUnproved
from policy.filter import Filter, fingerprint
from policy.heartbeat import PolicyLiveness
from policy.principal import Principal
from policy.residual import QUERY, UNKNOWNS, translate

MAX_ANSWER_BYTES: Final = 8 * 2**20
_DATA: Final = "/v1/data/muniment/authz/"
_CONNECTIONS: Final = 64


@dataclass(frozen=True)
class _Proved:
    revisions: Revisions
    reads_now: bool


class OpaEngine:
    """The PolicyEngine on an OPA that runs a bundle of `policy.bundle`; an async context manager.

    `base_url` is scheme, host and port; each call takes at most `limit_ms` milliseconds and the budget's rest. Well-
    formed answers are reported to `liveness`.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        liveness: PolicyLiveness,
        *,
        limit_ms: float = limit_ms(Stage.POLICY),
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._liveness = liveness
        self._limit_ms = limit_ms
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def access_filter(
        self, principal: Principal, now: int, budget: Budget, *, expected: Revisions
    ) -> AccessDecision:
        """See PolicyEngine; an empty residual is Nothing only after the Data API has proved the revisions."""
        filter_, proved = await self._residual(principal, now, budget)
        _must_be(proved.revisions, expected)
        policy, data = proved.revisions.policy, proved.revisions.data
        digest = fingerprint(filter_, policy, data, now if proved.reads_now else None)
        return AccessDecision(filter_, policy, data, digest, proved.reads_now)

    async def _residual(self, principal: Principal, now: int, budget: Budget) -> tuple[Filter, _Proved]:
        """What is left of `include`, with its proof.

        When nothing is left the answer proves nothing, so it is asked for again between two proofs that must agree: a
        Nothing of older rules must not be kept under the name of newer ones.
        """
        filter_, proved = await self._compiled(principal, now, budget)
        if proved is not None:
            return filter_, proved
        before = await self._proved(budget)
        filter_, proved = await self._compiled(principal, now, budget)
        if proved is not None:
            return filter_, proved
        after = await self._proved(budget)
        if after != before:
            raise RevisionUnproved("the revisions moved while nothing was left to prove them")
        return filter_, after

    async def _compiled(self, principal: Principal, now: int, budget: Budget) -> tuple[Filter, _Proved | None]:
        asked_at = self._liveness.clock()
        question = {
            "query": QUERY,
            "unknowns": list(UNKNOWNS),
            "input": {"principal": principal.to_input(), "now": now},
        }
        residual = translate(await self._ask("/v1/compile", question, budget))
        proof = residual.proof
        if proof is None:
            return residual.filter, None
        self._liveness.succeeded(asked_at)
        return residual.filter, _Proved(Revisions(proof.policy_revision, proof.data_revision), proof.reads_now)

    async def visible(
        self,
        principal: Principal,
        items: Sequence[tuple[str, Attributes]],
        now: int,
        budget: Budget,
        *,
        expected: Revisions,
    ) -> Verdicts:
        """See PolicyEngine. Items are numbered for OPA: the rule permits a repeated id for any one of its entries."""
        asked_at = self._liveness.clock()
        fragments = [{"id": str(i), "attributes": _attributes(a)} for i, (_, a) in enumerate(items)]
        question = {"principal": principal.to_input(), "fragments": fragments, "now": now}
        answer = await self._decision("visible_answer", question, budget)
        numbers = _exactly(answer, "visible", list, "visible_answer")
        proved = _proof(answer, {"visible"}, "visible_answer")
        asked = {fragment["id"] for fragment in fragments}
        if any(type(n) is not str or n not in asked for n in numbers):
            raise MalformedDecision("visible_answer", "it names what was not asked about")
        self._liveness.succeeded(asked_at)
        _must_be(proved.revisions, expected)
        seen = frozenset(numbers)
        hidden = {item for i, (item, _) in enumerate(items) if str(i) not in seen}
        ids = frozenset(item for item, _ in items if item not in hidden)
        return Verdicts(ids, proved.revisions.policy, proved.revisions.data, proved.reads_now)

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        """See PolicyEngine."""
        asked_at = self._liveness.clock()
        rights = None if source is None else source.to_input()
        question = {"rpc": rpc, "principal": principal.to_input(), "source": rights}
        answer = await self._decision("allow_answer", question, budget)
        allowed = _exactly(answer, "allow", bool, "allow_answer")
        may_grant = _exactly(answer, "may_grant", bool, "allow_answer")
        proved = _proof(answer, {"allow", "may_grant"}, "allow_answer")
        self._liveness.succeeded(asked_at)
        if expected is not None:
            _must_be(proved.revisions, expected)
        return Permission(allowed, may_grant)

    async def revisions(self, budget: Budget) -> Revisions:
        """See PolicyEngine; also the start-up probe: it fails while no bundle is active."""
        return (await self._proved(budget)).revisions

    async def _proved(self, budget: Budget) -> _Proved:
        asked_at = self._liveness.clock()
        proved = _proof(await self._decision("revisions", {}, budget), set(), "revisions")
        self._liveness.succeeded(asked_at)
        return proved

    async def _decision(self, rule: str, question: Mapping[str, object], budget: Budget) -> dict[str, Any]:
        """The result of a rule of `muniment.authz`; undefined is malformed, not an empty decision."""
        answer = await self._ask(_DATA + rule, {"input": question}, budget)
        if not isinstance(answer, dict) or not isinstance(answer.get("result"), dict):
            raise MalformedDecision(rule, "undefined, or not an object")
        result: dict[str, Any] = answer["result"]
        return result

    async def _ask(self, path: str, question: object, budget: Budget) -> object:
        body = json.dumps(question, ensure_ascii=False, separators=(",", ":")).encode()
        limit_s = budget.limit_s(self._limit_ms)
        try:
            async with asyncio.timeout(limit_s):
                raw = await self._post(path, body)
        except TimeoutError as exc:
            raise PolicyUnavailable(f"the policy engine did not answer within {limit_s * 1000:.0f} ms") from exc
        except aiohttp.ClientError as exc:
            raise PolicyUnavailable(f"the policy engine can't be reached: {type(exc).__name__}") from exc
        try:
            parsed: object = json.loads(raw, parse_constant=_no_number)
        except (ValueError, RecursionError) as exc:
            raise MalformedDecision(path, "not JSON") from exc
        return parsed

    async def _post(self, path: str, body: bytes) -> bytes:
        """Once more on a connection that OPA closed while it idled: the questions change nothing."""
        try:
            return await self._post_once(path, body)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._post_once(path, body)

    async def _post_once(self, path: str, body: bytes) -> bytes:
        if self._session is None:
            raise PolicyUnavailable("the policy client is not open")
        async with self._session.post(self._base_url + path, data=body, allow_redirects=False) as response:
            if response.status != 200:
                raise PolicyUnavailable(f"the policy engine answered {response.status}")
            raw = bytearray()
            async for chunk in response.content.iter_any():
                raw += chunk
                if len(raw) > MAX_ANSWER_BYTES:
                    raise MalformedDecision(path, f"longer than {MAX_ANSWER_BYTES} bytes")
            return bytes(raw)


def _attributes(attributes: Attributes) -> dict[str, AttributeValue | list[str]]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}


def _no_number(spelled: str) -> NoReturn:
    raise ValueError(spelled)  # NaN and Infinity, which Python reads and JSON does not have


def _exactly(answer: Mapping[str, Any], name: str, type_: type, rule: str) -> Any:
    """`type() is`: 1 is no boolean."""
    if type(answer.get(name)) is not type_:
        raise MalformedDecision(rule, f"{name} is not {type_.__name__}")
    return answer[name]


def _proof(answer: Mapping[str, Any], beside: set[str], rule: str) -> _Proved:
    if set(answer) != beside | {"policy_revision", "data_revision", "reads_now"}:
        raise MalformedDecision(rule, "it has other parts than expected")
    policy = _exactly(answer, "policy_revision", str, rule)
    data = _exactly(answer, "data_revision", int, rule)
    if not policy or data < 0:
        raise MalformedDecision(rule, "a revision is empty or negative")
    reads_now = _exactly(answer, "reads_now", bool, rule)
    return _Proved(Revisions(PolicyRevision(policy), DataRevision(data)), reads_now)


def _must_be(actual: Revisions, expected: Revisions) -> None:
    if actual != expected:
        raise PolicyRevisionMoved(actual.policy, actual.data)
