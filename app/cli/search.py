"""`muniment search`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, asker_options, json_option

F = TypeVar("F", bound=Callable[..., Any])


def question_options(function: F) -> F:
    """What narrows a question; shared by `search` and `answer`."""
    for option in reversed(
        (
            click.option("--source", "source_ids", metavar="SOURCE", multiple=True, help="Only there; repeatable."),
            click.option("--document", "document_ids", metavar="DOCUMENT", multiple=True, help="Only these."),
            click.option("--language", "languages", metavar="CODE", multiple=True, help="Only in these."),
            click.option("--snapshot", "exact_snapshot", metavar="SNAPSHOT", help="Ask this one, not the latest."),
            click.option("--at-least", "at_least_snapshot", metavar="SNAPSHOT", help="Ask this one or a later one."),
            click.option("--max-evidence", type=click.IntRange(1, 100), default=10, show_default=True),
            click.option("--max-tokens", type=click.IntRange(1, 100_000), default=4_000, show_default=True),
        )
    ):
        function = option(function)
    return function


@click.command(
    epilog=epilog(
        'muniment search "How many days of leave do we get?" --as alice',
        'muniment search "leave" --as alice --source handbook --max-evidence 3',
        'muniment search "leave" --as alice --snapshot SNAPSHOT --json',
    )
)
@click.argument("query")
@question_options
@asker_options
@json_option
def search(query: str, asker: Asker, as_json: bool, **narrowing: Any) -> None:
    """Show the evidence for QUERY that the asker may see: verbatim passages of one snapshot."""
    from app.cli.messages import as_dict
    from app.cli.packets import print_packet
    from app.cli.show import print_json

    one_snapshot(narrowing)
    with asker.client() as client:
        packet = client.search(query, **narrowing)
    if as_json:
        print_json(as_dict(packet))
    else:
        print_packet(packet)


def one_snapshot(narrowing: dict[str, Any]) -> None:
    """Refuse what can't be asked at once."""
    if narrowing["exact_snapshot"] is not None and narrowing["at_least_snapshot"] is not None:
        raise click.UsageError("Give either --snapshot or --at-least.")
