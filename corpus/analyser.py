"""Text to search terms: one function at index and at query time, so that both always agree.

`analyse` gives stemmed words and the parts of identifiers; `identifiers` gives whole identifiers, unstemmed, so that
`CVE-2024-1234` finds itself before `CVE-2024-12345`, which shares most of its parts. Spans never come from here:
normalisation changes lengths.
"""

import re
import threading
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache

import Stemmer

ANALYSER_VERSION = "words-1"  # step it when an output changes: the golden cases of the tests say when

# Lucene's English stop words (EnglishAnalyzer.ENGLISH_STOP_WORDS_SET).
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such "
        "that the their then there these they this to was will with",
    )
)

# Soft hyphen, zero-width and bidirectional marks: nobody sees them, so they part no word.
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_PART = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['’][sS](?![^\W_])")
_SYMBOL_NAME = re.compile(r"(?<!\w)[^\W\d_](?:\+\+|#(?!\w))")  # C++ and C# are no C: identifiers only
# Runs of letters, digits and underscores held together by single marks, as in paths, versions, names in code.
_TOKEN = re.compile(r"(?:(?<![\w.])\.)?\w+(?:(?:::|->|://|[-.:/\\@])\w+)*(?:\+\+|#(?!\w))?")
_SEGMENT_MARKS = re.compile(r"(?:::|->|[:/\\@])+")
_CAMEL = re.compile(r"[a-z]{2}[A-Z]|[a-z\d][A-Z][a-z]|[A-Z]{2}[a-z]{2}")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W_A-Za-z\d]+")
_COUNTED = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)  # 5th, 1990s
_SHORT = 6  # characters: `aged`, `dying` and the like can lose their second letter to a suffix
_LONGEST_TERM = 200  # characters; what is longer is data, not a word

_stemmer = Stemmer.Stemmer("english")
_stemmer_lock = threading.Lock()  # the stemmer keeps the word it works on in itself


class Analyser:
    """Pure, and safe to share between threads; terms are joined by single spaces, ready for a `whitespace` field."""

    version = ANALYSER_VERSION

    def analyse(self, text: str, language: str = "en") -> str:
        """Stemmed words without stop words, in order; other languages than English are not stemmed yet.

        Empty when only stop words, marks or white space are left.
        """
        if language.partition("-")[0].lower() == "en":
            words = (word for word in _words(text) if word not in STOP_WORDS)
            return " ".join(map(_stem, words))
        return " ".join(_words(text))

    def identifiers(self, text: str) -> str:
        """The identifiers in `text` and in their segments, lower-case, each once, in order of first appearance."""
        found: dict[str, None] = {}
        for match in _TOKEN.finditer(_normalised(text)):
            token = match.group()
            for candidate in (token, *_segments(token)):
                if len(candidate) <= _LONGEST_TERM and _is_identifier(candidate):
                    found[candidate.lower()] = None
        return " ".join(found)

    def found(self, text: str, wanted: Collection[str]) -> set[str]:
        """Those of `wanted`, terms of English, that `analyse` or `identifiers` finds in `text`, with less work.

        A stem keeps its word's first letter, and a long word's first two: other words need no stemming. An identifier
        that is not there letter by letter, or as a word when it is one, needs no looking for.
        """
        starts = {term[:1] for term in wanted} | {term[:2] for term in wanted}
        words = set(_words(text))
        near = {word for word in words if word[: 1 if len(word) <= _SHORT else 2] in starts}
        found = {stem for stem in map(_stem, near - STOP_WORDS) if stem in wanted}
        shown = text.lower()
        rest = {term for term in wanted if term not in found and (term in words if term.isalpha() else term in shown)}
        if rest or not text.isascii():  # lower case depends on what stands around in some scripts
            found |= {name for name in self.identifiers(text).split() if name in wanted}
        return found


def _normalised(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


def _words(text: str) -> Iterator[str]:
    """Lower-case runs of letters and digits; a camel-case run is followed by its humps: either spelling finds it."""
    plain = _SYMBOL_NAME.sub(" ", _POSSESSIVE.sub(" ", _normalised(text)))
    for part in _PART.findall(plain):
        if len(part) > _LONGEST_TERM:
            continue
        if part.islower():
            yield part
            continue
        yield part.lower()
        if _CAMEL.search(part):
            yield from map(str.lower, _HUMP.findall(part))


def _segments(token: str) -> list[str]:
    """`srv/app/getUserById.py` is also found as `getUserById.py` and as `getUserById`.

    Hyphens and underscores do not part an identifier: what lies between them is found as words.
    """
    coarse = _SEGMENT_MARKS.split(token)
    fine = [piece for segment in coarse if "." in segment for piece in segment.split(".") if piece]
    return [segment for segment in (*coarse, *fine) if segment != token]


def _is_identifier(token: str) -> bool:
    """Whether people mean exactly these characters, where of an ordinary word they mean its sense."""
    if token.isalpha():
        return not token.islower() and _CAMEL.search(token) is not None
    if token.isdigit() or not any(map(str.isalnum, token)):
        return False
    if token.endswith(("+", "#")) or "_" in token:
        return True
    if any(map(str.isdigit, token)):
        return _COUNTED.fullmatch(token) is None
    if any(mark in token for mark in ("\\", "::", "->", "@")) or token.count("/") > 1:
        return True
    if "." in token:  # os.path, example.com, .gitignore; not e.g. or U.S.
        return all(len(part) > 1 for part in _PART.findall(token))
    return ("-" in token and token.isupper()) or any(map(_CAMEL.search, _PART.findall(token)))


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    with _stemmer_lock:
        stemmed: str = _stemmer.stemWord(word)
    return stemmed


IDENTIFIER_MARK = "="  # parts `=cve-2024-1234`, the whole identifier, from words and parts in the one lexical field
# Measured: near misses stay behind, and SciFact's nDCG@10 stays within 0.003 of no weight.
WEIGHT_PER_SHARED_TERM = 1.5
_LONGEST_HUMP = 30


def lexical_terms(analysed: str, identifiers: str) -> str:
    """What a fragment is found by: words and, marked, its identifiers in one field.

    One field, because the store scores each field of a query by the average length over *all* fields asked, and by
    an inverse document frequency averaged over them: a second, short field bends the scores of the first.
    """
    return " ".join([*analysed.split(), *(IDENTIFIER_MARK + name for name in identifiers.split())])


def lexical_query(analysed: str, identifiers: str) -> str:
    """The query to `lexical_terms`: identifiers repeated, which is how the store weighs a term of a query.

    A segment of another identifier in the query is left to the words: it would favour near misses.
    """
    words, names = analysed.split(), identifiers.split()
    segments = {segment for name in names for segment in _segments(name)}
    known = frozenset(words)
    weighted = [IDENTIFIER_MARK + name for name in names if name not in segments for _ in range(_weight(name, known))]
    return " ".join([*words, *weighted])


def _weight(name: str, words: frozenset[str]) -> int:
    """Grows with the terms that a near miss may share: parts, and humps, which stand among the words beside it."""
    parts = _PART.findall(name)
    shared = len(parts) + sum(len((_inner(part) & words) - {part, _stem(part)}) for part in parts)
    return round(WEIGHT_PER_SHARED_TERM * shared) if shared > 1 else 1  # of a single part nothing is shared


def _inner(part: str) -> set[str]:
    """Every run of 2 to 30 characters within: the work grows with the question's length, not with its square."""
    return {part[i:j] for i in range(len(part)) for j in range(i + 2, min(i + _LONGEST_HUMP, len(part)) + 1)}
