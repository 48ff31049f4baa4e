"""`muniment operations`."""

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, asker_options, json_option


@click.group(epilog=epilog("muniment operations watch OPERATION --as admin"))
def operations() -> None:
    """Work that outlives the call that began it: puts, publications, access changes, deletions."""


@operations.command(
    epilog=epilog(
        "muniment operations watch OPERATION --as admin",
        after="With --json one line for each change. Exit code 1 when the operation fails.",
    )
)
@click.argument("operation_id", metavar="OPERATION")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), default=300.0, show_default=True, help="Seconds.")
@asker_options
@json_option
def watch(operation_id: str, timeout_s: float, asker: Asker, as_json: bool) -> int:
    """Show each change of an operation until it has ended."""
    from muniment import DeadlineExceeded
    from muniment.v1 import operation_pb2

    from app.cli.messages import as_dict, operation_text
    from app.cli.show import harmless, print_json_line

    failed = False
    with asker.client() as client:
        try:
            for operation in client.watch_operation(operation_id, timeout=timeout_s):
                failed = operation.state == operation_pb2.OPERATION_STATE_FAILED
                if as_json:
                    print_json_line(as_dict(operation))
                else:
                    click.echo(harmless(operation_text(operation)))
        except DeadlineExceeded as exc:
            raise click.ClickException(
                f"it has not ended after {timeout_s:g} s. It goes on: watch it again, or longer with --timeout."
            ) from exc
    return 1 if failed else 0
