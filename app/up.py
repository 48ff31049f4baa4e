"""Everything of one data directory as one: engines, catalog, gateway, indexer; all ready, or all stopped.

Order: policy bundle, engines, catalog (schema, tenants, the bundle's revision made active), then the two processes of
ours, which read `run/endpoints.json` and `run/credentials.json`. The supervisor's event loop must run in the main
thread (see `deploy.supervisor`).
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from app.issuer import DevelopmentIssuer
from app.layout import Endpoints, Layout
from app.settings import CONFIG_VARIABLE, ENV_PREFIX, Settings
from core.ids import PolicyRevision
from deploy import ChildSpec, DataDirectoryLock, RunState, Supervisor, free_ports, tcp_ready
from deploy.engines import EngineCredentials, WeaviatePorts, ensure, opa_child, weaviate_child
from deploy.errors import DirectoryError
from deploy.files import private_directory
from deploy.probes import LOOPBACK, ReadinessProbe
from deploy.supervisor import EventSink
from policy.bundle import build_bundle

ENGINE_MEMORY = {"opa": "512MiB", "weaviate": None}
GATEWAY_READY_TIMEOUT_S = 60.0
INDEXER_READY_TIMEOUT_S = 60.0
GRACE_MARGIN_S = 5.0  # for a process of ours to close what it holds, after the calls that it drains
INDEXER_GRACE_S = 20.0
_PROBE_TIMEOUT_S = 2.0
# What a Python process needs of its surroundings; settings come beside it, credentials never.
_INHERITED = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ")
# onnxruntime's wheels report their use to their maker from the moment of import on, unless told not to.
_NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
_NOT_SETTINGS = ("MUNIMENT_ADDRESS", "MUNIMENT_AS", "MUNIMENT_TOKEN")


class OtherRepresentation(DirectoryError):
    """What is kept there was made searchable in another way than this version's, so no search could find it."""


@dataclass(frozen=True)
class Process:
    """One of our own processes: a module that takes `--data-dir`, with how long it may take to be ready and to stop."""

    name: str
    module: str
    ready_timeout_s: float
    grace_s: float


@dataclass(frozen=True)
class Running:
    """All is ready. `supervisor` tells when that ends."""

    state: RunState
    endpoints: Endpoints
    supervisor: Supervisor


def processes(settings: Settings) -> tuple[Process, ...]:
    """Gateway and indexer, in starting order."""
    gateway_grace_s = settings.gateway.stop_grace_s + GRACE_MARGIN_S
    return (
        Process("indexer", "app.indexer", INDEXER_READY_TIMEOUT_S, INDEXER_GRACE_S),
        Process("gateway", "app.gateway", GATEWAY_READY_TIMEOUT_S, gateway_grace_s),
    )


@asynccontextmanager
async def running(
    settings: Settings,
    config: Path | None = None,
    *,
    ours: Sequence[Process] | None = None,
    on_event: EventSink | None = None,
    handle_signals: bool = True,
) -> AsyncIterator[Running]:
    """Start all, yield when all is ready, stop all.

    `ours` is for tests that have no use for both processes. Raises AlreadyRunningError, ChildDiedError,
    ChildNotReadyError, StopRequestedError (asked to stop while starting), EngineError, OtherRepresentation.
    """
    layout = Layout(settings.data_dir.resolve())
    binaries = ensure(needed_engines(settings))
    private_directory(layout.data_dir)
    with DataDirectoryLock(layout.data_dir) as lock:
        revision = build_bundle(layout.bundle)
        if settings.development_issuer:
            DevelopmentIssuer.open(layout.data_dir)
        start = _Start(settings, config, layout, binaries)
        async with Supervisor(on_event=on_event, handle_signals=handle_signals) as supervisor:
            endpoints = start.endpoints()
            try:
                endpoints.write(layout.data_dir)
                prepared = supervisor.guard(asyncio.to_thread(prepare_catalog, settings, layout, revision))
                await _together(*map(supervisor.start, start.engines()), prepared)
                wanted = processes(settings) if ours is None else ours
                await _together(*map(supervisor.start, start.ours(wanted, endpoints)))
                state = lock.write_state(supervisor.children, start.addresses(endpoints))
                yield Running(state, endpoints, supervisor)
            finally:
                layout.endpoints.unlink(missing_ok=True)


async def _together(*steps: Coroutine[Any, Any, Any]) -> None:
    """All of them at once, for each mostly waits; the first fault ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(step)
    except BaseExceptionGroup as exc:
        raise exc.exceptions[0] from exc


def prepare_catalog(settings: Settings, layout: Layout, revision: PolicyRevision) -> None:
    """Newest schema, every configured tenant, and `revision` as the policy under which all are decided.

    Raises OtherRepresentation.
    """
    os.environ.update(_NO_TELEMETRY)
    # Imported here: the encoder's runtime takes long to load, which then happens while the engines start.
    from corpus.catalog.database import Database
    from corpus.catalog.tenants import activate_policy, ensure_tenants
    from corpus.representations import default_representation

    representation_id = default_representation().representation_id
    database = Database.open(layout.catalog)
    try:
        kept = {str(row[0]) for row in database.read("SELECT representation_id FROM tenants")}
        if kept - {representation_id}:
            raise OtherRepresentation(
                f"{layout.data_dir} was filled by another version of Muniment, whose search index this one can't read "
                f"({', '.join(sorted(kept))}; it needs {representation_id}). Start on a new data directory and ingest "
                "again, or go on with that version."
            )
        names = [tenant.name for tenant in settings.tenants]
        database.write_now(lambda tx: ensure_tenants(tx, names, representation_id))
        database.write_now(lambda tx: activate_policy(tx, revision))
    finally:
        database.close()


def needed_engines(settings: Settings) -> list[str]:
    """Those that are ours to start. Building them blocks and takes minutes: `ensure` them before the event loop."""
    wanted = {"opa": settings.opa.url is None, "weaviate": settings.weaviate.host is None}
    return [name for name, ours in wanted.items() if ours]


class _Start:
    """What one start needs: ports are picked when it is made."""

    def __init__(self, settings: Settings, config: Path | None, layout: Layout, binaries: Mapping[str, Path]) -> None:
        self._settings = settings
        self._config = config
        self._layout = layout
        self._binaries = binaries
        self._credentials = _credentials(settings, layout.data_dir)
        self._opa_port, self._gateway_port = free_ports(2)
        self._weaviate_ports = WeaviatePorts.pick()

    def endpoints(self) -> Endpoints:
        opa, weaviate, gateway = self._settings.opa, self._settings.weaviate, self._settings.gateway
        weaviate_host = weaviate.host or LOOPBACK
        http_port, grpc_port = (
            (weaviate.http_port, weaviate.grpc_port)
            if weaviate.host
            else (self._weaviate_ports.http, self._weaviate_ports.grpc)
        )
        scheme = "https" if weaviate.host and weaviate.secure else "http"
        return Endpoints(
            opa=opa.url or f"http://{LOOPBACK}:{self._opa_port}",
            weaviate_http=f"{scheme}://{weaviate_host}:{http_port}",
            weaviate_grpc=f"{weaviate_host}:{grpc_port}",
            gateway=_address(gateway.host, gateway.port or self._gateway_port),
        )

    def addresses(self, endpoints: Endpoints) -> dict[str, str]:
        """For `status` and for clients of this machine."""
        return {
            "opa": endpoints.opa.rpartition("//")[2],
            "weaviate": endpoints.weaviate_http.rpartition("//")[2],
            "gateway": endpoints.gateway,
        }

    def engines(self) -> list[ChildSpec]:
        layout, specs = self._layout, []
        if "opa" in self._binaries:
            specs.append(
                opa_child(
                    self._binaries["opa"],
                    self._opa_port,
                    [layout.bundle],
                    self._credentials,
                    layout.run,
                    layout.log("opa"),
                    memory_limit=ENGINE_MEMORY["opa"],
                )
            )
        if "weaviate" in self._binaries:
            specs.append(
                weaviate_child(
                    self._binaries["weaviate"],
                    self._weaviate_ports,
                    layout.weaviate,
                    self._credentials,
                    layout.log("weaviate"),
                    memory_limit=ENGINE_MEMORY["weaviate"],
                )
            )
        return specs

    def ours(self, wanted: Sequence[Process], endpoints: Endpoints) -> list[ChildSpec]:
        return [
            ChildSpec(
                name=process.name,
                # -P: a folder named `app` where the operator happens to stand is not ours.
                argv=(sys.executable, "-P", "-m", process.module, "--data-dir", str(self._layout.data_dir)),
                env=self._environment(),
                log_path=self._layout.log(process.name),
                ready=self._ready(process.name, endpoints),
                ready_timeout_s=process.ready_timeout_s,
                grace_s=process.grace_s,
            )
            for process in wanted
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        kept |= {
            name: value
            for name, value in os.environ.items()
            if name.startswith(ENV_PREFIX) and name not in _NOT_SETTINGS
        }
        kept |= {"PYTHONUNBUFFERED": "1", **_NO_TELEMETRY}
        if self._config is not None:
            kept[CONFIG_VARIABLE] = str(self._config.resolve())
        return kept

    def _ready(self, name: str, endpoints: Endpoints) -> ReadinessProbe:
        if name == "gateway":
            if self._settings.gateway.tls_certificate is not None:
                return tcp_ready(int(endpoints.gateway.rpartition(":")[2]))
            return gateway_serves(endpoints.gateway)
        ready_file = self._layout.indexer_ready
        ready_file.unlink(missing_ok=True)  # of an earlier run

        async def written() -> bool:
            return ready_file.exists()

        return written


def gateway_serves(address: str) -> ReadinessProbe:
    """Ready once the gateway's health says that every service serves. Without TLS."""

    async def probe() -> bool:
        async with grpc.aio.insecure_channel(address) as channel:
            try:
                answer = await health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=_PROBE_TIMEOUT_S
                )
            except grpc.aio.AioRpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    return probe


def _credentials(settings: Settings, data_dir: Path) -> EngineCredentials:
    """The generated ones, with those of engines that run elsewhere in their place."""
    credentials = EngineCredentials.load_or_generate(data_dir)
    stated = {}
    if settings.opa.url is not None and settings.opa.token is not None:
        stated["opa_token"] = settings.opa.token.get_secret_value()
    if settings.weaviate.host is not None and settings.weaviate.api_key is not None:
        stated["weaviate_api_key"] = settings.weaviate.api_key.get_secret_value()
    if stated:
        credentials = replace(credentials, **stated)
        credentials.save(data_dir)
    return credentials


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
