"""Who comes in: every way that a token can be wrong is refused, and a good one says exactly what it says."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from core.ids import TenantId
from gateway.authentication import Authenticator, TrustedIssuer
from gateway.errors import TenantMismatch, Unauthenticated
from gateway.keys import KeySetFault, parse_key_set
from policy.principal import Principal, Role
from tests.unit.gateway.issuing import ISSUER, TENANTS, Clock, Keys, World, ec_key, ed_key, jwk, key_set, rsa_key


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], payload: dict[str, Any], secret: bytes | None = None) -> str:
    """A token made without a library, which would refuse to make it."""
    head = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(payload).encode())}"
    signature = b"" if secret is None else hmac.new(secret, head.encode(), hashlib.sha256).digest()
    return f"{head}.{b64(signature)}"


@pytest.fixture
def world() -> World:
    return World()


def enter(world: World, token: str) -> Principal:
    return world.authenticator.authenticate((("authorization", f"Bearer {token}"),))


def refused(world: World, token: str) -> None:
    with pytest.raises(Unauthenticated):
        enter(world, token)


def test_a_good_token_gives_its_principal(world: World) -> None:
    principal = enter(world, world.token(groups=["b", "a", "b"], roles=["writer", "reader"]))
    assert principal.issuer == ISSUER
    assert principal.subject == "ada"
    assert principal.tenant_id == TENANTS["acme"]
    assert principal.groups == ("a", "b")
    assert principal.roles == {Role.READER, Role.WRITER}
    assert principal.token_id == "token-1"
    assert principal.expires_at == int(world.clock.now) + 600
    assert principal.attributes == {"clearance": 3}


@pytest.mark.parametrize("make", [rsa_key, ec_key, ed_key])
def test_every_asymmetric_kind_of_key_verifies(make: Any) -> None:
    key = make()
    algorithm = {rsa_key: "RS256", ec_key: "ES256", ed_key: "EdDSA"}[make]
    world = World(Keys(parse_key_set(key_set(jwk(key, "k9")))))
    assert enter(world, world.token(key=key, kid="k9", algorithm=algorithm)).subject == "ada"


@pytest.mark.parametrize("form", ["pem", "der", "openssh", "jwk"])
def test_j1_hmac_with_the_public_key_is_refused(form: str) -> None:
    key = rsa_key()
    world = World(Keys(parse_key_set(key_set(jwk(key, "k1")))))
    public = key.public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "openssh": public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        "jwk": json.dumps(jwk(key, "k1")).encode(),
    }[form]
    claims = json.loads(base64.urlsafe_b64decode(world.token().split(".")[1] + "=="))
    refused(world, by_hand({"alg": "HS256", "typ": "JWT", "kid": "k1"}, claims, secret))


@pytest.mark.parametrize("algorithm", ["none", "None", "nOnE"])
@pytest.mark.parametrize("signature", ["", "AAAA"])
def test_j1_unsigned_tokens_are_refused(world: World, algorithm: str, signature: str) -> None:
    claims = json.loads(base64.urlsafe_b64decode(world.token().split(".")[1] + "=="))
    token = by_hand({"alg": algorithm, "typ": "JWT", "kid": "k1"}, claims)
    refused(world, token + signature)


def test_j1_a_symmetric_key_in_a_published_set_is_a_fault() -> None:
    with pytest.raises(KeySetFault, match="symmetric"):
        parse_key_set(key_set({"kty": "oct", "k": "c2VjcmV0", "kid": "h"}))


def test_an_algorithm_other_than_the_keys_own_is_refused() -> None:
    key = rsa_key()
    world = World(Keys(parse_key_set(key_set(jwk(key, "k1", alg="RS256")))))
    assert enter(world, world.token(key=key, algorithm="RS256"))
    refused(world, world.token(key=key, algorithm="RS512"))


def without(world: World, claim: str) -> str:
    changes: dict[str, Any] = {claim: None}
    return world.token(**changes)


@pytest.mark.parametrize("claim", ["exp", "iat", "iss", "aud", "sub", "tenant", "groups"])
def test_j2_every_required_claim_is_required(world: World, claim: str) -> None:
    refused(world, without(world, claim))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": ISSUER[:8]},
        {"iss": f"{ISSUER}/"},
        {"aud": "another-service"},
        {"aud": []},
        {"aud": ""},
        {"sub": ""},
        {"sub": " ada"},
        {"sub": "a" * 600},
        {"tenant": "globex"},  # exists, but not this issuer's to assert
        {"tenant": "nobody"},
        {"tenant": "*"},
        {"tenant": "ACME"},
        {"tenant": ["acme"]},
        {"roles": ["publisher"]},  # not this issuer's to assert
        {"roles": ["root"]},
        {"roles": "reader"},
        {"roles": [["reader"]]},
        {"groups": "eng"},
        {"groups": {"eng": True}},
        {"groups": ["eng", 7]},
        {"groups": [" eng"]},
        {"groups": [""]},
        {"groups": [f"g{n}" for n in range(2_001)]},
        {"hasgroups": True},
        {"_claim_names": {"groups": "src1"}},
        {"_claim_sources": {"src1": {}}},
        {"attributes": ["clearance"]},
        {"attributes": {"clearance": 1.5}},
        {"attributes": {"clearance": [1]}},
        {"attributes": {"clearance": 2**60}},
        {"attributes": {f"a{n}": n for n in range(65)}},
        {"jti": 7},
        {"exp": "soon"},
        {"exp": True},
        {"iat": "now"},
    ],
)
def test_claims_that_break_a_rule_are_refused(world: World, changes: dict[str, Any]) -> None:
    refused(world, by_hand_signed(world, changes))


def by_hand_signed(world: World, changes: dict[str, Any]) -> str:
    """Signed by the issuer itself, with claims that PyJWT would not encode."""
    claims = json.loads(base64.urlsafe_b64decode(world.token().split(".")[1] + "=="))
    claims.update(changes)
    head = f"{b64(json.dumps({'alg': 'EdDSA', 'kid': 'k1'}).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{head}.{b64(world.key.sign(head.encode()))}"


def test_j2_an_array_of_issuers_is_refused(world: World) -> None:
    refused(world, by_hand_signed(world, {"iss": ["https://evil.example", ISSUER]}))


def test_j2_an_issuer_without_audience_tenants_or_roles_can_not_be_made() -> None:
    whole: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": "a",
        "tenants": frozenset({"t"}),
        "roles": frozenset({Role.READER}),
    }
    for name in whole:
        with pytest.raises(ValueError, match="an issuer needs"):
            TrustedIssuer(**{**whole, name: type(whole[name])()}, keys=Keys())


def test_times_are_bounded(world: World) -> None:
    now = int(world.clock.now)
    refused(world, world.token(iat=now - 700, exp=now - 31))
    assert enter(world, world.token(iat=now - 600, exp=now - 29))  # within the leeway
    refused(world, world.token(iat=now + 31, exp=now + 600))
    assert enter(world, world.token(iat=now + 29, exp=now + 600))
    refused(world, world.token(exp=now + 3_601))
    assert enter(world, world.token(exp=now + 3_600))
    refused(world, world.token(exp=now - 1, iat=now))
    refused(world, world.token(nbf=now + 60))


def test_another_issuers_key_does_not_verify(world: World) -> None:
    other = ed_key()
    refused(world, world.token(key=other))
    refused(world, world.token(key=other, kid="unknown"))
    refused(world, world.token(kid=None))
    refused(world, world.token(kid="k" * 300))


def test_keys_are_found_by_issuer_and_kid() -> None:
    """A second issuer's key of the same kid never verifies the first one's tokens."""
    first, second = ed_key(), ed_key()
    issuers = [
        TrustedIssuer(
            name,
            "muniment",
            frozenset({"acme"}),
            frozenset({Role.READER}),
            Keys(parse_key_set(key_set(jwk(key, "k1")))),
        )
        for name, key in ((ISSUER, first), ("https://other.example", second))
    ]
    world = World()
    world.authenticator = Authenticator(issuers, world.tenants.get, clock=world.clock)
    assert enter(world, world.token(key=first))
    refused(world, world.token(key=second))
    refused(world, world.token(key=first, iss="https://other.example"))


@pytest.mark.parametrize("header", [{"crit": ["x"]}, {"b64": False}])
def test_headers_that_demand_an_extension_are_refused(world: World, header: dict[str, Any]) -> None:
    claims = json.loads(base64.urlsafe_b64decode(world.token().split(".")[1] + "=="))
    head = {"alg": "EdDSA", "kid": "k1", **header}
    signed = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    refused(world, f"{signed}.{b64(world.key.sign(signed.encode()))}")


def test_j8_the_tenant_comes_from_the_claim_alone(world: World) -> None:
    good = world.bearer()
    assert world.authenticator.authenticate((*good, ("x-tenant-id", "acme"))).tenant_id == TENANTS["acme"]
    for other in ("globex", "ACME", "", TENANTS["acme"]):
        with pytest.raises(TenantMismatch):
            world.authenticator.authenticate((*good, ("x-tenant-id", other)))
    with pytest.raises(TenantMismatch):
        world.authenticator.authenticate((*good, ("x-tenant-id", "acme"), ("x-tenant-id", "globex")))


def test_j8_one_authorization_entry_in_one_form(world: World) -> None:
    token = world.token()
    for entry in (f"bearer {token}", f"BEARER {token}"):
        assert world.authenticator.authenticate((("authorization", entry),))
    entries: tuple[str | bytes, ...] = (
        f"Bearer  {token}",
        f"Bearer {token} ",
        f"Bearer {token}\n",
        f" Bearer {token}",
        f"Basic {token}",
        token,
        "Bearer",
        "Bearer a.b",
        f"Bearer {token}==",
        f"Bearer {token}.x",
        "",
        "Bearer " + "a" * 60_000 + ".b.c",
        b"Bearer x.y.z",
    )
    for wrong in entries:
        with pytest.raises(Unauthenticated):
            world.authenticator.authenticate((("authorization", wrong),))
    pair = ("authorization", f"Bearer {token}")
    for metadata in ((), (pair, pair), (pair, ("authorization", ""))):
        with pytest.raises(Unauthenticated):
            world.authenticator.authenticate(metadata)


@pytest.mark.parametrize("part", ["", "e30", "bnVsbA", "W10", "////", "eyJhIjo", b64(b"[" * 20_000)])
def test_bytes_that_are_no_token_are_refused(world: World, part: str) -> None:
    refused(world, f"{part}.{part}.{part}")
    good = world.token().split(".")
    refused(world, f"{good[0]}.{part}.{good[2]}")
    refused(world, f"{part}.{good[1]}.{good[2]}")


def test_groups_are_normalised(world: World) -> None:
    principal = enter(world, world.token(groups=["re\u0301sume\u0301", "r\u00e9sum\u00e9"]))
    assert principal.groups == ("r\u00e9sum\u00e9",)


def test_a_kept_token_still_expires_loses_its_key_and_its_tenant() -> None:
    clock = Clock()
    keys = Keys()
    world = World(keys, clock)
    keys.by_kid = parse_key_set(key_set(jwk(world.key, "k1")))
    token = world.token()
    assert enter(world, token) is enter(world, token)  # kept: the very same principal

    clock.now += 600 + 30
    refused(world, token)
    clock.now -= 630
    enter(world, token)
    keys.by_kid = {}
    refused(world, token)
    keys.by_kid = parse_key_set(key_set(jwk(world.key, "k1")))
    first = enter(world, token)
    keys.by_kid = parse_key_set(key_set(jwk(world.key, "k1")))  # the set was read anew
    assert enter(world, token) is not first
    del world.tenants["acme"]
    refused(world, token)
    world.tenants["acme"] = TenantId("tid-acme-again")
    assert enter(world, token).tenant_id == "tid-acme-again"


def test_the_memo_forgets_the_least_recently_used(world: World) -> None:
    trusted = next(iter(world.authenticator._issuers.values()))
    world.authenticator = Authenticator([trusted], world.tenants.get, clock=world.clock, memo_tokens=2)
    tokens = [world.token(sub=subject) for subject in ("ada", "bob", "cyd")]
    first, second = enter(world, tokens[0]), enter(world, tokens[1])
    assert enter(world, tokens[0]) is first
    enter(world, tokens[2])
    assert enter(world, tokens[0]) is first
    assert enter(world, tokens[1]) is not second
    assert len(world.authenticator._memo) == 2


def test_why_a_token_was_refused_never_quotes_it(world: World) -> None:
    canary = "CANARY-7"
    for token in (world.token(kid=canary), world.token(iss=canary), world.token(tenant=canary), canary * 3):
        with pytest.raises(Unauthenticated) as caught:
            enter(world, token)
        assert canary not in str(caught.value)
