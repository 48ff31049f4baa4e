"""The command line, `muniment`: one file per noun, imported only when it is called, so that help comes at once."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from app.cli.lazy import LazyCommand, LazyGroup, epilog

REFUSED, USAGE, INTERRUPTED = 1, 2, 130

COMMANDS = {
    "Run": (
        LazyCommand("up", "app.cli.up:up", "Start engines, gateway and indexer, and keep them running."),
        LazyCommand("down", "app.cli.down:down", "Stop what runs on a data directory."),
        LazyCommand("status", "app.cli.status:status", "Show what runs on a data directory."),
        LazyCommand("engines", "app.cli.engines:engines", "Build, list and run the pinned engines."),
        LazyCommand("demo", "app.cli.demo:demo", "Show the whole path, from nothing to a checked answer."),
    ),
    "Publish": (
        LazyCommand("sources", "app.cli.sources:sources", "Make and list the sources that documents come from."),
        LazyCommand("ingest", "app.cli.ingest:ingest", "Put a folder of documents and publish them together."),
        LazyCommand("documents", "app.cli.documents:documents", "List documents, change who sees them, delete them."),
        LazyCommand("snapshots", "app.cli.snapshots:snapshots", "List published snapshots and roll back to one."),
        LazyCommand("operations", "app.cli.operations:operations", "Watch work that outlives its call."),
    ),
    "Ask": (
        LazyCommand("search", "app.cli.search:search", "Evidence for a question, as one person may see it."),
        LazyCommand("answer", "app.cli.answer:answer", "An answer made of checked claims with citations."),
        LazyCommand("token", "app.cli.token:token", "Mint a token of the development issuer."),
    ),
}


@click.group(
    cls=LazyGroup,
    sections=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=epilog(
        "muniment up",
        "muniment sources create handbook --as admin",
        "muniment ingest ./handbook --source handbook --as admin --public",
        'muniment answer "How many days of leave do we get?" --as admin',
        after="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
    ),
)
@click.version_option(package_name="muniment-server", prog_name="muniment")
def cli() -> None:
    """Evidence that its reader may see, verbatim, from one published snapshot; and answers checked against it."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (`sys.argv` by default) and exit with its code."""
    try:
        code = cli.main(arguments, prog_name="muniment", standalone_mode=False)
    except click.UsageError as exc:
        exc.show()
        sys.exit(USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as exc:
        exc.show()
        sys.exit(exc.exit_code)
    except BrokenPipeError:
        # Who reads us has enough (`| head`); the interpreter would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(REFUSED)
    except Exception as exc:
        from app.cli.failures import explained

        text = explained(exc)
        if text is None:
            raise  # a fault of ours: the trace is what a report needs
        click.echo(click.style("Error: ", fg="red", bold=True) + text, err=True)
        sys.exit(REFUSED)
    sys.exit(code if isinstance(code, int) else 0)
