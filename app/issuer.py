"""The development issuer: a key pair in the data directory that signs real tokens.

It is for one machine: whoever reads the folder can be anybody. Settings refuse it beside configured issuers.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from core.ids import new_id
from policy.principal import Role

ISSUER = "muniment-development"
AUDIENCE = "muniment"
ALGORITHM = "EdDSA"
KEY_FILE = "private.pem"
KEY_SET_FILE = "jwks.json"
DEFAULT_LIFETIME_S = 3_600


class IssuerFault(Exception):
    """The key pair can't be used: the text says why and what to do."""


class DevelopmentIssuer:
    """Mints tokens; `key_set_path` is the JWKS file that the gateway reads."""

    def __init__(self, key: Ed25519PrivateKey, kid: str, key_set_path: Path) -> None:
        self._key = key
        self._kid = kid
        self.key_set_path = key_set_path

    @classmethod
    def open(cls, data_dir: Path) -> "DevelopmentIssuer":
        """The issuer of a data directory, made at first use; raises IssuerFault when its key is unusable."""
        folder = data_dir / "issuer"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _key_of(folder / KEY_FILE)
        kid = _kid_of(key)
        entry = json.loads(OKPAlgorithm.to_jwk(key.public_key()))
        entry |= {"kid": kid, "alg": ALGORITHM, "use": "sig"}
        path = folder / KEY_SET_FILE
        wanted = json.dumps({"keys": [entry]}, sort_keys=True).encode()
        if not path.exists() or path.read_bytes() != wanted:
            _write(path, wanted, replace=True)
        return cls(key, kid, path)

    def mint(
        self,
        subject: str,
        tenant: str,
        *,
        groups: Iterable[str] = (),
        roles: Iterable[Role] = (Role.READER,),
        attributes: Mapping[str, str | int | bool] | None = None,
        lifetime_s: int = DEFAULT_LIFETIME_S,
        now: datetime | None = None,
    ) -> str:
        """A signed token for `subject` of the tenant of that name, good for `lifetime_s` seconds from `now` on."""
        issued = int((now or datetime.now(UTC)).timestamp())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "tenant": tenant,
            "iat": issued,
            "exp": issued + lifetime_s,
            "jti": new_id(),
            "groups": sorted(set(groups)),
            "roles": sorted({Role(role) for role in roles}),
            "attributes": dict(attributes or {}),
        }
        return jwt.encode(claims, self._key, algorithm=ALGORITHM, headers={"kid": self._kid})


def _key_of(path: Path) -> Ed25519PrivateKey:
    if not path.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _write(path, pem, replace=False)
    if path.stat().st_mode & 0o077:
        raise IssuerFault(f"{path} can be read by others: chmod 600 it, or delete it to make a new key")
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except ValueError as exc:
        raise IssuerFault(f"{path} is not a private key: delete it to make a new one") from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise IssuerFault(f"{path} is not an Ed25519 key: delete it to make a new one")
    return key


def _kid_of(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()[:16]


def _write(path: Path, content: bytes, *, replace: bool) -> None:
    """Whole or not at all, readable by its owner only: another process may be starting at the same moment."""
    temporary = path.with_name(f".{path.name}.{new_id()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if replace:
        temporary.replace(path)
        return
    # A link never replaces: of two processes that make the first key at once, both end with the same one.
    with suppress(FileExistsError):
        os.link(temporary, path)
    temporary.unlink()
