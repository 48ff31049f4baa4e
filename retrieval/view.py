"""A request's view of the corpus: principal, pin and policy decision, made together so that none is forgotten."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from core.budget import Budget
from core.ids import new_id
from core.stages import Stage, StageLog, limit_ms
from corpus.pinning import LATEST, Consistency, take_pin
from corpus.reading import Corpus, OpenCorpus
from policy.engine import AccessDecision, PolicyEngine, Revisions
from policy.errors import PolicyRevisionMoved, PolicyUnavailable
from policy.filter import Nothing
from policy.principal import Principal

PINS = 3  # a request takes a new pin twice at most when policy moves under it


@dataclass(frozen=True)
class View:
    """What one principal may see of one snapshot, for one request."""

    principal: Principal
    opened: OpenCorpus
    decision: AccessDecision
    budget: Budget
    stages: StageLog
    decision_id: str
    release_numbers: Iterator[int] = field(default_factory=count, repr=False)

    def release_id(self) -> str:
        """A new id of a release for the audit record: `decision_id` itself, then with a number behind it.

        What was withheld under one id says nothing of what left under another.
        """
        number = next(self.release_numbers)
        return f"{self.decision_id}.{number}" if number else self.decision_id

    @property
    def sees_nothing(self) -> bool:
        """Policy lets the principal see nothing at all, whatever the corpus holds."""
        return isinstance(self.decision.filter, Nothing)

    @property
    def revisions(self) -> Revisions:
        """The revisions that every check of the request must be made under."""
        return Revisions(self.opened.pin.policy_revision, self.opened.pin.data_revision)


async def open_view(
    corpus: Corpus,
    policy: PolicyEngine,
    principal: Principal,
    budget: Budget,
    stages: StageLog,
    *,
    now: Callable[[], int],
    consistency: Consistency = LATEST,
    valid_at: int | None = None,
) -> View:
    """Pin, then ask policy under the pinned revisions; SnapshotUnavailable and every PolicyError deny."""
    for _ in range(PINS):
        with stages.timed(Stage.PIN):
            pin = take_pin(corpus.database, principal.tenant_id, now(), consistency=consistency, valid_at=valid_at)
        expected = Revisions(pin.policy_revision, pin.data_revision)
        policy_budget = Budget(budget.clock() + budget.limit_s(limit_ms(Stage.POLICY)), budget.clock)
        try:
            with stages.timed(Stage.POLICY):
                decision = await policy.access_filter(principal, pin.now, policy_budget, expected=expected)
        except PolicyRevisionMoved:
            continue
        return View(principal, corpus.open(pin, decision.filter), decision, budget, stages, new_id())
    raise PolicyUnavailable("policy keeps moving away from the catalog's revision")
