"""Every command has help with examples that parse, and none of it imports anything heavy."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from app.cli import cli
from app.cli.token import ROLES
from policy.principal import Role

HEAVY = ("grpc", "pydantic", "rich", "sqlalchemy", "numpy", "asyncio", "jwt", "cryptography", "google.protobuf")


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from _commands(found, (*path, name))


COMMANDS = dict(_commands(cli, ()))
IDS = [" ".join(path) or "muniment" for path in COMMANDS]


def _help(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(cli, [*path, "--help"], prog_name="muniment")
    assert result.exit_code == 0, result.output
    return result.output


def _examples(path: tuple[str, ...]) -> list[str]:
    lines = _help(path).partition("Examples:")[2].split("\n")
    return [line.strip() for line in lines if line.startswith("    muniment ")]


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_help_has_examples_of_the_command(path: tuple[str, ...]) -> None:
    examples = _examples(path)

    assert examples
    assert all(example.startswith(" ".join(("muniment", *path))) for example in examples)


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_examples_parse(path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("handbook", "board"):
        (tmp_path / folder).mkdir()
    (tmp_path / "leave.md").touch()
    for example in _examples(path):
        words = shlex.split(example, comments=True)[1:]
        command: click.Command = cli
        context = click.Context(cli)
        while isinstance(command, click.Group):
            name, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context(name, words, parent=context)  # raises UsageError where an option or value is not there


def test_the_list_of_commands_is_what_they_say_of_themselves() -> None:
    """Summaries are written beside the lazy names, so they could drift from the commands."""
    lines = _help(())
    for path in COMMANDS:
        if len(path) == 1:
            assert re.search(rf"^  {path[0]} +\S", lines, re.MULTILINE)


def test_no_help_imports_anything_heavy() -> None:
    code = """
import json, sys
from app.cli import main
for path in json.loads(sys.argv[1]):
    try:
        main([*path, "--help"])
    except SystemExit as exit:
        assert not exit.code
print("\\n" + json.dumps(sorted(sys.modules)))
"""
    paths = json.dumps([list(path) for path in COMMANDS])
    done = subprocess.run([sys.executable, "-c", code, paths], capture_output=True, text=True, check=True)
    imported = json.loads(done.stdout.rstrip().rpartition("\n")[2])

    assert [name for name in HEAVY if name in imported] == []


def test_a_misspelt_command_is_answered_with_what_was_meant() -> None:
    result = CliRunner().invoke(cli, ["serch"])

    assert result.exit_code == 2
    assert "Did you mean 'search'?" in result.output


def test_roles_that_can_be_given_are_those_there_are() -> None:
    """Written out in the command, because importing them for help would take too long."""
    assert set(ROLES) == {role.value for role in Role}
