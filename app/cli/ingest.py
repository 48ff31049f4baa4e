"""`muniment ingest`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, access_options, asker_options, json_option

if TYPE_CHECKING:
    from app.cli.ingestion import Progress, Report

_ENDS = {
    "abandoned": "The build was abandoned: nothing of it is served.",
    "published": "The build had been published already.",
    "left open": "The build stays open, for it could not be abandoned; nothing of it is served.",
}


@click.command(
    epilog=epilog(
        "muniment ingest ./handbook --source handbook --as admin --public",
        "muniment ingest ./board --source handbook --as admin --group board --classification confidential --level 3",
        "muniment ingest ./leave.md --source handbook --as admin --group staff --json",
        after="A file's path below PATH is its document id. All are published together, or, after an error or Ctrl-C, "
        "nothing is. Names that begin with a dot are passed over. Exit code 1 when a file was refused: the others are "
        "published all the same.",
    )
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--source", "source_id", required=True, metavar="SOURCE", help="Where they belong; see `sources`.")
@click.option("--language", default="", metavar="CODE", help="Of all files. [default: what each says, else en]")
@click.option("--verbose", "-v", is_flag=True, help="List every file, not only those that were refused.")
@access_options
@asker_options
@json_option
def ingest(
    path: Path,
    source_id: str,
    language: str,
    verbose: bool,
    asker: Asker,
    access: dict[str, Any],
    as_json: bool,
) -> int:
    """Put a file, or every file of a folder, and publish them together.

    The access options say who may see these documents; without them each keeps the access it has, and new ones get
    their source's template.
    """
    import asyncio

    from muniment import Access, NotFound

    from app.cli.folder import files_of
    from app.cli.ingestion import ingest_files

    files, given = files_of(path), Access(**access) if access else None
    if not files:
        raise click.ClickException(f"{path} holds no files")

    async def run() -> "Report":
        async with asker.async_client() as client:
            with _progress(quiet=as_json) as progress:
                return await ingest_files(client, source_id, files, given, language=language, on_progress=progress)

    try:
        report = asyncio.run(run())
    except NotFound as exc:
        raise click.ClickException(
            f"there is no source {source_id!r} in which this token may write.\n"
            f"A publisher makes it: muniment sources create {source_id} --as USER"
        ) from exc
    _print(report, verbose, as_json)
    return 1 if report.counts["refused"] else 0


def _print(report: "Report", verbose: bool, as_json: bool) -> None:
    from app.cli.show import print_json, print_table

    if as_json:
        puts = [{"document_id": p.document_id, "outcome": p.outcome, "reason": p.reason} for p in report.puts]
        print_json({"files": len(report.puts), **_counts(report), "snapshot": report.snapshot, "documents": puts})
        return
    shown = [put for put in report.puts if verbose or put.outcome == "refused"]
    if shown:
        print_table(("document", "outcome", "reason"), [(put.document_id, put.outcome, put.reason) for put in shown])
    click.echo(str(report))
    click.echo(f"Published as snapshot {report.snapshot}" if report.snapshot else "Nothing new, so nothing published.")


def _counts(report: "Report") -> dict[str, int]:
    return {outcome: report.counts[outcome] for outcome in ("stored", "unchanged", "refused")}


@contextmanager
def _progress(*, quiet: bool) -> Iterator["Progress"]:
    """A bar on standard error, when that is a terminal; what becomes of a build that ends early is always said."""
    if quiet or not sys.stderr.isatty():
        yield _tell_end
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, steps: int) -> None:
            if what in ("put", "read"):
                bar.advance(task)
            elif what in ("putting", "publishing"):
                bar.reset(task, total=steps, description=what)
            else:
                _tell_end(what, steps)

        yield tell


def _tell_end(what: str, _steps: int) -> None:
    if what in _ENDS:
        click.echo(_ENDS[what], err=True)
