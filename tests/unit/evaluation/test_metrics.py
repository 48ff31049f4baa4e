"""Measures against values worked out by hand."""

import math

import pytest

from evaluation.metrics import auc, interval, mean, median, ndcg, quantile, recall, reciprocal_rank

RELEVANT = {"a": 1, "b": 1, "c": 1}


def test_ndcg_of_the_best_order_is_one() -> None:
    assert ndcg(["b", "c", "a", "x"], RELEVANT) == pytest.approx(1.0)


def test_ndcg_discounts_by_the_logarithm_of_rank_plus_one() -> None:
    # gains at ranks 1, 3: 1/log2(2) + 1/log2(4) = 1.5; ideal of three: 1 + 0.63093 + 0.5 = 2.13093
    assert ndcg(["a", "x", "b", "y"], RELEVANT) == pytest.approx(1.5 / 2.1309297535714578)


def test_ndcg_weighs_grades_and_their_ideal_order() -> None:
    # 1 + 3/log2(3) against 3 + 1/log2(3)
    got = ndcg(["low", "high"], {"high": 3, "low": 1})
    assert got == pytest.approx((1 + 3 * 0.6309297535714575) / (3 + 0.6309297535714575))


def test_ndcg_sees_nothing_past_k_and_its_ideal_neither() -> None:
    assert ndcg(["x", "a"], RELEVANT, k=1) == 0.0
    assert ndcg(["a", "x"], RELEVANT, k=1) == pytest.approx(1.0)


def test_a_short_ranking_loses_what_it_lacks() -> None:
    assert ndcg(["a"], RELEVANT) == pytest.approx(1 / 2.1309297535714578)
    assert ndcg([], RELEVANT) == 0.0


def test_reciprocal_rank_is_of_the_first_relevant_within_k() -> None:
    assert reciprocal_rank(["x", "y", "b", "a"], RELEVANT) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x", "y", "b"], RELEVANT, k=2) == 0.0


def test_recall_is_the_share_of_all_relevant() -> None:
    assert recall(["a", "x", "b"], RELEVANT) == pytest.approx(2 / 3)
    assert recall(["a", "x", "b"], RELEVANT, k=1) == pytest.approx(1 / 3)


def test_grades_of_zero_are_not_relevant() -> None:
    judged = {"a": 0, "b": 1}
    assert reciprocal_rank(["a", "b"], judged) == 0.5
    assert recall(["a"], judged) == 0.0


def test_where_nothing_is_relevant_all_measures_are_zero() -> None:
    assert ndcg(["a"], {}) == recall(["a"], {}) == reciprocal_rank(["a"], {}) == 0.0


@pytest.mark.parametrize("measure", [ndcg, recall, reciprocal_rank])
def test_an_id_ranked_twice_is_a_fault_of_the_caller(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ValueError, match="twice"):
        measure(["a", "a"], RELEVANT)


def test_quantiles_lie_between_neighbours_in_proportion() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert median(values) == 2.5
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert quantile(values, 0.95) == pytest.approx(3.85)
    assert (quantile(values, 0), quantile(values, 1)) == (1.0, 4.0)


@pytest.mark.parametrize("measure", [mean, median, interval])
def test_no_values_have_no_figure(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ValueError):
        measure([])


def test_the_interval_covers_the_mean_as_normal_theory_says() -> None:
    values = [0.0, 1.0] * 200  # mean 0.5, standard error 0.5 / sqrt(400) = 0.025
    low, high = interval(values)
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.005)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.005)


def test_the_interval_of_equal_values_is_a_point_and_every_run_gives_the_same() -> None:
    assert interval([0.25] * 10) == (0.25, 0.25)
    values = [math.sin(at) for at in range(50)]
    assert interval(values) == interval(values)
    assert interval(values, confidence=0.5)[1] < interval(values)[1]


def test_auc_counts_pairs_and_ties_by_half() -> None:
    # pairs of (1, 3) with (2, 3): 1<2, 1<3, 3>2, 3=3: 1.5 of 4
    assert auc([1, 3], [2, 3]) == pytest.approx(1.5 / 4)
    assert auc([2, 3], [1, 1]) == 1.0
    assert auc([1], [1]) == 0.5
    assert auc([1, 2, 3], [1, 2, 3]) == 0.5


def test_auc_needs_both_sides() -> None:
    with pytest.raises(ValueError):
        auc([], [1.0])
