"""`muniment documents`."""

from typing import Any

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, access_options, asker_options, json_option


@click.group(
    epilog=epilog(
        "muniment documents list --source handbook --as admin",
        "muniment documents access handbook leave.md --group people --replace --as admin",
    )
)
def documents() -> None:
    """List documents, look at their revisions, change who sees them, delete them."""


@documents.command(
    "list", epilog=epilog("muniment documents list --as alice", "muniment documents list --source handbook --json")
)
@click.option("--source", "source_id", default="", metavar="SOURCE", help="[default: all]")
@asker_options
@json_option
def list_(source_id: str, asker: Asker, as_json: bool) -> None:
    """List the documents that the asker may see."""
    from app.cli.messages import as_dict, moment
    from app.cli.show import print_json, print_table

    with asker.client() as client:
        found = list(client.list_documents(source_id))
    if as_json:
        print_json([as_dict(document) for document in found])
        return
    rows = [
        (d.source_id, d.document_id, d.revision.title, d.revision.media_type, moment(d.revision.provenance.ingested_at))
        for d in found
    ]
    print_table(("source", "document", "title", "type", "ingested"), rows)


@documents.command(epilog=epilog("muniment documents show handbook leave.md --as admin"))
@click.argument("source_id", metavar="SOURCE")
@click.argument("document_id", metavar="DOCUMENT")
@asker_options
@json_option
def show(source_id: str, document_id: str, asker: Asker, as_json: bool) -> None:
    """Show one document; who may choose its access sees that, too."""
    from app.cli.messages import access_text, as_dict, moment
    from app.cli.show import print_json, print_pairs

    with asker.client() as client:
        document = client.get_document(source_id, document_id)
    if as_json:
        print_json(as_dict(document))
        return
    revision = document.revision
    print_pairs(
        (
            ("document", f"{document.source_id} {document.document_id}"),
            ("title", revision.title),
            ("type", f"{revision.media_type}, {revision.language or 'language unknown'}, {revision.size_bytes} bytes"),
            ("revision", revision.revision_id),
            ("text", f"sha256 {revision.content_hash}, read by {revision.parser_version}"),
            ("ingested", f"{moment(revision.provenance.ingested_at)} by {revision.provenance.ingested_by}"),
            ("access", access_text(document.access) or "not yours to see"),
            ("warnings", "; ".join(revision.warnings)),
            ("etag", document.etag),
        )
    )


@documents.command(epilog=epilog("muniment documents revisions handbook leave.md --as admin"))
@click.argument("source_id", metavar="SOURCE")
@click.argument("document_id", metavar="DOCUMENT")
@asker_options
@json_option
def revisions(source_id: str, document_id: str, asker: Asker, as_json: bool) -> None:
    """List a document's revisions that the asker may see, newest first."""
    from muniment.v1 import document_pb2

    from app.cli.messages import as_dict, moment, short
    from app.cli.show import print_json, print_table

    with asker.client() as client:
        found = list(client.list_revisions(source_id, document_id))
    if as_json:
        print_json([as_dict(revision) for revision in found])
        return
    rows = [
        (
            r.revision_id,
            short(document_pb2.RevisionState, r.state, "REVISION_STATE_"),
            r.title,
            f"{r.size_bytes} bytes",
            moment(r.provenance.ingested_at),
        )
        for r in found
    ]
    print_table(("revision", "state", "title", "size", "ingested"), rows)


@documents.command(
    epilog=epilog(
        "muniment documents access handbook pay.md --group people --as admin             # only closes",
        "muniment documents access handbook pay.md --group people --replace --as admin",
        "muniment documents access handbook pay.md --public --etag 3f2a… --as admin",
        after="Holds everywhere from the moment it returns. Without an etag it can only close, whatever is said; "
        "--etag (from `documents show`) replaces what you saw, --replace whatever is there now.",
    )
)
@click.argument("source_id", metavar="SOURCE")
@click.argument("document_id", metavar="DOCUMENT")
@click.option("--etag", default="", help="Of the document as you saw it.")
@click.option("--replace", is_flag=True, help="Replace the access that it has now.")
@access_options
@asker_options
@json_option
def access(
    source_id: str,
    document_id: str,
    etag: str,
    replace: bool,
    asker: Asker,
    access: dict[str, Any],
    as_json: bool,
) -> None:
    """Change who sees a document. Needs the grant right on its source."""
    from muniment import Access, NotFound

    from app.cli.messages import as_dict
    from app.cli.show import print_json

    if not access:
        raise click.UsageError("Say who may see it: --public, --group, --owner, …")
    if etag and replace:
        raise click.UsageError("Give either --etag or --replace.")
    with asker.client() as client:
        if replace:
            try:
                etag = client.get_document(source_id, document_id).etag
            except NotFound as exc:
                raise click.ClickException(
                    f"there is no document {document_id!r} in {source_id!r} that this token may see, and --replace "
                    "looks at it first.\nAsk as somebody who sees it, or give the --etag that the last change printed."
                ) from exc
        answer = client.set_access(source_id, document_id, Access(**access), etag=etag)
    if as_json:
        print_json(as_dict(answer))
        return
    click.echo("Replaced; it holds from now on." if etag else "Closed to that, if it was open; it holds from now on.")
    click.echo(f"New etag: {answer.etag}")
    click.echo("Keep it: with --etag it replaces this access, even if you no longer see the document yourself.")
    click.echo(f"Clean-up: muniment operations watch {answer.operation.operation_id}")


@documents.command(
    epilog=epilog(
        "muniment documents delete handbook leave.md --as admin",
        after="Nothing of it is seen from the moment it returns; the operation that is named tracks clean-up.",
    )
)
@click.argument("source_id", metavar="SOURCE")
@click.argument("document_id", metavar="DOCUMENT")
@click.option("--etag", default="", help="Delete only what you saw. [default: whatever is stored]")
@asker_options
@json_option
def delete(source_id: str, document_id: str, etag: str, asker: Asker, as_json: bool) -> None:
    """Delete a document."""
    from app.cli.messages import as_dict
    from app.cli.show import print_json

    with asker.client() as client:
        operation = client.delete_document(source_id, document_id, etag=etag)
    if as_json:
        print_json(as_dict(operation))
        return
    click.echo("Deleted; nothing of it is seen from now on.")
    click.echo(f"Clean-up: muniment operations watch {operation.operation_id}")
