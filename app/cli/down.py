"""`muniment down`."""

import click

from app.cli.lazy import epilog
from app.cli.options import Place, place_options


@click.command(epilog=epilog("muniment down", "muniment down --data-dir /var/lib/muniment"))
@place_options
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds.")
def down(place: Place, timeout_s: float) -> None:
    """Ask what runs on a data directory to stop, and wait until nothing of it is left."""
    import asyncio

    from deploy import stop_running

    pid = asyncio.run(stop_running(place.data_dir, timeout_s))
    if pid is None:
        click.echo(f"Nothing runs on {place.data_dir}.")
    else:
        click.echo(f"Stopped process {pid}.")
