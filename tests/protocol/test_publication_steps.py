"""Publishing step by step: what a reader sees in between, kills and successors, fencing, what may not be published."""

from collections.abc import Callable

import pytest

from corpus.catalog.leases import LeaseTerms, take_lease
from corpus.catalog.publication import undo_dead_publication
from corpus.errors import LeaseLost
from corpus.pinning import Consistency
from corpus.projection import Step
from tests.protocol.harness import LONG, Put, World, drain, ids, kill_after, run_until

BEFORE_THE_MOVE = [Step.LEASED, Step.PLANNED, Step.COPIED, Step.READ_BACK]
AFTER_THE_MOVE = [Step.MOVED, Step.COPIED, Step.LISTED, Step.DELETED, Step.SETTLED]


async def test_a_published_revision_replaces_its_predecessor_and_all_is_quiet(world: World) -> None:
    old = world.put("D")
    assert await world.read() == set()
    await world.publish()
    assert await world.read() == ids([old])
    new = world.put("D")
    await world.publish()
    assert await world.read() == ids([new])
    assert await world.read(consistency=Consistency(exact=1)) == ids([old])
    world.assert_quiet()


async def test_a_reader_sees_the_old_snapshot_up_to_the_move_and_the_new_one_from_it_on(world: World) -> None:
    old, new = await _published_and_staged(world)
    done = []
    async for step in world.publishing():
        done.append(step)
        expected = [new] if Step.MOVED in done else [old]
        assert await world.read() == ids(expected), done
    assert done == [*BEFORE_THE_MOVE, *AFTER_THE_MOVE]
    world.assert_quiet()


async def test_a_request_pinned_before_the_move_stays_in_its_snapshot(world: World) -> None:
    old, _ = await _published_and_staged(world)
    request = await world.pin()
    await world.publish()
    await request.search()
    assert await request.release() == ids([old])


async def test_an_old_snapshot_is_found_while_a_newer_publication_is_unsettled(world: World) -> None:
    old, new = await _published_and_staged(world)
    await run_until(world.publishing(), Step.MOVED)
    assert await world.read(consistency=Consistency(exact=1)) == ids([old])
    assert await world.read() == ids([new])


async def test_what_is_staged_is_not_in_the_store(world: World) -> None:
    old, new = await _published_and_staged(world)
    world.set_access("D", "q")
    await world.settle()
    assert {f.revision_id for f in world.held.values()} == ids([old])
    assert new.revision_id not in {f.revision_id for f in world.held.values()}


@pytest.mark.parametrize("count", range(1, 10))
async def test_a_publisher_killed_after_any_step_is_succeeded_and_everything_ends_quiet(
    world: World, count: int
) -> None:
    old, new = await _published_and_staged(world)
    other = world.put("E")
    done = await kill_after(world.publishing("dead"), count)
    assert len(done) == count
    moved = Step.MOVED in done
    assert await world.read() == ids([new, other] if moved else [old])
    assert await world.publish("successor") == []  # the lease has not run out
    world.expire_lease()
    await world.publish("successor")
    assert await world.read() == ids([new, other])
    await world.settle()
    world.assert_quiet()


async def test_no_seq_is_drawn_twice(world: World) -> None:
    await _published_and_staged(world)
    await kill_after(world.publishing("dead"), 2)
    world.expire_lease()
    await world.publish("successor")
    assert world.active == 3  # 2 died with its publisher


async def test_a_dead_publication_is_undone_before_anything_else_is_published(world: World) -> None:
    old, new = await _published_and_staged(world)
    await kill_after(world.publishing("dead"), 4)  # its fragments are in the store
    assert {f.revision_id for f in world.held.values()} == ids([old, new])
    world.expire_lease()
    successor = world.publishing("successor")
    await run_until(successor, Step.SETTLED)
    assert {f.revision_id for f in world.held.values()} == ids([old])
    world.assert_store_agrees()
    await drain(successor)
    world.assert_quiet()


async def test_a_lease_is_granted_only_when_nothing_of_a_dead_holder_can_still_arrive(world: World) -> None:
    await _published_and_staged(world)
    await kill_after(world.publishing("dead"), 2)
    world.expire_lease()
    hour = 3_600 * 1_000_000
    for drain_s, granted in ((1e12, False), (0.0, True)):
        terms = LeaseTerms(lasts_s=hour, drain_s=drain_s)
        lease = world.database.write_now(lambda tx, t=terms: take_lease(tx, world.tenant_id, "next", t))  # type: ignore[misc]
        assert (lease is not None) == granted


async def test_an_expired_lease_fences_its_holder_at_the_move(world: World) -> None:
    old, new = await _published_and_staged(world)
    slow = world.publishing("slow")
    await run_until(slow, Step.READ_BACK)
    world.expire_lease()
    successor = world.publishing("successor")
    await run_until(successor, Step.PLANNED)
    with pytest.raises(LeaseLost):
        await drain(slow)
    assert world.active == 1
    assert await world.read() == ids([old])
    await drain(successor)
    assert await world.read() == ids([new])
    world.assert_quiet()


@pytest.mark.parametrize("count", range(1, 10))
async def test_a_holder_that_comes_back_after_its_successor_changes_nothing(world: World, count: int) -> None:
    _, new = await _published_and_staged(world)
    slow = world.publishing("slow")
    for _ in range(count):
        await anext(slow)
    world.expire_lease()
    await world.publish("successor")
    with pytest.raises(LeaseLost):
        await drain(slow)
    assert await world.read() == ids([new])
    await world.settle()
    world.assert_quiet()


async def test_a_publisher_whose_lease_has_run_out_writes_nothing_more(world: World) -> None:
    await _published_and_staged(world)
    slow = world.publishing("slow")
    await run_until(slow, Step.PLANNED)
    world.expire_lease()
    before = dict(world.held)
    with pytest.raises(LeaseLost):
        await drain(slow)
    assert world.held == before


async def test_a_lost_lease_does_not_undo_its_successors_publication(world: World) -> None:
    await _published_and_staged(world)
    lease = world.database.write_now(lambda tx: take_lease(tx, world.tenant_id, "slow", LONG))
    assert lease is not None
    world.expire_lease()
    successor = world.publishing("successor")
    await run_until(successor, Step.PLANNED)
    with pytest.raises(LeaseLost):
        world.database.write_now(lambda tx: undo_dead_publication(tx, lease))
    await drain(successor)
    assert world.active == 2
    world.assert_quiet()


async def test_two_publishers_do_not_meet(world: World) -> None:
    _, new = await _published_and_staged(world)
    first = world.publishing("first")
    async for _ in first:
        assert await world.publish("second") == []
    assert await world.read() == ids([new])
    assert world.active == 2
    world.assert_quiet()


async def test_an_older_put_never_overwrites_a_newer_one(world: World) -> None:
    older, newer = world.accept("D"), world.put("D")
    await world.publish()
    assert world.stage(older)
    await world.publish()
    assert await world.read() == ids([newer])
    assert world.state(older) == "dropped"
    world.assert_quiet()


async def test_of_two_staged_puts_the_newer_one_is_published(world: World) -> None:
    older, newer = world.put("D"), world.put("D")
    await world.publish()
    assert await world.read() == ids([newer])
    assert (world.state(older), world.active) == ("dropped", 1)
    world.assert_quiet()


@pytest.mark.parametrize("count", range(1, 10))
async def test_a_put_that_is_dropped_by_a_killed_publisher_ends_quiet(world: World, count: int) -> None:
    world.put("D")
    newer = world.put("D")
    await kill_after(world.publishing("dead"), count)
    world.expire_lease()
    await world.publish("successor")
    await world.settle()
    assert await world.read() == ids([newer])
    world.assert_quiet()


@pytest.mark.parametrize("at", ["accepted", "staged", *range(1, 10)])
async def test_delete_while_a_put_is_queued_wins(world: World, at: str | int) -> None:
    """Delete before and after staging and between each two steps of the put's publication."""
    old = world.put("D")
    await world.publish()
    new = world.accept("D")
    if at == "accepted":
        world.delete("D")
        assert world.stage(new)
        await world.publish()
    elif at == "staged":
        assert world.stage(new)
        world.delete("D")
        await world.publish()
    else:
        assert world.stage(new)
        await _with(world, int(at), lambda: world.delete("D"))
    assert await world.read() == set()
    assert not await world.resolve("q", old)
    assert not await world.resolve("q", new)
    await world.settle()
    assert world.held == {}
    world.assert_quiet()


@pytest.mark.parametrize("count", range(1, 10))
async def test_a_build_abandoned_between_two_steps_is_served_whole_or_not_at_all(world: World, count: int) -> None:
    old = world.put("D")
    await world.publish()
    build = world.begin()
    puts = [world.put("D", build=build), world.put("E", build=build)]
    world.seal(build)
    publisher = world.publishing()
    done = [await anext(publisher) for _ in range(count)]
    if Step.MOVED in done:
        await drain(publisher)
        assert await world.read() == ids(puts)
    else:
        world.abandon(build)
        assert Step.MOVED not in await drain(publisher)
        assert await world.read() == ids([old])
    await world.settle()
    world.assert_quiet()


async def test_an_abandoned_build_leaves_nothing_even_if_its_publisher_dies(world: World) -> None:
    build = world.begin()
    world.put("D", build=build)
    world.seal(build)
    await kill_after(world.publishing("dead"), 4)
    world.abandon(build)
    assert await world.read() == set()
    world.expire_lease()
    await world.publish("successor")
    await world.settle()
    assert world.held == {}
    world.assert_quiet()


async def test_a_build_is_published_when_all_of_its_puts_are_staged(world: World) -> None:
    build = world.begin()
    first, second = world.put("D", build=build), world.accept("E", build=build)
    await world.publish()
    world.seal(build)
    await world.publish()
    assert await world.read() == set()
    assert world.stage(second)
    await world.publish()
    assert await world.read() == ids([first, second])
    assert world.active == 1
    world.assert_quiet()


async def test_the_newest_accepted_revision_serves_whatever_the_order_of_staging(world: World) -> None:
    first, second, third = world.accept("D"), world.accept("D"), world.accept("D")
    for put in (second, third, first):
        assert world.stage(put)
        await world.publish()
    assert await world.read() == ids([third])
    world.assert_quiet()


async def test_a_retracted_revision_is_not_published_and_what_it_superseded_does_not_return(world: World) -> None:
    _, new = await _published_and_staged(world)
    await run_until(world.publishing("dead"), Step.READ_BACK)
    world.retract(new)
    world.expire_lease()
    await world.publish()
    assert world.state(new) == "dropped"
    newest = world.put("D")
    await world.publish()
    world.retract(newest)
    assert await world.read() == set()
    await world.settle()
    world.assert_quiet()


async def _published_and_staged(world: World) -> tuple[Put, Put]:
    old = world.put("D")
    await world.publish()
    return old, world.put("D")


async def _with(world: World, count: int, command: Callable[[], object]) -> None:
    """Publish, and run `command` after `count` steps."""
    publisher = world.publishing()
    for _ in range(count):
        await anext(publisher)
    command()
    await drain(publisher)
