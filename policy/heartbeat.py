"""When the policy engine counts as away: nothing is released then, kept decisions or not."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from types import TracebackType
from typing import Final, Protocol, Self

import structlog

from core.budget import Budget, BudgetExhausted
from policy.engine import Revisions
from policy.errors import PolicyError, PolicyUnavailable

AWAY_AFTER_S: Final = 3.0
BEAT_INTERVAL_S: Final = 1.0

_log = structlog.get_logger(__name__)


class PolicyLiveness:
    """When the engine last gave a well-formed answer; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._answered_at: float | None = None

    def succeeded(self, asked_at: float) -> None:
        """A question asked at `asked_at` was answered: counted from the asking, since the answer may be that old."""
        self._answered_at = asked_at if self._answered_at is None else max(asked_at, self._answered_at)

    @property
    def away(self) -> bool:
        """No answer within AWAY_AFTER_S, or never one."""
        return self._answered_at is None or self.clock() - self._answered_at >= AWAY_AFTER_S

    def require(self) -> None:
        """PolicyUnavailable when the engine is away; to be called before anything is released."""
        if self.away:
            raise PolicyUnavailable(f"the policy engine has not answered for {AWAY_AFTER_S:g} s")


class _Revealing(Protocol):
    async def revisions(self, budget: Budget) -> Revisions:
        """By what the engine decides at present."""
        ...


class PolicyHeartbeat:
    """Asks for the revisions each second, as an async context manager; the engine itself reports to its liveness.

    A beat that fails is no error of ours: it is logged when the engine's state changes, and time does the rest.
    """

    def __init__(
        self,
        engine: _Revealing,
        *,
        interval_s: float = BEAT_INTERVAL_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engine = engine
        self._interval_s = interval_s
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    async def beat(self) -> None:
        """One question."""
        try:
            await self._engine.revisions(Budget.of_seconds(self._interval_s))
        except (PolicyError, BudgetExhausted) as exc:
            if not self._failing:
                _log.warning("policy_engine_failing", kind=type(exc).__name__)
            self._failing = True
        else:
            if self._failing:
                _log.info("policy_engine_answers_again")
            self._failing = False

    async def _run(self) -> None:
        while True:
            await self.beat()
            await self._sleep(self._interval_s)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="policy heartbeat")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()  # a beat that failed by a fault of ours says so
