"""A release that the catalog's loss prevents is closed in the audit log: what was intended did not leave."""

import json
from pathlib import Path
from typing import NoReturn

import pytest

from corpus.errors import CatalogUnavailable
from retrieval.gate import Gate
from tests.protocol.harness import a_world, template_catalog


async def test_the_record_of_an_intended_release_is_closed_when_the_last_read_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_arguments: object, **_more: object) -> NoReturn:
        raise CatalogUnavailable("away")

    monkeypatch.setattr(Gate, "_last_read", gone)
    async with a_world(tmp_path, template_catalog(tmp_path)) as world:
        world.put("D")
        await world.publish()
        request = await (await world.pin()).search()
        with pytest.raises(CatalogUnavailable):
            await request.release()
        lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["kind"], line.get("reason")) for line in lines] == [("intended", None), ("withheld", "unreadable")]
    assert lines[0]["decision_id"] == lines[1]["decision_id"]
