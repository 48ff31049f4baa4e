"""Public keys of issuers, found by `kid`; kept so fresh that rotation and withdrawal hold within stated bounds.

Bounds, with the defaults of `KeyBounds`:

- A new key is accepted at most `window_s` plus one fetch after its first token was refused, or `refresh_s` plus one
  fetch after it was published (a file: `window_s`).
- A withdrawn key is refused within the same time. While the key set can't be read, the last good one serves for
  `stale_s` after it was last confirmed, and no longer.
- A token with an unknown `kid` never waits for a fetch: it is refused at once and asks for one, at most one per
  `window_s` for all tokens of the issuer together, whatever their `kid`s.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

import aiohttp
import structlog
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from gateway.addresses import checked_key_url

MAX_KEY_SET_BYTES = 256 * 1024
MAX_KEYS = 100
FETCH_TIMEOUT_S = 5.0
MIN_RSA_BITS = 2048
KINDS = {
    ("RSA", None),
    ("EC", "P-256"),
    ("EC", "P-384"),
    ("EC", "P-521"),
    ("OKP", "Ed25519"),
    ("OKP", "Ed448"),
}
RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey
log = structlog.get_logger(__name__)


class KeySetFault(Exception):
    """A key set that can't be read; never reaches a caller, whose token is just not verifiable."""


@dataclass(frozen=True, eq=False)
class VerificationKey:
    """A public key with the algorithms that it may verify: all asymmetric, by the key's own type."""

    kid: str
    key: PublicKey
    algorithms: tuple[str, ...]


@dataclass(frozen=True)
class KeyBounds:
    """Seconds: between refreshes, between fetches for unknown `kid`s, and how long an unconfirmed set serves."""

    refresh_s: float = 60.0
    window_s: float = 10.0
    stale_s: float = 300.0


class KeySet(Protocol):
    """The keys of one issuer. `find` never waits for the network."""

    def find(self, kid: str) -> VerificationKey | None:
        """The key of that id that is good now; the same object as long as it is."""
        ...


def parse_key_set(raw: bytes) -> dict[str, VerificationKey]:
    """Keys by `kid` from a JWKS; KeySetFault when it is not one or holds a symmetric key.

    Keys for encryption and of types that we don't verify are passed over; a key without `kid` can't be found, so it
    is a fault.
    """
    if len(raw) > MAX_KEY_SET_BYTES:
        raise KeySetFault(f"larger than {MAX_KEY_SET_BYTES} bytes")
    try:
        entries = json.loads(raw)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise KeySetFault("not a JSON object with keys") from exc
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise KeySetFault(f"keys must be a list of at most {MAX_KEYS}")
    keys: dict[str, VerificationKey] = {}
    for entry in entries:
        try:
            key = _parse_key(entry)
        except TypeError as exc:  # a list where a text should be; it must not end the task that fetches
            raise KeySetFault("a key has parts of other types") from exc
        if key is not None:
            if key.kid in keys:
                raise KeySetFault("two keys share a kid")
            keys[key.kid] = key
    return keys


def _parse_key(entry: object) -> VerificationKey | None:
    if not isinstance(entry, dict):
        raise KeySetFault("a key is not an object")
    if entry.get("kty") == "oct":
        # Beside public keys it would invite key confusion (J1); a shared secret has no place in a published set.
        raise KeySetFault("holds a symmetric key")
    if entry.get("use", "sig") != "sig" or (entry.get("kty"), entry.get("crv")) not in KINDS:
        return None
    kid = entry.get("kid")
    if not isinstance(kid, str) or not kid:
        raise KeySetFault("a key has no kid")
    public = {name: entry[name] for name in ("kty", "crv", "x", "y", "n", "e") if name in entry}
    try:
        key = PyJWK(public).key
    except (PyJWTError, ValueError, TypeError) as exc:
        raise KeySetFault("a key can't be read") from exc
    algorithms = _algorithms(key)
    stated = entry.get("alg")
    if stated is not None:
        algorithms = tuple(name for name in algorithms if name == stated)
    return VerificationKey(kid, key, algorithms) if algorithms else None


def _algorithms(key: object) -> tuple[str, ...]:
    if isinstance(key, RSAPublicKey):
        return RSA_ALGORITHMS if key.key_size >= MIN_RSA_BITS else ()
    if isinstance(key, EllipticCurvePublicKey):
        curves = ((SECP256R1, "ES256"), (SECP384R1, "ES384"), (SECP521R1, "ES512"))
        return tuple(name for curve, name in curves if isinstance(key.curve, curve))
    return ("EdDSA",) if isinstance(key, Ed25519PublicKey | Ed448PublicKey) else ()


class _Kept:
    """The last good keys, with when they were last confirmed."""

    def __init__(self, bounds: KeyBounds) -> None:
        self.bounds = bounds
        self.keys: Mapping[str, VerificationKey] = {}
        self.raw: bytes | None = None
        self.confirmed_at: float | None = None

    def confirm(self, raw: bytes | None, now: float) -> None:
        """Take `raw` as the set; None, or the same bytes, keep the key objects, so that memos of tokens live on."""
        if raw is not None and raw != self.raw:
            self.keys = parse_key_set(raw)
            self.raw = raw
        self.confirmed_at = now

    def find(self, kid: str, now: float) -> VerificationKey | None:
        if self.confirmed_at is None or now - self.confirmed_at > self.bounds.stale_s:
            return None
        return self.keys.get(kid)


class FileKeys:
    """A JWKS file, looked at again at most every `window_s`; read when its time or size changed."""

    def __init__(self, path: Path, bounds: KeyBounds | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._kept = _Kept(bounds or KeyBounds(window_s=1.0))
        self._clock = clock
        self._looked_at: float | None = None
        self._stamp: tuple[int, int, int] | None = None

    def find(self, kid: str) -> VerificationKey | None:
        """The key, after a look at the file when the last one is `window_s` ago."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= self._kept.bounds.window_s:
            self._looked_at = now
            self._look(now)
        return self._kept.find(kid, now)

    def _look(self, now: float) -> None:
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            changed = stamp != self._stamp
            self._kept.confirm(self._path.read_bytes() if changed else None, now)
            self._stamp = stamp
        except (OSError, KeySetFault) as exc:
            log.warning("key_set_unreadable", path=str(self._path), why=str(exc))


class UrlKeys:
    """A JWKS behind a URL, fetched by `run` in the background; `find` only ever reads what is kept.

    One task fetches, so there is never more than one fetch of an issuer in flight.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[bytes]],
        bounds: KeyBounds | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._fetch = fetch
        self._kept = _Kept(bounds or KeyBounds())
        self._clock = clock
        self._fetched_at: float | None = None
        self._wanted = asyncio.Event()

    def find(self, kid: str) -> VerificationKey | None:
        """The key, or None after asking for a fetch."""
        key = self._kept.find(kid, self._clock())
        if key is None:
            self._wanted.set()
        return key

    def due_in_s(self) -> float:
        """Seconds until the next fetch may begin: 0 when it is due."""
        if self._fetched_at is None:
            return 0.0
        bounds = self._kept.bounds
        wait_s = bounds.window_s if self._wanted.is_set() else bounds.refresh_s
        return max(0.0, self._fetched_at + wait_s - self._clock())

    async def refresh(self) -> None:
        """Fetch once, whether due or not. A failure keeps the last good set within its bound, and is logged."""
        self._wanted.clear()
        self._fetched_at = self._clock()
        try:
            raw = await self._fetch()
            # From the start of the fetch: a slow answer must not stretch the bound of withdrawal.
            self._kept.confirm(raw, self._fetched_at)
        except (aiohttp.ClientError, OSError, TimeoutError, KeySetFault) as exc:
            log.warning("key_set_unreadable", why=type(exc).__name__)

    async def run(self) -> None:
        """Refresh whenever due, until cancelled."""
        while True:
            wait_s = self.due_in_s()
            if wait_s <= 0:
                await self.refresh()
            elif self._wanted.is_set():
                await asyncio.sleep(wait_s)
            else:
                await _first_of(self._wanted, wait_s)


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def fetch_from(session: aiohttp.ClientSession, url: str) -> Callable[[], Awaitable[bytes]]:
    """A fetch for `UrlKeys`: bounded in time and size, without redirects."""
    checked_key_url(url)
    timeout = aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S)

    async def fetch() -> bytes:
        async with session.get(url, timeout=timeout, allow_redirects=False) as response:
            if response.status != 200:
                raise KeySetFault(f"status {response.status}")
            raw = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                raw += chunk
                if len(raw) > MAX_KEY_SET_BYTES:
                    raise KeySetFault(f"larger than {MAX_KEY_SET_BYTES} bytes")
            return bytes(raw)

    return fetch
