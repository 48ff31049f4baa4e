"""A request to a plan: what is asked of which channel. Pure rules, no model; nothing here can widen what policy gives.

Refused before anything is embedded (InvalidValue): a query without a letter, digit or symbol, over the length limit,
or with characters that are no text. A query of stop words only (`to be or not to be`) is no error: it has no lexical
terms, so the dense channel alone is asked and the plan says so.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from core.errors import InvalidValue
from core.ids import DocumentId, SourceId, clean_text
from corpus.analyser import Analyser
from corpus.store import Scope
from retrieval.tokens import DEFAULT_TOKENIZER
from retrieval.types import Channel

MAX_QUERY = 8_192  # code points
MAX_TURNS = 100
MAX_SCOPE = 1_000  # ids of one kind
DEFAULT_EVIDENCE, MAX_EVIDENCE = 10, 100
DEFAULT_TOKENS, MAX_TOKENS = 4_000, 100_000
FOLLOW_UP_TURNS = 2  # earlier user turns that a follow-up question borrows words from
FOLLOW_UP_TERMS = 3  # a question with fewer distinct terms than this leans on what was said before

# Soft hyphen, zero-width space, word joiner, byte order mark: invisible and without meaning. Zero-width joiners stay:
# they change words of some scripts.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_REFERS_BACK = re.compile(r"\b(?:it|its|they|them|their|this|those|these|he|she|him|her|his)\b", re.IGNORECASE)
_MEANINGFUL = ("L", "N", "So", "Sc", "Sm")  # Unicode categories: letters, digits, pictures, currency, mathematics

_Id = TypeVar("_Id")


class Role(StrEnum):
    """Who said a turn."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class Turn:
    """One earlier turn of the conversation."""

    role: Role
    text: str


@dataclass(frozen=True)
class Profile:
    """How to search: channels with their weights in fusion, hits per channel, the tokenizer that counts."""

    name: str
    weights: Mapping[Channel, float] = field(
        default_factory=lambda: MappingProxyType({Channel.LEXICAL: 1.0, Channel.DENSE: 1.0})
    )
    depth: int = 100
    tokenizer: str = DEFAULT_TOKENIZER


PROFILES: Mapping[str, Profile] = MappingProxyType({"default": Profile("default")})


@dataclass(frozen=True)
class Ask:
    """A search as the caller put it; 0 and empty mean the default."""

    query: str
    conversation: tuple[Turn, ...] = ()
    source_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    max_evidence: int = 0
    max_tokens: int = 0
    profile: str = ""


@dataclass(frozen=True)
class QueryPlan:
    """What to do.

    `query` goes to the encoder and the generator. `analysed` and `identifiers` go to the lexical channel and may hold
    words of earlier user turns. `terms` are the query's own distinct terms, for judging sufficiency. `depth` is the
    number of hits that each channel is asked for, `k` the number of items wanted.
    """

    query: str
    analysed: str
    identifiers: str
    terms: tuple[str, ...]
    channels: tuple[Channel, ...]
    stop_words_only: bool
    scope: Scope
    k: int
    max_tokens: int
    depth: int
    profile: Profile


def plan(ask: Ask, analyser: Analyser, profiles: Mapping[str, Profile] = PROFILES) -> QueryPlan:
    """The plan for `ask`; InvalidValue names the field that is wrong."""
    profile = profiles.get(ask.profile or "default")
    if profile is None:
        raise InvalidValue("profile", "is not known")
    query = clean_query(ask.query)
    conversation = _clean_conversation(ask.conversation)
    terms = terms_of(query, analyser)
    lexical = "\n".join([query, *_borrowed(query, terms, conversation)])[:MAX_QUERY]
    analysed, identifiers = analyser.analyse(lexical), analyser.identifiers(lexical)
    searchable = bool(analysed or identifiers)
    k = _bounded("max_evidence", ask.max_evidence, DEFAULT_EVIDENCE, MAX_EVIDENCE)
    return QueryPlan(
        query=query,
        analysed=analysed,
        identifiers=identifiers,
        terms=terms,
        channels=tuple(c for c in Channel if c in profile.weights and (searchable or c is not Channel.LEXICAL)),
        stop_words_only=not searchable,
        scope=clean_scope(ask.source_ids, ask.document_ids, ask.languages),
        k=k,
        max_tokens=_bounded("max_tokens", ask.max_tokens, DEFAULT_TOKENS, MAX_TOKENS),
        depth=max(profile.depth, 2 * k),
        profile=profile,
    )


def clean_query(raw: str, field_name: str = "query") -> str:
    """NFC, invisible characters dropped, white space collapsed; InvalidValue when nothing can be searched for."""
    if len(raw) > MAX_QUERY:  # before anything that takes time by length
        raise InvalidValue(field_name, f"must not be longer than {MAX_QUERY} characters")
    if "\x00" in raw or any(0xD800 <= ord(c) <= 0xDFFF for c in raw):
        raise InvalidValue(field_name, "must not hold NUL or lone surrogates")
    text = " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFC", raw)).split())
    if len(text) > MAX_QUERY:  # NFC makes some characters into several
        raise InvalidValue(field_name, f"must not be longer than {MAX_QUERY} characters")
    if not any(unicodedata.category(c).startswith(_MEANINGFUL) for c in text):
        raise InvalidValue(field_name, "must hold a letter, a digit or a symbol")
    return text


def terms_of(text: str, analyser: Analyser) -> tuple[str, ...]:
    """The distinct terms by which a channel or a claim can be matched, in order of first appearance."""
    return tuple(dict.fromkeys([*analyser.analyse(text).split(), *analyser.identifiers(text).split()]))


def clean_scope(source_ids: Iterable[str], document_ids: Iterable[str], languages: Iterable[str]) -> Scope:
    """What was named narrows, what was left empty does not; InvalidValue for an id that could never exist.

    Whether an id exists is not asked: an unknown one simply matches nothing.
    """
    return Scope(
        sources=_narrowed("scope.source_ids", source_ids, SourceId),
        documents=_narrowed("scope.document_ids", document_ids, DocumentId),
        languages=_narrowed("scope.languages", languages, str),
    )


def _narrowed(field_name: str, values: Iterable[str], make: Callable[[str], _Id]) -> frozenset[_Id] | None:
    given = list(values)
    if len(given) > MAX_SCOPE:
        raise InvalidValue(field_name, f"must not hold more than {MAX_SCOPE} values")
    return frozenset(make(clean_text(field_name, value)) for value in given) if given else None


def _clean_conversation(turns: Sequence[Turn]) -> list[Turn]:
    if len(turns) > MAX_TURNS:
        raise InvalidValue("conversation", f"must not hold more than {MAX_TURNS} turns")
    for at, turn in enumerate(turns):
        if len(turn.text) > MAX_QUERY:
            raise InvalidValue(f"conversation[{at}].text", f"must not be longer than {MAX_QUERY} characters")
    return list(turns)


def _borrowed(query: str, terms: Sequence[str], conversation: Sequence[Turn]) -> list[str]:
    """The last user turns, when the query leans on them. Never the assistant's: what it said may be retrieved text."""
    if len(terms) >= FOLLOW_UP_TERMS and not _REFERS_BACK.search(query):
        return []
    asked = [turn.text for turn in conversation if turn.role is Role.USER]
    return asked[-FOLLOW_UP_TURNS:]


def _bounded(field_name: str, value: int, default: int, most: int) -> int:
    if not 0 <= value <= most:
        raise InvalidValue(field_name, f"must lie between 0 and {most}")
    return value or default
