"""`muniment snapshots`."""

from typing import Any

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, asker_options, json_option


@click.group(epilog=epilog("muniment snapshots list --as admin", "muniment snapshots rollback SNAPSHOT --as admin"))
def snapshots() -> None:
    """Published states of the tenant's corpus. Needs the role publisher."""


@snapshots.command("list", epilog=epilog("muniment snapshots list --as admin", "muniment snapshots list --json"))
@asker_options
@json_option
def list_(asker: Asker, as_json: bool) -> None:
    """List snapshots, newest first."""
    with asker.client() as client:
        _print(list(client.list_snapshots()), as_json)


@snapshots.command(
    epilog=epilog(
        "muniment snapshots rollback SNAPSHOT --as admin",
        after="What was denied or deleted since stays so. Ask an earlier snapshot without rolling back with "
        "`muniment search --snapshot`.",
    )
)
@click.argument("snapshot")
@asker_options
@json_option
def rollback(snapshot: str, asker: Asker, as_json: bool) -> None:
    """Make an earlier snapshot the latest."""
    with asker.client() as client:
        _print([client.rollback(snapshot)], as_json)


def _print(found: list[Any], as_json: bool) -> None:
    from app.cli.messages import as_dict, moment
    from app.cli.show import print_json, print_table

    if as_json:
        print_json([as_dict(snapshot) for snapshot in found])
        return
    rows = [
        (
            snapshot.snapshot,
            "active" if snapshot.active else "rolled back" if snapshot.rolled_back else "",
            str(snapshot.documents),
            moment(snapshot.publish_time),
        )
        for snapshot in found
    ]
    print_table(("snapshot", "state", "documents", "published"), rows)
