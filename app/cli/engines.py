"""`muniment engines`: the pinned engines, built with Go into the user's cache."""

import os
import sys
from collections.abc import Callable

import click

from app.cli.lazy import epilog
from app.cli.options import json_option


@click.group(
    epilog=epilog("muniment engines build", "muniment engines list", "muniment engines run opa -- version"),
)
def engines() -> None:
    """Build, list and run the pinned engines: OPA (policy), Weaviate (store) and Regal (linter of Rego)."""


@engines.command(
    epilog=epilog(
        "muniment engines build",
        "muniment engines build opa weaviate",
        after="Engines are built once, with Go, into ~/.cache/muniment/engines; about five minutes on two cores. "
        "MUNIMENT_OPA_BIN, MUNIMENT_WEAVIATE_BIN and MUNIMENT_REGAL_BIN name binaries of your own.",
    )
)
@click.argument("names", metavar="[ENGINE]...", nargs=-1)
def build(names: tuple[str, ...]) -> None:
    """Build engines that are not there yet; all pinned ones when none is named."""
    from deploy.engines import ensure, load_pins

    for name, path in ensure(names or tuple(load_pins()), build_progress()).items():
        click.echo(f"{name:10} {path}")


@engines.command("list", epilog=epilog("muniment engines list", "muniment engines list --json"))
@json_option
def list_(as_json: bool) -> None:
    """Show each engine's pinned version and where its binary is."""
    from app.cli.show import print_json, print_table
    from deploy.engines import load_pins, locate, missing_reasons

    found = {name: locate(name) for name in load_pins()}
    if as_json:
        print_json(
            [
                {"engine": name, "version": pin.version, "path": None if found[name] is None else str(found[name])}
                for name, pin in load_pins().items()
            ]
        )
        return
    rows = [
        (name, pin.version, str(found[name] or f"not built: {'; '.join(missing_reasons(name))}"))
        for name, pin in load_pins().items()
    ]
    print_table(("engine", "version", "binary"), rows)
    if None in found.values():
        click.echo("Build what is missing with: muniment engines build")


@engines.command(
    context_settings={"ignore_unknown_options": True},
    epilog=epilog("muniment engines run opa -- check --strict policy/bundle", "muniment engines run regal -- version"),
)
@click.argument("name", metavar="ENGINE")
@click.argument("arguments", metavar="[-- ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
def run(name: str, arguments: tuple[str, ...]) -> None:
    """Run an engine's pinned binary with your arguments, building it first where it is missing."""
    from deploy.engines import ensure

    binary = str(ensure([name], build_progress())[name])
    sys.stdout.flush()
    os.execv(binary, [binary, *arguments])  # noqa: S606 (a pinned binary, and no shell is wanted)


def build_progress() -> Callable[[str, str, float], None]:
    """Says on standard error what is being built: in place on a terminal, else once for each stage."""
    terminal = sys.stderr.isatty()
    said: set[tuple[str, str]] = set()

    def report(engine: str, stage: str, elapsed_s: float) -> None:
        if stage == "found":
            return
        if terminal:
            click.echo(f"\r\x1b[K{engine}: {stage} ({elapsed_s:.0f} s)", err=True, nl=stage == "built")
        elif (engine, stage) not in said:
            said.add((engine, stage))
            click.echo(f"{engine}: {stage}", err=True)

    return report
