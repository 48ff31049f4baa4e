"""The handbook's checks find what they are for: a file nobody spoke of, a refusal without reason, text not shown."""

from pathlib import Path
from typing import Any

from evaluation.handbook import accounts, not_shown


def report(**outcomes: tuple[str, str]) -> dict[str, Any]:
    return {
        "documents": [
            {"document_id": name.replace("_", "."), "outcome": outcome, "reason": reason}
            for name, (outcome, reason) in outcomes.items()
        ]
    }


def values(content: Path, told: dict[str, Any]) -> dict[str, float]:
    return {figure.name.removeprefix("handbook."): figure.value for figure in accounts(content, told)}


def test_every_file_is_stored_or_refused_with_a_reason(tmp_path: Path) -> None:
    for name, text in (("a.md", "text"), ("b.md", " \n"), ("CODENOTIFY", "x"), ("c.md", "text")):
        (tmp_path / name).write_text(text)
    good = report(
        a_md=("stored", ""), b_md=("refused", "empty"), CODENOTIFY=("refused", "type"), c_md=("unchanged", "")
    )
    assert values(tmp_path, good) == {
        "files": 4, "stored": 2, "refused": 2, "unaccounted": 0, "refused_unexpectedly": 0,
    }  # fmt: skip
    silent = report(a_md=("stored", ""), b_md=("refused", ""), CODENOTIFY=("refused", "type"))
    assert values(tmp_path, silent)["unaccounted"] == 2
    wrong = report(a_md=("refused", "type"), b_md=("stored", ""), CODENOTIFY=("refused", "type"), c_md=("stored", ""))
    assert values(tmp_path, wrong)["refused_unexpectedly"] == 2


def test_lines_that_lie_outside_of_all_spans_are_found() -> None:
    text = "# One\n\ntwo three\n  \nfour"
    shown = bytearray(len(text))
    shown[0:5] = b"\x01" * 5
    assert not_shown(text, shown) == ["two three", "four"]
    shown[7:16] = b"\x01" * 9
    assert not_shown(text, shown) == ["four"]
    assert not_shown(text, bytearray(b"\x01") * len(text)) == []
