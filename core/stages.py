"""Stages of a request: their budgets (design §9), what each reports, and how each may degrade."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter


class Stage(StrEnum):
    """The stages that are budgeted and reported, in order."""

    AUTHENTICATION = "authentication"
    PIN = "pin"
    POLICY = "policy"
    PLAN = "plan"
    EMBED = "embed"
    CHANNELS = "channels"
    FUSE = "fuse"
    PACK = "pack"
    GATE = "gate"
    GENERATE = "generate"
    VERIFY = "verify"


BUDGET_MS: dict[Stage, float] = {
    Stage.AUTHENTICATION: 5,
    Stage.PIN: 2,
    Stage.POLICY: 10,
    Stage.PLAN: 5,
    Stage.EMBED: 20,
    Stage.CHANNELS: 60,
    Stage.FUSE: 5,
    Stage.PACK: 10,
    Stage.GATE: 10,
    Stage.GENERATE: 10_000,
    Stage.VERIFY: 50,
}
LIMIT_FACTOR = 10  # a stage is cut at ten times its budget; the budget itself is reported, never enforced


def limit_ms(stage: Stage) -> float:
    """What is enforced, in milliseconds; GENERATE and VERIFY as given."""
    factor = 1 if stage in (Stage.GENERATE, Stage.VERIFY) else LIMIT_FACTOR
    return BUDGET_MS[stage] * factor


class Degradation(StrEnum):
    """Less evidence, said in packet, trace and metric; never less checking."""

    LEXICAL_ONLY = "lexical_only"  # embedding was late or failed
    CHANNEL_MISSING = "channel_missing"  # one channel was late or failed


@dataclass(frozen=True)
class StageReport:
    """One stage's wall time in milliseconds and how it degraded, if it did."""

    stage: Stage
    elapsed_ms: float
    degradation: Degradation | None = None


@dataclass
class StageLog:
    """Collects the reports of one request; handed down explicitly."""

    reports: list[StageReport] = field(default_factory=list)

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Report the time of the block, also when it raises."""
        began = perf_counter()
        try:
            yield
        finally:
            self.reports.append(StageReport(stage, (perf_counter() - began) * 1000))

    def degrade(self, stage: Stage, degradation: Degradation) -> None:
        """Say that `stage` gave less than it should."""
        self.reports.append(StageReport(stage, 0.0, degradation))

    @property
    def degradations(self) -> tuple[Degradation, ...]:
        """Each degradation once, in order of first appearance."""
        return tuple(dict.fromkeys(r.degradation for r in self.reports if r.degradation is not None))
