"""Kept answers are found again by all that determines them, and by nothing less."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from core.attributes import Attributes, TrustTier
from core.budget import Budget
from core.ids import DataRevision, PolicyRevision, SourceId, TenantId
from policy.engine import AccessDecision, Permission, Revisions, SourceRights, Verdicts
from policy.errors import PolicyRevisionMoved, PolicyUnavailable
from policy.filter import Compare, Op, fingerprint
from policy.heartbeat import AWAY_AFTER_S, PolicyLiveness
from policy.memo import MemoizedPolicy, attributes_digest
from policy.principal import Principal, Role
from tests.unit.policy.opa_server import budget, principal

R1 = Revisions(PolicyRevision("p-1"), DataRevision(0))
FRAGMENT: Attributes = {"tenant": "t1", "owner": "alice", "level": 1, "labels": ("a:b",), "public": True}
SOURCE = SourceRights(SourceId("s1"), TrustTier.REVIEWED, writer_groups=("a",), writer_subjects=("b",))


@dataclass
class CountingEngine:
    """Decides by `actual` and counts; `permitted` is what visible and allow say."""

    liveness: PolicyLiveness
    actual: Revisions = R1
    reads_now: bool = False
    permitted: bool = True
    filters: int = 0
    judged: list[str] = field(default_factory=list)
    calls: int = 0

    def _check(self, expected: Revisions | None) -> None:
        self.liveness.succeeded(self.liveness.clock())
        if expected not in (None, self.actual):
            raise PolicyRevisionMoved(self.actual.policy, self.actual.data)

    async def access_filter(
        self, principal: Principal, now: int, budget: Budget, *, expected: Revisions
    ) -> AccessDecision:
        self._check(expected)
        self.filters += 1
        seen = Compare("owner", Op.EQ, principal.subject)
        policy, data = self.actual.policy, self.actual.data
        digest = fingerprint(seen, policy, data, now if self.reads_now else None)
        return AccessDecision(seen, policy, data, digest, self.reads_now)

    async def visible(
        self,
        principal: Principal,
        items: Sequence[tuple[str, Attributes]],
        now: int,
        budget: Budget,
        *,
        expected: Revisions,
    ) -> Verdicts:
        self._check(expected)
        self.judged += [item for item, _ in items]
        ids = frozenset(item for item, _ in items) if self.permitted else frozenset()
        return Verdicts(ids, self.actual.policy, self.actual.data, self.reads_now)

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        self._check(expected)
        self.calls += 1
        return Permission(self.permitted, may_grant=False)

    async def revisions(self, budget: Budget) -> Revisions:
        self._check(None)
        return self.actual


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.liveness = PolicyLiveness(self.clock)
        self.engine = CountingEngine(self.liveness)
        self.memo = MemoizedPolicy(self.engine, self.liveness)

    async def sees(
        self, attributes: Attributes = FRAGMENT, who: Principal | None = None, now: int = 5, at: Revisions = R1
    ) -> bool:
        verdicts = await self.memo.visible(who or principal(), [("f", attributes)], now, budget(), expected=at)
        assert (verdicts.policy_revision, verdicts.data_revision) == (at.policy, at.data)
        return verdicts.ids == {"f"}

    async def decides(self, who: Principal | None = None, now: int = 5, at: Revisions = R1) -> AccessDecision:
        return await self.memo.access_filter(who or principal(), now, budget(), expected=at)


@pytest.fixture
def world() -> World:
    return World()


async def test_the_same_question_is_asked_once(world: World) -> None:
    for _ in range(3):
        await world.decides()
        assert await world.sees()
        await world.memo.allow("Search", principal(), SOURCE, budget(), expected=R1)
    assert (world.engine.filters, len(world.engine.judged), world.engine.calls) == (1, 1, 1)


async def test_a_new_data_revision_is_judged_anew(world: World) -> None:
    assert await world.sees()
    await world.decides()
    world.engine.actual, world.engine.permitted = replace(R1, data=DataRevision(1)), False
    assert not await world.sees(at=world.engine.actual)
    await world.decides(at=world.engine.actual)
    permission = await world.memo.allow("Search", principal(), None, budget(), expected=world.engine.actual)
    assert not permission.allowed
    assert world.engine.filters == 2


async def test_a_new_policy_revision_is_judged_anew(world: World) -> None:
    assert await world.sees()
    world.engine.actual, world.engine.permitted = replace(R1, policy=PolicyRevision("p-2")), False
    assert not await world.sees(at=world.engine.actual)
    assert await world.sees(at=R1)  # a request still pinned to the old one, as long as it is kept
    with pytest.raises(PolicyRevisionMoved):
        await world.sees(who=principal("bob"), at=R1)


@pytest.mark.parametrize(
    "other",
    [
        principal("bob"),
        principal(tenant="t2"),
        principal(groups=("all",)),
        principal(groups=("all", "eng", "ops")),
        principal(roles=(Role.READER, Role.WRITER)),
        principal(clearance=1),
        replace(principal(), issuer="another"),
    ],
)
async def test_another_principal_is_judged_anew(world: World, other: Principal) -> None:
    await world.decides()
    assert await world.sees()
    await world.memo.allow("Search", principal(), None, budget(), expected=R1)
    world.engine.permitted = False
    assert not await world.sees(who=other)
    await world.decides(who=other)
    assert world.engine.filters == 2
    assert not (await world.memo.allow("Search", other, None, budget(), expected=R1)).allowed


async def test_another_token_of_the_same_principal_is_the_same(world: World) -> None:
    await world.decides()
    await world.decides(who=replace(principal(), token_id="another", expires_at=1))
    assert world.engine.filters == 1


@pytest.mark.parametrize(
    "change",
    [
        {"owner": "bob"},
        {"level": 2},
        {"labels": ("a:c",)},
        {"labels": ("a:b", "a:c")},
        {"public": False},
        {"denied_groups": ("eng",)},
        {"source": "alice"},
    ],
)
async def test_any_other_attribute_is_judged_anew(world: World, change: dict[str, str]) -> None:
    assert await world.sees()
    world.engine.permitted = False
    assert not await world.sees({**FRAGMENT, **change})
    for name in FRAGMENT:
        assert not await world.sees({n: v for n, v in FRAGMENT.items() if n != name})


async def test_the_time_counts_only_when_policy_reads_it(world: World) -> None:
    assert await world.sees(now=5)
    await world.decides(now=5)
    assert await world.sees(now=6)
    await world.decides(now=6)
    assert (world.engine.filters, len(world.engine.judged)) == (1, 1)
    reading = World()
    reading.engine.reads_now = True
    assert await reading.sees(now=5)
    first = await reading.decides(now=5)
    reading.engine.permitted = False
    assert await reading.sees(now=5)
    assert not await reading.sees(now=6)
    assert (await reading.decides(now=6)).fingerprint != first.fingerprint
    assert reading.engine.filters == 2


async def test_rights_on_the_source_count(world: World) -> None:
    await world.memo.allow("PutDocument", principal(), SOURCE, budget(), expected=R1)
    world.engine.permitted = False
    others = [
        None,
        replace(SOURCE, id=SourceId("s2")),
        replace(SOURCE, writer_groups=("a", "b"), writer_subjects=()),
        replace(SOURCE, writer_groups=(), grant_groups=("a",)),
        replace(SOURCE, trust=TrustTier.UNTRUSTED),
    ]
    for other in others:
        assert not (await world.memo.allow("PutDocument", principal(), other, budget(), expected=R1)).allowed
    assert not (await world.memo.allow("DeleteDocument", principal(), SOURCE, budget(), expected=R1)).allowed
    assert (await world.memo.allow("PutDocument", principal(), SOURCE, budget(), expected=R1)).allowed


async def test_without_named_revisions_nothing_is_kept(world: World) -> None:
    for _ in range(2):
        await world.memo.allow("Search", principal(), None, budget(), expected=None)
    assert world.engine.calls == 2


async def test_equal_attributes_are_asked_about_once_and_all_of_an_id_count(world: World) -> None:
    twin: Attributes = dict(reversed(list(FRAGMENT.items())))
    items = [("a", FRAGMENT), ("b", twin), ("b", FRAGMENT)]
    verdicts = await world.memo.visible(principal(), items, 5, budget(), expected=R1)
    assert verdicts.ids == {"a", "b"}
    assert len(world.engine.judged) == 1
    world.engine.permitted = False
    mixed = [*items, ("b", {"tenant": "t1"})]
    assert (await world.memo.visible(principal(), mixed, 5, budget(), expected=R1)).ids == {"a"}


async def test_kept_answers_are_not_given_while_the_engine_is_away(world: World) -> None:
    await world.decides()
    await world.sees()
    await world.memo.allow("Search", principal(), None, budget(), expected=R1)
    world.clock.now += AWAY_AFTER_S - 0.01
    assert await world.sees()
    world.clock.now += 0.01
    for question in (
        world.decides(),
        world.sees(),
        world.memo.allow("Search", principal(), None, budget(), expected=R1),
    ):
        with pytest.raises(PolicyUnavailable):
            await question
    await world.memo.revisions(budget())
    assert await world.sees()


async def test_an_answer_of_other_revisions_is_not_kept(world: World) -> None:
    stale = replace(R1, policy=PolicyRevision("p-0"))
    for _ in range(2):
        with pytest.raises(PolicyRevisionMoved):
            await world.decides(at=stale)
        with pytest.raises(PolicyRevisionMoved):
            await world.sees(at=stale)


async def test_the_least_recently_used_goes_first() -> None:
    world = World()
    memo = MemoizedPolicy(world.engine, world.liveness, max_decisions=2, max_verdicts=2)
    for subject in ("a", "b", "a", "c", "a", "b"):
        await memo.access_filter(principal(subject), 5, budget(), expected=R1)
    assert world.engine.filters == 4  # a, b, c, and b again
    sets: list[tuple[str, Attributes]] = [(str(i), {"tenant": str(i)}) for i in range(5)]
    assert len((await memo.visible(principal(), sets, 5, budget(), expected=R1)).ids) == 5


def test_digests_of_attributes_tell_types_and_places_apart() -> None:
    sets: list[Attributes] = [
        {},
        {"level": 1},
        {"level": True},
        {"level": "1"},
        {"labels": ("1",)},
        {"labels": ("a", "b")},
        {"labels": ("ab",)},
        {"labels": ("a",), "owner": "b"},
        {"owner": "a"},
        {"source": "a"},
        {"owner": "level", "level": 1},
    ]
    assert len({attributes_digest(attributes) for attributes in sets}) == len(sets)
    assert attributes_digest({"owner": "a", "level": 1}) == attributes_digest({"level": 1, "owner": "a"})


def test_digests_of_principals_tell_claims_apart() -> None:
    many = [
        principal(),
        principal("alic", tenant="et1"),
        principal(tenant=TenantId("t2")),
        principal(groups=("all", "eng", "reader"), roles=()),
        principal(groups=("all", "eng"), roles=(Role.READER,), clearance=1),
        principal(groups=("all", "eng"), roles=(Role.READER,), clearance="1"),
        principal(groups=("all", "eng"), roles=(Role.READER,), clearance=True),
    ]
    assert len({who.digest for who in many}) == len(many)
