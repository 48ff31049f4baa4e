"""Release against acknowledgement under a controlled clock: nothing leaves that an acknowledged denial covers (I5).

Time stands still but where a test lets it pass: during the last read before a message leaves, or while policy judges.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from corpus.acknowledge import ACKNOWLEDGE_AFTER_S, SEND_BOUND_S, acknowledgeable
from corpus.pinning import Consistency
from retrieval.errors import ReleaseUnavailable
from retrieval.gate import CLEARINGS, JUDGEMENTS
from tests.protocol.harness import Put, World, ids

DENIALS: dict[str, Callable[[World, Put], object]] = {
    "set_access": lambda world, _: world.set_access("D", "p"),
    "narrowing put": lambda world, _: world.accept("D", "p"),
    "delete": lambda world, _: world.delete("D"),
    "retract": lambda world, put: world.retract(put),
}


@pytest.fixture(params=DENIALS)
def denial(request: pytest.FixtureRequest) -> Callable[[World, Put], object]:
    return DENIALS[request.param]


async def test_a_denial_that_is_acknowledged_while_the_clearing_read_returns_is_heeded(
    world: World, denial: Callable[[World, Put], object]
) -> None:
    """The read began before the commit and its answer comes when the denial has been acknowledged."""
    put = await _found(world)
    request = await (await world.pin()).search()
    at_clearing(world, 2, lambda: _acknowledged(world, denial, put))
    assert await request.release() == set()


async def test_a_denial_between_the_judgement_and_the_last_read_is_heeded(
    world: World, denial: Callable[[World, Put], object]
) -> None:
    put = await _found(world)
    request = await (await world.pin()).search()
    _while_judged(world, lambda: denial(world, put))
    assert await request.release() == set()
    assert world.policy.judgements == 1 or world.policy.judgements == 2
    assert [line["kind"] for line in _audit(world)] == ["intended", "withheld", "intended"]
    assert _audit(world)[1]["reason"] == "moved"


async def test_a_denial_between_search_and_release_is_heeded(
    world: World, denial: Callable[[World, Put], object]
) -> None:
    put = await _found(world)
    request = await (await world.pin()).search()
    denial(world, put)
    assert await request.release() == set()
    assert [line["items"] for line in _audit(world)] == [[]]


async def test_a_message_that_was_cleared_before_the_commit_leaves_before_the_acknowledgement(world: World) -> None:
    """The one window in which what is being denied still leaves: younger than the bound, not yet acknowledged."""
    put = await _found(world)
    request = await (await world.pin()).search()
    committed: list[float] = []

    def deny() -> None:
        world.set_access("D", "p")
        committed.append(world.clock.now)
        world.clock.now += SEND_BOUND_S * 0.9

    at_clearing(world, 2, deny)
    assert await request.release() == ids([put])
    assert world.clock.now < committed[0] + ACKNOWLEDGE_AFTER_S


@pytest.mark.parametrize("late_by", [0.0, 0.001, 10.0])
async def test_a_message_as_old_as_the_bound_is_read_again(world: World, late_by: float) -> None:
    put = await _found(world)
    request = await (await world.pin()).search()
    at_clearing(world, 2, lambda: _pass(world, SEND_BOUND_S + late_by))
    assert await request.release() == ids([put])
    assert (world.database.clearings, world.policy.judgements) == (3, 1)
    assert [line["kind"] for line in _audit(world)] == ["intended"]


async def test_the_age_of_a_message_counts_from_the_start_of_its_read(world: World) -> None:
    """A slow read whose answer says that all is well says it of the time when it began."""
    await _found(world)
    request = await (await world.pin()).search()

    def deny_and_dawdle() -> None:
        world.set_access("D", "p")
        world.wait_for_acknowledgement()

    at_clearing(world, 2, deny_and_dawdle)
    assert await request.release() == set()
    assert world.database.clearings == 5  # before, late, moved; before again, cleared


async def test_what_can_never_be_read_freshly_enough_is_withheld_and_the_record_says_so(world: World) -> None:
    await _found(world)
    request = await (await world.pin()).search()
    world.database.cleared = lambda: _pass(world, 2 * SEND_BOUND_S)
    with pytest.raises(ReleaseUnavailable):
        await request.release()
    assert world.database.clearings == 1 + CLEARINGS
    lines = _audit(world)
    assert [(line["kind"], line.get("reason")) for line in lines] == [("intended", None), ("withheld", "late")]
    assert lines[0]["decision_id"] == lines[1]["decision_id"]


async def test_an_epoch_that_moves_means_judging_again(world: World) -> None:
    put = await _found(world)
    request = await (await world.pin()).search()
    _while_judged(world, lambda: world.set_access("D", "pqr"))
    assert await request.release() == ids([put])
    assert world.policy.judgements == 2
    lines = _audit(world)
    assert [line["kind"] for line in lines] == ["intended", "withheld", "intended"]
    assert lines[0]["decision_id"] == lines[1]["decision_id"] != lines[2]["decision_id"]
    assert lines[2]["revisions"]["epoch"] > lines[0]["revisions"]["epoch"]


async def test_an_epoch_that_never_rests_withholds_everything(world: World) -> None:
    await _found(world)
    request = await (await world.pin()).search()
    world.policy.judging = lambda: world.set_access("D", "pq")  # type: ignore[assignment]
    with pytest.raises(ReleaseUnavailable):
        await request.release()
    assert world.policy.judgements == JUDGEMENTS
    assert [line["kind"] for line in _audit(world)] == ["intended", "withheld"] * JUDGEMENTS


async def test_accepting_a_new_document_does_not_make_others_be_judged_again(world: World) -> None:
    """It denies nothing: otherwise a busy ingest would withhold every answer."""
    put = await _found(world)
    request = await (await world.pin()).search()
    _while_judged(world, lambda: world.accept("E", "p"))
    assert await request.release() == ids([put])
    assert world.policy.judgements == 1


async def test_an_old_citation_is_cleared_like_everything_else(
    world: World, denial: Callable[[World, Put], object]
) -> None:
    put = await _found(world)
    at_clearing(world, 2, lambda: _acknowledged(world, denial, put))
    assert not await world.resolve("q", put)


async def test_a_rollback_does_not_stop_what_is_pinned(world: World) -> None:
    put = await _found(world)
    world.put("E")
    await world.publish()
    request = await (await world.pin("q", Consistency(exact=1))).search()
    at_clearing(world, 2, lambda: world.rollback(1))
    assert await request.release() == ids([put])


async def test_a_denial_is_acknowledged_later_than_any_message_that_was_cleared_before_it() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await acknowledgeable()
    assert loop.time() - began >= ACKNOWLEDGE_AFTER_S > SEND_BOUND_S


async def _found(world: World) -> Put:
    put = world.put("D")
    await world.publish()
    return put


def at_clearing(world: World, number: int, act: Callable[[], object]) -> None:
    """Run `act` while the answer of the release read of that number, counted from now, is on its way."""
    start = world.database.clearings

    def hook() -> None:
        if world.database.clearings - start == number:
            act()

    world.database.cleared = hook


def _acknowledged(world: World, denial: Callable[[World, Put], object], put: Put) -> None:
    denial(world, put)
    world.wait_for_acknowledgement()


def _while_judged(world: World, act: Callable[[], object]) -> None:
    """Run `act` once, after policy has answered the next second check."""

    def hook() -> None:
        world.policy.judging = lambda: None
        act()

    world.policy.judging = hook


def _pass(world: World, seconds: float) -> None:
    world.clock.now += seconds


def _audit(world: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (world.folder / "audit.jsonl").read_text().splitlines()]
