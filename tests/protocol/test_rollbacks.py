"""Rollback at once, a forward snapshot before anything else, and nothing of what was rolled back in new reads."""

import pytest

from corpus.errors import SnapshotUnavailable
from corpus.pinning import Consistency
from corpus.projection import Step
from tests.protocol.harness import Put, World, drain, ids, kill_after, run_until


async def test_nothing_of_a_rolled_back_snapshot_is_in_latest_at_least_or_exact_reads(world: World) -> None:
    old, back, at = await _two_snapshots(world)
    world.rollback(1)
    assert await world.read() == ids([old])
    for refused in (Consistency(exact=2), Consistency(at_least=2)):
        with pytest.raises(SnapshotUnavailable):
            await world.pin("q", refused)
    other = world.put("E")
    await world.publish()
    assert world.active == 4  # 3 is the forward snapshot
    for consistency in (Consistency(), Consistency(at_least=2), Consistency(at_least=4), Consistency(exact=4)):
        assert await world.read("q", consistency) == ids([old, other])
    assert await world.read("q", Consistency(exact=3)) == ids([old])
    with pytest.raises(SnapshotUnavailable):
        await world.pin("q", Consistency(exact=2))
    assert await world.read("q", Consistency(known_at_us=at)) == ids([back])
    world.assert_quiet()


async def test_time_travel_answers_what_was_active_then_without_what_was_denied_since(world: World) -> None:
    old, back, at = await _two_snapshots(world)
    first = world.activated_at(0)
    world.rollback(1)
    world.put("E")
    await world.publish()
    assert await world.read("q", Consistency(known_at_us=at)) == ids([back])
    assert await world.read("q", Consistency(known_at_us=first)) == ids([old])
    world.retract(back)
    assert await world.read("q", Consistency(known_at_us=at)) == set()
    assert await world.read("q", Consistency(known_at_us=first)) == ids([old])
    world.delete("D")
    assert await world.read("q", Consistency(known_at_us=first)) == set()
    await world.settle()
    world.assert_quiet()


async def test_a_request_pinned_before_the_rollback_stays_in_its_snapshot(world: World) -> None:
    _, back, _ = await _two_snapshots(world)
    request = await world.pin()
    world.rollback(1)
    world.put("E")
    await world.publish()
    await request.search()
    assert await request.release() == ids([back])


async def test_a_rollback_during_publishing_undoes_the_publication(world: World) -> None:
    old, _, _ = await _two_snapshots(world)
    newest = world.put("D")
    publisher = world.publishing()
    await run_until(publisher, Step.READ_BACK)
    world.rollback(1)
    assert await anext(publisher) is Step.UNDONE
    assert await world.read() == ids([old])
    await drain(publisher)
    assert await world.read() == ids([newest])
    assert await world.read("q", Consistency(exact=4)) == ids([old])  # the forward snapshot comes first
    world.assert_quiet()


async def test_the_forward_snapshot_is_without_what_was_denied_since(world: World) -> None:
    world.put("D")
    kept = world.put("E")
    await world.publish()
    world.put("D")
    await world.publish()
    world.rollback(1)
    world.delete("D")
    other = world.put("F")
    await world.publish()
    assert await world.read() == ids([kept, other])
    await world.settle()
    world.assert_quiet()


async def test_a_put_between_the_rolled_back_numbers_is_published(world: World) -> None:
    world.put("D")
    await world.publish()
    between = world.accept("D")
    world.put("D")
    await world.publish()
    world.rollback(1)
    assert world.stage(between)
    await world.publish()
    assert await world.read() == ids([between])
    world.assert_quiet()


async def test_rolling_back_to_a_rolled_back_snapshot_serves_it_again(world: World) -> None:
    _, back, _ = await _two_snapshots(world)
    world.rollback(1)
    world.put("E")
    await world.publish()
    world.rollback(2)
    assert await world.read() == ids([back])
    assert await world.read("q", Consistency(exact=2)) == ids([back])
    with pytest.raises(SnapshotUnavailable):
        await world.pin("q", Consistency(exact=4))
    last = world.put("F")
    await world.publish()
    assert await world.read() == ids([back, last])
    world.assert_quiet()


@pytest.mark.parametrize("count", range(1, 18))
async def test_a_publisher_killed_after_a_rollback_is_succeeded(world: World, count: int) -> None:
    old, _, _ = await _two_snapshots(world)
    world.rollback(1)
    other = world.put("E")
    done = await kill_after(world.publishing("dead"), count)
    assert await world.read() == ids([old, other] if done.count(Step.MOVED) == 2 else [old])
    world.expire_lease()
    await world.publish("successor")
    assert await world.read() == ids([old, other])
    await world.settle()
    world.assert_quiet()


@pytest.mark.parametrize("seq", [0, 2, 3, 99])
async def test_a_rollback_to_what_is_active_or_unknown_is_refused(world: World, seq: int) -> None:
    _, back, _ = await _two_snapshots(world)
    with pytest.raises(SnapshotUnavailable):
        world.rollback(seq)
    assert await world.read() == ids([back])


async def _two_snapshots(world: World) -> tuple[Put, Put, int]:
    """The first snapshot's revision, the second's, and a time at which the second was active."""
    old = world.put("D")
    await world.publish()
    back = world.put("D")
    await world.publish()
    return old, back, world.activated_at(1)
