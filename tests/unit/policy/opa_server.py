"""A real OPA for tests, started as in production; principals and budgets to ask it with."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from core.budget import Budget
from core.ids import TenantId
from deploy.engines import EngineCredentials, ensure, opa_child
from deploy.ports import free_ports
from deploy.supervisor import ChildSpec, Supervisor
from policy.principal import Principal, Role

LIMIT_MS = 30_000.0  # machines that run tests are shared; what is late is tested on its own


@dataclass(frozen=True)
class RunningOpa:
    url: str
    token: str
    supervisor: Supervisor


def opa_binary() -> Path:
    return ensure(["opa"], lambda *_: None)["opa"]


@asynccontextmanager
async def running_opa(bundles: Sequence[Path], directory: Path) -> AsyncIterator[RunningOpa]:
    (port,) = free_ports(1)
    credentials = EngineCredentials.generate()
    spec: ChildSpec = opa_child(opa_binary(), port, bundles, credentials, directory / "run", directory / "opa.log")
    async with Supervisor(handle_signals=False) as supervisor:
        await supervisor.start(spec)
        yield RunningOpa(f"http://127.0.0.1:{port}", credentials.opa_token, supervisor)


def budget(seconds: float = 60) -> Budget:
    return Budget.of_seconds(seconds)


def principal(
    subject: str = "alice",
    *,
    tenant: str = "t1",
    groups: Sequence[str] = ("all", "eng"),
    roles: Sequence[Role] = (Role.READER,),
    **attributes: str | int | bool,
) -> Principal:
    return Principal(
        issuer="issuer",
        subject=subject,
        tenant_id=TenantId(tenant),
        groups=tuple(sorted(groups)),
        roles=frozenset(roles),
        token_id="token",
        expires_at=2_000_000_000,
        attributes=attributes,
    )


async def eventually(holds: Callable[[], bool], *, within_s: float = 20) -> None:
    """Wait until `holds()`; fail after `within_s` seconds."""
    end = monotonic() + within_s
    while not holds():
        assert monotonic() < end, "did not come true in time"
        await asyncio.sleep(0.01)
