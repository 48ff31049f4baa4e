"""Decisions and verdicts kept in process by all that determines them, so that most requests ask OPA nothing."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, Generic, TypeVar

from core.attributes import Attributes, AttributeValue
from core.budget import Budget
from core.ids import PolicyRevision
from core.keys import digest
from policy.engine import AccessDecision, Permission, PolicyEngine, Revisions, SourceRights, Verdicts
from policy.errors import PolicyRevisionMoved
from policy.heartbeat import PolicyLiveness
from policy.principal import Principal

MAX_DECISIONS: Final = 4_096
MAX_VERDICTS: Final = 131_072
MAX_PERMISSIONS: Final = 16_384
MAX_REVISIONS: Final = 64

_T = TypeVar("_T")


class MemoizedPolicy:
    """Any PolicyEngine with its answers kept, by principal, revisions and what is asked; by `now` if policy reads it.

    Refusals and errors are not kept. While the engine is away nothing is answered, kept or not (PolicyUnavailable).
    """

    def __init__(
        self,
        engine: PolicyEngine,
        liveness: PolicyLiveness,
        *,
        max_decisions: int = MAX_DECISIONS,
        max_verdicts: int = MAX_VERDICTS,
        max_permissions: int = MAX_PERMISSIONS,
    ) -> None:
        self._engine = engine
        self._liveness = liveness
        self._decisions: _Kept[AccessDecision] = _Kept(max_decisions)
        self._verdicts: _Kept[bool] = _Kept(max_verdicts)
        self._permissions: _Kept[Permission] = _Kept(max_permissions)
        self._reads_now: _Kept[bool] = _Kept(MAX_REVISIONS)  # known once a revision has answered

    async def access_filter(
        self, principal: Principal, now: int, budget: Budget, *, expected: Revisions
    ) -> AccessDecision:
        """See PolicyEngine."""
        key = self._key("decision", principal, now, expected)
        kept = None if key is None else self._decisions.get(key)
        if kept is None:
            kept = await self._engine.access_filter(principal, now, budget, expected=expected)
            _must_be(Revisions(kept.policy_revision, kept.data_revision), expected)
            self._learn(expected.policy, reads_now=kept.reads_now)
            self._decisions.put(_asked("decision", principal, now if kept.reads_now else None, expected), kept)
        self._liveness.require()
        return kept

    async def visible(
        self,
        principal: Principal,
        items: Sequence[tuple[str, Attributes]],
        now: int,
        budget: Budget,
        *,
        expected: Revisions,
    ) -> Verdicts:
        """See PolicyEngine; asks about each distinct set of attributes once."""
        named = [(item, attributes_digest(attributes)) for item, attributes in items]
        distinct = {name: attributes for (_, name), (_, attributes) in zip(named, items, strict=True)}
        verdicts = self._known_verdicts(principal, now, expected, distinct)
        missing = [(name, attributes) for name, attributes in distinct.items() if name not in verdicts]
        if missing:
            answer = await self._engine.visible(principal, missing, now, budget, expected=expected)
            _must_be(Revisions(answer.policy_revision, answer.data_revision), expected)
            self._learn(expected.policy, reads_now=answer.reads_now)
            scope = _asked("verdict", principal, now if answer.reads_now else None, expected)
            for name, _ in missing:
                verdicts[name] = name in answer.ids
                self._verdicts.put(scope + name, verdicts[name])
        self._liveness.require()
        hidden = {item for item, name in named if not verdicts[name]}
        ids = frozenset(item for item, _ in named if item not in hidden)
        return Verdicts(ids, expected.policy, expected.data, self._reads_now.get(expected.policy) is not False)

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        """See PolicyEngine; kept only where the revisions are named. The rules on calls get no time to read."""
        if expected is None:
            permission = await self._engine.allow(rpc, principal, source, budget, expected=None)
            self._liveness.require()
            return permission
        key = _asked("permission", principal, None, expected) + digest(rpc, _rights_digest(source))
        kept = self._permissions.get(key)
        if kept is None:
            kept = await self._engine.allow(rpc, principal, source, budget, expected=expected)
            self._permissions.put(key, kept)
        self._liveness.require()
        return kept

    async def revisions(self, budget: Budget) -> Revisions:
        """See PolicyEngine; never kept."""
        return await self._engine.revisions(budget)

    def _known_verdicts(
        self, principal: Principal, now: int, expected: Revisions, names: Iterable[str]
    ) -> dict[str, bool]:
        scope = self._key("verdict", principal, now, expected)
        if scope is None:
            return {}
        found = {name: self._verdicts.get(scope + name) for name in names}
        return {name: verdict for name, verdict in found.items() if verdict is not None}

    def _key(self, kind: str, principal: Principal, now: int, expected: Revisions) -> str | None:
        """None while it is not known whether the revision reads the time: then nothing of it is kept either."""
        reads_now = self._reads_now.get(expected.policy)
        return None if reads_now is None else _asked(kind, principal, now if reads_now else None, expected)

    def _learn(self, revision: PolicyRevision, *, reads_now: bool) -> None:
        self._reads_now.put(revision, reads_now)


def attributes_digest(attributes: Attributes) -> str:
    """Over every attribute that policy may read of a fragment, with its type; absent ones are absent."""
    # types beside the items, because True == 1 would find the digest of the other
    return _digest_of(tuple(attributes.items()), tuple(map(type, attributes.values())))


@lru_cache(maxsize=MAX_VERDICTS)
def _digest_of(items: tuple[tuple[str, AttributeValue], ...], _types: tuple[type, ...]) -> str:
    """Kept, since hashing costs 30 µs and each request asks about a hundred sets that others asked about before."""
    parts: list[str | int] = []
    for name, value in sorted(items, key=itemgetter(0)):
        parts += (name, type(value).__name__)
        if isinstance(value, tuple):
            parts += (len(value), *value)
        else:
            parts.append(value)
    return digest(*parts)


def _asked(kind: str, principal: Principal, now: int | None, expected: Revisions) -> str:
    moment: tuple[str | int, ...] = ("any time",) if now is None else ("at", now)
    return digest(kind, expected.policy, expected.data, principal.digest, *moment)


def _must_be(actual: Revisions, expected: Revisions) -> None:
    if actual != expected:  # what is kept under a name must be of that name, whatever engine is inside
        raise PolicyRevisionMoved(actual.policy, actual.data)


def _rights_digest(source: SourceRights | None) -> str:
    if source is None:
        return digest("no source")
    lists = (source.writer_groups, source.writer_subjects, source.grant_groups, source.grant_subjects)
    parts: list[str | int] = []
    for values in lists:
        parts += (len(values), *values)
    return digest(source.id, int(source.trust), *parts)


class _Kept(Generic[_T]):
    """The `limit` answers used last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._answers: OrderedDict[str, _T] = OrderedDict()

    def get(self, key: str) -> _T | None:
        if key not in self._answers:
            return None
        self._answers.move_to_end(key)
        return self._answers[key]

    def put(self, key: str, answer: _T) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > self._limit:
            self._answers.popitem(last=False)
