"""What every writer of the store keeps to: copies come first, then a listing says what may go.

Commands are put in the middle of a writer's calls to the store.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from corpus.errors import LeaseLost
from corpus.projection import Projection, Step, StoreTerms
from corpus.store import StoreLate, StoreUnavailable
from tests.protocol.harness import QUICK, Put, World, drain, ids, run_until


async def test_an_access_change_during_a_copy_does_not_delete_what_is_not_yet_replaced(world: World) -> None:
    """After the copies are written and before the store is listed, another access is due: its copy is not there yet."""
    put = await _published(world)
    operation = world.set_access("D", "p")
    settling = world.settling(operation)
    await run_until(settling, Step.COPIED)
    world.set_access("D", "pr")
    async for _ in settling:
        assert await world.read("p") == ids([put])
    await world.settle()
    assert await world.read("p") == ids([put])
    world.assert_quiet()


async def test_a_copy_that_another_writer_has_made_meanwhile_is_not_deleted(world: World) -> None:
    """What may go is decided by the catalog as it is after the listing, not as it was before the copies."""
    put = await _published(world)
    first = world.set_access("D", "p")
    settling = world.settling(first)
    once(world, "insert", lambda: _changed_and_copied(world, "pr"))
    async for _ in settling:
        wanted = set(world.wanted())
        assert wanted <= set(world.held)
        assert await world.read("p") == ids([put])
    await world.settle()
    world.assert_quiet()


async def test_a_writer_ends_only_when_the_store_agrees(world: World) -> None:
    """A change that comes while it deletes makes it go round again, whoever else may see to it."""
    put = await _published(world)
    operation = world.set_access("D", "p")
    once(world, "delete", lambda: world.set_access("D", "pr"))
    done = await drain(world.settling(operation))
    assert done.count(Step.COPIED) == 2
    world.assert_store_agrees()
    assert await world.read("p") == ids([put])


async def test_a_repair_during_a_publication_keeps_its_fragments(world: World) -> None:
    old = await _published(world)
    new = world.put("D")
    publisher = world.publishing()
    await run_until(publisher, Step.READ_BACK)
    world.set_access("D", "p")
    await world.settle()
    assert {f.revision_id for f in world.held.values()} == ids([old, new])
    assert await world.read("p") == ids([old])
    await run_until(publisher, Step.MOVED)
    assert await world.read("p") == ids([new])


async def test_a_superseded_revision_gets_its_end_in_the_store_by_a_copy(world: World) -> None:
    old = await _published(world)
    before = dict(world.held)
    world.put("D")
    await world.publish()
    closed = {key: f for key, f in world.held.items() if f.revision_id == old.revision_id}
    assert closed.keys().isdisjoint(before)
    assert [(f.from_seq, f.to_seq) for f in closed.values()] == [(1, 2)]


async def test_no_object_id_returns_when_an_access_does(world: World) -> None:
    """Else a deletion of its first time that is late would take it away."""
    put = await _published(world)
    seen = set(world.held)
    for who in ("p", "pq", "p", "pq"):
        world.set_access("D", who)
        await world.settle()
        assert seen.isdisjoint(world.held)
        seen |= set(world.held)
    assert await world.read("q") == ids([put])


async def test_the_old_copy_goes_later_than_any_search_that_began_before_the_new_one(world: World) -> None:
    await _published(world)
    operation = world.set_access("D", "p")
    terms = replace(QUICK, search_s=0.05)
    loop = asyncio.get_running_loop()
    times: dict[str, float] = {}
    world.store.acting = lambda op: times.update({op: loop.time()})
    await drain(_settling(world, terms, operation))
    assert times["delete"] - times["insert"] >= terms.search_s


@pytest.mark.parametrize("operation", ["insert", "delete"])
async def test_a_writer_whose_call_was_late_waits_until_it_can_not_arrive(world: World, operation: str) -> None:
    """It arrives during the wait, and whoever comes next finds it."""
    put = await _published(world)
    denial = world.set_access("D", "p")
    terms = replace(QUICK, drain_s=0.05)
    loop = asyncio.get_running_loop()
    world.store.late.append(operation)
    began = loop.time()
    once(world, operation, lambda: loop.call_later(terms.drain_s / 5, world.store.deliver))
    with pytest.raises(StoreLate):
        await drain(_settling(world, terms, denial))
    assert loop.time() - began >= terms.drain_s
    assert world.store.in_flight == []
    assert world.database.read("SELECT * FROM unsettled") != []
    await world.settle()
    assert await world.read("p") == ids([put])
    world.assert_quiet()


@pytest.mark.parametrize("operation", ["insert", "delete", "list_objects"])
async def test_a_lost_call_leaves_everything_to_the_next_attempt(world: World, operation: str) -> None:
    old = await _published(world)
    new = world.put("D", "p")
    world.store.lost.append(operation)
    with pytest.raises(StoreLate):
        await world.publish()
    assert await world.read("p") in (ids([old]), ids([new]))
    await world.publish()
    await world.settle()
    assert await world.read("p") == ids([new])
    world.assert_quiet()


async def test_a_message_that_is_repeated_changes_nothing(world: World) -> None:
    put = await _published(world)
    world.store.late.append("insert")
    operation = world.set_access("D", "p")
    with pytest.raises(StoreLate):
        await drain(world.settling(operation))
    message = list(world.store.in_flight)
    world.store.deliver()
    await run_until(world.settling(operation), Step.COPIED)
    world.store.in_flight = message
    world.store.deliver()
    await world.settle()
    assert await world.read("p") == ids([put])
    world.assert_quiet()


async def test_nothing_moves_and_nothing_is_settled_while_a_replica_is_away(world: World) -> None:
    """Searches that the stale replica answers get the whole old snapshot, without what is denied."""
    old = await _published(world)
    other = world.put("E")
    await world.publish()
    new = world.put("D")
    world.store.leave(world.tenant_id)
    with pytest.raises(StoreUnavailable):
        await world.publish()
    assert world.active == 2
    assert await world.read() == ids([old, other])
    operation = world.set_access("E", "p")
    with pytest.raises(StoreUnavailable):
        await drain(world.settling(operation))
    assert await world.read() == ids([old])
    world.store.come_back()
    await world.publish()
    await world.settle()
    assert await world.read() == ids([new])
    world.assert_quiet()


async def test_a_lease_is_renewed_directly_before_each_write(world: World) -> None:
    """Making the objects may take longer than a lease lasts: it is asked for after that."""
    await _published(world)
    world.put("D")
    publisher = world.publishing("slow")
    await run_until(publisher, Step.PLANNED)
    contents, made = world.contents.objects, []

    def slow_objects(copy):  # type: ignore[no-untyped-def]
        made.append(copy)
        world.expire_lease()
        return contents(copy)

    world.contents.objects = slow_objects  # type: ignore[method-assign]
    before = dict(world.held)
    with pytest.raises(LeaseLost):
        await drain(publisher)
    assert made
    assert world.held == before


async def _published(world: World) -> Put:
    put = world.put("D")
    await world.publish()
    return put


def _settling(world: World, terms: StoreTerms, operation_id: str):  # type: ignore[no-untyped-def]
    world.projection = Projection(world.database, world.store, world.contents, terms)
    return world.settling(operation_id)


def _changed_and_copied(world: World, who: str) -> None:
    """Another writer changes the access and writes its copies, all of it between two moments of the first writer."""
    world.set_access("D", who)
    for object_id, stored in world.wanted().items():
        world.held[object_id] = stored


def once(world: World, operation: str, act: Callable[[], object]) -> None:
    """Run `act` before the next store call of that name takes effect."""

    def acting(op: str) -> None:
        if op == operation:
            world.store.acting = lambda _: None
            act()

    world.store.acting = acting
