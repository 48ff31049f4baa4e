"""`muniment sources`."""

from typing import Any

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, access_options, asker_options, json_option


@click.group(epilog=epilog("muniment sources create handbook --as admin", "muniment sources list --as admin"))
def sources() -> None:
    """Systems that documents come from: who may write there, and who sees what comes without an access of its own."""


@sources.command(
    epilog=epilog(
        "muniment sources create handbook --as admin",
        "muniment sources create wiki --as admin --writer-group editors --group staff --trust reviewed",
        after="Needs the role publisher. The access options make the template that is copied to new documents put "
        "without an access; with none of them, such documents are refused.",
    )
)
@click.argument("source_id", metavar="SOURCE")
@click.option("--name", "display_name", default="", metavar="TEXT", help="For people.")
@click.option(
    "--trust",
    type=click.Choice(("untrusted", "reviewed", "authoritative")),
    default="reviewed",
    show_default=True,
    help="How far its documents are trusted.",
)
@click.option("--writer-group", "writer_groups", metavar="GROUP", multiple=True, help="May put and delete documents.")
@click.option("--writer", "writer_subjects", metavar="SUBJECT", multiple=True, help="May put and delete documents.")
@click.option("--grant-group", "grant_groups", metavar="GROUP", multiple=True, help="May choose who sees a document.")
@click.option("--granter", "grant_subjects", metavar="SUBJECT", multiple=True, help="May choose who sees a document.")
@access_options
@asker_options
@json_option
def create(source_id: str, asker: Asker, access: dict[str, Any], as_json: bool, **rights: Any) -> None:
    """Make a source."""
    from muniment import Access

    with asker.client() as client:
        source = client.create_source(source_id, access_template=Access(**access) if access else None, **rights)
    _print(source, as_json)


@sources.command("list", epilog=epilog("muniment sources list --as admin", "muniment sources list --as admin --json"))
@asker_options
@json_option
def list_(asker: Asker, as_json: bool) -> None:
    """List the sources that the asker may see."""
    from app.cli.messages import access_text, as_dict, moment, trust
    from app.cli.show import print_json, print_table

    with asker.client() as client:
        found = list(client.list_sources())
    if as_json:
        print_json([as_dict(source) for source in found])
        return
    rows = [
        (s.source_id, s.display_name, trust(s.trust), access_text(s.access_template), moment(s.create_time))
        for s in found
    ]
    print_table(("source", "name", "trust", "template", "made"), rows)


@sources.command(epilog=epilog("muniment sources show handbook --as admin"))
@click.argument("source_id", metavar="SOURCE")
@asker_options
@json_option
def show(source_id: str, asker: Asker, as_json: bool) -> None:
    """Show one source."""
    with asker.client() as client:
        source = client.get_source(source_id)
    _print(source, as_json)


def _print(source: Any, as_json: bool) -> None:
    from app.cli.messages import access_text, as_dict, moment, trust
    from app.cli.show import print_json, print_pairs

    if as_json:
        print_json(as_dict(source))
        return
    writers = [f"group {group}" for group in source.writer_groups] + list(source.writer_subjects)
    granters = [f"group {group}" for group in source.grant_groups] + list(source.grant_subjects)
    print_pairs(
        (
            ("source", source.source_id),
            ("name", source.display_name),
            ("trust", trust(source.trust)),
            ("template", access_text(source.access_template) or "none: each document needs an access"),
            ("writers", ", ".join(writers) or "publishers only"),
            ("granters", ", ".join(granters) or "publishers only"),
            ("made", moment(source.create_time)),
            ("etag", source.etag),
        )
    )
