"""How the demo is told: chapters with tables for people, or nothing, where JSON is wanted."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.cli.show import harmless

MAX_WIDTH = 118


class Teller:
    """Prints to standard output; `quiet` prints nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        width = min(Console().width, MAX_WIDTH) if sys.stdout.isatty() else MAX_WIDTH
        self._console = Console(
            markup=False, emoji=False, highlight=False, width=width, quiet=quiet, soft_wrap=False, file=sys.stdout
        )
        self._chapter = 0

    def chapter(self, title: str, text: str = "") -> None:
        """A new step, with what it shows."""
        self._chapter += 1
        self._console.print()
        self._console.print(Text(f"{self._chapter}. {title}", style="bold cyan"))
        if text:
            self._console.print(Padding(Text(text), (0, 0, 0, 3), expand=False))

    def note(self, text: str, style: str = "") -> None:
        """A line of its own."""
        self._console.print(Padding(Text(harmless(text), style=style), (0, 0, 0, 3), expand=False))

    def good(self, text: str) -> None:
        """What was checked and holds."""
        self._console.print(Padding(Text.assemble(("✓ ", "green"), harmless(text)), (0, 0, 0, 3), expand=False))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, first: int | None = None) -> None:
        """A table; `first` fixes the width of its first column. A cell that begins with — is a refusal."""
        table = Table(show_lines=any("\n" in cell for row in rows for cell in row), padding=(0, 1))
        for at, column in enumerate(columns):
            table.add_column(column, width=first if at == 0 else None, overflow="fold")
        for row in rows:
            table.add_row(*(Text(harmless(cell), style="yellow" if cell.startswith("—") else "") for cell in row))
        self._console.print(Padding(table, (0, 0, 0, 3), expand=False))
