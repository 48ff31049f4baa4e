"""Fit the rules of `retrieval.sufficiency` on SQuAD 2.0 and report them: `python -m evaluation.fit_sufficiency FILE`.

The first half of the articles is fitted on, the second reported. All paragraphs are the corpus, five are the packet.
Answerable: questions with a gold paragraph among the five. Not answerable, of three kinds: `off_topic`, the same
questions with their whole article removed from the corpus (what a user meets who asks about something that is not
there, or not permitted); `gold_removed`, only the gold paragraph removed; `adversarial`, SQuAD's own near misses.
Rules are fitted against `off_topic` alone, since the other two can't be told apart by words and cosines; their
threshold is where one in twenty answerable questions of the fitting half would be called WEAK.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.ids import FragmentId
from corpus.analyser import Analyser
from corpus.encoder import MiniLmEncoder
from retrieval.fusion import candidates_of, z_fusion
from retrieval.plan import terms_of
from retrieval.sufficiency import Features, features_of
from retrieval.types import Channel

PACKET, DEPTH, PER_ARTICLE, FALSE_WEAK = 5, 100, 60, 0.05
Floats = npt.NDArray[np.float64]


class Corpus:
    """Paragraphs of an article each, searched in memory by BM25 (k1 1.2, b .75) and cosine, fused as in serving."""

    def __init__(self, paragraphs: Sequence[tuple[int, str]], encoder: MiniLmEncoder) -> None:
        self.article = np.array([article for article, _ in paragraphs])
        self.texts = [text for _, text in paragraphs]
        analyser = Analyser()
        words = [Counter(analyser.analyse(text).split()) for text in self.texts]
        self.terms = {text: set(terms_of(text, analyser)) for text in self.texts}
        lengths = np.array([sum(count.values()) for count in words])
        norm = 1.2 * (0.25 + 0.75 * lengths / lengths.mean())
        self.postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for at, counts in enumerate(words):
            for word, count in counts.items():
                self.postings[word].append((at, count * 2.2 / (count + norm[at])))
        self.vectors = encoder.encode_documents(self.texts)

    def look(
        self, query: str, terms: Sequence[str], vector: npt.NDArray[np.float32], removed: Sequence[int]
    ) -> tuple[list[int], Features]:
        """The five best paragraphs of those that are not removed, and what is to be judged of them."""
        lexical = np.zeros(len(self.texts))
        for word in Analyser().analyse(query).split():
            found = self.postings.get(word, [])
            idf = np.log(1 + (len(self.texts) - len(found) + 0.5) / (len(found) + 0.5))
            for at, weight in found:
                lexical[at] += idf * weight
        cosine = (self.vectors @ vector).astype(np.float64)
        lexical[list(removed)], cosine[list(removed)] = 0, -1
        legs = {Channel.LEXICAL: _leg(lexical, 0), Channel.DENSE: _leg(cosine, -1)}
        best = [int(f.candidate.fragment_id) for f in z_fusion(candidates_of(legs))[:PACKET]]
        texts = [self.texts[at] for at in best]
        return best, features_of(terms, texts, float(cosine[best].max()), self.terms.__getitem__)


def _leg(scores: Floats, floor: float) -> list[tuple[FragmentId, float]]:
    order = np.argsort(-scores, kind="stable")[:DEPTH]
    return [(FragmentId(str(at)), float(scores[at])) for at in order if scores[at] > floor]


def cases(path: Path) -> dict[tuple[int, str], list[Features]]:
    """Features by (half of the articles, kind)."""
    encoder, analyser = MiniLmEncoder(threads=2), Analyser()
    data = json.loads(path.read_text())["data"]
    corpus = Corpus([(a, p["context"]) for a, article in enumerate(data) for p in article["paragraphs"]], encoder)
    questions: dict[int, list[tuple[int, str, bool]]] = defaultdict(list)
    contexts = [(a, paragraph) for a, article in enumerate(data) for paragraph in article["paragraphs"]]
    for at, (a, paragraph) in enumerate(contexts):
        questions[a] += [(at, qa["question"], not qa["is_impossible"]) for qa in paragraph["qas"]]
    out: dict[tuple[int, str], list[Features]] = defaultdict(list)
    for a, asked in questions.items():
        sample = asked[:: max(1, len(asked) // PER_ARTICLE)]
        vectors = encoder.encode_documents([question for _, question, _ in sample])
        for (gold, question, answerable), vector in zip(sample, vectors, strict=True):
            half, terms = int(a >= len(data) / 2), terms_of(question, analyser)

            best, features = corpus.look(question, terms, vector, [])
            if not answerable:
                out[half, "adversarial"].append(features)
                continue
            if gold in best:
                out[half, "answerable"].append(features)
            whole_article = np.flatnonzero(corpus.article == a).tolist()
            out[half, "gold_removed"].append(corpus.look(question, terms, vector, [gold])[1])
            out[half, "off_topic"].append(corpus.look(question, terms, vector, whole_article)[1])
    return out


def _matrix(features: Sequence[Features], dense: bool) -> Floats:
    columns = [[1.0, f.coverage, *([f.cosine or 0.0] if dense else [])] for f in features]
    return np.array(columns)


def fit(good: Floats, bad: Floats) -> Floats:
    """Logistic regression by Newton's method, classes weighed alike; the bias moved to the wanted share of WEAK."""
    x, y = np.vstack([good, bad]), np.r_[np.ones(len(good)), np.zeros(len(bad))]
    weight = np.where(y == 1, 0.5 / len(good), 0.5 / len(bad))
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + 1e-4 * np.eye(x.shape[1])
        beta += np.linalg.solve(hessian, x.T @ (weight * (y - p)) - 1e-4 * beta)
    beta[0] -= np.quantile(good @ beta, FALSE_WEAK)
    return beta


def auc(good: Floats, bad: Floats) -> float:
    """Chance that a good case has the higher margin."""
    return float((good[:, None] > bad).mean() + (good[:, None] == bad).mean() / 2)


def main() -> None:
    """Print the rules, and for each kind of the reporting half the share called WEAK and the AUC."""
    by_kind = cases(Path(sys.argv[1]))
    for name, dense in (("WITH_DENSE", True), ("LEXICAL_ONLY", False)):
        beta = fit(_matrix(by_kind[0, "answerable"], dense), _matrix(by_kind[0, "off_topic"], dense))
        print(name, "bias, coverage, cosine:", [round(float(b), 3) for b in beta])
        for half in (0, 1):
            good = _matrix(by_kind[half, "answerable"], dense) @ beta
            for kind in ("answerable", "off_topic", "gold_removed", "adversarial"):
                margins = _matrix(by_kind[half, kind], dense) @ beta
                weak, area = np.mean(margins < 0), auc(good, margins)
                print(f"  half {half} {kind:13} n={len(margins):4} weak={weak:.3f} auc={area:.3f}")
    near = np.quantile([f.cosine or 0.0 for f in by_kind[0, "answerable"]], FALSE_WEAK)
    caught = np.mean([(f.cosine or 0.0) < near for f in by_kind[1, "off_topic"]])
    print(f"NEAR {near:.3f}: off_topic of half 1 called WEAK {caught:.3f}")


if __name__ == "__main__":
    main()
