"""Composition root of a gateway process: `python -m app.gateway --data-dir DIR`.

Builds everything in one exit stack and closes it in reverse; shutdown is health NOT_SERVING, drain, close.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import structlog

from app.issuer import AUDIENCE, ISSUER, DevelopmentIssuer
from app.layout import Endpoints, Layout, NotRunning
from app.logs import quiet_libraries
from app.settings import IssuerSettings, Settings, SettingsFault, load
from core.budget import Budget
from core.ids import TenantId
from corpus.analyser import Analyser
from corpus.blobs import Blobs, KeyStore
from corpus.catalog.database import Database
from corpus.encoder import AsyncQueryEncoder, MiniLmEncoder
from corpus.errors import CatalogUnavailable
from corpus.reading import Corpus
from corpus.representations import default_representation
from corpus.weaviate import WeaviateStore
from corpus.weaviate_admin import WeaviateEndpoint
from deploy.engines import EngineCredentials
from gateway.authentication import Authenticator, TokenBounds, TrustedIssuer
from gateway.interceptors import Deadlines
from gateway.keys import FileKeys, KeySet, UrlKeys, fetch_from
from gateway.opaque import OpaqueTokens
from gateway.registration import Service
from gateway.server import GatewayServer, Listener, ListenFault, MessageLimits
from gateway.services.document import document_service
from gateway.services.evidence import evidence_service
from gateway.services.operation import operation_service
from gateway.services.publication import publication_service
from gateway.services.source import source_service
from gateway.serving import Serving
from generation.extractive import ExtractiveGenerator
from policy.audit import AuditLog
from policy.heartbeat import PolicyHeartbeat, PolicyLiveness
from policy.memo import MemoizedPolicy
from policy.opa import OpaEngine
from policy.principal import Role
from retrieval.gate import Gate
from retrieval.plan import terms_of
from retrieval.search import Searcher
from retrieval.tokens import tokenizer

START_S = 30.0
WATCH_EVERY_S = 1.0


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain."""
    async with AsyncExitStack() as stack:
        liveness = PolicyLiveness()
        serving = await serving_of(settings, liveness, stack)
        services = services_of(serving)
        authenticator = await authenticator_of(settings, serving.database, stack)
        server = GatewayServer(services, authenticator, _listener(settings), _limits(settings), _deadlines(settings))
        await server.start()
        stopped = asyncio.create_task(stop.wait(), name="stop")
        watch = asyncio.create_task(_watch(server, services, serving, liveness), name="health")
        try:
            # A watch that broke would leave health at what it last said, so it ends the process.
            await asyncio.wait([stopped, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopped, watch):
                task.cancel()
            await asyncio.wait([stopped, watch])
            await server.stop(settings.gateway.stop_grace_s)
        if not watch.cancelled():
            watch.result()


async def serving_of(settings: Settings, liveness: PolicyLiveness, stack: AsyncExitStack) -> Serving:
    """All that services work with, closed with `stack`."""
    layout = Layout(settings.data_dir)
    endpoints = Endpoints.read(settings.data_dir)
    credentials = EngineCredentials.load_or_generate(settings.data_dir)
    database = Database.open(layout.catalog)
    stack.callback(database.close)
    keys = KeyStore(layout.keys)
    stack.callback(keys.close)
    blobs = Blobs(layout.blobs, keys)
    representation = default_representation()
    endpoint = WeaviateEndpoint(
        endpoints.weaviate_http, endpoints.weaviate_grpc, credentials.weaviate_api_key, settings.weaviate.secure
    )
    store = await stack.enter_async_context(WeaviateStore(endpoint, representation))
    await store.ensure_collection(Budget.of_seconds(START_S))
    await store.check_collection(Budget.of_seconds(START_S))
    opa = await stack.enter_async_context(OpaEngine(endpoints.opa, credentials.opa_token, liveness))
    await stack.enter_async_context(PolicyHeartbeat(opa))
    policy = MemoizedPolicy(opa, liveness)
    layout.audit.mkdir(mode=0o700, parents=True, exist_ok=True)
    audit_path = layout.audit / f"gateway-{os.getpid()}-{time.time_ns()}.jsonl"
    audit = await stack.enter_async_context(AuditLog(audit_path, keys.ensure("gateway:audit")))
    encoder = await stack.enter_async_context(AsyncQueryEncoder(MiniLmEncoder()))
    await encoder.encode_query("warm up", Budget.of_seconds(START_S))
    analyser = Analyser()
    tokenizer()  # loading its tables takes a second, which no request should pay
    return Serving(
        database=database,
        corpus=Corpus(database, store, blobs),
        blobs=blobs,
        policy=policy,
        gate=Gate(policy, audit, leeway_s=settings.tokens.leeway_s),
        searcher=Searcher(encoder, analyser),
        generator=ExtractiveGenerator(lambda text: terms_of(text, analyser)),
        tokens=OpaqueTokens(keys.ensure("gateway:tokens"), database.incarnation),
        fingerprint_key=keys.ensure("gateway:fingerprints"),
        max_document_bytes=settings.limits.max_document_bytes,
        now=lambda: int(time.time()),
    )


def services_of(serving: Serving) -> list[Service]:
    """Every service of the contract."""
    return [
        evidence_service(serving),
        source_service(serving),
        document_service(serving),
        publication_service(serving),
        operation_service(serving),
    ]


async def authenticator_of(settings: Settings, database: Database, stack: AsyncExitStack) -> Authenticator:
    """Of the configured issuers, or of the development issuer."""
    issuers = [await _trusted(issuer, stack) for issuer in settings.issuers]
    if settings.development_issuer:
        development = DevelopmentIssuer.open(settings.data_dir)
        tenants = frozenset(tenant.name for tenant in settings.tenants)
        issuers.append(TrustedIssuer(ISSUER, AUDIENCE, tenants, frozenset(Role), FileKeys(development.key_set_path)))

    def tenant_id_of(name: str) -> TenantId | None:
        rows = database.read("SELECT tenant_id FROM tenants WHERE name = ?", (name,))
        return TenantId(rows[0][0]) if rows else None

    bounds = TokenBounds(settings.tokens.max_lifetime_s, settings.tokens.leeway_s)
    return Authenticator(issuers, tenant_id_of, bounds)


async def _trusted(issuer: IssuerSettings, stack: AsyncExitStack) -> TrustedIssuer:
    keys: KeySet
    if issuer.jwks_file is not None:
        keys = FileKeys(issuer.jwks_file)
    else:
        session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
        fetched = UrlKeys(fetch_from(session, str(issuer.jwks_url)))
        await fetched.refresh()
        task = asyncio.create_task(fetched.run(), name=f"keys of {issuer.name}")
        stack.callback(task.cancel)
        keys = fetched
    return TrustedIssuer(issuer.issuer, issuer.audience, frozenset(issuer.tenants), frozenset(issuer.roles), keys)


async def _watch(server: GatewayServer, services: list[Service], serving: Serving, liveness: PolicyLiveness) -> None:
    """Services serve while policy answers, the catalog can be read and releases can be recorded."""
    while True:
        try:
            readable = bool(serving.database.read("SELECT 1 FROM tenants LIMIT 1"))
        except CatalogUnavailable:
            readable = False
        for service in services:
            server.set_serving(service.name, readable and serving.gate.records and not liveness.away)
        await asyncio.sleep(0.1 if liveness.away else WATCH_EVERY_S)


def _listener(settings: Settings) -> Listener:
    gateway = settings.gateway
    address = Endpoints.read(settings.data_dir).gateway
    host, _, port = address.rpartition(":")
    return Listener(host.strip("[]"), int(port), gateway.tls_certificate, gateway.tls_key)


def _limits(settings: Settings) -> MessageLimits:
    return MessageLimits(settings.gateway.max_receive_bytes, settings.gateway.max_send_bytes)


def _deadlines(settings: Settings) -> Deadlines:
    return Deadlines(settings.gateway.default_deadline_s, settings.gateway.max_deadline_s)


async def _until_signal(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run(settings, stop)


def main() -> int:
    """The process. Status 2: the settings or the data directory are not as they must be, or the port is taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    options = parser.parse_args()
    quiet_libraries()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    import uvloop

    try:
        uvloop.run(_until_signal(load(data_dir=options.data_dir)))
    except (SettingsFault, NotRunning, ListenFault) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
