"""The layers that every call passes before its handler, for all four arities alike.

They are ours, not grpc's: a grpc interceptor sees a handler per arity and runs after the request was parsed, while a
layer sees one `Exchange`, before anything of the request is looked at.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor

from core.budget import Budget
from core.ids import new_id
from core.stages import Stage, StageLog
from corpus.errors import NotFound
from gateway.authentication import Authenticator
from gateway.errors import (
    INTERNAL,
    REQUEST_ID_KEY,
    DeadlinePassed,
    Refusal,
    ShuttingDown,
    TenantMismatch,
    Unauthenticated,
    refuse,
)
from gateway.traces import trace_of, why_of
from policy.principal import Principal

NOT_FOUND_S = 0.005  # several times what a look takes

Context = grpc.aio.ServicerContext[Any, Any]
log = structlog.get_logger(__name__)


class HandlerCancelled(Exception):
    """A CancelledError that nobody asked for: something inside the handler was cancelled, the call was not (G2)."""


@dataclass(eq=False)
class Exchange:
    """One call on its way through the layers; each adds what it is there for. `request` is not parsed yet."""

    method: MethodDescriptor
    request: bytes | AsyncIterator[bytes]
    context: Context
    request_id: str = ""
    budget: Budget | None = None
    principal: Principal | None = None
    stages: StageLog = field(default_factory=StageLog)
    code: grpc.StatusCode = grpc.StatusCode.OK
    reason: str = ""
    task: asyncio.Task[Any] | None = None
    cut: bool = False  # cancelled by us, because the server stops

    @property
    def rpc(self) -> str:
        """`muniment.v1.EvidenceService/Search`."""
        return f"{self.method.containing_service.full_name}/{self.method.name}"


Proceed = Callable[[Exchange], Awaitable[bytes | None]]


@dataclass(frozen=True)
class Layer:
    """One entry of the chain: what it is called, why it stands where it stands, and what it does."""

    name: str
    reason: str
    apply: Callable[[Exchange, Proceed], Awaitable[bytes | None]]


@dataclass(frozen=True)
class Deadlines:
    """Seconds that a call may take: where its client names none, and at most."""

    default_s: float = 30.0
    max_s: float = 600.0


class Inflight:
    """The calls that run now."""

    def __init__(self) -> None:
        self._running: set[Exchange] = set()
        self.draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def enter(self, exchange: Exchange) -> None:
        """Count it in."""
        exchange.task = asyncio.current_task()
        self._running.add(exchange)
        self._idle.clear()

    def leave(self, exchange: Exchange) -> None:
        """Count it out."""
        self._running.discard(exchange)
        if not self._running:
            self._idle.set()

    def __len__(self) -> int:
        return len(self._running)

    async def drain(self, grace_s: float) -> None:
        """Take nothing new and wait until nothing runs; what still does after `grace_s` ends with SHUTTING_DOWN."""
        self.draining = True
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            for exchange in tuple(self._running):
                exchange.cut = True
                if exchange.task is not None:
                    exchange.task.cancel()


def chain(authenticator: Authenticator, deadlines: Deadlines, inflight: Inflight) -> tuple[Layer, ...]:
    """Every layer, outermost first."""
    return (
        Layer("request id", "first, so that each log line and refusal can name it", partial(_identify, inflight)),
        Layer("telemetry", "outside of errors, so that it records the status that the client gets", _record),
        Layer("errors", "outside of all that may refuse, as grpc sends the text of what it catches", _guard),
        Layer(
            "drain",
            "before any work, as grpc itself answers what comes while it stops with a bare CANCELLED",
            partial(_take_nothing_new, inflight),
        ),
        Layer("deadline", "before any work, so that none is unbounded", partial(_limit, deadlines)),
        Layer(
            "even time",
            "outside of all that looks for things, so that what is hidden takes as long as what is not there (I8)",
            _even_time,
        ),
        Layer(
            "authentication",
            "next to the handler and before the request is parsed: strangers reach no other code of ours",
            partial(_authenticate, authenticator),
        ),
    )


def compose(layers: Iterable[Layer], innermost: Proceed) -> Proceed:
    """The layers around `innermost`, as one function."""
    proceed = innermost
    for layer in reversed(tuple(layers)):
        proceed = partial(_apply, layer.apply, proceed)
    return proceed


def _apply(
    layer: Callable[[Exchange, Proceed], Awaitable[bytes | None]], proceed: Proceed, exchange: Exchange
) -> Awaitable[bytes | None]:
    return layer(exchange, proceed)


async def _identify(inflight: Inflight, exchange: Exchange, proceed: Proceed) -> bytes | None:
    exchange.request_id = new_id()
    exchange.context.set_trailing_metadata(((REQUEST_ID_KEY, exchange.request_id),))
    inflight.enter(exchange)
    try:
        with structlog.contextvars.bound_contextvars(request_id=exchange.request_id):
            return await proceed(exchange)
    finally:
        inflight.leave(exchange)


async def _record(exchange: Exchange, proceed: Proceed) -> bytes | None:
    began = perf_counter()
    try:
        return await proceed(exchange)
    finally:
        # After this step of the task, so that a slow log never stands between a checked answer and its hand-over.
        asyncio.get_running_loop().call_soon(_log_call, exchange, (perf_counter() - began) * 1000)


def _log_call(exchange: Exchange, elapsed_ms: float) -> None:
    log.info(
        "rpc",
        rpc=exchange.rpc,
        status=exchange.code.name,
        reason=exchange.reason or None,
        tenant_id=exchange.principal.tenant_id if exchange.principal else None,
        ms=round(elapsed_ms, 2),
    )


async def _guard(exchange: Exchange, proceed: Proceed) -> bytes | None:
    fault: BaseException
    try:
        return await proceed(exchange)
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if exchange.cut and task is not None:
            task.uncancel()
            fault = ShuttingDown("the server stops")
        elif task is not None and task.cancelling():
            # The client is gone or its deadline passed: grpc has ended the call already.
            late = exchange.budget is not None and exchange.budget.left_s() <= 0
            exchange.code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
            raise
        else:
            fault = HandlerCancelled("cancelled inside the handler")
            fault.__cause__ = exc
    except Exception as exc:
        fault = exc
    refusal = refuse(fault, exchange.request_id)
    exchange.code, exchange.reason = refusal.row.code, refusal.reason
    _log_refusal(exchange, fault, refusal)
    trailers = ((REQUEST_ID_KEY, exchange.request_id), *refusal.trailers)
    await exchange.context.abort(refusal.row.code, refusal.text, trailers)
    return None


def _log_refusal(exchange: Exchange, fault: BaseException, refusal: Refusal) -> None:
    if refusal.row is INTERNAL:
        log.error("unexpected", rpc=exchange.rpc, why=why_of(fault), trace=trace_of(fault))
    elif refusal.row.log:
        log.warning("unavailable", rpc=exchange.rpc, kind=type(fault).__name__, why=why_of(fault))
    elif isinstance(fault, Unauthenticated | TenantMismatch):
        log.info("denied", rpc=exchange.rpc, kind=type(fault).__name__, why=str(fault))


async def _take_nothing_new(inflight: Inflight, exchange: Exchange, proceed: Proceed) -> bytes | None:
    if inflight.draining:
        raise ShuttingDown("the server drains")
    return await proceed(exchange)


async def _limit(deadlines: Deadlines, exchange: Exchange, proceed: Proceed) -> bytes | None:
    asked_s = exchange.context.time_remaining()
    limit_s = min(deadlines.default_s if asked_s is None else asked_s, deadlines.max_s)
    exchange.budget = Budget.of_seconds(limit_s)
    try:
        async with asyncio.timeout(limit_s) as scope:
            return await proceed(exchange)
    except TimeoutError as exc:
        if scope.expired():
            raise DeadlinePassed(f"after {limit_s:.3f} s") from exc
        raise


async def _even_time(exchange: Exchange, proceed: Proceed) -> bytes | None:
    """NOT_FOUND is said NOT_FOUND_S after the call began, not when it was known: looking at a hidden thing's access
    takes longer than finding none, by 20 to 30 µs of about 1,000.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        return await proceed(exchange)
    except NotFound:
        await asyncio.sleep(began + NOT_FOUND_S - loop.time())
        raise


async def _authenticate(authenticator: Authenticator, exchange: Exchange, proceed: Proceed) -> bytes | None:
    with exchange.stages.timed(Stage.AUTHENTICATION):
        metadata: Any = exchange.context.invocation_metadata() or ()
        exchange.principal = authenticator.authenticate(metadata)
    return await proceed(exchange)
