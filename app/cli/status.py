"""`muniment status`."""

import click

from app.cli.lazy import epilog
from app.cli.options import Place, json_option, place_options


@click.command(
    epilog=epilog("muniment status", "muniment status --json", after="Exit code 1 when nothing, or not all, is ready.")
)
@place_options
@json_option
def status(place: Place, as_json: bool) -> int:
    """Show what runs on a data directory: processes, addresses, logs."""
    from dataclasses import asdict

    from app.cli.show import print_json, print_table
    from app.layout import Layout
    from deploy import holder, read_state

    data_dir = place.data_dir
    state, held_by = read_state(data_dir), holder(data_dir)
    condition = "ready" if state is not None else "starting" if held_by is not None else "stopped"
    if as_json:
        print_json({"data_dir": str(data_dir), "condition": condition, **({} if state is None else asdict(state))})
    elif state is not None:
        layout = Layout(data_dir)
        click.echo(f"ready, process {state.pid}, since {state.started_at[:19]}Z")
        print_table(
            ("process", "pid", "address", "log"),
            [
                (name, str(pid), state.addresses.get(name, ""), str(layout.log(name)))
                for name, pid in state.children.items()
            ],
        )
    elif held_by is not None:
        click.echo(f"starting or stopping, process {held_by.pid}")
    else:
        click.echo(f"Nothing runs on {data_dir}. Start it with `muniment up`.")
    return 0 if state is not None else 1
