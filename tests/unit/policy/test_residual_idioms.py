"""Each row of the table of idioms, compiled by a real OPA; what is accepted means the same as OPA's full evaluation."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.attributes import ATTRIBUTES, Attributes, AttributeType
from policy.errors import UntranslatableResidual
from policy.evaluator import permits
from policy.filter import Filter, describe
from policy.residual import Residual, translate
from tests.unit.policy.opa_server import RunningOpa, principal, running_opa

REGO = Path(__file__).with_name("idioms.rego")
LISTED = re.findall(r"^# (accept|refuse): (.+)\n(\w+)", REGO.read_text(), re.MULTILINE)
ACCEPTED = {name: words for kind, words, name in LISTED if kind == "accept"}
REFUSED = {name: advice for kind, advice, name in LISTED if kind == "refuse"}
ASKER = principal(groups=("a", "b"), clearance=3)
NOW = 100
DATA = {
    "languages": {"t1": ["de", "fr"], "nobody": []},
    "owners": {"s1": "alice", "s2": "bob", "s3": "alice"},
}


class Idioms:
    def __init__(self, opa: RunningOpa, session: aiohttp.ClientSession) -> None:
        self._opa = opa
        self._session = session

    async def _post(self, path: str, question: object) -> object:
        headers = {"Authorization": f"Bearer {self._opa.token}"}
        async with self._session.post(self._opa.url + path, json=question, headers=headers) as response:
            assert response.status == 200, await response.text()
            return json.loads(await response.read())

    async def residual(self, rule: str, *, groups: tuple[str, ...] = ASKER.groups) -> Residual:
        query = f'data.muniment.idioms.{rule} == true; rev = "p-1"; data_rev = 0; reads_now = false'
        asker = ASKER.to_input() | {"groups": list(groups)}
        question = {"query": query, "unknowns": ["input.fragment"], "input": {"principal": asker, "now": NOW}}
        return translate(await self._post("/v1/compile", question))

    async def verdicts(self, attributes: Attributes) -> set[str]:
        """The idioms that OPA, told everything, finds true of `attributes`."""
        question = {"input": {"principal": ASKER.to_input(), "now": NOW, "fragment": attributes}}
        answer = await self._post("/v1/data/muniment/idioms", question)
        assert isinstance(answer, Mapping)
        return {name for name, value in answer["result"].items() if value is True}


@pytest.fixture(scope="module")
async def idioms(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Idioms]:
    directory = tmp_path_factory.mktemp("idioms")
    bundle = directory / "bundle"
    bundle.mkdir()
    (bundle / "idioms.rego").write_text(REGO.read_text())
    (bundle / "data.json").write_text(json.dumps({"muniment": {"idioms_data": DATA}}))
    (bundle / ".manifest").write_text(json.dumps({"roots": ["muniment/idioms", "muniment/idioms_data"]}))
    async with running_opa([bundle], directory) as opa, aiohttp.ClientSession() as session:
        yield Idioms(opa, session)


@pytest.fixture(scope="module")
async def filters(idioms: Idioms) -> Mapping[str, Filter]:
    return {name: (await idioms.residual(name)).filter for name in ACCEPTED}


def test_the_list_of_idioms_is_read() -> None:
    assert len(ACCEPTED) >= 35
    assert len(REFUSED) >= 30


@pytest.mark.parametrize("rule", ACCEPTED)
async def test_accepted_idiom_becomes_the_filter_it_says(idioms: Idioms, rule: str) -> None:
    assert describe((await idioms.residual(rule)).filter) == ACCEPTED[rule]


async def test_binding_before_not_leaves_a_filter_that_is_wider_than_the_second_check(idioms: Idioms) -> None:
    """Pins what OPA loses, so that a version that keeps it shows: see policy.residual."""
    bound = (await idioms.residual("bound_before_not")).filter
    assert bound == (await idioms.residual("not_equal")).filter
    assert permits(bound, {})
    assert "bound_before_not" not in await idioms.verdicts({})


@pytest.mark.parametrize("rule", REFUSED)
async def test_other_idiom_is_refused_with_advice(idioms: Idioms, rule: str) -> None:
    with pytest.raises(UntranslatableResidual) as refusal:
        await idioms.residual(rule)
    assert REFUSED[rule] in refusal.value.advice
    assert refusal.value.expression


async def test_values_of_the_principal_are_not_in_the_refusal(idioms: Idioms) -> None:
    with pytest.raises(UntranslatableResidual) as refusal:
        await idioms.residual("level_and_text")
    assert "alice" not in str(refusal.value)


async def test_spelled_out_groups_are_merged_up_to_a_bound(idioms: Idioms) -> None:
    at_bound = tuple(f"g{i:03}" for i in range(200))
    merged = (await idioms.residual("some_known_group_in_fragment", groups=at_bound)).filter
    assert merged == (await idioms.residual("some_fragment_group_in_known", groups=at_bound)).filter
    with pytest.raises(UntranslatableResidual, match=r"some g in input\.fragment\.allowed_groups"):
        await idioms.residual("some_known_group_in_fragment", groups=(*at_bound, "one more"))


async def test_a_thousand_groups_in_the_recommended_form(idioms: Idioms) -> None:
    many = tuple(f"g{i:04}" for i in range(1_000))
    residual = await idioms.residual("some_fragment_group_in_known", groups=many)
    assert permits(residual.filter, {"allowed_groups": ("g0999",)})
    assert not permits(residual.filter, {"allowed_groups": ("g1000",)})


async def test_no_groups_are_no_groups(idioms: Idioms) -> None:
    for rule in ("some_fragment_group_in_known", "some_known_group_in_fragment", "wildcards"):
        assert describe((await idioms.residual(rule, groups=())).filter) == "nothing"


TEXTS = ["alice", "bob", "a", "b", "c", "x", "secret", "de", "en", "s1", "s2", "s3", "t1"]
VALUES = {
    AttributeType.TEXT: st.sampled_from(TEXTS),
    AttributeType.TEXT_LIST: st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3, unique=True).map(tuple),
    AttributeType.INT: st.sampled_from([0, 1, 2, 3, 4, 99, 100, 101]),
    AttributeType.BOOL: st.booleans(),
}
ATTRIBUTE_SETS = st.fixed_dictionaries({}, optional={name: VALUES[type_] for name, type_ in ATTRIBUTES.items()})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sets=st.lists(ATTRIBUTE_SETS, min_size=20, max_size=20))
async def test_filter_agrees_with_full_evaluation(
    idioms: Idioms, filters: Mapping[str, Filter], sets: list[Attributes]
) -> None:
    for attributes in sets:
        by_opa = await idioms.verdicts(attributes)
        by_filter = {name for name, f in filters.items() if permits(f, attributes)}
        assert by_filter == by_opa & set(ACCEPTED)
