"""Issuers, keys and tokens for tests: real signatures, a clock in the test's hand."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from core.ids import TenantId
from gateway.authentication import Authenticator, TokenBounds, TrustedIssuer
from gateway.keys import KeySet, VerificationKey, parse_key_set
from policy.principal import Role

ISSUER = "https://idp.acme.example"
AUDIENCE = "muniment"
TENANTS = {"acme": TenantId("tid-acme"), "globex": TenantId("tid-globex")}


@dataclass
class Clock:
    """Seconds; moved by hand."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Keys:
    """A key set held in memory: the KeySet protocol, with counts."""

    by_kid: dict[str, VerificationKey] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def find(self, kid: str) -> VerificationKey | None:
        self.asked.append(kid)
        return self.by_kid.get(kid)


def ed_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def rsa_key() -> RSAPrivateKey:
    return generate_rsa(public_exponent=65_537, key_size=2_048)


def ec_key() -> Any:
    return generate_private_key(SECP256R1())


def jwk(key: Any, kid: str, **extra: Any) -> dict[str, Any]:
    """The public JWK of a private key."""
    public = key.public_key()
    kind: Any = OKPAlgorithm if isinstance(key, Ed25519PrivateKey) else ECAlgorithm
    kind = RSAAlgorithm if isinstance(key, RSAPrivateKey) else kind
    return {**json.loads(kind.to_jwk(public)), "kid": kid, "use": "sig", **extra}


def key_set(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": list(entries)}).encode()


def claims_at(now: float, **changes: Any) -> dict[str, Any]:
    """Good claims; a change to None removes the claim."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "tenant": "acme",
        "iat": int(now),
        "exp": int(now) + 600,
        "jti": "token-1",
        "groups": ["eng", "all"],
        "roles": ["reader"],
        "attributes": {"clearance": 3},
    }
    claims.update(changes)
    return {name: value for name, value in claims.items() if value is not None}


class World:
    """One issuer with an Ed25519 key `k1`, an Authenticator that trusts it, and a clock."""

    def __init__(self, keys: KeySet | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock(time.time())
        self.key = ed_key()
        self.tenants = dict(TENANTS)
        self.keys = keys or Keys(parse_key_set(key_set(jwk(self.key, "k1"))))
        trusted = TrustedIssuer(
            issuer=ISSUER,
            audience=AUDIENCE,
            tenants=frozenset({"acme"}),
            roles=frozenset({Role.READER, Role.WRITER}),
            keys=self.keys,
        )
        self.authenticator = Authenticator([trusted], self.tenants.get, TokenBounds(), self.clock)

    def token(self, *, key: Any = None, kid: str | None = "k1", algorithm: str = "EdDSA", **changes: Any) -> str:
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode(claims_at(self.clock.now, **changes), key or self.key, algorithm=algorithm, headers=headers)

    def bearer(self, **changes: Any) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token(**changes)}"),)
