"""Each release of a request has an id of its own in the audit log: a withheld claim must not hide a released packet."""

from typing import cast

from core.budget import Budget
from core.ids import TenantId
from core.stages import StageLog
from corpus.reading import OpenCorpus
from policy.engine import AccessDecision
from policy.principal import Principal
from retrieval.view import View


def view() -> View:
    principal = Principal("i", "s", TenantId("t"), (), frozenset(), "j", 1)
    opened, decision = cast(OpenCorpus, None), cast(AccessDecision, None)
    return View(principal, opened, decision, Budget.of_seconds(1), StageLog(), "dec")


def test_the_first_is_the_receipts_and_none_returns() -> None:
    first, second = view(), view()
    assert [first.release_id() for _ in range(3)] == ["dec", "dec.1", "dec.2"]
    assert second.release_id() == "dec"
