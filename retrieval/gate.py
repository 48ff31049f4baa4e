"""The gate: the one release point for every read by a principal.

Order, for each message: epoch and accesses from the catalog, today's policy on each of them, the rendered bytes, the
audit record, then one catalog statement with epoch and liveness. The message leaves if nothing moved and that statement
began less than SEND_BOUND_S ago; denials are acknowledged later than that after their commit (I5).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic, time

from core.budget import Budget
from core.stages import Stage, limit_ms
from corpus.acknowledge import SEND_BOUND_S
from corpus.errors import CatalogUnavailable
from corpus.reading import Clearing
from corpus.record import RevisionRecord
from policy.audit import AuditLog, ReleasedItem
from policy.engine import PolicyEngine
from policy.errors import PolicyError
from policy.principal import Principal
from retrieval.errors import AccessChanged, ReleaseUnavailable
from retrieval.view import View

JUDGEMENTS = 4  # an epoch that moves under us is followed so often, then the caller has to come again
CLEARINGS = 3  # reads of one judgement that may come too late


@dataclass(frozen=True)
class Ready:
    """Bytes that may leave once cleared, and what they hold for the audit record."""

    message: bytes
    items: tuple[ReleasedItem, ...]


class _Outcome(StrEnum):
    """How the last read ended; the audit record's reason where nothing leaves."""

    CLEARED = "cleared"
    MOVED = "moved"  # judge again
    LATE = "late"
    UNREADABLE = "unreadable"


Render = Callable[[frozenset[int]], Ready]  # the revision keys that may be released -> what to send of them


class Gate:
    """Releases. `clock` is monotonic, `wall_clock` since 1970, both in seconds; `leeway_s` is that of tokens."""

    def __init__(
        self,
        policy: PolicyEngine,
        audit: AuditLog,
        clock: Callable[[], float] = monotonic,
        wall_clock: Callable[[], float] = time,
        leeway_s: float = 0.0,
    ) -> None:
        self._policy = policy
        self._audit = audit
        self._clock = clock
        self._wall_clock = wall_clock
        self._leeway_s = leeway_s

    @property
    def records(self) -> bool:
        """Whether releases can be recorded; else none is made until the process starts anew."""
        return not self._audit.broken

    def check_token(self, principal: Principal) -> None:
        """AccessChanged once the token is over: a stream must not outlive it."""
        if self._wall_clock() >= principal.expires_at + self._leeway_s:
            raise AccessChanged("the token is over")

    async def release(
        self,
        view: View,
        rpc: str,
        revision_keys: Sequence[int],
        render: Render,
        *,
        live: bool = True,
        whole: bool = False,
    ) -> bytes:
        """The bytes to hand to the client now, rendered from the revisions that may be released.

        `live`: they must be served by the pinned snapshot; else published and not denied is enough. `whole`: all, under
        a token that is not over, or AccessChanged. ReleaseUnavailable when the record can't be read freshly enough;
        every PolicyError denies.
        """
        with view.stages.timed(Stage.GATE):
            if whole:
                self.check_token(view.principal)
            for _ in range(JUDGEMENTS):
                before = view.opened.clear(revision_keys, live=live)
                allowed = await self._judge(view, before, live=live)
                if whole and allowed != frozenset(revision_keys):
                    raise AccessChanged("an item of the packet may no longer be seen")
                ready = render(allowed)
                decision_id = view.release_id()
                await self._audit.intended(decision_id, view.principal, rpc, ready.items, _revisions(view, before))
                try:
                    outcome = self._last_read(view, before, allowed, live=live)
                except CatalogUnavailable:
                    await self._audit.withheld(decision_id, _Outcome.UNREADABLE)
                    raise
                if outcome is _Outcome.CLEARED:
                    return ready.message
                await self._audit.withheld(decision_id, outcome)
                if outcome is _Outcome.LATE:
                    break
        raise ReleaseUnavailable("the record can't be read freshly enough")

    async def _judge(self, view: View, before: Clearing, *, live: bool) -> frozenset[int]:
        """Those whose every binding access policy permits today, and the request's filter too."""
        if before.policy_revision != view.revisions.policy:
            raise ReleaseUnavailable("policy was replaced during the request")
        return await self._permitted(view, view.opened.revisions_by_key(sorted(before.live), live=live))

    async def foresee(self, view: View, records: Sequence[RevisionRecord]) -> None:
        """Ask policy about what is likely to be released, while the packet is made: it keeps the answer.

        Nothing rests on it: `release` asks anew, and meets the same fault if there is one.
        """
        with suppress(PolicyError):
            await self._permitted(view, records)

    async def _permitted(self, view: View, records: Sequence[RevisionRecord]) -> frozenset[int]:
        if not records:
            return frozenset()
        items = [(str(record.revision_key), attributes) for record in records for attributes in record.attribute_sets()]
        budget = view.budget
        policy_budget = Budget(budget.clock() + budget.limit_s(limit_ms(Stage.POLICY)), budget.clock)
        verdicts = await self._policy.visible(
            view.principal, items, view.opened.pin.now, policy_budget, expected=view.revisions
        )
        return frozenset(record.revision_key for record in records if str(record.revision_key) in verdicts.ids)

    def _last_read(self, view: View, before: Clearing, allowed: frozenset[int], *, live: bool) -> _Outcome:
        """Age counts from the start of the statement; one that came too late is made again."""
        for _ in range(CLEARINGS):
            started = self._clock()
            last = view.opened.clear(sorted(allowed), live=live)
            if last.epoch != before.epoch or last.policy_revision != before.policy_revision or last.live != allowed:
                return _Outcome.MOVED
            if self._clock() - started < SEND_BOUND_S:
                return _Outcome.CLEARED
        return _Outcome.LATE


def _revisions(view: View, clearing: Clearing) -> dict[str, str | int]:
    pin = view.opened.pin
    return {
        "policy": pin.policy_revision,
        "data": pin.data_revision,
        "seq": pin.seq,
        "epoch": clearing.epoch,
        "incarnation": pin.incarnation,
    }
