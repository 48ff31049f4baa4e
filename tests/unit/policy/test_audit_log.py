"""Audit records are written before anything leaves, survive kill -9, and hold no content."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from core.ids import DocumentId, FragmentId, RevisionId, SourceId
from policy.audit import AuditLog, ReleasedItem
from policy.errors import AuditUnavailable
from tests.unit.policy.opa_server import eventually, principal

KEY = b"k" * 32
ITEM = ReleasedItem("e1", SourceId("s1"), DocumentId("d1"), RevisionId("r1"), FragmentId("f1"))
REVISIONS: dict[str, str | int] = {"policy": "p-1", "data": 0, "seq": 7, "epoch": 3}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_intended_release_and_its_withholding_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with AuditLog(path, KEY, wall_clock=lambda: 12.3456) as log:
        await log.intended("dec-1", principal(), "Search", [ITEM], REVISIONS)
        await log.withheld("dec-1", "epoch_moved")
    first, second = lines(path)
    assert first == {
        "at": 12.346,
        "kind": "intended",
        "decision_id": "dec-1",
        "tenant": "t1",
        "principal": first["principal"],
        "rpc": "Search",
        "count": 1,
        "items": [
            {"evidence_id": "e1", "source_id": "s1", "document_id": "d1", "revision_id": "r1", "fragment_id": "f1"}
        ],
        "revisions": REVISIONS,
    }
    assert second == {"at": 12.346, "kind": "withheld", "decision_id": "dec-1", "reason": "epoch_moved"}
    assert path.stat().st_mode & 0o077 == 0


async def test_the_principal_is_a_keyed_hash(tmp_path: Path) -> None:
    async with AuditLog(tmp_path / "a", KEY) as log, AuditLog(tmp_path / "b", b"other") as other:
        assert log.principal_hash(principal()) == log.principal_hash(principal(groups=("ops",)))
        assert log.principal_hash(principal()) != other.principal_hash(principal())
        assert log.principal_hash(principal()) != log.principal_hash(principal("bob"))
        await log.intended("dec-1", principal(), "Search", [], REVISIONS)
    assert "alice" not in (tmp_path / "a").read_text()


async def test_a_record_is_readable_at_once(tmp_path: Path) -> None:
    async with AuditLog(tmp_path / "a", KEY) as log:
        await log.record("test", "dec-1", {"count": 1})
        assert len(lines(tmp_path / "a")) == 1


async def test_odd_ids_stay_one_line(tmp_path: Path) -> None:
    odd = 'a\nb\u2028"\U0001f600'
    async with AuditLog(tmp_path / "a", KEY) as log:
        await log.record("test", odd, {"ids": [odd]})
        await log.record("test", "next", {})
    text = (tmp_path / "a").read_text()
    assert text.count("\n") == 2
    assert json.loads(text.split("\n")[0])["ids"] == [odd]


async def test_records_survive_kill_9(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from policy.audit import AuditLog

async def main():
    async with AuditLog(Path(sys.argv[1]), b"k") as log:
        for i in range(100):
            await log.record("test", f"dec-{i}", {"count": i})
        print("written", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    path = tmp_path / "audit.jsonl"
    root = Path(__file__).parents[3]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(path), cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"written\n"
    os.kill(child.pid, signal.SIGKILL)
    assert await child.wait() == -signal.SIGKILL
    assert [line["decision_id"] for line in lines(path)] == [f"dec-{i}" for i in range(100)]


async def test_a_torn_line_swallows_no_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"kind":"test","decis')
    async with AuditLog(path, KEY) as log:
        await log.record("test", "dec-1", {})
    assert json.loads(path.read_text().split("\n")[1])["decision_id"] == "dec-1"


async def test_opening_again_appends(tmp_path: Path) -> None:
    for i in range(2):
        async with AuditLog(tmp_path / "a", KEY, strict=True) as log:
            await log.record("test", f"dec-{i}", {})
    assert [line["decision_id"] for line in lines(tmp_path / "a")] == ["dec-0", "dec-1"]


async def test_a_closed_log_refuses(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "a", KEY)
    with pytest.raises(AuditUnavailable):
        await log.record("test", "dec-1", {})
    async with log:
        await log.record("test", "dec-1", {})
    with pytest.raises(AuditUnavailable):
        await log.record("test", "dec-2", {})


async def test_a_place_that_can_not_be_written_refuses_to_open(tmp_path: Path) -> None:
    with pytest.raises(AuditUnavailable):
        async with AuditLog(tmp_path / "absent" / "a", KEY):
            pass


async def test_a_full_disk_refuses_the_record() -> None:
    log = AuditLog(Path("/dev/full"), KEY)
    await log.__aenter__()
    with pytest.raises(AuditUnavailable):
        await log.record("test", "dec-1", {})
    with pytest.raises(AuditUnavailable):  # the device can't be synced either
        await log.__aexit__(None, None, None)


async def test_what_can_not_be_made_durable_stops_the_log(tmp_path: Path) -> None:
    """A pipe takes writes and refuses fsync, as a failing disk does."""
    os.mkfifo(tmp_path / "pipe")
    log = AuditLog(tmp_path / "pipe", KEY, sync_interval_s=0.01)
    await log.__aenter__()
    await log.record("test", "dec-1", {})
    await eventually(lambda: log.broken)
    with pytest.raises(AuditUnavailable):
        await log.record("test", "dec-2", {})
    with pytest.raises(AuditUnavailable):
        await log.__aexit__(None, None, None)


async def test_strict_records_wait_for_the_disk(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    log = AuditLog(tmp_path / "pipe", KEY, sync_interval_s=60)
    await log.__aenter__()
    await log.record("test", "dec-1", {})
    with pytest.raises(AuditUnavailable):
        await log.record("test", "dec-2", {}, durable=True)
    with pytest.raises(AuditUnavailable):
        await log.__aexit__(None, None, None)
