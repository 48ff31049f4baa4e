"""Waits grow, are bounded and scattered; what may be logged of a failure holds no content."""

import pytest

from corpus.errors import RecordDamaged
from corpus.store import StoreUnavailable
from indexing.indexer import Failure
from indexing.retries import Retries, RetryTerms, describe


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def wait_s(retries: Retries, clock: Clock, key: str = "a") -> float:
    """Until the key may run again, to a hundredth of a second."""
    start = clock.now
    while not retries.may_run(key):
        clock.now += 0.01
    return clock.now - start


def test_waits_double_up_to_the_longest_and_lie_within_the_jitter() -> None:
    clock = Clock()
    retries = Retries(RetryTerms(first_s=1.0, longest_s=8.0), clock)
    for full in (1.0, 2.0, 4.0, 8.0, 8.0, 8.0):
        retries.failed("a")
        assert full / 2 - 0.02 <= wait_s(retries, clock) <= full + 0.02
    retries.succeeded("a")
    assert retries.may_run("a")


def test_a_message_under_way_is_waited_for_and_a_busy_lease_is_asked_again_soon() -> None:
    clock = Clock()
    retries = Retries(RetryTerms(first_s=0.1, longest_s=30.0), clock)
    retries.failed("a", at_least_s=5.0)
    assert wait_s(retries, clock) == pytest.approx(5.0, abs=0.02)
    for _ in range(20):
        retries.failed("b", at_most_s=1.0)
    assert wait_s(retries, clock, "b") <= 1.02


def test_blame_counts_only_what_the_work_itself_is_guilty_of() -> None:
    retries = Retries(RetryTerms())
    for exc in (StoreUnavailable("away"), RecordDamaged("altered"), OSError("disk"), ValueError("odd")):
        retries.failed("a", blame=Failure.of(exc).blame)
    assert retries.blamed("a") == 2
    retries.forget_all_but(set())
    assert retries.blamed("a") == 0


def test_a_failure_is_described_without_the_text_of_foreign_errors() -> None:
    try:
        raise ValueError("the salary is 90,000")  # noqa: TRY301
    except ValueError as exc:
        told = describe(exc)
    assert told["error"] == "ValueError"
    assert told["place"].startswith("test_retries.py:")
    assert "salary" not in str(told)
    assert describe(RecordDamaged("a blob is missing"))["why"] == "a blob is missing"
