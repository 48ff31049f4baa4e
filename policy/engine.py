"""What the other rooms ask of policy: one Protocol, met by `OpaEngine` and `MemoizedPolicy`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from core.attributes import Attributes, TrustTier
from core.budget import Budget
from core.ids import DataRevision, PolicyRevision, SourceId
from policy.filter import Filter
from policy.principal import Principal


@dataclass(frozen=True)
class Revisions:
    """Which rules and which relationship data decide: what a request's pin fixes."""

    policy: PolicyRevision
    data: DataRevision


@dataclass(frozen=True)
class AccessDecision:
    """What a principal may see. `fingerprint` leaves the process only as a keyed hash.

    `reads_now`: the decision holds for the `now` that was asked for and no other.
    """

    filter: Filter
    policy_revision: PolicyRevision
    data_revision: DataRevision
    fingerprint: str
    reads_now: bool


@dataclass(frozen=True)
class Verdicts:
    """The ids of which every item that was asked about may be seen."""

    ids: frozenset[str]
    policy_revision: PolicyRevision
    data_revision: DataRevision
    reads_now: bool


@dataclass(frozen=True)
class SourceRights:
    """What the rules about writing read of a source."""

    id: SourceId
    trust: TrustTier
    writer_groups: tuple[str, ...] = ()
    writer_subjects: tuple[str, ...] = ()
    grant_groups: tuple[str, ...] = ()
    grant_subjects: tuple[str, ...] = ()

    def to_input(self) -> dict[str, object]:
        """`input.source` for Rego."""
        return {
            "id": self.id,
            "trust": int(self.trust),
            "writer_groups": list(self.writer_groups),
            "writer_subjects": list(self.writer_subjects),
            "grant_groups": list(self.grant_groups),
            "grant_subjects": list(self.grant_subjects),
        }


@dataclass(frozen=True)
class Permission:
    """Whether the RPC may be called, and whether another access than the given one may be named in it."""

    allowed: bool
    may_grant: bool


class PolicyEngine(Protocol):
    """Decides; every PolicyError that it raises is a denial.

    `expected` are the revisions of the caller's pin: PolicyRevisionMoved when the engine decides by others, so that the
    caller pins again. `now` is in whole seconds since 1970, the pin's. All raise PolicyUnavailable when the engine is
    away or late, MalformedDecision when it answers anything but a decision, and BudgetExhausted.
    """

    async def access_filter(
        self, principal: Principal, now: int, budget: Budget, *, expected: Revisions
    ) -> AccessDecision:
        """What the principal may see; raises UntranslatableResidual, RevisionUnproved and FilterTooLarge, too."""
        ...

    async def visible(
        self,
        principal: Principal,
        items: Sequence[tuple[str, Attributes]],
        now: int,
        budget: Budget,
        *,
        expected: Revisions,
    ) -> Verdicts:
        """The second check. An id may come with several attributes (a revision's own, its document's): all count."""
        ...

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        """Whether `principal` may call `rpc` on `source`; by the engine's present revisions when `expected` is None.

        PublishBuild and AbandonBuild of a build that another principal began are PublishOthersBuild and
        AbandonOthersBuild.
        """
        ...

    async def revisions(self, budget: Budget) -> Revisions:
        """By what the engine decides at present."""
        ...
