"""Texts that take long to read are read beside the event loop: one tenant's books must not hold up the others."""

import asyncio
from pathlib import Path

import pytest

from corpus import reading
from corpus.reading import OpenCorpus
from corpus.record import RevisionRecord
from tests.protocol.harness import a_world, template_catalog


@pytest.mark.parametrize(("limit", "on_the_loop"), [(1 << 20, True), (0, False)])
async def test_long_texts_are_packed_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, on_the_loop: bool
) -> None:
    monkeypatch.setattr(reading, "LONG_BYTES", limit)
    real, read = OpenCorpus.text, list[bool]()

    def text(self: OpenCorpus, revision: RevisionRecord) -> str:
        read.append(asyncio._get_running_loop() is not None)
        return real(self, revision)

    monkeypatch.setattr(OpenCorpus, "text", text)
    async with a_world(tmp_path, template_catalog(tmp_path)) as world:
        put = world.put("D")
        await world.publish()
        request = await (await world.pin()).search_and_pack(5)
        assert request.found == {put.revision_id}
        assert await request.release() == {put.revision_id}
    assert set(read) == {on_the_loop}
