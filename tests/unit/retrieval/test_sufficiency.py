"""Sufficiency: the three verdicts and their rules."""

import math

import pytest

from retrieval.sufficiency import LEXICAL_ONLY, NEAR, WITH_DENSE, Features, Rule, features_of, judge
from retrieval.types import Verdict


def split(text: str) -> list[str]:
    return text.lower().split()


TERMS = ("vacation", "days", "year")
GOOD = "Employees have 25 vacation days each year"
PART = "The year was good"


def test_no_items_are_empty_whatever_else() -> None:
    assert judge(TERMS, [], 0.99, split) is Verdict.EMPTY
    assert judge(TERMS, [], None, split) is Verdict.EMPTY


def test_words_and_nearness_together_suffice() -> None:
    assert judge(TERMS, [PART, GOOD], 0.6, split) is Verdict.SUFFICIENT
    assert judge(TERMS, [PART], 0.2, split) is Verdict.WEAK


def test_without_vectors_the_words_decide_by_a_rule_of_their_own() -> None:
    assert judge(TERMS, [GOOD], None, split) is Verdict.SUFFICIENT
    assert judge(TERMS, [PART], None, split) is Verdict.WEAK


def test_a_query_of_stop_words_is_judged_by_nearness_or_is_weak() -> None:
    assert judge((), [GOOD], NEAR, split) is Verdict.SUFFICIENT
    assert judge((), [GOOD], NEAR - 0.01, split) is Verdict.WEAK
    assert judge((), [GOOD], None, split) is Verdict.WEAK


def test_nothing_is_analysed_past_the_first_item_that_suffices() -> None:
    analysed: list[str] = []

    def note(text: str) -> list[str]:
        analysed.append(text)
        return split(text)

    assert judge(TERMS, [PART, GOOD, "never read"], None, note) is Verdict.SUFFICIENT
    assert analysed == [PART, GOOD]


def test_coverage_is_that_of_the_best_single_item() -> None:
    assert features_of(TERMS, ["vacation", "days"], None, split) == Features(1 / 3, None)
    assert features_of(("a", "a", "b"), ["a"], 0.5, split) == Features(0.5, 0.5)


@pytest.mark.parametrize("rule", [WITH_DENSE, LEXICAL_ONLY])
def test_more_coverage_and_nearness_never_weaken(rule: Rule) -> None:
    steps = [rule.margin(Features(n / 10, n / 10)) for n in range(11)]
    assert steps == sorted(steps)


def test_a_cosine_that_is_no_number_or_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        judge(TERMS, [GOOD], math.nan, split)
    with pytest.raises(ValueError, match="cosine"):
        WITH_DENSE.margin(Features(1.0, None))
