"""When to try again: growing waits with jitter, told apart by whose fault a failure is."""

import random
import sqlite3
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from core.errors import MunimentFault
from corpus.errors import CatalogUnavailable, LeaseLost
from corpus.store import StoreLate, StoreMisconfigured, StoreUnavailable
from indexing.parsers import ParserUnavailable

# Nothing is wrong with the documents: whatever these say heals by itself, or by an operator.
HEALING = (
    CatalogUnavailable,
    LeaseLost,
    StoreLate,
    StoreUnavailable,
    StoreMisconfigured,
    ParserUnavailable,
    sqlite3.OperationalError,  # the keys' file is locked, or the disk is full
    OSError,
)


@dataclass(frozen=True)
class RetryTerms:
    """Seconds. A wait doubles from `first_s` to `longest_s`; each is shortened by up to half at random."""

    first_s: float = 0.2
    longest_s: float = 30.0


@dataclass
class _Record:
    failures: int = 0
    blamed: int = 0
    not_before: float = 0.0


@dataclass
class Retries:
    """What failed lately in this process, by key (an operation or a tenant)."""

    terms: RetryTerms
    clock: Callable[[], float] = monotonic
    _records: dict[str, _Record] = field(default_factory=dict)

    def failed(
        self, key: str, *, blame: bool = False, at_least_s: float = 0.0, at_most_s: float = float("inf")
    ) -> None:
        """It failed: not again before the wait is over, nor before `at_least_s`. `blame`: by its own fault."""
        record = self._records.setdefault(key, _Record())
        wait = min(self.terms.longest_s, at_most_s, self.terms.first_s * 2 ** min(record.failures, 30))
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing
        record.failures += 1
        record.blamed += blame
        record.not_before = self.clock() + max(wait, at_least_s)

    def succeeded(self, key: str) -> None:
        """Nothing is held against it any more."""
        self._records.pop(key, None)

    def may_run(self, key: str) -> bool:
        """Whether its wait is over."""
        record = self._records.get(key)
        return record is None or self.clock() >= record.not_before

    def blamed(self, key: str) -> int:
        """How often it failed in a row by its own fault."""
        return self._records[key].blamed if key in self._records else 0

    def forget_all_but(self, keys: set[str]) -> None:
        """Drop the records of what is no longer there to be tried."""
        for key in self._records.keys() - keys:
            del self._records[key]


def describe(exc: BaseException) -> dict[str, str]:
    """What may be logged of a failure: our own errors' text, of others class and place only (I11)."""
    frames = traceback.extract_tb(exc.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = str(exc) if isinstance(exc, MunimentFault) else ""
    return {"error": type(exc).__name__, "place": place, "why": text}
