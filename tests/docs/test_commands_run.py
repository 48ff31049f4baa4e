"""The commands that README and docs show are run, in their order, as a reader would type them."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
BIN = ROOT / ".venv" / "bin"


def blocks(page: str) -> list[str]:
    """The shell blocks of a page, in order."""
    return BLOCK.findall((ROOT / page).read_text())


def environment() -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith("MUNIMENT_") or n.endswith("_BIN")}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working folder that sees the repository's docs; whatever was left running there is stopped."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "policy").symlink_to(ROOT / "policy")
    yield tmp_path
    subprocess.run(["muniment", "down"], cwd=tmp_path, env=environment(), check=False, capture_output=True)


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_readme_names_the_two_words_of_the_makefile() -> None:
    words = re.findall(r"^make (\w+)", blocks("README.md")[0], re.MULTILINE)
    assert words == ["demo", "test"]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(words) <= targets


def test_the_readmes_walk_through_runs_and_shows_what_it_says(folder: Path) -> None:
    lines = blocks("README.md")[1].strip().splitlines()
    shown = [(line, run(line, folder)) for line in lines]
    before, after = (output for line, output in shown if line.startswith("muniment search"))
    answer = next(output for line, output in shown if line.startswith("muniment answer"))
    assert "28 days" in before
    assert "28 days" in answer
    assert "28 days" not in after


def test_the_policy_pages_commands_run(folder: Path) -> None:
    for block in blocks("docs/policy.md"):
        for line in block.strip().splitlines():
            run(line, folder)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_links_lead_somewhere(page: str) -> None:
    base = (ROOT / page).parent
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert (base / target).exists(), target
