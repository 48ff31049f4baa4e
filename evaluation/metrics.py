"""Measures of ranked lists, and how sure one may be of their means. Pure.

A ranking is a sequence of distinct ids, best first; `relevant` maps ids to grades above 0. An id without a grade is
not relevant. nDCG as in trec_eval and BEIR: gain = grade, discount = log2(rank + 1).
"""

import math
import random
from collections.abc import Mapping, Sequence

Grades = Mapping[str, int]

RESAMPLES = 2_000


def ndcg(ranking: Sequence[str], relevant: Grades, k: int = 10) -> float:
    """Discounted gain of the first `k`, divided by that of the best order; 0.0 where nothing is relevant."""
    _check(ranking)
    ideal = _dcg(sorted(relevant.values(), reverse=True)[:k])
    return _dcg([relevant.get(each, 0) for each in ranking[:k]]) / ideal if ideal else 0.0


def reciprocal_rank(ranking: Sequence[str], relevant: Grades, k: int = 10) -> float:
    """1 / rank of the first relevant one among the first `k`, 0.0 when there is none."""
    _check(ranking)
    return next((1 / rank for rank, each in enumerate(ranking[:k], 1) if relevant.get(each, 0) > 0), 0.0)


def recall(ranking: Sequence[str], relevant: Grades, k: int = 10) -> float:
    """The share of the relevant ones that is among the first `k`; 0.0 where nothing is relevant."""
    _check(ranking)
    wanted = {each for each, grade in relevant.items() if grade > 0}
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 0.0


def mean(values: Sequence[float]) -> float:
    """The mean; ValueError for no values, which have none."""
    if not values:
        raise ValueError("no values have no mean")
    return math.fsum(values) / len(values)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle; ValueError for no values."""
    return quantile(values, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, between neighbours in proportion; ValueError for no values."""
    if not values or not 0 <= share <= 1:
        raise ValueError("a quantile needs values and a share within [0, 1]")
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interval(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Bootstrap percentile interval of the mean (Efron 1979): queries are drawn anew with replacement.

    The same values give the same interval. ValueError for no values.
    """
    if not values:
        raise ValueError("no values have no mean")
    chance = random.Random(seed)  # noqa: S311 - no secret
    means = [mean(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    tail = (1 - confidence) / 2
    return quantile(means, tail), quantile(means, 1 - tail)


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a value of `positive` is greater than one of `negative`, ties by half (Mann, Whitney 1947).

    0.5: they can't be told apart. ValueError when either is empty.
    """
    if not positive or not negative:
        raise ValueError("both sides need values")
    ordered = sorted([(value, 0) for value in negative] + [(value, 1) for value in positive])
    rank_sum, at = 0.0, 0
    while at < len(ordered):
        end = at
        while end < len(ordered) and ordered[end][0] == ordered[at][0]:
            end += 1
        middle = (at + 1 + end) / 2  # the mean rank of equal values
        rank_sum += middle * sum(side for _, side in ordered[at:end])
        at = end
    n = len(positive)
    return (rank_sum - n * (n + 1) / 2) / (n * len(negative))


def _dcg(grades: Sequence[int]) -> float:
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def _check(ranking: Sequence[str]) -> None:
    if len(set(ranking)) != len(ranking):
        raise ValueError("an id is ranked twice")
