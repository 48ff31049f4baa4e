"""Fusion: arithmetic, ties, duplicates, order (R6), NaN (K7)."""

import math
import subprocess
import sys
import uuid
from collections.abc import Sequence
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ids import FragmentId
from retrieval.fusion import candidates_of, rrf, z_fusion, z_scores
from retrieval.types import Candidate, Channel, Fused, Hit

SCORES = st.floats(allow_nan=False, allow_infinity=False)
IDS = st.sampled_from("abcdefghij").map(FragmentId)
LEGS = st.dictionaries(st.sampled_from(list(Channel)), st.lists(st.tuples(IDS, SCORES), max_size=12))


def leg(*ids: str) -> list[tuple[FragmentId, float]]:
    return [(FragmentId(i), 1.0 / at) for at, i in enumerate(ids, start=1)]


def ids(fused: Sequence[Fused]) -> list[str]:
    return [f.candidate.fragment_id for f in fused]


def test_r6_rrf_counts_ranks_from_one_and_puts_what_both_legs_found_first() -> None:
    fused = rrf(candidates_of({Channel.DENSE: leg("X", "a", "Y"), Channel.LEXICAL: leg("b", "c", "Y")}))
    assert ids(fused) == ["Y", "X", "b", "a", "c"]
    assert fused[0].score == pytest.approx(2 / 63)
    assert fused[1].score == fused[2].score == pytest.approx(1 / 61)


def test_r6_a_repeat_in_one_leg_counts_once_and_ranks_close_up() -> None:
    once = candidates_of({Channel.DENSE: leg("X", "a", "Y"), Channel.LEXICAL: leg("b", "c", "Y")})
    twice = candidates_of({Channel.DENSE: leg("X", "X", "a", "X", "Y"), Channel.LEXICAL: leg("b", "c", "Y")})
    assert ids(rrf(twice)) == ids(rrf(once))
    assert [f.score for f in rrf(twice)] == [f.score for f in rrf(once)]


def test_r6_the_first_occurrence_gives_the_score() -> None:
    (candidate,) = candidates_of({Channel.DENSE: [(FragmentId("x"), 0.9), (FragmentId("x"), 0.1)]})
    assert candidate.channels[Channel.DENSE] == Hit(1, 0.9)


def test_r6_another_type_of_id_and_no_id_are_refused() -> None:
    with pytest.raises(ValueError, match="ids are text"):
        candidates_of({Channel.DENSE: [(cast("FragmentId", uuid.uuid4()), 1.0)]})
    with pytest.raises(ValueError, match="an id"):
        candidates_of({Channel.DENSE: [(FragmentId(""), 1.0)]})


def test_r6_two_processes_give_the_same_order() -> None:
    code = (
        "from retrieval.fusion import *; from retrieval.types import Channel;"
        "c = candidates_of({ch: [(str(i * 7 % 50), 1.0 + i % 3) for i in range(50)] for ch in Channel});"
        "print([f.candidate.fragment_id for f in z_fusion(c) + rrf(c)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_k7_scores_that_are_not_finite_are_refused_where_they_arise(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        candidates_of({Channel.DENSE: [(FragmentId("a"), bad)]})
    candidates = candidates_of({Channel.DENSE: leg("a", "b")})
    with pytest.raises(ValueError, match="finite"):
        z_fusion(candidates, missing={Channel.DENSE: bad})
    with pytest.raises(ValueError, match="weights"):
        z_fusion(candidates, weights={Channel.DENSE: bad})


def test_z_scores_are_those_of_the_population() -> None:
    assert z_scores([1.0, 2.0, 3.0]) == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)])


def test_what_a_channel_did_not_propose_counts_as_its_lowest() -> None:
    legs = {
        Channel.LEXICAL: [(FragmentId("a"), 10.0), (FragmentId("b"), 4.0)],
        Channel.DENSE: [(FragmentId("b"), 0.9), (FragmentId("c"), 0.5)],
    }
    fused = {f.candidate.fragment_id: f.score for f in z_fusion(candidates_of(legs))}
    lexical = dict(zip("abc", z_scores([10.0, 4.0, 4.0]), strict=True))
    dense = dict(zip("abc", z_scores([0.5, 0.9, 0.5]), strict=True))
    assert fused == {i: pytest.approx(lexical[i] + dense[i]) for i in "abc"}


def test_a_stated_value_replaces_the_lowest() -> None:
    legs = {Channel.LEXICAL: [(FragmentId("a"), 2.0), (FragmentId("b"), 1.0)], Channel.DENSE: [(FragmentId("b"), 0.5)]}
    fused = {f.candidate.fragment_id: f.score for f in z_fusion(candidates_of(legs), missing={Channel.DENSE: 0.0})}
    assert fused == {"a": pytest.approx(0.0), "b": pytest.approx(0.0)}


def test_a_channel_that_says_the_same_of_all_adds_nothing() -> None:
    flat = [(FragmentId(i), 7.0) for i in "abc"]
    fused = z_fusion(
        candidates_of({Channel.DENSE: flat, Channel.LEXICAL: [(FragmentId("c"), 2.0), (FragmentId("a"), 1.0)]})
    )
    assert ids(fused) == ["c", "a", "b"]
    assert [f.score for f in z_fusion(candidates_of({Channel.DENSE: flat}))] == [0.0, 0.0, 0.0]


def test_a_weight_of_zero_silences_a_channel() -> None:
    candidates = candidates_of({Channel.DENSE: leg("a", "b"), Channel.LEXICAL: leg("b", "a")})
    assert ids(z_fusion(candidates, weights={Channel.DENSE: 0.0})) == ["b", "a"]
    assert ids(z_fusion(candidates, weights={Channel.LEXICAL: 0.0})) == ["a", "b"]


def test_a_fragment_given_twice_is_refused() -> None:
    one = Candidate(FragmentId("a"), {Channel.DENSE: Hit(1, 1.0)})
    for fuse in (z_fusion, rrf):
        with pytest.raises(ValueError, match="twice"):
            fuse([one, one])


def test_nothing_gives_nothing() -> None:
    assert candidates_of({}) == ()
    assert z_fusion(()) == rrf(()) == ()


@given(LEGS, st.randoms())
def test_the_order_of_candidates_never_matters(
    legs: dict[Channel, list[tuple[FragmentId, float]]], random: Random
) -> None:
    candidates = list(candidates_of(legs))
    shuffled = random.sample(candidates, len(candidates))
    for fuse in (z_fusion, rrf):
        assert fuse(shuffled) == fuse(candidates)


@given(LEGS)
def test_fused_scores_are_finite_best_first_and_ties_by_id(legs: dict[Channel, list[tuple[FragmentId, float]]]) -> None:
    for fuse in (z_fusion, rrf):
        fused: tuple[Fused, ...] = fuse(candidates_of(legs))
        assert all(math.isfinite(f.score) for f in fused)
        assert [(-f.score, f.candidate.fragment_id) for f in fused] == sorted(
            (-f.score, f.candidate.fragment_id) for f in fused
        )


@given(st.lists(SCORES, min_size=1, max_size=20))
def test_z_scores_sum_to_zero_and_keep_the_order(values: list[float]) -> None:
    scores = z_scores(values)
    assert math.fsum(scores) == pytest.approx(0.0, abs=1e-6)
    pairs = sorted(zip(values, scores, strict=True))
    assert [z for _, z in pairs] == sorted(scores)
