"""OPA is away when neither call nor heartbeat has succeeded for 3 s."""

import asyncio
import json
from pathlib import Path

import pytest

from core.budget import Budget
from core.ids import DataRevision, PolicyRevision
from policy.bundle import build_bundle
from policy.engine import Revisions
from policy.errors import MalformedDecision, PolicyUnavailable
from policy.heartbeat import AWAY_AFTER_S, PolicyHeartbeat, PolicyLiveness
from policy.memo import MemoizedPolicy
from policy.opa import OpaEngine
from tests.unit.policy.opa_server import LIMIT_MS, budget, eventually, principal, running_opa


class Steps:
    """A clock that the test moves, and a sleep that ends when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ticks: asyncio.Queue[None] = asyncio.Queue()
        self.asleep = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.asleep += 1
        await self._ticks.get()
        self.now += seconds

    def tick(self) -> None:
        self._ticks.put_nowait(None)


class Flaky:
    def __init__(self, liveness: PolicyLiveness) -> None:
        self.up = True
        self.beats = 0
        self._liveness = liveness

    async def revisions(self, budget: Budget) -> Revisions:
        self.beats += 1
        if not self.up:
            raise PolicyUnavailable("down")
        self._liveness.succeeded(self._liveness.clock())
        return Revisions(PolicyRevision("p-1"), DataRevision(0))


def test_an_engine_that_never_answered_is_away() -> None:
    liveness = PolicyLiveness()
    assert liveness.away
    with pytest.raises(PolicyUnavailable):
        liveness.require()


def test_an_answer_counts_from_its_question_and_never_backwards() -> None:
    steps = Steps()
    liveness = PolicyLiveness(steps.clock)
    steps.now = 10.0
    liveness.succeeded(8.0)
    liveness.succeeded(7.0)
    steps.now = 8.0 + AWAY_AFTER_S - 0.001
    liveness.require()
    steps.now = 8.0 + AWAY_AFTER_S
    assert liveness.away


async def test_heartbeats_notice_absence_and_return() -> None:
    steps = Steps()
    liveness = PolicyLiveness(steps.clock)
    engine = Flaky(liveness)
    async with PolicyHeartbeat(engine, sleep=steps.sleep):
        await eventually(lambda: steps.asleep == 1)
        assert not liveness.away
        engine.up = False
        for beats in range(2, 5):
            steps.tick()
            await eventually(lambda beats=beats: steps.asleep == beats)  # type: ignore[misc]
            assert engine.beats == beats
        assert steps.now == AWAY_AFTER_S
        assert liveness.away
        engine.up = True
        steps.tick()
        await eventually(lambda: not liveness.away)


async def test_leaving_ends_the_heartbeat() -> None:
    steps = Steps()
    engine = Flaky(PolicyLiveness(steps.clock))
    async with PolicyHeartbeat(engine, sleep=steps.sleep):
        await eventually(lambda: steps.asleep == 1)
    steps.tick()
    await asyncio.sleep(0)
    assert engine.beats == 1


async def test_an_opa_that_dies_stops_releases_and_kept_decisions(tmp_path: Path) -> None:
    steps = Steps()
    liveness = PolicyLiveness(steps.clock)
    expected = Revisions(build_bundle(tmp_path / "bundle"), DataRevision(0))
    async with (
        running_opa([tmp_path / "bundle"], tmp_path) as opa,
        OpaEngine(opa.url, opa.token, liveness, limit_ms=LIMIT_MS) as engine,
    ):
        memo = MemoizedPolicy(engine, liveness)
        heartbeat = PolicyHeartbeat(memo)
        await memo.access_filter(principal(), 1, budget(), expected=expected)
        await opa.supervisor.stop()
        await heartbeat.beat()
        steps.now += AWAY_AFTER_S - 0.1
        assert await memo.access_filter(principal(), 1, budget(), expected=expected)  # within 3 s: kept
        with pytest.raises(PolicyUnavailable):
            await memo.access_filter(principal("bob"), 1, budget(), expected=expected)
        steps.now += 0.1
        with pytest.raises(PolicyUnavailable):
            await memo.access_filter(principal(), 1, budget(), expected=expected)
        with pytest.raises(PolicyUnavailable):
            liveness.require()


async def test_an_opa_without_our_policy_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".manifest").write_text(json.dumps({"roots": ["other"]}))
    liveness = PolicyLiveness()
    async with running_opa([tmp_path / "other"], tmp_path) as opa:
        async with OpaEngine(opa.url, opa.token, liveness, limit_ms=LIMIT_MS) as engine:
            with pytest.raises(MalformedDecision):
                await engine.revisions(budget())
        assert liveness.away
        async with OpaEngine(opa.url, "wrong token", liveness, limit_ms=LIMIT_MS) as engine:
            with pytest.raises(PolicyUnavailable):
                await engine.revisions(budget())
