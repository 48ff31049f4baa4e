"""`muniment up`: all of one data directory, in the foreground or in a session of its own."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.cli.lazy import epilog
from app.cli.options import DEFAULT_DATA_DIR, Place, place_options

if TYPE_CHECKING:
    import subprocess

    from app.settings import Settings
    from app.up import Running
    from deploy import RunState

POLL_S = 0.1


@click.command(
    epilog=epilog(
        "muniment up",
        "muniment up --tenant acme --tenant apex",
        "muniment up --data-dir /var/lib/muniment --config /etc/muniment.toml --detach",
        after="Runs until Ctrl-C or `muniment down`, then stops everything. When one process dies, all are stopped, "
        "and it says which one died and why.",
    )
)
@place_options
@click.option("--tenant", "tenants", metavar="NAME", multiple=True, help="A tenant; repeatable. Only without settings.")
@click.option("--detach", is_flag=True, help="Return once all is ready, and leave it running.")
def up(place: Place, tenants: tuple[str, ...], detach: bool) -> None:
    """Start engines, gateway and indexer on free ports of this machine, and keep them running."""
    from app.cli.engines import build_progress
    from app.cli.place import load_settings
    from app.up import needed_engines
    from deploy.engines import ensure

    if tenants:
        _write_tenants(place, tenants)
    settings, config = load_settings(place.stated_dir, place.stated_config)
    ensure(needed_engines(settings), build_progress())
    if detach:
        _detached(place, settings)
    else:
        _foreground(settings, config)


def _foreground(settings: "Settings", config: Path | None) -> None:
    import asyncio

    from app.up import running
    from deploy import StopRequestedError

    async def serve() -> None:
        async with running(settings, config, on_event=_say) as up_now:
            _announce(settings, up_now)
            await up_now.supervisor.wait()

    try:
        asyncio.run(serve())
    except StopRequestedError:
        raise click.Abort from None
    click.echo("Stopped.", err=True)


def _say(name: str, event: str) -> None:
    click.echo(f"{name:10} {event}", err=True)


def _announce(settings: "Settings", up_now: "Running") -> None:
    from app.cli.place import known_users

    click.echo(f"Muniment serves {', '.join(tenant.name for tenant in settings.tenants)} on {up_now.endpoints.gateway}")
    if settings.development_issuer:
        click.echo(f"Ask as a development user with --as ({known_users(settings)}). Stop with Ctrl-C.")


def _detached(place: Place, settings: "Settings") -> None:
    """Start ourselves in a session of our own and return when all is ready."""
    import os
    import subprocess

    from app.layout import Layout
    from deploy.files import private_directory

    log = Layout(settings.data_dir.resolve()).log("up")
    private_directory(log.parent)
    arguments = [] if place.stated_dir is None else ["--data-dir", str(place.stated_dir)]
    arguments += [] if place.stated_config is None else ["--config", str(place.stated_config)]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "app.cli", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    state = _wait_ready(child, settings.data_dir, log)
    click.echo(f"Muniment runs as process {state.pid} on {state.addresses['gateway']}; stop it with `muniment down`.")


def _wait_ready(child: "subprocess.Popen[bytes]", data_dir: Path, log: Path) -> "RunState":
    import time

    from deploy import read_state

    try:
        while True:
            state = read_state(data_dir)
            if state is not None and state.pid == child.pid:
                return state
            if child.poll() is not None:
                raise click.ClickException(f"it did not come up:\n{log.read_text(errors='replace').strip()}")
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise


def _write_tenants(place: Place, tenants: tuple[str, ...]) -> None:
    """Into the data directory's settings, so that the next start and `muniment token` know them, too."""
    from app.settings import CONFIG_FILE
    from deploy.files import private_directory

    config = place.config()
    if config is not None:
        if {tenant.name for tenant in place.settings().tenants} == set(tenants):
            return  # the same line typed again
        raise click.UsageError(f"The tenants are those of {config}: add yours there instead of giving --tenant.")
    data_dir = place.stated_dir or DEFAULT_DATA_DIR
    private_directory(data_dir)
    path = data_dir / CONFIG_FILE
    path.write_text("".join(f"[[tenants]]\nname = {_toml_text(name)}\n\n" for name in tenants), encoding="utf-8")
    click.echo(f"Wrote {path}", err=True)


def _toml_text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's."""
    import json

    return json.dumps(text)
