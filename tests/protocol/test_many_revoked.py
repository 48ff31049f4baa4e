"""P7: what was revoked and is still in the store neither starves nor hides what is allowed."""

import sqlalchemy as sa

from corpus.catalog.documents import set_access
from corpus.reading import OVERLAY_LIMIT
from tests.protocol.harness import SOURCE, Put, World, ids, readers

ALLOWED, FEW, MANY = 5, 1_000, OVERLAY_LIMIT + 100


async def test_five_allowed_below_many_revoked_top_ranked_documents_are_all_found(world: World) -> None:
    """Nothing is settled. Up to the overlay's limit the store is told what to leave out, past it the refill does it.

    `q` may see few of the documents that rank first, `r` all of them, until they are revoked.
    """
    allowed = await _corpus(world)
    for who in "qr":
        assert len(await _found(world, who) & ids(allowed)) < ALLOWED
    _revoke(world, range(FEW))
    await _assert_all_found(world, "q", allowed, in_overlay=FEW)
    _revoke(world, range(FEW, MANY))
    await _assert_all_found(world, "r", allowed, in_overlay=0)


async def _assert_all_found(world: World, who: str, allowed: list[Put], *, in_overlay: int) -> None:
    world.store.queries.clear()
    request = await (await world.pin(who)).search_and_pack(k=ALLOWED)
    assert request.found == ids(allowed)
    assert await request.release() == ids(allowed)
    assert len(world.store.queries[0].excluded_revisions) == in_overlay
    assert (request.refills == 0) == (in_overlay > 0)


async def _found(world: World, who: str) -> set[str]:
    return set((await (await world.pin(who)).search_and_pack(k=ALLOWED)).found)


async def _corpus(world: World) -> list[Put]:
    """What will be revoked ranks first: it says the word more often and little else."""
    world.put_all({f"R{n}": ("qr" if n < FEW else "r", f"common common common top {n}") for n in range(MANY)})
    allowed = [
        world.put(f"A{n}", "qr", text=f"common, but only once among many other words of number {n}")
        for n in range(ALLOWED)
    ]
    await world.publish()
    return allowed


def _revoke(world: World, numbers: range) -> None:
    def revoke(tx: sa.Connection) -> None:
        for number in numbers:
            set_access(tx, world.tenant_id, SOURCE, f"R{number}", readers("p"), "", "tester")

    world.database.write_now(revoke)
