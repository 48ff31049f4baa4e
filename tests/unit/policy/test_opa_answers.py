"""What an OPA could answer instead of a decision denies, with a typed error (bug cases O7, O9, O10, P3)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from core.budget import Budget, BudgetExhausted
from core.ids import DataRevision, PolicyRevision
from policy.engine import Revisions
from policy.errors import MalformedDecision, PolicyError, PolicyRevisionMoved, PolicyUnavailable, RevisionUnproved
from policy.filter import Nothing
from policy.heartbeat import PolicyLiveness
from policy.opa import MAX_ANSWER_BYTES, OpaEngine
from tests.unit.policy.opa_server import LIMIT_MS, budget, principal

EXPECTED = Revisions(PolicyRevision("p-1"), DataRevision(0))
PROOF = {"policy_revision": "p-1", "data_revision": 0, "reads_now": False}
ITEMS = [("f1", {"tenant": "t1"})]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Impostor:
    """An HTTP server in OPA's place: `answers` by the last part of the path, else `otherwise`."""

    def __init__(self) -> None:
        self.answers: dict[str, object] = {}
        self.otherwise: Answer = self._missing
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rsplit("/", 1)[-1]
        self.asked.append((name, json.loads(await request.read())))
        if name not in self.answers:
            return await self.otherwise(request)
        answer = self.answers[name]
        if isinstance(answer, list) and answer and isinstance(answer[0], web.Response):
            return answer.pop(0)  # type: ignore[no-any-return]
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    @staticmethod
    async def _missing(_: web.Request) -> web.StreamResponse:
        return web.json_response({})


@pytest.fixture
async def impostor() -> AsyncIterator[Impostor]:
    server = Impostor()
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def engine(impostor: Impostor) -> AsyncIterator[OpaEngine]:
    async with OpaEngine(impostor.url, "token", PolicyLiveness(), limit_ms=LIMIT_MS) as opened:
        yield opened


async def ask_all(engine: OpaEngine, name: str) -> object:
    match name:
        case "compile":
            return await engine.access_filter(principal(), 1, budget(), expected=EXPECTED)
        case "visible_answer":
            return await engine.visible(principal(), ITEMS, 1, budget(), expected=EXPECTED)
        case "allow_answer":
            return await engine.allow("Search", principal(), None, budget(), expected=EXPECTED)
        case _:
            return await engine.revisions(budget())


RUBBISH: dict[str, Callable[[], object]] = {
    "empty object": dict,
    "null": lambda: {"result": None},
    "true as text": lambda: {"result": "true"},
    "true": lambda: {"result": True},
    "only a text": lambda: "true",
    "one": lambda: {"result": {"allow": 1, "may_grant": 0, **PROOF}},
    "misspelt": lambda: {"result": {"alow": True, "may_grant": True, **PROOF}},
    "half": lambda: {"result": {"allow": True, **PROOF}},
    "more": lambda: {"result": {"allow": True, "may_grant": True, "visible": ["0"], "x": 1, **PROOF}},
    "texts": lambda: {"result": {"allow": "true", "may_grant": "true", "visible": "0", **PROOF}},
    "object for list": lambda: {"result": {"visible": {"0": True}, **PROOF}},
    "numbers": lambda: {"result": {"visible": [0], **PROOF}},
    "unasked": lambda: {"result": {"visible": ["0", "1"], **PROOF}},
    "no revision": lambda: {"result": {"allow": True, "may_grant": True, "visible": ["0"], "queries": [[]]}},
    "ill-typed revision": lambda: {"result": {"allow": True, "may_grant": True, **PROOF, "data_revision": True}},
    "empty revision": lambda: {"result": {"visible": ["0"], **PROOF, "policy_revision": ""}},
    "negative revision": lambda: {"result": {**PROOF, "data_revision": -1}},
    "NaN": lambda: web.Response(text='{"result": NaN}', content_type="application/json"),
    "truncated": lambda: web.Response(text='{"result": {"allow": tr', content_type="application/json"),
    "deep": lambda: web.Response(text="[" * 100_000, content_type="application/json"),
    "HTML": lambda: web.Response(text="<html>allow</html>", content_type="text/html"),
    "nothing": lambda: web.Response(),
    "error": lambda: web.json_response({"result": {"allow": True}}, status=500),
    "unauthorized": lambda: web.json_response({"code": "unauthorized"}, status=401),
    "redirect": lambda: web.Response(status=302, headers={"Location": "/v1/data"}),
    "no content": lambda: web.Response(status=204),
    "too long": lambda: web.Response(text=" " * (MAX_ANSWER_BYTES + 1), content_type="application/json"),
}


@pytest.mark.parametrize("name", ["compile", "visible_answer", "allow_answer", "revisions"])
@pytest.mark.parametrize("rubbish", RUBBISH)
async def test_rubbish_denies(impostor: Impostor, engine: OpaEngine, name: str, rubbish: str) -> None:
    impostor.answers[name] = RUBBISH[rubbish]()
    with pytest.raises((MalformedDecision, PolicyUnavailable, RevisionUnproved)):
        await ask_all(engine, name)


async def test_the_expected_shapes_are_believed(impostor: Impostor, engine: OpaEngine) -> None:
    impostor.answers["visible_answer"] = {"result": {"visible": ["0"], **PROOF}}
    impostor.answers["allow_answer"] = {"result": {"allow": True, "may_grant": False, **PROOF}}
    assert (await engine.visible(principal(), ITEMS, 1, budget(), expected=EXPECTED)).ids == {"f1"}
    permission = await engine.allow("Search", principal(), None, budget(), expected=EXPECTED)
    assert (permission.allowed, permission.may_grant) == (True, False)


async def test_an_id_is_visible_only_when_all_its_items_are(impostor: Impostor, engine: OpaEngine) -> None:
    impostor.answers["visible_answer"] = {"result": {"visible": ["0", "2"], **PROOF}}
    items = [("f1", {"tenant": "t1"}), ("f1", {"tenant": "t2"}), ("f2", {"tenant": "t1"})]
    assert (await engine.visible(principal(), items, 1, budget(), expected=EXPECTED)).ids == {"f2"}


async def test_an_empty_residual_is_nothing_only_with_a_proof(impostor: Impostor, engine: OpaEngine) -> None:
    impostor.answers["compile"] = {"result": {}}
    with pytest.raises(MalformedDecision):
        await engine.access_filter(principal(), 1, budget(), expected=EXPECTED)
    impostor.answers["revisions"] = {"result": PROOF}
    decision = await engine.access_filter(principal(), 1, budget(), expected=EXPECTED)
    assert decision.filter == Nothing()


async def test_nothing_of_older_rules_is_not_given_the_newer_name(impostor: Impostor, engine: OpaEngine) -> None:
    impostor.answers["compile"] = {"result": {}}
    newer = {**PROOF, "policy_revision": "p-2"}
    impostor.answers["revisions"] = [web.json_response({"result": proof}) for proof in (PROOF, newer)]
    with pytest.raises(RevisionUnproved):
        await engine.access_filter(principal(), 1, budget(), expected=EXPECTED)


@pytest.mark.parametrize("moved", [{"policy_revision": "p-2"}, {"data_revision": 1}])
async def test_other_revisions_make_the_caller_pin_again(
    impostor: Impostor, engine: OpaEngine, moved: dict[str, object]
) -> None:
    proof = {**PROOF, **moved}
    impostor.answers["compile"] = {"result": {}}
    impostor.answers["revisions"] = {"result": proof}
    impostor.answers["visible_answer"] = {"result": {"visible": ["0"], **proof}}
    impostor.answers["allow_answer"] = {"result": {"allow": True, "may_grant": True, **proof}}
    for name in ("compile", "visible_answer", "allow_answer"):
        with pytest.raises(PolicyRevisionMoved) as refusal:
            await ask_all(engine, name)
        actual = Revisions(refusal.value.actual, refusal.value.actual_data)
        assert actual == Revisions(PolicyRevision(str(proof["policy_revision"])), DataRevision(actual.data))
        assert actual.data == proof["data_revision"]


async def test_an_engine_that_never_answers_is_cut_off(impostor: Impostor) -> None:
    released = asyncio.Event()

    async def never(_: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.json_response({})

    impostor.otherwise = never
    async with OpaEngine(impostor.url, "token", PolicyLiveness(), limit_ms=50) as engine:
        for name in ("compile", "visible_answer", "allow_answer", "revisions"):
            with pytest.raises(PolicyUnavailable):
                await ask_all(engine, name)
    released.set()


async def test_a_spent_budget_asks_nothing(impostor: Impostor, engine: OpaEngine) -> None:
    with pytest.raises(BudgetExhausted):
        await engine.allow("Search", principal(), None, Budget.of_seconds(0), expected=None)
    assert impostor.asked == []


async def test_a_refused_connection_is_unavailable() -> None:
    async with OpaEngine("http://127.0.0.1:1", "token", PolicyLiveness(), limit_ms=LIMIT_MS) as engine:
        with pytest.raises(PolicyUnavailable):
            await engine.revisions(budget())


async def test_a_connection_closed_while_idle_is_opened_again(impostor: Impostor, engine: OpaEngine) -> None:
    closing = web.json_response({"result": PROOF})
    first_asked: list[str] = []

    async def close_once(request: web.Request) -> web.StreamResponse:
        if not first_asked:
            first_asked.append(request.path)
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"result": PROOF})

    impostor.answers["revisions"] = [closing]
    await engine.revisions(budget())
    del impostor.answers["revisions"]
    impostor.otherwise = close_once
    assert await engine.revisions(budget()) == EXPECTED
    assert first_asked


async def test_errors_do_not_repeat_what_the_engine_said(impostor: Impostor, engine: OpaEngine) -> None:
    impostor.answers["allow_answer"] = web.json_response({"message": "canary"}, status=500)
    impostor.answers["revisions"] = {"result": {"canary": "canary"}}
    for name in ("allow_answer", "revisions"):
        with pytest.raises(PolicyError) as refusal:
            await ask_all(engine, name)
        assert "canary" not in str(refusal.value)


async def test_rubbish_is_no_sign_of_life(impostor: Impostor) -> None:
    liveness = PolicyLiveness()
    async with OpaEngine(impostor.url, "token", liveness, limit_ms=LIMIT_MS) as engine:
        with pytest.raises(MalformedDecision):
            await engine.revisions(budget())
        assert liveness.away
        impostor.answers["revisions"] = {"result": PROOF}
        await engine.revisions(budget())
        assert not liveness.away
