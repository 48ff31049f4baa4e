"""P7: what was revoked and is still in the store neither starves nor hides what is allowed."""

import pytest
import sqlalchemy as sa

from corpus.catalog.documents import set_access
from corpus.reading import OVERLAY_LIMIT
from tests.protocol.harness import SOURCE, Put, World, ids, readers

ALLOWED = 5


@pytest.mark.parametrize("revoked", [1_000, 2_100])
async def test_five_allowed_below_many_revoked_top_ranked_documents_are_all_found(world: World, revoked: int) -> None:
    """Nothing is settled. Up to the overlay's limit the store is told what to leave out, past it the refill does it."""
    allowed = await _corpus(world, revoked)
    world.database.write_now(lambda tx: [_revoke(world, tx, number) for number in range(revoked)])
    world.store.queries.clear()
    request = await (await world.pin("q")).search_and_pack(k=ALLOWED)
    assert request.found == ids(allowed)
    assert await request.release() == ids(allowed)
    fits = revoked <= OVERLAY_LIMIT
    assert (request.refills == 0) == fits
    assert len(world.store.queries[0].excluded_revisions) == (revoked if fits else 0)
    assert await world.read("p", k=ALLOWED) != set()


async def _corpus(world: World, revoked: int) -> list[Put]:
    """Revoked documents rank first: they say the word more often and little else."""
    world.put_all({f"R{n}": f"common common common top {n}" for n in range(revoked)})
    allowed = [
        world.put(f"A{n}", text=f"common, but only once among many other words of number {n}") for n in range(ALLOWED)
    ]
    await world.publish()
    request = await (await world.pin("q")).search_and_pack(k=ALLOWED)
    assert len(request.found & ids(allowed)) < ALLOWED
    return allowed


def _revoke(world: World, tx: sa.Connection, number: int) -> object:
    return set_access(tx, world.tenant_id, SOURCE, f"R{number}", readers("p"), "", "tester")
