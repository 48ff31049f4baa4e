"""Whether a packet is likely to hold an answer: EMPTY, WEAK or SUFFICIENT, from what is at hand without a model.

The rules are fitted by `evaluation/fit_sufficiency.py` on half of the articles of SQuAD 2.0 part 1 so that about one in
twenty answerable questions is WEAK. Share called WEAK on the other half, and AUC against its answerable questions:

| kind of question | n | with dense | AUC | lexical only | AUC |
|---|---|---|---|---|---|
| answerable, gold paragraph in the packet | 258 | .039 | | .012 | |
| off topic: the whole article is not there | 269 | .840 | .973 | .461 | .904 |
| only the gold paragraph is not there | 269 | .264 | .811 | .253 | .824 |
| SQuAD's adversarial near misses | 319 | .129 | .654 | .053 | .616 |

So SUFFICIENT says that the packet is about the question, not that it answers it: near misses pass, and without vectors
half of the off-topic questions, too. What such a packet yields is still verbatim and cited. The figures are for packets
of five paragraphs of an encyclopaedia and English questions; elsewhere they are a guess until fitted again.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from retrieval.types import Verdict

TermsOf = Callable[[str], Collection[str]]


@dataclass(frozen=True)
class Features:
    """`coverage`: the largest share of the query's distinct terms that one item has; `cosine`: the nearest item's.

    What all items have together was tried and left out: it adds nothing and grows with the number of items.
    """

    coverage: float
    cosine: float | None


@dataclass(frozen=True)
class Rule:
    """SUFFICIENT when `bias` + weights times features is at least 0; `cosine` is None in the rule that does without."""

    bias: float
    coverage: float
    cosine: float | None = None

    def margin(self, features: Features) -> float:
        """Above 0: sufficient. Needs a cosine exactly when the rule has a weight for it."""
        total = self.bias + self.coverage * features.coverage
        if self.cosine is not None:
            if features.cosine is None:
                raise ValueError("this rule needs a cosine")
            total += self.cosine * features.cosine
        return total


NEAR = 0.366  # 5 % quantile of the nearest item's cosine over answerable questions; .69 of the off-topic lie below
RULES_VERSION = "squad-1"
WITH_DENSE = Rule(bias=-10.833, coverage=7.493, cosine=17.755)
LEXICAL_ONLY = Rule(bias=-4.466, coverage=11.165)  # coverage of at least .4


def features_of(terms: Sequence[str], texts: Sequence[str], top_cosine: float | None, terms_of: TermsOf) -> Features:
    """`terms`: the query's own distinct terms; `texts`: one per item; `terms_of` analyses a text as the query was."""
    wanted = set(terms)
    found = [wanted.intersection(terms_of(text)) for text in texts]
    if not wanted or not found:
        return Features(0.0, top_cosine)
    return Features(max(map(len, found)) / len(wanted), top_cosine)


def judge(terms: Sequence[str], texts: Sequence[str], top_cosine: float | None, terms_of: TermsOf) -> Verdict:
    """The verdict on items whose passages' texts are `texts`.

    `top_cosine` is the highest cosine similarity between query and an item, in [-1, 1]; None when the dense channel
    gave none, which has a rule of its own. A query without terms (stop words only) can't be matched by words: it is
    WEAK without a cosine, and with one it is judged by that alone.
    """
    if not texts:
        return Verdict.EMPTY
    if top_cosine is not None and not math.isfinite(top_cosine):
        raise ValueError("a cosine must be finite")
    if top_cosine is not None and not terms:
        return Verdict.SUFFICIENT if top_cosine >= NEAR else Verdict.WEAK
    rule = LEXICAL_ONLY if top_cosine is None else WITH_DENSE
    # No further than to the first that is good enough, as analysing ten items took a third of a search: nearness alone
    # may do, and coverage only adds to it.
    features = chain([Features(0.0, top_cosine)], (features_of(terms, [text], top_cosine, terms_of) for text in texts))
    good = any(rule.margin(each) >= 0 for each in features)
    return Verdict.SUFFICIENT if good and terms else Verdict.WEAK
