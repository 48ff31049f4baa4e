"""Commands that are imported when they are called: help of the whole needs no command's imports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True)
class LazyCommand:
    """`target` is `module:attribute`; `summary` is its line in the list of commands."""

    name: str
    target: str
    summary: str

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class LazyGroup(click.Group):
    """A group that lists its commands by section without importing them."""

    def __init__(self, *, sections: Mapping[str, Sequence[LazyCommand]], **attributes: Any) -> None:
        super().__init__(**attributes)
        self._sections = sections
        self._lazy = {command.name: command for commands in sections.values() for command in commands}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the sections."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command."""
        found = self._lazy.get(cmd_name)
        return None if found is None else found.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with our names to choose from where one was misspelt."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as exc:
            raise click.exceptions.NoSuchCommand(exc.command_name, possibilities=self._lazy, ctx=ctx) from exc

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section after the other, with columns of one width."""
        width = max(map(len, self._lazy))
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(command.name.ljust(width), command.summary) for command in commands])


def epilog(*examples: str, after: str = "") -> str:
    """The end of a help text: example command lines, then what is left to say."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}" + (f"\n\n{after}" if after else "")
