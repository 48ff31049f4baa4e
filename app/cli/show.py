"""How things look: tables and texts for people, JSON for programs.

Titles and texts come from documents, so they are shown as they are, but never obeyed: control characters, which could
move the cursor or rewrite what was said, are made visible.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# C0 and C1 controls but tab and newline; bidirectional overrides, which reorder what is read.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """`text` with control characters written out (`\\x1b`), which a terminal would obey."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


_PIPED_WIDTH = 100_000


@cache
def console() -> Console:
    """Standard output; markup and emoji codes in texts mean nothing. Piped into something, lines are never cut."""
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width)


def show(*renderables: RenderableType) -> None:
    """Print; piped into something, without the blanks that fill a terminal's lines."""
    if console().is_terminal:
        console().print(*renderables)
        return
    with console().capture() as captured:
        console().print(*renderables)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().removesuffix("\n").split("\n")))


def indented(text: str, by: int, *, after: int = 0, style: str = "") -> Padding:
    """`text` as a block of its own, `by` columns from the left and with `after` empty lines below."""
    return Padding(Text(harmless(text), style=style), (0, 0, after, by), expand=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table, one line a row where the width allows."""
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    show(table)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Name and value, one pair a line."""
    table = Table.grid(padding=(0, 2))
    for name, value in pairs:
        table.add_row(Text(name, style="dim"), Text(harmless(value)))
    show(table)


def print_json(value: Any) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_json_line(value: Any) -> None:
    """One JSON document on a line of its own, at once: streams are read while they run."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()
