"""The default provider: verbatim sentences of the packet, best first. Offline, no model but the encoder it is given.

Score = z(BM25 over the packet's sentences) + z(cosine to the query), each over the candidate sentences; without an
encoder the first alone. On SQuAD 2.0 part 1 the best sentence of five paragraphs held a gold answer for .75 of the
questions (.73 by BM25, .65 by cosine alone).

BM25 is over the words that a question is about: those that only ask ("how", "should I") are rare in statements, so
they would weigh most. It is discounted by the rank of the sentence's item: the search has seen more than one sentence.
On 300 questions of SQuAD 2.0 part 1, five paragraphs by BM25 each, the best sentence held a gold answer for .70 without
either, .73 without those words, .74 with both. On ten items of a handbook, the last ones off the question, it is more.
"""

import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.budget import Budget
from core.document import Span
from generation.claims import ClaimKind, ProposedCitation, ProposedClaim
from generation.sentences import is_heading, sentences
from generation.verification import MAX_CITATIONS, collapsed, is_turned
from retrieval.fusion import z_scores
from retrieval.types import EvidenceItem, Packet, PassageRole

Terms = Callable[[str], Sequence[str]]
Vectors = npt.NDArray[np.float32]
# Query and sentences to vectors of length 1, shapes `(d,)` and `(n, d)`, without blocking the event loop; None when
# they can't be had in time: then words alone decide.
Encode = Callable[[str, Sequence[str], Budget], Awaitable[tuple[Vectors, Vectors] | None]]

K1, B = 1.2, 0.75
SHORTLIST = 32  # sentences that are encoded, the best by words: bounds the time
RANK_DISCOUNT = 0.4  # BM25 is divided by 1 + this for each rank below the first; .2 to .4 did best of 0, .1, .2, .4, 1
LONGEST = 1_000  # code points: what is longer is no sentence but data
NEAR = 0.5  # cosine from which a sentence counts as about the question though it shares no word with it
# Not among them: words with a meaning of their own, such as "may" (a month) and "us" (a country).
_ASKING = (
    "how what when where which who whom whose why do does did can could should would must have has had "
    "i we you me my our your"
)
_ASSERTS_NOTHING = re.compile(r"[?？:：][\s*_\"'”’»)\]]*\Z")  # a question, or what leads to a list


@dataclass(frozen=True)
class _Sentence:
    rank: int  # of its item, 0 first
    item: EvidenceItem
    span: Span  # in the canonical text
    quote: str
    terms: tuple[str, ...]


class ExtractiveGenerator:
    """`terms` analyses text as the index does; `encode` may be left out."""

    name = "extractive-2"

    def __init__(self, terms: Terms, encode: Encode | None = None) -> None:
        self._terms = terms
        self._encode = encode
        self._asking = frozenset(terms(_ASKING))

    async def claims(
        self, query: str, packet: Packet, max_claims: int, budget: Budget
    ) -> AsyncGenerator[ProposedClaim, None]:
        """At most `max_claims` distinct sentences, by score, ties by rank and place.

        Only sentences that share a term with the query, or are near it, and score no worse than the average of the
        candidates. A sentence that several items hold is proposed once and cites them all.
        """
        asked = tuple(dict.fromkeys(self._terms(query)))
        wanted = [term for term in asked if term not in self._asking] or asked
        copies = self._copies(packet)
        candidates = [same[0] for same in copies.values()]
        matches = _bm25(wanted, [sentence.terms for sentence in candidates])
        lexical = [m / (1 + RANK_DISCOUNT * s.rank) for m, s in zip(matches, candidates, strict=True)]
        order = sorted(range(len(candidates)), key=lambda at: (-lexical[at], at))[:SHORTLIST]
        shortlist = [candidates[at] for at in order]
        words = [lexical[at] for at in order]
        cosines = await self._cosines(query, shortlist, budget)
        for at in _best(words, cosines)[:max_claims]:
            yield _proposal(copies[collapsed(shortlist[at].quote).casefold()])

    def _copies(self, packet: Packet) -> dict[str, list[_Sentence]]:
        """The packet's sentences, equal ones together, in order of rank and place."""
        copies: dict[str, list[_Sentence]] = {}
        for rank, item in enumerate(packet.items):
            for passage in item.passages:
                if passage.role is not PassageRole.BODY:
                    continue  # a header says nothing without its table
                for local in sentences(passage.text):
                    quote = local.cut(passage.text)
                    if len(quote) > LONGEST or is_heading(quote) or _ASSERTS_NOTHING.search(quote):
                        continue
                    if is_turned(item, passage, local):
                        continue
                    span = Span(passage.span.start + local.start, passage.span.start + local.end)
                    terms = tuple(self._terms(quote))
                    if terms:
                        copies.setdefault(collapsed(quote).casefold(), []).append(
                            _Sentence(rank, item, span, quote, terms)
                        )
        return copies

    async def _cosines(self, query: str, shortlist: Sequence[_Sentence], budget: Budget) -> list[float] | None:
        if self._encode is None or not shortlist:
            return None
        vectors = await self._encode(query, [sentence.quote for sentence in shortlist], budget)
        if vectors is None:
            return None
        asked, said = vectors
        return [float(cosine) for cosine in said @ asked]


def _bm25(wanted: Sequence[str], documents: Sequence[Sequence[str]]) -> list[float]:
    """BM25 of each document, with inverse document frequency over these documents (Lucene's, never negative)."""
    counts = [Counter(document) for document in documents]
    average = sum(map(len, documents)) / max(1, len(documents))
    idf = {}
    for term in wanted:
        found = sum(term in count for count in counts)
        idf[term] = math.log(1 + (len(documents) - found + 0.5) / (found + 0.5))
    scores = []
    for document, count in zip(documents, counts, strict=True):
        norm = K1 * (1 - B + B * len(document) / average)
        scores.append(math.fsum(idf[t] * count[t] * (K1 + 1) / (count[t] + norm) for t in wanted if count[t]))
    return scores


def _best(lexical: Sequence[float], cosines: Sequence[float] | None) -> list[int]:
    """Places of the relevant sentences, best first."""
    scores = z_scores(lexical)
    if cosines is not None:
        scores = [word + meaning for word, meaning in zip(scores, z_scores(cosines), strict=True)]
    near = cosines if cosines is not None else [0.0] * len(lexical)
    relevant = [at for at in range(len(lexical)) if scores[at] >= 0 and (lexical[at] > 0 or near[at] >= NEAR)]
    return sorted(relevant, key=lambda at: (-scores[at], at))


def _proposal(same: Sequence[_Sentence]) -> ProposedClaim:
    """The sentence in the words of its best-ranked item, citing each item once; spellings in another case are left."""
    first = same[0]
    text = collapsed(first.quote)
    cited: dict[str, ProposedCitation] = {}
    for sentence in same:
        if collapsed(sentence.quote) == text and sentence.item.evidence_id not in cited:
            cited[sentence.item.evidence_id] = ProposedCitation(
                sentence.item.evidence_id, sentence.quote, sentence.span
            )
    return ProposedClaim(text, ClaimKind.QUOTED, tuple(cited.values())[:MAX_CITATIONS])
