"""Budget: how long a request may take, handed down as a parameter; stage limits cut by it."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic


class BudgetExhausted(Exception):
    """The request's own deadline has passed."""


@dataclass(frozen=True)
class Budget:
    """A deadline on the monotonic clock, in seconds; `clock` is passed in so that tests can hold it."""

    deadline: float
    clock: Callable[[], float] = monotonic

    @classmethod
    def of_seconds(cls, seconds: float, clock: Callable[[], float] = monotonic) -> "Budget":
        """A budget that ends `seconds` from now."""
        return cls(clock() + seconds, clock)

    def left_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.deadline - self.clock())

    def limit_s(self, stage_limit_ms: float) -> float:
        """Seconds that a stage may take: its own limit, cut by what is left; BudgetExhausted when nothing is."""
        left = self.left_s()
        if left <= 0:
            raise BudgetExhausted
        return min(stage_limit_ms / 1000, left)
