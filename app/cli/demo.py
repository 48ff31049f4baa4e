"""`muniment demo`."""

import click

from app.cli.lazy import epilog
from app.cli.options import json_option


@click.command(
    epilog=epilog(
        "muniment demo",
        "muniment demo --json",
        after="Runs on its own in a temporary folder and stops everything at the end. Exit code 1 when anything is not "
        "as it should be; the folder with the logs is kept then, and named.",
    )
)
@json_option
def demo(as_json: bool) -> None:
    """Start everything, show what three people of two companies may see, and stop everything."""
    import asyncio

    from app.cli.engines import build_progress
    from app.cli.show import print_json
    from app.demo.run import run_demo
    from app.demo.telling import Teller
    from deploy import StopRequestedError
    from deploy.engines import ensure

    ensure(("opa", "weaviate"), build_progress())
    try:
        summary = asyncio.run(run_demo(Teller(quiet=as_json)))
    except StopRequestedError:
        raise click.Abort from None
    if as_json:
        print_json(summary)
