"""The PolicyEngine contract, on a real OPA with the shipped bundle: asked directly and through the memo."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.attributes import Attributes, TrustTier
from core.ids import DataRevision, PolicyRevision, SourceId, TenantId
from policy.bundle import build_bundle
from policy.engine import PolicyEngine, Revisions, SourceRights
from policy.errors import PolicyRevisionMoved, UntranslatableResidual
from policy.evaluator import permits
from policy.filter import Nothing
from policy.heartbeat import PolicyLiveness
from policy.memo import MemoizedPolicy
from policy.opa import OpaEngine
from policy.principal import Principal, Role
from tests.unit.policy.opa_server import LIMIT_MS, RunningOpa, budget, principal, running_opa

NOW = 1_000
PACKAGES = {
    "narrow": "include if input.fragment.trust >= 2\n",
    "timed": "include if not _over\n\n_over if input.fragment.valid_to <= input.now\n",
    "broken": 'include if startswith(input.fragment.owner, "a")\n',
    "closed": "include if false\n",
    "widening": "include := true\n",
}


@pytest.fixture(scope="module")
async def opa(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[RunningOpa, PolicyRevision]]:
    directory = tmp_path_factory.mktemp("policy")
    packages = {
        TenantId(tenant): f'package muniment.tenants["{tenant}"]\n\n{rules}' for tenant, rules in PACKAGES.items()
    }
    bundle = Path(directory) / "bundle"
    revision = build_bundle(bundle, packages)
    async with running_opa([bundle], directory) as running:
        yield running, revision


@pytest.fixture(scope="module", params=["direct", "memoized"])
async def engine(opa: tuple[RunningOpa, PolicyRevision], request: pytest.FixtureRequest) -> AsyncIterator[PolicyEngine]:
    liveness = PolicyLiveness()
    async with OpaEngine(opa[0].url, opa[0].token, liveness, limit_ms=LIMIT_MS) as direct:
        yield direct if request.param == "direct" else MemoizedPolicy(direct, liveness)


@pytest.fixture(scope="module")
def expected(opa: tuple[RunningOpa, PolicyRevision]) -> Revisions:
    return Revisions(opa[1], DataRevision(0))


async def test_revisions_are_those_of_the_bundle(engine: PolicyEngine, expected: Revisions) -> None:
    assert await engine.revisions(budget()) == expected


async def test_a_decision_names_what_decided(engine: PolicyEngine, expected: Revisions) -> None:
    first = await engine.access_filter(principal(), NOW, budget(), expected=expected)
    again = await engine.access_filter(principal(), NOW, budget(), expected=expected)
    assert first == again
    assert (first.policy_revision, first.data_revision) == (expected.policy, 0)
    other = await engine.access_filter(principal("bob"), NOW, budget(), expected=expected)
    assert other.fingerprint != first.fingerprint


async def test_the_time_is_part_of_what_reads_it(engine: PolicyEngine, expected: Revisions) -> None:
    early, late = [
        await engine.access_filter(principal(tenant="timed"), now, budget(), expected=expected) for now in (1, 1_000)
    ]
    assert early.reads_now
    assert early.fingerprint != late.fingerprint
    fragment: Attributes = {"tenant": "timed", "public": True, "valid_to": 500}
    assert permits(early.filter, fragment)
    assert not permits(late.filter, fragment)
    for now, ids in ((1, {"f"}), (1_000, set())):
        verdicts = await engine.visible(principal(tenant="timed"), [("f", fragment)], now, budget(), expected=expected)
        assert verdicts.ids == ids


async def test_other_revisions_are_refused(engine: PolicyEngine, expected: Revisions) -> None:
    for stale in (Revisions(PolicyRevision("p-0"), DataRevision(0)), Revisions(expected.policy, DataRevision(1))):
        with pytest.raises(PolicyRevisionMoved) as refusal:
            await engine.access_filter(principal(), NOW, budget(), expected=stale)
        assert refusal.value.actual == expected.policy
        with pytest.raises(PolicyRevisionMoved):
            await engine.visible(principal(), [("f", {"tenant": "t1"})], NOW, budget(), expected=stale)
        with pytest.raises(PolicyRevisionMoved):
            await engine.allow("Search", principal(), None, budget(), expected=stale)


async def test_who_may_see_nothing_gets_nothing(engine: PolicyEngine, expected: Revisions) -> None:
    decision = await engine.access_filter(principal(tenant="closed"), NOW, budget(), expected=expected)
    assert decision.filter == Nothing()
    assert decision.policy_revision == expected.policy


async def test_a_policy_that_is_no_filter_denies_its_own_tenant_only(engine: PolicyEngine, expected: Revisions) -> None:
    with pytest.raises(UntranslatableResidual):
        await engine.access_filter(principal(tenant="broken"), NOW, budget(), expected=expected)
    assert await engine.access_filter(principal(), NOW, budget(), expected=expected)


async def test_no_items_are_no_verdicts(engine: PolicyEngine, expected: Revisions) -> None:
    assert (await engine.visible(principal(), [], NOW, budget(), expected=expected)).ids == frozenset()


async def test_an_id_with_several_attributes_needs_all(engine: PolicyEngine, expected: Revisions) -> None:
    shown: Attributes = {"tenant": "t1", "public": True}
    hidden: Attributes = {"tenant": "t1", "owner": "bob"}
    items = [("a", shown), ("a", hidden), ("b", shown), ("b", shown), ("c", hidden)]
    assert (await engine.visible(principal(), items, NOW, budget(), expected=expected)).ids == {"b"}


async def test_empty_groups_match_no_group(engine: PolicyEngine, expected: Revisions) -> None:
    nobody = principal(groups=())
    decision = await engine.access_filter(nobody, NOW, budget(), expected=expected)
    assert not permits(decision.filter, {"tenant": "t1", "allowed_groups": ("eng",)})
    assert not permits(decision.filter, {"tenant": "t1"})


WRITER = principal("wendy", roles=(Role.WRITER,))
SOURCE = SourceRights(SourceId("s1"), TrustTier.REVIEWED, writer_subjects=("wendy",), grant_groups=("granters",))


@pytest.mark.parametrize(
    ("rpc", "who", "source", "allowed", "may_grant"),
    [
        ("Search", principal(), None, True, False),
        ("Search", WRITER, None, False, False),
        ("PutDocument", WRITER, SOURCE, True, False),
        ("PutDocument", WRITER, None, False, False),
        ("PutDocument", principal("walt", roles=(Role.WRITER,)), SOURCE, False, False),
        ("SetAccess", WRITER, SOURCE, False, False),
        ("SetAccess", principal("gil", groups=("granters",), roles=(Role.WRITER,)), SOURCE, True, True),
        ("Rollback", principal("paul", roles=(Role.PUBLISHER,)), None, True, False),
        ("AbandonBuild", principal("paul", roles=(Role.PUBLISHER,)), SOURCE, True, True),
        ("Unheard", principal("paul", roles=tuple(Role)), SOURCE, False, True),
    ],
)
async def test_calls(
    engine: PolicyEngine,
    expected: Revisions,
    rpc: str,
    who: Principal,
    source: SourceRights | None,
    allowed: bool,
    may_grant: bool,
) -> None:
    for pinned in (None, expected, expected):
        permission = await engine.allow(rpc, who, source, budget(), expected=pinned)
        assert (permission.allowed, permission.may_grant) == (allowed, may_grant)


GROUPS = ["all", "eng", "ops", "the", "not", "hr", "hr-managers"]
TENANTS = ["t1", "narrow", "timed", "widening", "closed"]


def _groups() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3, unique=True).map(tuple)


ATTRIBUTE_SETS = st.fixed_dictionaries(
    {},
    optional={
        "tenant": st.sampled_from(TENANTS),
        "owner": st.sampled_from(["alice", "bob"]),
        "allowed_groups": _groups(),
        "denied_groups": _groups(),
        "classification": st.sampled_from(["confidential", "internal"]),
        "level": st.integers(0, 4),
        "labels": st.just(("a:b",)),
        "trust": st.integers(1, 3),
        "valid_to": st.sampled_from([NOW - 1, NOW, NOW + 1]),
        "public": st.booleans(),
    },
)
CLEARANCES: st.SearchStrategy[dict[str, str | int | bool]] = st.sampled_from(
    [{}, {"clearance": 0}, {"clearance": 2}, {"clearance": "2"}, {"clearance": True}]
)
PRINCIPALS = st.builds(
    lambda subject, tenant, groups, attributes: principal(subject, tenant=tenant, groups=groups, **attributes),
    st.sampled_from(["alice", "bob"]),
    st.sampled_from(TENANTS),
    st.just(()) | _groups(),
    CLEARANCES,
)


def oracle(asker: Principal, a: Attributes) -> bool:
    """The rules of `include` once more, naively."""
    groups, clearance = set(asker.groups), asker.attributes.get("clearance")
    if a.get("tenant") != asker.tenant_id or groups & _texts(a, "denied_groups"):
        return False
    level = a.get("level")
    if level is not None and (type(clearance) is not int or int(str(level)) > clearance):
        return False
    public = a.get("public") is True and a.get("classification") != "confidential"
    if not (public or a.get("owner") == asker.subject or groups & _texts(a, "allowed_groups")):
        return False
    trust, valid_to = a.get("trust"), a.get("valid_to")
    return {
        "narrow": isinstance(trust, int) and trust >= 2,
        "timed": not (isinstance(valid_to, int) and valid_to <= NOW),
        "closed": False,
    }.get(asker.tenant_id, True)


def _texts(attributes: Mapping[str, object], name: str) -> set[str]:
    value = attributes.get(name, ())
    return set(value) if isinstance(value, tuple) else set()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asker=PRINCIPALS, sets=st.lists(ATTRIBUTE_SETS, min_size=20, max_size=20))
async def test_filter_second_check_and_oracle_agree(
    engine: PolicyEngine, expected: Revisions, asker: Principal, sets: list[Attributes]
) -> None:
    decision = await engine.access_filter(asker, NOW, budget(), expected=expected)
    items = [(str(i), attributes) for i, attributes in enumerate(sets)]
    items += [(f"own {i}", {**attributes, "tenant": asker.tenant_id}) for i, attributes in enumerate(sets)]
    verdicts = await engine.visible(asker, items, NOW, budget(), expected=expected)
    by_filter = {item for item, attributes in items if permits(decision.filter, attributes)}
    by_oracle = {item for item, attributes in items if oracle(asker, attributes)}
    assert by_filter == verdicts.ids == by_oracle
