"""From options to settings, to a gateway's address and to a token; imports what those need."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import click

from app.cli.options import DEFAULT_DATA_DIR, Asker
from app.issuer import DEFAULT_LIFETIME_S, DevelopmentIssuer
from app.settings import CONFIG_FILE, DevelopmentUser, Settings, load
from deploy import holder, read_state
from policy.principal import Role

RENEW_BEFORE_S = 60
ADMIN = "admin"
ADMIN_ROLES = (Role.READER, Role.WRITER, Role.PUBLISHER, Role.EVALUATOR)


def config_path(stated_dir: Path | None, stated_config: Path | None) -> Path | None:
    """The file that was named, else the data directory's own, else the working folder's, else None."""
    if stated_config is not None:
        return stated_config
    candidates = ((stated_dir or DEFAULT_DATA_DIR) / CONFIG_FILE, Path(CONFIG_FILE))
    return next((path for path in candidates if path.is_file()), None)


def load_settings(stated_dir: Path | None, stated_config: Path | None) -> tuple[Settings, Path | None]:
    """The settings and the file that they are from; SettingsFault."""
    path = config_path(stated_dir, stated_config)
    return (load(path) if stated_dir is None else load(path, data_dir=stated_dir)), path


def address_of(asker: Asker) -> str:
    """The gateway's `host:port`."""
    if asker.address is not None:
        return asker.address
    data_dir = asker.place.data_dir
    state = read_state(data_dir)
    if state is not None:
        return state.addresses["gateway"]
    if holder(data_dir) is not None:
        raise click.ClickException(
            f"what runs on {data_dir} is still starting; `muniment status` tells when it is ready"
        )
    raise click.ClickException(
        f"nothing runs on {data_dir}. Start it with `muniment up`, or say which gateway to ask with --address."
    )


def token_of(asker: Asker) -> str | Callable[[], str]:
    """A token, or what mints one whenever the last is about to expire: an ingest may outlive a token."""
    if asker.given_token is not None:
        return asker.given_token.strip()
    settings = asker.place.settings()
    if asker.user is None:
        raise click.UsageError(f"Say who asks: --as USER ({known_users(settings)}), or --token TOKEN.")
    user = find_user(settings, asker.user, asker.place.config())
    lifetime_s = min(DEFAULT_LIFETIME_S, settings.tokens.max_lifetime_s)
    return Minter(settings.data_dir, asker.user.partition("@")[0], user, lifetime_s)


def users_of(settings: Settings) -> dict[str, DevelopmentUser]:
    """Those of the settings; where there are none, an `admin` of each tenant, so that a first try needs no file."""
    if settings.development.users or not settings.development_issuer:
        return dict(settings.development.users)
    tenants = [tenant.name for tenant in settings.tenants]
    names = [ADMIN] if len(tenants) == 1 else [f"{ADMIN}@{tenant}" for tenant in tenants]
    return {
        name: DevelopmentUser(tenant=tenant, roles=ADMIN_ROLES) for name, tenant in zip(names, tenants, strict=True)
    }


def find_user(settings: Settings, name: str, config: Path | None) -> DevelopmentUser:
    """The development user of that name, else a ClickException that says how to add one to `config`."""
    if not settings.development_issuer:
        raise click.ClickException("--as needs the development issuer, which is off: give --token instead")
    found = users_of(settings).get(name)
    if found is None:
        raise click.ClickException(
            f"there is no development user {name!r} ({known_users(settings)}). "
            f"Add one to {config or CONFIG_FILE}:\n"
            + _user_toml(name, settings.tenants[0].name, (Role.READER,), "staff")
            + _kept_admins(settings)
        )
    return found


def _kept_admins(settings: Settings) -> str:
    """The built-in admins end with the first user in the settings: what keeps them."""
    if settings.development.users:
        return ""
    kept = (_user_toml(name, user.tenant, user.roles) for name, user in users_of(settings).items())
    return f"\nUsers in the settings replace the built-in ones; to keep those, add them, too:\n{''.join(kept)}"


def _user_toml(name: str, tenant: str, roles: tuple[Role, ...], *groups: str) -> str:
    key = name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name)
    lines = [f"[development.users.{key}]", f"tenant = {json.dumps(tenant)}"]
    lines += [f"groups = {json.dumps(groups)}"] if groups else []
    lines.append(f"roles = {json.dumps(roles)}")
    return "".join(f"\n  {line}" for line in lines) + "\n"


def known_users(settings: Settings) -> str:
    """For messages."""
    return f"known: {', '.join(users_of(settings)) or 'none'}"


class Minter:
    """Mints a user's tokens; called for one, it gives the last while it is good."""

    def __init__(self, data_dir: Path, subject: str, user: DevelopmentUser, lifetime_s: int) -> None:
        self._issuer = DevelopmentIssuer.open(data_dir)
        self._subject = subject
        self._user = user
        self._lifetime_s = lifetime_s
        self._token = ""
        self._good_until = 0.0

    def __call__(self) -> str:
        """A token that is good for a while yet."""
        now = time.time()
        if now >= self._good_until:
            user = self._user
            self._token = self._issuer.mint(
                self._subject,
                user.tenant,
                groups=user.groups,
                roles=user.roles,
                attributes=user.attributes,
                lifetime_s=self._lifetime_s,
            )
            self._good_until = now + max(self._lifetime_s - RENEW_BEFORE_S, self._lifetime_s / 2)
        return self._token
