"""Options that commands share."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from muniment import AsyncClient, Client

    from app.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DATA_DIR = Path("muniment-data")


@dataclass(frozen=True)
class Place:
    """Which data directory and which settings: what was said on the command line, None where nothing was."""

    stated_dir: Path | None
    stated_config: Path | None

    def settings(self) -> "Settings":
        """SettingsFault when they are not right."""
        from app.cli.place import load_settings

        return load_settings(self.stated_dir, self.stated_config)[0]

    def config(self) -> Path | None:
        """The settings' file, None where there is none."""
        from app.cli.place import config_path

        return config_path(self.stated_dir, self.stated_config)

    @property
    def data_dir(self) -> Path:
        """Where it is; reads the settings only when the command line did not say."""
        return self.stated_dir or self.settings().data_dir


@dataclass(frozen=True)
class Asker:
    """Which gateway is asked, and as whom."""

    place: Place
    address: str | None
    user: str | None
    given_token: str | None

    def client(self) -> "Client":
        """A connected client; close it, or use it as a context manager."""
        from muniment import Client

        from app.cli.place import address_of, token_of

        return Client(address_of(self), token_of(self))

    def async_client(self) -> "AsyncClient":
        """The same for an event loop."""
        from muniment import AsyncClient

        from app.cli.place import address_of, token_of

        return AsyncClient(address_of(self), token_of(self))


def place_options(function: F) -> F:
    """--data-dir and --config; hands over a Place as `place`."""

    @click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="MUNIMENT_DATA_DIR",
        help="Where everything is kept. [default: ./muniment-data]",
    )
    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="MUNIMENT_CONFIG",
        help="Settings. [default: muniment.toml in the data directory, else in the working folder]",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, data_dir: Path | None, config: Path | None, **kwargs: Any) -> Any:
        return function(*args, place=Place(data_dir, config), **kwargs)

    return wrapped  # type: ignore[return-value]


def asker_options(function: F) -> F:
    """Who asks which gateway; hands over an Asker as `asker`."""

    @click.option("--as", "user", metavar="USER", envvar="MUNIMENT_AS", help="Ask as this development user.")
    @click.option("--token", metavar="TOKEN", envvar="MUNIMENT_TOKEN", help="Ask with this token.")
    @click.option(
        "--address",
        metavar="HOST:PORT",
        envvar="MUNIMENT_ADDRESS",
        help="The gateway. [default: the one that runs on the data directory]",
    )
    @place_options
    @functools.wraps(function)
    def wrapped(
        *args: Any, user: str | None, token: str | None, address: str | None, place: Place, **kwargs: Any
    ) -> Any:
        if user is not None and token is not None:
            source = click.get_current_context().get_parameter_source
            # One on the command line beats the other in the environment.
            if source("user") == source("token"):
                raise click.UsageError("Give either --as or --token: both say who asks.")
            if source("user") == click.core.ParameterSource.COMMANDLINE:
                token = None
            else:
                user = None
        return function(*args, asker=Asker(place, address, user, token), **kwargs)

    return wrapped  # type: ignore[return-value]


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def access_options(function: F) -> F:
    """Who may see a document; hands over `access`, a dict of fields of muniment.v1.Access with what was given."""

    @click.option("--public", is_flag=True, help="Everybody in the tenant may see it.")
    @click.option("--group", "groups", metavar="GROUP", multiple=True, help="A group that may see it; repeatable.")
    @click.option("--deny-group", "denied", metavar="GROUP", multiple=True, help="A group that may not; repeatable.")
    @click.option("--owner", metavar="SUBJECT", help="The person whose it is.")
    @click.option("--classification", metavar="NAME", help="`confidential` is never public.")
    @click.option("--level", type=click.IntRange(min=0), help="The least clearance to see it.")
    @click.option("--label", "labels", metavar="KEY:VALUE", multiple=True, help="For your own policy; repeatable.")
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fields = {
            "public": kwargs.pop("public"),
            "allowed_groups": list(kwargs.pop("groups")),
            "denied_groups": list(kwargs.pop("denied")),
            "owner": kwargs.pop("owner"),
            "classification": kwargs.pop("classification"),
            "level": kwargs.pop("level"),
            "labels": list(kwargs.pop("labels")),
        }
        access = {name: value for name, value in fields.items() if value is not None and value not in ([], False)}
        return function(*args, access=access, **kwargs)

    return wrapped  # type: ignore[return-value]
