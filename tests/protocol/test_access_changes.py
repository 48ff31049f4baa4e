"""Access changes: what closes stays closed, what opens opens only what its caller saw, whatever comes in between."""

import pytest

from corpus.errors import EtagMismatch
from corpus.pinning import Consistency
from corpus.projection import Step
from tests.protocol.harness import Put, World, drain, ids, run_until


@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("settled", [False, True])
async def test_set_access_during_a_build_of_the_same_document(world: World, count: int, settled: bool) -> None:
    """It closes the old revision at once and the new one when that is published; what p may see is never missing."""
    old = await _published(world, "pq")
    new = world.put("D", "pq")
    publisher = world.publishing()
    done = [await anext(publisher) for _ in range(count)]
    world.set_access("D", "p")
    if settled:
        await world.settle()
    async for step in publisher:
        done.append(step)
        assert await world.read("q") == set()
        assert await world.read("p") == ids([new if Step.MOVED in done else old]), done
    assert not await world.resolve("q", old)
    assert not await world.resolve("q", new)
    await world.settle()
    assert await world.read("q") == set()
    assert await world.read("p") == ids([new])
    world.assert_quiet()


async def test_publishing_does_not_overwrite_an_access_that_moved_since_acceptance(world: World) -> None:
    await _published(world, "pq")
    new = world.put("D", "pq")
    world.set_access("D", "p")
    await world.publish()
    assert await world.read("q") == set()
    assert await world.read("p") == ids([new])
    document = (await world.pin("p")).view.opened.document("wiki", "D")
    assert document is not None
    assert document.access.allowed_groups == ("p",)


async def test_a_put_narrows_from_acceptance_and_for_those_it_leaves_out_only(world: World) -> None:
    old = await _published(world, "pq")
    world.accept("D", "p")
    assert await world.read("q") == set()
    assert not await world.resolve("q", old)
    assert await world.read("p") == ids([old])


async def test_a_revision_narrowed_for_one_is_still_found_by_the_others_without_a_second_search(world: World) -> None:
    old = await _published(world, "pq")
    world.accept("D", "p")
    request = await (await world.pin("p")).search()
    assert request.found == ids([old])
    assert all(old.revision_id not in query.excluded_revisions for query in world.store.queries)


async def test_what_a_put_narrowed_opens_again_when_its_build_is_abandoned(world: World) -> None:
    old = await _published(world, "pq")
    build = world.begin()
    world.accept("D", "p", build=build)
    assert await world.read("q") == set()
    world.abandon(build)
    assert await world.read("q") == ids([old])
    await world.settle()
    assert await world.read("q") == ids([old])
    world.assert_quiet()


async def test_what_a_failed_put_narrowed_stays_narrow_until_named(world: World) -> None:
    old = await _published(world, "pq")
    put = world.accept("D", "p")
    world.fail(put)
    assert await world.read("q") == set()
    await world.settle()
    assert await world.read("q") == set()
    assert await world.read("p") == ids([old])
    world.set_access("D", "pq")
    await world.settle()
    assert await world.read("q") == ids([old])
    world.assert_quiet()


async def test_what_a_dropped_put_narrowed_stays_narrow(world: World) -> None:
    older = world.accept("D", "p")
    newer = world.put("D", "pq")
    oldest_known = await world.publish()
    assert Step.MOVED in oldest_known
    assert world.stage(older)
    await world.publish()
    assert world.state(older) == "dropped"
    assert await world.read("q") == ids([newer])  # numbered above it
    world.assert_quiet()


async def test_narrowing_by_a_put_that_is_published_binds_the_revision_it_supersedes(world: World) -> None:
    old = await _published(world, "pq")
    new = world.put("D", "p")
    await world.publish()
    assert await world.read("q", Consistency(exact=1)) == set()
    assert not await world.resolve("q", old)
    assert await world.read("p", Consistency(exact=1)) == ids([old])
    assert await world.read("p") == ids([new])


@pytest.mark.parametrize("closed_by", ["put", "set_access"])
async def test_a_revision_opened_wider_later_does_not_open_its_predecessor(world: World, closed_by: str) -> None:
    """Neither by time travel nor after a rollback nor by an old citation."""
    old = await _published(world, "p" if closed_by == "put" else "pq")
    at = world.activated_at(0)
    if closed_by == "set_access":
        world.set_access("D", "p")
        await world.settle()
    new = world.put("D", "p")
    await world.publish()
    world.set_access("D", "pq")
    await world.settle()
    assert await world.read("q") == ids([new])
    assert await world.read("q", Consistency(exact=1)) == set()
    assert await world.read("q", Consistency(known_at_us=at)) == set()
    assert not await world.resolve("q", old)
    assert await world.resolve("q", new)
    world.rollback(1)
    assert await world.read("q") == set()
    assert await world.read("p") == ids([old])
    world.put("E", "p")
    await world.publish()
    assert await world.read("q") == set()
    world.assert_quiet()


async def test_what_a_change_closed_without_naming_it_stays_closed_when_another_opens_the_named_one(
    world: World,
) -> None:
    old = await _published(world, "pq")
    new = world.put("D", "pq")
    await world.publish()
    world.set_access("D", "p")
    world.set_access("D", "pq")
    await world.settle()
    assert await world.read("q") == ids([new])
    assert await world.read("q", Consistency(exact=1)) == set()
    assert not await world.resolve("q", old)
    world.rollback(1)
    assert await world.read("q") == set()
    assert await world.read("p") == ids([old])
    world.assert_quiet()


async def test_set_access_names_the_active_revision_alone(world: World) -> None:
    old = await _published(world, "p")
    new = world.put("D", "p")
    await world.publish()
    world.set_access("D", "q")
    await world.settle()
    assert await world.read("q") == ids([new])
    assert await world.read("p") == set()
    assert not await world.resolve("q", old)
    assert not await world.resolve("p", old)  # closing binds all
    world.assert_quiet()


async def test_set_access_without_an_etag_only_closes(world: World) -> None:
    old = await _published(world, "p")
    world.set_access("D", "pq", etag="")
    await world.settle()
    assert await world.read("q") == set()
    assert await world.read("p") == ids([old])
    world.set_access("D", "q", etag="")
    await world.settle()
    assert await world.read("q") == set()
    assert await world.read("p") == set()
    world.assert_quiet()


@pytest.mark.parametrize("change", ["put", "publish", "set_access", "delete and put", "rollback"])
async def test_set_access_with_a_stale_etag_is_refused_and_changes_nothing(world: World, change: str) -> None:
    await _published(world, "p")
    world.put("D", "p")
    await world.publish()
    if change == "publish":
        world.put("D", "p")
    etag, state = world.etag("D"), None
    match change:
        case "put":
            world.accept("D", "p")
        case "publish":
            await world.publish()
        case "set_access":
            world.set_access("D", "p")
        case "delete and put":
            world.delete("D")
            world.put("D", "p")
            await world.publish()
        case "rollback":
            world.rollback(1)
    state = world.database.read("SELECT * FROM revisions"), world.database.read("SELECT epoch FROM tenants")
    with pytest.raises(EtagMismatch):
        world.set_access("D", "pq", etag=etag)
    assert state == (world.database.read("SELECT * FROM revisions"), world.database.read("SELECT epoch FROM tenants"))
    assert await world.read("q") == set()


async def test_a_put_after_a_delete_does_not_bring_earlier_revisions_back(world: World) -> None:
    old = await _published(world, "pq")
    at = world.activated_at(0)
    world.delete("D")
    new = world.put("D", "pq")
    for _ in range(2):
        assert not await world.resolve("q", old)
        assert await world.read("q", Consistency(known_at_us=at)) == set()
        assert await world.read("q", Consistency(exact=1)) == set()
        assert old.revision_id not in await world.read("q")
        await world.publish()
    assert await world.read("q") == ids([new])
    await world.settle()
    world.assert_quiet()


async def test_an_access_change_that_is_not_settled_costs_no_second_search(world: World) -> None:
    closed = await _published(world, "pq")
    other = world.put("E", "pq")
    await world.publish()
    world.set_access("D", "p")
    world.store.queries.clear()
    request = await (await world.pin("q")).search()
    assert request.found == ids([other])
    assert request.refills == 0
    assert all(closed.revision_id in query.excluded_revisions for query in world.store.queries)


async def test_the_overlay_ends_when_the_store_agrees(world: World) -> None:
    await _published(world, "pq")
    operation = world.set_access("D", "p")
    async for _ in world.settling(operation):
        pass
    world.store.queries.clear()
    await (await world.pin("q")).search()
    assert [query.excluded_revisions for query in world.store.queries] == [frozenset()] * 2


async def test_widening_is_found_when_it_is_settled_and_released_to_nobody_before(world: World) -> None:
    put = await _published(world, "p")
    operation = world.set_access("D", "pq")
    for _ in range(3):
        assert await world.read("q") <= ids([put])
        assert await world.read("p") == ids([put])
    await drain(world.settling(operation))
    assert await world.read("q") == ids([put])


async def test_two_access_changes_settled_side_by_side_leave_what_the_later_one_wants(world: World) -> None:
    put = await _published(world, "pq")
    first = world.set_access("D", "p")
    slow = world.settling(first)
    await run_until(slow, Step.LISTED)
    second = world.set_access("D", "q")
    await drain(world.settling(second))
    await drain(slow)
    for operation in (first, second):
        world.end(operation)
    assert await world.read("q") == ids([put])
    assert await world.read("p") == set()
    world.assert_quiet()


async def _published(world: World, who: str) -> Put:
    put = world.put("D", who)
    await world.publish()
    return put
