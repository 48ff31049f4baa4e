"""The development issuer: its tokens come in through the gateway's own door, and its key stays with its owner."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.issuer import AUDIENCE, ISSUER, DevelopmentIssuer, IssuerFault
from core.ids import TenantId
from gateway.authentication import Authenticator, TrustedIssuer
from gateway.errors import Unauthenticated
from gateway.keys import FileKeys
from policy.principal import Principal, Role


def authenticator(issuer: DevelopmentIssuer) -> Authenticator:
    keys = FileKeys(issuer.key_set_path)
    trusted = TrustedIssuer(ISSUER, AUDIENCE, frozenset({"acme"}), frozenset(Role), keys)
    return Authenticator([trusted], {"acme": TenantId("t-acme")}.get)


def enter(issuer: DevelopmentIssuer, token: str) -> Principal:
    return authenticator(issuer).authenticate((("authorization", f"Bearer {token}"),))


def test_its_tokens_come_in_with_what_was_asked_for(tmp_path: Path) -> None:
    issuer = DevelopmentIssuer.open(tmp_path)
    token = issuer.mint(
        "ada", "acme", groups=["hr", "all", "hr"], roles=[Role.WRITER, Role.READER], attributes={"clearance": 2}
    )
    principal = enter(issuer, token)
    assert (principal.subject, principal.tenant_id) == ("ada", "t-acme")
    assert principal.groups == ("all", "hr")
    assert principal.roles == {Role.READER, Role.WRITER}
    assert principal.attributes == {"clearance": 2}
    assert principal.token_id != enter(issuer, issuer.mint("ada", "acme")).token_id


def test_tokens_end(tmp_path: Path) -> None:
    issuer = DevelopmentIssuer.open(tmp_path)
    token = issuer.mint("ada", "acme", lifetime_s=60, now=datetime.now(UTC) - timedelta(seconds=120))
    with pytest.raises(Unauthenticated):
        enter(issuer, token)


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    first = DevelopmentIssuer.open(tmp_path)
    again = DevelopmentIssuer.open(tmp_path)
    assert enter(first, again.mint("ada", "acme")).subject == "ada"
    folder = tmp_path / "issuer"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "private.pem": 0o600,
        "jwks.json": 0o600,
    }
    assert b"PRIVATE" not in first.key_set_path.read_bytes()


def test_another_directorys_issuer_is_somebody_else(tmp_path: Path) -> None:
    ours, theirs = DevelopmentIssuer.open(tmp_path / "a"), DevelopmentIssuer.open(tmp_path / "b")
    with pytest.raises(Unauthenticated):
        enter(ours, theirs.mint("ada", "acme"))


def test_a_lost_or_foreign_key_set_is_written_anew(tmp_path: Path) -> None:
    issuer = DevelopmentIssuer.open(tmp_path)
    issuer.key_set_path.write_text("{}")
    assert enter(DevelopmentIssuer.open(tmp_path), issuer.mint("ada", "acme"))


def test_an_unusable_key_is_told_with_what_to_do(tmp_path: Path) -> None:
    DevelopmentIssuer.open(tmp_path)
    path = tmp_path / "issuer" / "private.pem"
    path.chmod(0o644)
    with pytest.raises(IssuerFault, match="chmod 600"):
        DevelopmentIssuer.open(tmp_path)
    path.chmod(0o600)
    path.write_text("not a key")
    with pytest.raises(IssuerFault, match="delete it"):
        DevelopmentIssuer.open(tmp_path)
