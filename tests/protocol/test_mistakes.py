"""Each mistake that the protocol model names is made once in a copy of our code, and a test there must fail."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.protocol.mistakes import MISTAKES, Mistake, NotYet

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT.parent / "shared" / "design" / "protocol_model.py"
PACKAGES = ("core", "policy", "corpus", "retrieval", "indexing")
AT_ONCE = 2
NAMES = [
    "no_overlay",
    "overlay_for_everyone",
    "overlay_ignores_pin",
    "gate_ignores_interval",
    "gate_current_only",
    "ack_without_T",
    "send_late",
    "T_from_end_of_read",
    "cached_release_read",
    "denial_without_epoch",
    "no_numbers",
    "tombstone_ends_with_put",
    "older_put_wins",
    "publish_overwrites_access",
    "put_narrows_late",
    "set_access_all_revisions",
    "narrowing_not_sticky",
    "set_access_without_etag",
    "plain_rollback",
    "reuse_seq",
    "stage_into_store",
    "close_before_move",
    "move_before_insert",
    "intervals_after_move",
    "move_without_compare",
    "move_without_fence",
    "move_without_recheck",
    "lease_without_settling",
    "recovery_without_drain",
    "writer_without_drain",
    "no_reread",
    "repair_ignores_build",
    "patch_closed",
    "delete_without_wait",
    "delete_by_old_view",
    "delete_by_new_view",
    "id_by_digest",
    "read_back_one_replica",
    "vacuum_without_wait",
]


def test_the_table_has_every_mistake_of_the_model() -> None:
    assert list(MISTAKES) == NAMES
    assert len(NAMES) == 39
    if MODEL.exists():
        listed = subprocess.run([sys.executable, MODEL, "--list"], capture_output=True, text=True, check=True).stdout
        assert [line.split()[0] for line in listed.splitlines()] == NAMES


@pytest.mark.parametrize("name", [name for name, mistake in MISTAKES.items() if isinstance(mistake, NotYet)])
def test_a_mistake_that_can_not_be_made_has_its_reason(name: str) -> None:
    mistake = MISTAKES[name]
    assert isinstance(mistake, NotYet)
    assert mistake.reason
    if name == "vacuum_without_wait":
        code = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
        assert "low_seq=" not in code  # whoever adds a vacuum has to add the mistake, too


async def test_every_mistake_is_caught_by_its_test(tmp_path: Path) -> None:
    """All in one test: `AT_ONCE` are made at a time."""
    made = {name: mistake for name, mistake in MISTAKES.items() if isinstance(mistake, Mistake)}
    for name, mistake in made.items():
        make(tmp_path / name, mistake)
    runs = [f"{tmp_path / name}={mistake.test}" for name, mistake in made.items()]
    await asyncio.gather(*(_run(runs[first::AT_ONCE]) for first in range(AT_ONCE)))
    escaped = {name: words for name in made if (words := said_instead(tmp_path / name))}
    assert not escaped, "\n\n".join(f"{name}: {made[name].test} {words}" for name, words in escaped.items())


def make(folder: Path, mistake: Mistake) -> None:
    """A copy of the code, in links where nothing is changed, with the mistake in it."""
    folder.mkdir()
    shutil.copy(ROOT / "pyproject.toml", folder)
    changed = {edit.file.split("/")[0] for edit in mistake.edits}
    for package in PACKAGES:
        if package in changed:
            shutil.copytree(ROOT / package, folder / package)
        else:
            (folder / package).symlink_to(ROOT / package)
    for tests in ("protocol", "fakes"):
        shutil.copytree(ROOT / "tests" / tests, folder / "tests" / tests)
    for edit in mistake.edits:
        path = folder / edit.file
        text = path.read_text()
        assert text.count(edit.old) == 1, f"{edit.file} has {text.count(edit.old)} times: {edit.old}"
        path.write_text(text.replace(edit.old, edit.new))


def said_instead(folder: Path) -> str | None:
    """None when the test ran and failed; else what happened instead."""
    code, output = (folder / "outcome").read_text(), (folder / "output").read_text()
    return None if code == "1" and "1 failed" in output else f"ended with {code}\n{output[-3_000:]}"


async def _run(runs: list[str]) -> None:
    runner = ROOT / "tests" / "protocol" / "mistake_runner.py"
    process = await asyncio.create_subprocess_exec(sys.executable, runner, *runs, stdin=subprocess.DEVNULL)
    assert await process.wait() == 0
