"""`muniment token`: tokens of the development issuer, for clients of your own."""

import re
from typing import TYPE_CHECKING

import click

from app.cli.lazy import epilog
from app.cli.options import Place, place_options

if TYPE_CHECKING:
    from app.settings import DevelopmentUser, Settings

ROLES = ("reader", "writer", "publisher", "policy-author", "auditor", "evaluator")  # policy.principal.Role, a test says
_UNITS = {"s": 1, "m": 60, "h": 3_600}


@click.command(
    epilog=epilog(
        "muniment token alice --tenant acme --group staff --attribute clearance=3",
        "muniment token ci --tenant acme --role writer --role publisher --lifetime 10m",
        "muniment token alice    # as the settings have her under [development.users.alice]",
        after="The token alone goes to standard output. Whoever can read the data directory can be anybody: the "
        "development issuer is for one machine, and is off where other issuers are configured.",
    )
)
@click.argument("subject")
@click.option("--tenant", metavar="NAME", help="[default: the only one, or the development user's]")
@click.option("--group", "groups", metavar="GROUP", multiple=True, help="Repeatable.")
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="Repeatable. [default: reader]")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="Repeatable; 3 is a number.")
@click.option("--lifetime", metavar="DURATION", default="1h", show_default=True, help="Like 90s, 15m or 1h.")
@place_options
def token(
    subject: str,
    place: Place,
    tenant: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    attributes: tuple[str, ...],
    lifetime: str,
) -> None:
    """Mint a token for SUBJECT. What is not given is taken from the development user of that name."""
    from app.issuer import DevelopmentIssuer

    settings = place.settings()
    if not settings.development_issuer:
        raise click.ClickException("the development issuer is off: tokens come from the configured issuers")
    user = _claims(settings, subject, tenant, groups, roles, attributes)
    minted = DevelopmentIssuer.open(settings.data_dir).mint(
        subject.partition("@")[0],
        user.tenant,
        groups=user.groups,
        roles=user.roles,
        attributes=user.attributes,
        lifetime_s=_lifetime_s(lifetime, settings.tokens.max_lifetime_s),
    )
    click.echo(minted)


def _claims(
    settings: "Settings",
    subject: str,
    tenant: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    attributes: tuple[str, ...],
) -> "DevelopmentUser":
    from pydantic import ValidationError

    from app.cli.place import users_of
    from app.settings import DevelopmentUser
    from policy.principal import Role

    known = users_of(settings).get(subject)
    tenants = [each.name for each in settings.tenants]
    if tenant is None:
        tenant = known.tenant if known is not None else tenants[0] if len(tenants) == 1 else None
    if tenant not in tenants:
        raise click.UsageError(f"Say with --tenant which: {', '.join(tenants)}.")
    try:
        return DevelopmentUser(
            tenant=tenant,
            groups=groups or (known.groups if known else ()),
            roles=tuple(map(Role, roles)) or (known.roles if known else (Role.READER,)),
            attributes=dict(map(_attribute, attributes)) or (known.attributes if known else {}),
        )
    except ValidationError as exc:
        faults = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in exc.errors(include_input=False))
        raise click.UsageError(faults) from exc


def _attribute(text: str) -> tuple[str, str | int | bool]:
    """Whole numbers and truth values are such: policy compares clearances as numbers."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise click.UsageError(f"--attribute {text!r} is not NAME=VALUE.")
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if re.fullmatch(r"-?\d{1,15}", value) else value


def _lifetime_s(text: str, limit_s: int) -> int:
    match = re.fullmatch(r"(\d{1,9})([smh]?)", text)
    seconds = int(match[1]) * _UNITS[match[2] or "s"] if match else 0
    if not 0 < seconds <= limit_s:
        raise click.UsageError(f"--lifetime {text}: give a duration like 90s, 15m or 1h, of at most {limit_s} s.")
    return seconds
