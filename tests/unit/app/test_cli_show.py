"""What documents say is shown, never obeyed by a terminal."""

import grpc
import pytest
from muniment import MunimentError, Violation

from app.cli.failures import explained
from app.cli.show import harmless, indented, print_pairs, print_table, show
from app.settings import SettingsFault


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with\ttab and\nline", "plain, with\ttab and\nline"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("windows\r\nline", "windows\nline"),
        ("back\x08space \x7f \x9b31m", "back\\x08space \\x7f \\x9b31m"),
        ("right\u202eot left\u2066", "right\\u202eot left\\u2066"),
        ("[bold]not markup[/bold] :smile:", "[bold]not markup[/bold] :smile:"),
        ("Grüße, 日本, 🥐", "Grüße, 日本, 🥐"),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_texts_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [("[red]x[/red] \x1b[31m",)])
    print_pairs([("n", "[b]")])
    show(indented("one\n  two " + "long " * 60, 3))
    out = capsys.readouterr().out

    assert "[red]x[/red] \\x1b[31m" in out
    assert "[b]" in out
    assert "   one\n     two long long" in out
    assert "\x1b" not in out


def test_piped_lines_are_neither_cut_nor_filled(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "text"), [("a", "x" * 500), ("b", "y")])
    lines = capsys.readouterr().out.split("\n")

    assert any("x" * 500 in line for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert len(lines) == 4


def test_faults_of_calls_say_what_to_do() -> None:
    fault = MunimentError(
        grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "Not valid.", "r-1", 2.0, (Violation("query", "is empty"),)
    )
    text = explained(fault)

    assert text is not None
    assert text.split("\n") == [
        "INVALID_REQUEST: Not valid.",
        "  - query: is empty",
        "A retry helps, in 2 s.",
        "Request r-1.",
    ]
    missing = explained(MunimentError(grpc.StatusCode.FAILED_PRECONDITION, "ACCESS_MISSING", "No access."))
    assert missing is not None
    assert "--public" in missing


def test_only_faults_raised_on_purpose_are_explained() -> None:
    assert (
        explained(SettingsFault(["a: is wrong", "b: too"]))
        == "the settings are not right:\n  - a: is wrong\n  - b: too"
    )
    assert explained(RuntimeError("a bug")) is None
