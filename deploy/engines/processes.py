"""How OPA and Weaviate are started: on loopback, with credentials, and telling nobody outside."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from deploy.engines.credentials import EngineCredentials
from deploy.files import private_directory, write_private, write_private_json
from deploy.ports import free_ports
from deploy.probes import LOOPBACK, http_ready
from deploy.supervisor import ChildSpec

# Weaviate stores it in its data directory: another name for the same data makes a cluster that never elects a leader.
WEAVIATE_NODE = "node1"
WEAVIATE_USER = "muniment"

_AUTHZ_RULES = Path(__file__).with_name("opa_authz.rego")
_OPA_READY_TIMEOUT_S = 30.0
_OPA_GRACE_S = 5.0
_WEAVIATE_READY_TIMEOUT_S = 120.0  # under 3 s when empty; a large store replays its logs first
_WEAVIATE_GRACE_S = 30.0  # it flushes memory tables


@dataclass(frozen=True)
class WeaviatePorts:
    """The six ports of one Weaviate node.

    ``http``, ``gossip``, ``raft`` and ``raft_rpc`` are bound to loopback. Weaviate 1.38 binds ``grpc`` and ``data`` to
    all interfaces and has no setting for it: the API key guards the one, the cluster user and password the other, and
    a host that faces a network needs a firewall before both. ``raft_rpc`` and ``gossip`` know no credentials.
    """

    http: int
    grpc: int
    gossip: int
    data: int
    raft: int
    raft_rpc: int

    @classmethod
    def pick(cls) -> Self:
        """Six free ones."""
        return cls(*free_ports(len(fields(cls))))


def opa_child(
    binary: Path,
    port: int,
    bundles: Sequence[Path],
    credentials: EngineCredentials,
    run_directory: Path,
    log_path: Path,
    *,
    memory_limit: str | None = None,
) -> ChildSpec:
    """OPA on ``127.0.0.1:port`` with the bundle directories loaded, closed to all but the bearer of the token.

    Each bundle's manifest must name its roots, and none may cover ``system/authz`` or ``muniment/relationships`` (OPA
    refuses pushed data under a bundle's root). Rego tests (``*_test.rego``) in the directories are left out.
    ``memory_limit`` is a GOMEMLIMIT such as ``512MiB``. Writes the generated rules under ``run_directory``.
    """
    authz = _write_authz(private_directory(run_directory) / "opa-authz", credentials)
    argv = (
        *(str(binary), "run", "--server", "--addr", f"{LOOPBACK}:{port}"),
        *("--authentication=token", "--authorization=basic"),
        "--skip-version-check",  # the name that replaced --disable-telemetry: ask nobody about releases
        # Errors only: request lines carry query parameters, and `print` in a rule writes its arguments at info.
        # Decision logs are off as long as nobody configures them.
        *("--log-level=error", "--log-format=json"),
        *("--ignore", "*_test.rego"),
        *("--bundle", str(authz), *(str(bundle) for bundle in bundles)),
    )
    return ChildSpec(
        name="opa",
        argv=argv,
        env={} if memory_limit is None else {"GOMEMLIMIT": memory_limit},
        log_path=log_path,
        ready=http_ready(port, "/health?bundle=true"),
        ready_timeout_s=_OPA_READY_TIMEOUT_S,
        grace_s=_OPA_GRACE_S,
    )


def weaviate_child(
    binary: Path,
    ports: WeaviatePorts,
    data_directory: Path,
    credentials: EngineCredentials,
    log_path: Path,
    *,
    memory_limit: str | None = None,
) -> ChildSpec:
    """A single Weaviate node that keeps its data in ``data_directory`` and serves bearers of the API key.

    Ports may differ from start to start; the node's name never does. ``memory_limit`` is a GOMEMLIMIT.
    """
    private_directory(data_directory)
    environment = {**_identity(ports, data_directory), **_closed_doors(credentials), **_silence()}
    if memory_limit is not None:
        environment["GOMEMLIMIT"] = memory_limit
    return ChildSpec(
        name="weaviate",
        argv=(str(binary), "--scheme", "http", "--host", LOOPBACK, "--port", str(ports.http)),
        env=environment,
        log_path=log_path,
        ready=http_ready(
            ports.http, "/v1/.well-known/ready", {"Authorization": f"Bearer {credentials.weaviate_api_key}"}
        ),
        ready_timeout_s=_WEAVIATE_READY_TIMEOUT_S,
        grace_s=_WEAVIATE_GRACE_S,
    )


def _identity(ports: WeaviatePorts, data_directory: Path) -> dict[str, str]:
    """One node, alone, on loopback wherever Weaviate lets us say so.

    Without CLUSTER_IN_LOCALHOST: with it Weaviate ignores RAFT_INTERNAL_RPC_PORT when it calls itself and takes
    RAFT_PORT + 1, so that with freely chosen ports it never gets ready (tried).
    """
    return {
        "PERSISTENCE_DATA_PATH": str(data_directory),
        "CLUSTER_HOSTNAME": WEAVIATE_NODE,
        "CLUSTER_BIND_ADDR": LOOPBACK,  # gossip and RAFT; the data port does not heed it
        "CLUSTER_ADVERTISE_ADDR": LOOPBACK,
        "CLUSTER_GOSSIP_BIND_PORT": str(ports.gossip),
        "CLUSTER_DATA_BIND_PORT": str(ports.data),
        "RAFT_PORT": str(ports.raft),
        "RAFT_INTERNAL_RPC_PORT": str(ports.raft_rpc),
        "RAFT_JOIN": f"{WEAVIATE_NODE}:{ports.raft}",
        "RAFT_BOOTSTRAP_EXPECT": "1",
        # The default of 5 spares clusters needless elections; one node alone only waits (ready in 8.6 s, not 2.5).
        "RAFT_TIMEOUTS_MULTIPLIER": "1",
        "GRPC_PORT": str(ports.grpc),
    }


def _closed_doors(credentials: EngineCredentials) -> dict[str, str]:
    """No access without credentials; the data port ignores the API key and has its own."""
    return {
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
        "AUTHENTICATION_APIKEY_ENABLED": "true",
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": credentials.weaviate_api_key,
        "AUTHENTICATION_APIKEY_USERS": WEAVIATE_USER,
        "CLUSTER_BASIC_AUTH_USERNAME": credentials.cluster_user,
        "CLUSTER_BASIC_AUTH_PASSWORD": credentials.cluster_password,
    }


def _silence() -> dict[str, str]:
    """Nothing is sent out, nothing is created or vectorized that we did not ask for, and logs carry no content."""
    return {
        "DISABLE_TELEMETRY": "true",
        "GO_PROFILING_DISABLE": "true",
        "PROMETHEUS_MONITORING_ENABLED": "false",
        "AUTOSCHEMA_ENABLED": "false",
        "DEFAULT_VECTORIZER_MODULE": "none",
        "API_BASED_MODULES_DISABLED": "true",
        "LIMIT_RESOURCES": "false",
        "LOG_LEVEL": "warning",
        "LOG_FORMAT": "json",
    }


def _write_authz(directory: Path, credentials: EngineCredentials) -> Path:
    """A bundle that closes OPA's API: our rules, and the digest of the token they compare with."""
    private_directory(directory)
    digest = hashlib.sha256(credentials.opa_token.encode()).hexdigest()
    write_private(directory / "authz.rego", _AUTHZ_RULES.read_bytes())
    write_private_json(directory / "data.json", {"system": {"authz": {"token_sha256": digest}}})
    write_private_json(directory / ".manifest", {"roots": ["system/authz"]})
    return directory
