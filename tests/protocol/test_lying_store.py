"""A store that lies: nothing that it shows is released unless the record says the same (I13)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from core.ids import OPEN_SEQ, FragmentId, RevisionId, Seq, new_id
from corpus.pinning import Consistency
from corpus.store import StoredFragment
from tests.protocol.harness import Put, World, ids

Lie = Callable[[StoredFragment], StoredFragment]


async def test_a_wrong_access_opens_nothing(world: World) -> None:
    closed, open_ = world.put("D", "p"), world.put("E", "q")
    await world.publish()
    lie(world, closed, lambda f: replace(f, attributes={**f.attributes, "allowed_groups": ("p", "q"), "public": True}))
    await assert_only(world, open_)


async def test_an_old_end_keeps_no_superseded_revision_alive(world: World) -> None:
    old = world.put("D")
    await world.publish()
    new = world.put("D")
    await world.publish()
    lie(world, old, lambda f: replace(f, to_seq=OPEN_SEQ))
    await assert_only(world, new)


async def test_an_early_start_shows_nothing_of_later_snapshots(world: World) -> None:
    old = world.put("D")
    await world.publish()
    new = world.put("E")
    await world.publish()
    lie(world, new, lambda f: replace(f, from_seq=Seq(1)))
    assert await world.read("q", Consistency(exact=1)) == ids([old])


async def test_a_fragment_of_what_is_only_staged_is_not_shown(world: World) -> None:
    served = world.put("D")
    await world.publish()
    staged = world.put("D")
    lie(world, served, lambda f: replace(f, fragment_id=_fragment(world, staged), revision_id=staged.revision_id))
    assert await world.read() == ids([served])


async def test_an_unknown_fragment_is_nothing(world: World) -> None:
    put = world.put("D")
    await world.publish()
    lie(world, put, lambda f: replace(f, fragment_id=FragmentId(new_id()), revision_id=RevisionId(new_id())))
    await assert_only(world, put)


async def test_another_revisions_fragment_is_judged_as_what_it_is(world: World) -> None:
    """The store says that a closed revision's fragment belongs to an open one."""
    closed, open_ = world.put("D", "p"), world.put("E", "q")
    await world.publish()
    lie(world, open_, lambda f: replace(f, fragment_id=_fragment(world, closed)))
    await assert_only(world, open_)
    lie(world, closed, lambda f: replace(f, revision_id=open_.revision_id, attributes=_held(world, open_).attributes))
    await assert_only(world, open_)


async def test_what_was_deleted_stays_deleted_though_the_store_shows_it(world: World) -> None:
    gone, kept = world.put("D"), world.put("E")
    await world.publish()
    shown = _held(world, gone)
    world.delete("D")
    await world.settle()
    world.held[shown.object_id] = shown
    await assert_only(world, kept)


async def test_another_tenants_fragment_is_nothing(world: World) -> None:
    kept = world.put("E")
    await world.publish()
    other = world.neighbour()
    foreign = other.put("D")
    await other.publish()
    assert await other.read() == ids([foreign])
    shown = next(iter(other.held.values()))
    world.held[shown.object_id] = shown
    world.held["told"] = replace(shown, object_id="told", attributes=_held(world, kept).attributes)
    await assert_only(world, kept)
    assert not await world.resolve("q", foreign)


@pytest.mark.parametrize("lies", [3, 60])
async def test_lies_take_no_place_from_what_is_true(world: World, lies: int) -> None:
    put = world.put("D")
    await world.publish()
    for _ in range(lies):
        lie(world, put, lambda f: replace(f, fragment_id=FragmentId(new_id()), analysed="common " * 3))
    assert await world.read(k=1) == ids([put])


def lie(world: World, about: Put, how: Lie) -> None:
    """Add an object that says something else of the revision."""
    told = replace(how(_held(world, about)), object_id=new_id())
    world.held[told.object_id] = told


async def assert_only(world: World, put: Put) -> None:
    """Neither the packet nor what is sent holds anything but the one revision, for `q`, in each way to read."""
    request = await (await world.pin("q")).search()
    assert request.found == ids([put])
    assert await request.release() == ids([put])
    assert await world.read("q", Consistency(exact=world.active)) == ids([put])


def _held(world: World, put: Put) -> StoredFragment:
    return next(f for f in world.held.values() if f.revision_id == put.revision_id)


def _fragment(world: World, put: Put) -> FragmentId:
    sql = "SELECT fragment_id FROM fragments JOIN revisions USING (revision_key) WHERE revision_id = ?"
    return FragmentId(world.database.read(sql, (put.revision_id,))[0][0])
