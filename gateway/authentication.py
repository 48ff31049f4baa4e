"""From the metadata of a call to a Principal: the only place where one is made (I1).

A token is refused in one way whatever is wrong with it; why goes to the log. Verification is synchronous and reads
only what is in memory: keys are fetched elsewhere (`gateway.keys`).
"""

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

import jwt
from jwt.exceptions import PyJWTError
from jwt.types import Options
from jwt.utils import base64url_decode

from core.errors import InvalidValue
from core.ids import TenantId, clean_text
from gateway.errors import TenantMismatch, Unauthenticated
from gateway.keys import KeySet, VerificationKey
from policy.principal import Principal, Role

REQUIRED = ("exp", "iat", "iss", "aud", "sub", "tenant", "groups")
OVERAGE_MARKERS = ("_claim_names", "_claim_sources", "hasgroups")  # "the groups did not fit": the list is not complete
MAX_TOKEN_CHARS = 48 * 1024  # the server accepts 64 KiB of metadata
MAX_KID_CHARS = 256
MAX_GROUPS = 2_000
MAX_ATTRIBUTES = 64
MAX_INTEGER = 2**53 - 1  # beyond, Rego and the store round
MEMO_TOKENS = 4_096

# Signature, issuer and audience are PyJWT's; times and texts are checked by us, on our clock and by our rules.
_PYJWT_OPTIONS: Options = {
    "require": list(REQUIRED),
    "verify_signature": True,
    "verify_aud": True,
    "verify_iss": True,
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
    "verify_sub": False,
    "verify_jti": False,
}

Metadata = Iterable[tuple[str, str | bytes]]
# The scheme in any case (RFC 9110), one space, three parts of the URL alphabet, none of them empty.
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] ([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)\Z")


@dataclass(frozen=True)
class TrustedIssuer:
    """An issuer with what it may assert; both sets are closed and neither has a wildcard (I1)."""

    issuer: str
    audience: str
    tenants: frozenset[str]
    roles: frozenset[Role]
    keys: KeySet

    def __post_init__(self) -> None:
        if not (self.issuer and self.audience and self.tenants and self.roles):
            raise ValueError("an issuer needs its name, an audience, tenants and roles")


@dataclass(frozen=True)
class TokenBounds:
    """Seconds: the longest `exp - iat`, and how far clocks may differ."""

    max_lifetime_s: int = 3_600
    leeway_s: int = 30


@dataclass(frozen=True)
class _Verified:
    principal: Principal
    tenant: str
    issuer: TrustedIssuer
    key: VerificationKey


class Authenticator:
    """Verifies tokens. `tenant_id_of` gives the internal id of a live tenant by its name, else None.

    `clock` is in seconds since 1970. Verified tokens are kept by their digest, to save the signature: each use checks
    expiry, key and tenant again.
    """

    def __init__(
        self,
        issuers: Sequence[TrustedIssuer],
        tenant_id_of: Callable[[str], TenantId | None],
        bounds: TokenBounds | None = None,
        clock: Callable[[], float] = time,
        memo_tokens: int = MEMO_TOKENS,
    ) -> None:
        self._issuers = {trusted.issuer: trusted for trusted in issuers}
        if len(self._issuers) != len(issuers):
            raise ValueError("two issuers share a name")
        self._tenant_id_of = tenant_id_of
        self._bounds = bounds or TokenBounds()
        self._clock = clock
        self._memo_tokens = memo_tokens
        self._memo: OrderedDict[bytes, _Verified] = OrderedDict()

    def authenticate(self, metadata: Metadata) -> Principal:
        """The principal of a call; raises Unauthenticated or TenantMismatch."""
        pairs = tuple(metadata)
        token = _bearer_token(pairs)
        digest = hashlib.sha256(token.encode()).digest()
        verified = self._remembered(digest) or self._verify(token, digest)
        for name, value in pairs:
            if name == "x-tenant-id" and value != verified.tenant:
                raise TenantMismatch("x-tenant-id differs from the token's tenant")
        return verified.principal

    def _remembered(self, digest: bytes) -> _Verified | None:
        kept = self._memo.get(digest)
        if kept is None:
            return None
        good = (
            self._clock() < kept.principal.expires_at + self._bounds.leeway_s
            and kept.issuer.keys.find(kept.key.kid) is kept.key
            and self._tenant_id_of(kept.tenant) == kept.principal.tenant_id
        )
        if not good:
            del self._memo[digest]
            return None
        self._memo.move_to_end(digest)
        return kept

    def _verify(self, token: str, digest: bytes) -> _Verified:
        header = _json_part(token, 0)
        stated_issuer = _json_part(token, 1).get("iss")
        trusted = self._issuers.get(stated_issuer) if isinstance(stated_issuer, str) else None
        if trusted is None:
            raise Unauthenticated("unknown issuer")
        key = _key_of(header, trusted)
        claims = _signed_claims(token, trusted, key)
        self._check_times(claims)
        principal, tenant = self._principal(claims, trusted, digest)
        verified = _Verified(principal, tenant, trusted, key)
        self._memo[digest] = verified
        if len(self._memo) > self._memo_tokens:
            self._memo.popitem(last=False)
        return verified

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now, leeway = self._clock(), self._bounds.leeway_s
        issued, expires = _seconds(claims, "iat"), _seconds(claims, "exp")
        if now >= expires + leeway:
            raise Unauthenticated("expired")
        if issued > now + leeway:
            raise Unauthenticated("issued in the future")
        if "nbf" in claims and _seconds(claims, "nbf") > now + leeway:
            raise Unauthenticated("not valid yet")
        if not 0 < expires - issued <= self._bounds.max_lifetime_s:
            raise Unauthenticated("lifetime out of bounds")

    def _principal(self, claims: Mapping[str, Any], trusted: TrustedIssuer, digest: bytes) -> tuple[Principal, str]:
        try:
            tenant = clean_text("tenant", _text(claims, "tenant"))
            subject = clean_text("sub", _text(claims, "sub"))
            token_id = clean_text("jti", _text(claims, "jti")) if "jti" in claims else digest.hex()
            groups = _groups(claims)
            attributes = _attributes(claims.get("attributes", {}))
        except InvalidValue as exc:
            raise Unauthenticated(f"claim not acceptable: {exc.field}: {exc.why}") from exc
        tenant_id = self._tenant_id_of(tenant) if tenant in trusted.tenants else None
        if tenant_id is None:
            raise Unauthenticated("tenant is not one that the issuer may assert")
        principal = Principal(
            issuer=trusted.issuer,
            subject=subject,
            tenant_id=tenant_id,
            groups=groups,
            roles=_roles(claims.get("roles", []), trusted),
            token_id=token_id,
            expires_at=_seconds(claims, "exp"),
            attributes=attributes,
        )
        return principal, tenant


def _bearer_token(metadata: Sequence[tuple[str, str | bytes]]) -> str:
    entries = [value for name, value in metadata if name == "authorization"]
    if len(entries) != 1:
        raise Unauthenticated(f"{len(entries)} authorization entries")
    entry = entries[0]
    if not isinstance(entry, str) or len(entry) > MAX_TOKEN_CHARS:
        raise Unauthenticated("authorization is too long, or not text")
    match = _BEARER.match(entry)
    if match is None:
        raise Unauthenticated("authorization is not a bearer token")
    return match[1]


def _json_part(token: str, index: int) -> dict[str, Any]:
    try:
        part = json.loads(base64url_decode(token.split(".")[index]))
    except (ValueError, RecursionError) as exc:
        raise Unauthenticated("not a JSON web token") from exc
    if not isinstance(part, dict):
        raise Unauthenticated("not a JSON web token")
    return part


def _key_of(header: Mapping[str, Any], trusted: TrustedIssuer) -> VerificationKey:
    kid = header.get("kid")
    if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARS:
        raise Unauthenticated("no usable kid")
    if "crit" in header or "b64" in header:
        raise Unauthenticated("header demands an extension")
    key = trusted.keys.find(kid)
    if key is None:
        raise Unauthenticated("no such key of this issuer")
    return key


def _signed_claims(token: str, trusted: TrustedIssuer, key: VerificationKey) -> Mapping[str, Any]:
    """The claims, once signature, issuer and audience hold."""
    try:
        return jwt.decode(
            token,
            key=key.key,
            algorithms=list(key.algorithms),
            audience=trusted.audience,
            issuer=trusted.issuer,
            options=_PYJWT_OPTIONS,
        )
    except (PyJWTError, ValueError, TypeError, RecursionError) as exc:
        # PyJWT's own texts quote the token, so only the kind is kept.
        raise Unauthenticated(type(exc).__name__) from exc


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str):
        raise Unauthenticated(f"{name} is not text")
    return value


def _seconds(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_INTEGER:
        raise Unauthenticated(f"{name} is not a time")
    return int(value)


def _groups(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """The complete list: denials match against it, so a part of it would widen what is seen (I3)."""
    if any(marker in claims for marker in OVERAGE_MARKERS):
        raise Unauthenticated("the group list is marked as not complete")
    return tuple(sorted({clean_text("groups", name) for name in _texts(claims.get("groups"), "groups", MAX_GROUPS)}))


def _texts(value: object, name: str, limit: int) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unauthenticated(f"{name} is not a list of texts")
    if len(value) > limit:
        raise Unauthenticated(f"{name} has more than {limit} entries")
    return value


def _roles(value: object, trusted: TrustedIssuer) -> frozenset[Role]:
    names = _texts(value, "roles", len(Role))
    if not set(names) <= {str(role) for role in trusted.roles}:
        raise Unauthenticated("a role is not one that the issuer may assert")
    return frozenset(Role(name) for name in names)


def _attributes(value: object) -> dict[str, str | int | bool]:
    if not isinstance(value, dict) or len(value) > MAX_ATTRIBUTES:
        raise Unauthenticated("attributes is not an object, or too large")
    attributes: dict[str, str | int | bool] = {}
    for name, item in value.items():
        clean_name = clean_text("attributes", name)
        if isinstance(item, str):
            attributes[clean_name] = clean_text("attributes", item)
        elif isinstance(item, int) and abs(item) <= MAX_INTEGER:
            attributes[clean_name] = item
        else:
            raise Unauthenticated("an attribute is not text, whole number or truth value")
    return attributes
