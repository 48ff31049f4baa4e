"""The whole of Muniment as `muniment up` runs it, for tests: engines, gateway, indexer on a directory of their own."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import jwt
from muniment import AsyncClient, Unavailable
from muniment._shapes import Unary, Upload
from muniment.v1 import document_pb2, operation_pb2

from app.layout import Layout
from app.settings import Settings, load
from app.up import Running, processes, running
from corpus.blobs import Blobs, KeyStore
from corpus.catalog.database import Database
from tests.unit.gateway.issuing import ed_key, jwk, key_set, rsa_key

T = TypeVar("T")

AUDIENCE = "muniment"
MAIN = "https://login.main.example"  # may speak for every tenant but LONELY
NARROW = "https://login.narrow.example"  # may speak for LONELY alone, and knows readers only
LONELY = "lonely"
POOL = tuple(f"t{number:02}" for number in range(40))  # for generated corpora, two each
NAMED = ("acme", "globex", "twin-a", "twin-b", "refusals", "formats", "handbook", "story", "streams")
EVERY_ROLE = ("reader", "writer", "publisher", "evaluator")
MAX_DOCUMENT_BYTES = 2 * 1024 * 1024

# Writers in tests are never cut off mid-call, so their drain and search waits can be short.
QUICK_INDEXER = {"store_call_s": 5.0, "drain_s": 0.2, "search_s": 0.2, "lease_s": 8.0}


async def eventually(holds: Callable[[], object], within_s: float = 30.0) -> None:
    """Poll until `holds()` is true."""
    deadline = monotonic() + within_s
    while not holds():
        assert monotonic() < deadline, f"it did not come true within {within_s} s"
        await asyncio.sleep(0.02)


async def eventually_async(holds: Callable[[], Awaitable[object]], within_s: float = 30.0) -> None:
    """Poll until `await holds()` is true."""
    deadline = monotonic() + within_s
    while not await holds():
        assert monotonic() < deadline, f"it did not come true within {within_s} s"
        await asyncio.sleep(0.05)


async def patiently(call: Callable[[], Awaitable[T]], attempts: int = 6) -> T:
    """What a polite client does when a busy machine refuses for want of time: come again when told to."""
    for attempt in range(attempts):
        try:
            return await call()
        except Unavailable as exc:
            if attempt == attempts - 1 or exc.retry_after is None:
                raise
            await asyncio.sleep(exc.retry_after)
    raise AssertionError("the last attempt returns or raises")


class PatientClient(AsyncClient):
    """Comes again by itself; for tests that are not about being refused."""

    async def __aenter__(self) -> "PatientClient":
        return self

    async def _run_unary(self, call: Unary[T]) -> T:
        return await patiently(lambda: AsyncClient._run_unary(self, call))

    async def _run_upload(self, upload: Upload) -> document_pb2.PutDocumentResponse:
        return await patiently(lambda: AsyncClient._run_upload(self, upload))


@dataclass(frozen=True)
class Issuer:
    """An identity provider with two keys, one Ed25519 and one RSA; its JWKS file is what the gateway reads."""

    issuer: str
    name: str
    key: Any = field(default_factory=ed_key)
    rsa: Any = field(default_factory=rsa_key)

    @property
    def kid(self) -> str:
        return f"{self.name}-ed"

    @property
    def rsa_kid(self) -> str:
        return f"{self.name}-rsa"

    def write_keys(self, folder: Path) -> Path:
        path = folder / f"{self.name}.json"
        path.write_bytes(key_set(jwk(self.key, self.kid, alg="EdDSA"), jwk(self.rsa, self.rsa_kid, alg="RS256")))
        return path

    def claims(self, subject: str, tenant: str, **changes: Any) -> dict[str, Any]:
        """Good claims; a change to None takes the claim away."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer, "aud": AUDIENCE, "sub": subject, "tenant": tenant, "iat": now, "exp": now + 3_000,
            "groups": [], "roles": ["reader"], "attributes": {},
        }  # fmt: skip
        return {name: value for name, value in (claims | changes).items() if value is not None}

    def mint(self, subject: str, tenant: str, **changes: Any) -> str:
        return self.sign(self.claims(subject, tenant, **changes))

    def sign(
        self, claims: Mapping[str, Any], *, key: Any = None, kid: str | None = None, algorithm: str = "EdDSA"
    ) -> str:
        return jwt.encode(dict(claims), key or self.key, algorithm=algorithm, headers={"kid": kid or self.kid})


@dataclass(frozen=True)
class System:
    """A running one. `catalog` and `blobs` are for looking, never for writing."""

    settings: Settings
    running: Running
    main: Issuer
    narrow: Issuer
    catalog: Database
    blobs: Blobs

    @property
    def address(self) -> str:
        return self.running.endpoints.gateway

    @property
    def layout(self) -> Layout:
        return Layout(self.settings.data_dir)

    def token(
        self,
        subject: str,
        tenant: str,
        *,
        groups: Iterable[str] = (),
        roles: Iterable[str] = ("reader",),
        attributes: Mapping[str, str | int | bool] | None = None,
    ) -> str:
        return self.main.mint(
            subject, tenant, groups=list(groups), roles=list(roles), attributes=dict(attributes or {})
        )

    def client(self, subject: str, tenant: str, **claims: Any) -> PatientClient:
        """To be used in `async with`."""
        return PatientClient(self.address, self.token(subject, tenant, **claims))

    def admin(self, tenant: str) -> PatientClient:
        """Who may do all that a token can allow. Sees what is public, or given to the group staff."""
        return self.client("admin", tenant, groups=["staff"], roles=EVERY_ROLE)

    def tenant_id(self, tenant: str) -> str:
        return str(self.catalog.read("SELECT tenant_id FROM tenants WHERE name = ?", (tenant,))[0][0])

    def pid(self, child: str) -> int:
        return self.running.supervisor.children[child]

    def log(self, child: str) -> str:
        return self.layout.log(child).read_text(errors="replace")

    def at_rest(self, tenant: str) -> bool:
        """No operation of the tenant is under way, and the store has confirmed all."""
        tenant_id = self.tenant_id(tenant)
        unfinished = "SELECT 1 FROM operations WHERE tenant_id = ? AND state IN ('pending', 'running')"
        unsettled = "SELECT 1 FROM unsettled WHERE tenant_id = ?"
        return not any(self.catalog.read(sql, (tenant_id,)) for sql in (unfinished, unsettled))


def configuration(folder: Path, issuers: Iterable[tuple[Issuer, Iterable[str], Iterable[str]]], **more: Any) -> str:
    """TOML of tenants, issuers (each with its tenants and roles) and further sections."""
    lines = [f"[[tenants]]\nname = {json.dumps(name)}" for name in (*POOL, *NAMED, LONELY)]
    for issuer, tenants, roles in issuers:
        lines += [
            "[[issuers]]",
            f"name = {json.dumps(issuer.name)}\nissuer = {json.dumps(issuer.issuer)}",
            f"audience = {json.dumps(AUDIENCE)}",
            f"jwks_file = {json.dumps(str(issuer.write_keys(folder)))}",
            f"tenants = {json.dumps(list(tenants))}\nroles = {json.dumps(list(roles))}",
        ]
    for section, values in more.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def whole_system(
    directory: Path, *, only: Collection[str] = ("indexer", "gateway"), **sections: Mapping[str, Any]
) -> AsyncIterator[System]:
    """Start all, with sections of settings in place of the quick defaults; stop all at the end.

    `only` names which of our own processes are started.
    """
    main, narrow = Issuer(MAIN, "main"), Issuer(NARROW, "narrow")
    more: dict[str, Mapping[str, Any]] = {
        "indexer": QUICK_INDEXER,
        "limits": {"max_document_bytes": MAX_DOCUMENT_BYTES},
        **sections,
    }
    config = directory / "muniment.toml"
    who = [(main, (*POOL, *NAMED), EVERY_ROLE), (narrow, (LONELY,), ("reader",))]
    config.write_text(configuration(directory, who, **more))
    settings = load(config, data_dir=directory / "data")
    ours = [process for process in processes(settings) if process.name in only]
    async with running(settings, config, ours=ours, handle_signals=False) as up:
        layout = Layout(settings.data_dir)
        catalog, keys = Database(layout.catalog), KeyStore(layout.keys)
        try:
            yield System(settings, up, main, narrow, catalog, Blobs(layout.blobs, keys))
        finally:
            keys.close()
            catalog.close()


async def publish(
    client: AsyncClient, source_id: str, contents: Mapping[str, str], **metadata: Any
) -> operation_pb2.Operation:
    """Put Markdown documents in one build and publish it; the ended operation."""
    build = await client.begin_build(source_id)
    for document_id, text in contents.items():
        await client.put_document(
            source_id, document_id, text.encode(), media_type="text/markdown", build_id=build.build_id, **metadata
        )
    operation = await client.publish_build(build.build_id)
    ended = await client.wait_operation(operation.operation_id, timeout=120)
    assert ended.state == operation_pb2.OPERATION_STATE_SUCCEEDED, ended
    return ended
