"""Many channels' results to one order: pure, the same whatever the order of candidates, processes or repeats.

Which to use was measured (nDCG@10, one vector per document): z-scores over the candidates beat reciprocal ranks on
SciFact (.734 against .716), Vaswani, HotpotQA and SQuAD, because a rank hides how much better a hit is; RRF is kept for
channels whose scores can't be compared within one result.

Give the candidates that the gate's first look let through: what is hidden must not move means either.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from core.ids import FragmentId
from retrieval.types import Candidate, Channel, Fused, Hit

RRF_K = 60  # Cormack, Clarke, Buettcher, SIGIR 2009

Weights = Mapping[Channel, float]
NO_WEIGHTS: Weights = {}


def candidates_of(legs: Mapping[Channel, Iterable[tuple[FragmentId, float]]]) -> tuple[Candidate, ...]:
    """Each channel's (fragment, score) pairs, best first, as candidates in order of fragment id.

    The first occurrence of a fragment in a leg counts and ranks close up behind a repeat: the store may hold two copies
    of a fragment for a while. ValueError for a score that is not finite and for an id that is not text.
    """
    hits: dict[FragmentId, dict[Channel, Hit]] = {}
    for channel in Channel:
        ranks: dict[FragmentId, Hit] = {}
        for fragment_id, score in legs.get(channel, ()):
            if not isinstance(fragment_id, str):
                raise ValueError(f"fragment ids are text, {channel} gave another type")  # noqa: TRY004 one kind of refusal
            if fragment_id not in ranks:
                ranks[fragment_id] = Hit(len(ranks) + 1, score)
        for fragment_id, hit in ranks.items():
            hits.setdefault(fragment_id, {})[channel] = hit
    return tuple(Candidate(fragment_id, hits[fragment_id]) for fragment_id in sorted(hits))


def z_fusion(
    candidates: Sequence[Candidate], weights: Weights = NO_WEIGHTS, missing: Weights = NO_WEIGHTS
) -> tuple[Fused, ...]:
    """Sum over the channels of weight times z-score, best first; ties by fragment id.

    z = (score - mean) / population standard deviation, over all candidates. A candidate that a channel did not propose
    counts there with `missing[channel]`, by default the channel's lowest score among the candidates: it scored no
    better than the last one proposed. A channel that gives all candidates the same says nothing and adds 0. Weights
    default to 1. ValueError for a fragment twice, for weights that are negative or not finite.
    """
    _check(candidates, weights)
    totals = [0.0] * len(candidates)
    for channel in Channel:
        scores = [c.channels[channel].score for c in candidates if channel in c.channels]
        if not scores:
            continue
        imputed = missing.get(channel, min(scores))
        if not math.isfinite(imputed):
            raise ValueError("a score must be finite")
        column = [c.channels[channel].score if channel in c.channels else imputed for c in candidates]
        weight = weights.get(channel, 1.0)
        totals = [total + weight * z for total, z in zip(totals, z_scores(column), strict=True)]
    return _ordered(candidates, totals)


def rrf(candidates: Sequence[Candidate], weights: Weights = NO_WEIGHTS, k: int = RRF_K) -> tuple[Fused, ...]:
    """Sum over the channels that proposed a candidate of weight / (k + rank), rank from 1; best first, ties by id."""
    _check(candidates, weights)
    totals = [
        math.fsum(weights.get(channel, 1.0) / (k + hit.rank) for channel, hit in candidate.channels.items())
        for candidate in candidates
    ]
    return _ordered(candidates, totals)


def z_scores(values: Sequence[float]) -> list[float]:
    """Population z-scores; zeros when all are the same. Exact sums, so the order of `values` does not matter."""
    if not values:
        return []
    low, high = min(values), max(values)
    width = high / 2 - low / 2  # halves: the difference of two finite numbers may overflow
    if width <= 0:
        return [0.0] * len(values)
    unit = [(value / 2 - low / 2) / width for value in values]  # in [0, 1]: squares neither overflow nor vanish
    mean = math.fsum(unit) / len(unit)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in unit) / len(unit))
    return [(value - mean) / deviation for value in unit]


def _check(candidates: Sequence[Candidate], weights: Weights) -> None:
    if len({candidate.fragment_id for candidate in candidates}) != len(candidates):
        raise ValueError("a fragment is given twice: merge with candidates_of")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights.values()):
        raise ValueError("weights must be finite and not negative")


def _ordered(candidates: Sequence[Candidate], totals: Sequence[float]) -> tuple[Fused, ...]:
    fused = (Fused(candidate, total) for candidate, total in zip(candidates, totals, strict=True))
    return tuple(sorted(fused, key=lambda f: (-f.score, f.candidate.fragment_id)))
