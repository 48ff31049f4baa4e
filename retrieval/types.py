"""The values that flow through one search: candidates, ranked fragments, passages, evidence, packet."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from core.document import Span
from core.ids import FragmentId
from core.stages import Degradation
from corpus.record import FragmentRecord


class Channel(StrEnum):
    """How a fragment was found."""

    LEXICAL = "lexical"
    DENSE = "dense"


class PassageRole(StrEnum):
    """What a passage is to its item."""

    BODY = "body"
    TABLE_HEADER = "table_header"
    LIST_INTRO = "list_intro"


class EvidenceKind(StrEnum):
    """What the body of an item is."""

    TEXT = "text"
    TABLE = "table"
    LIST = "list"
    CODE = "code"


class Verdict(StrEnum):
    """Whether a packet is likely to hold an answer."""

    EMPTY = "empty"
    WEAK = "weak"
    SUFFICIENT = "sufficient"


@dataclass(frozen=True, slots=True)
class Hit:
    """A fragment's place in one channel's result: `rank` from 1, `score` in the channel's unit, higher is better."""

    rank: int
    score: float

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError("ranks count from 1")
        if not math.isfinite(self.score):
            raise ValueError("a score must be finite")


@dataclass(frozen=True)
class Candidate:
    """A fragment that at least one channel proposed."""

    fragment_id: FragmentId
    channels: Mapping[Channel, Hit]

    def __post_init__(self) -> None:
        if not self.fragment_id or not self.channels:
            raise ValueError("a candidate has an id and at least one channel")
        object.__setattr__(self, "channels", MappingProxyType(dict(self.channels)))


@dataclass(frozen=True)
class Fused:
    """A candidate with its fused score, comparable within one fusion only."""

    candidate: Candidate
    score: float


@dataclass(frozen=True)
class Ranked:
    """A fragment that passed the gate's first look, with its fused score and the channels that proposed it."""

    record: FragmentRecord
    score: float
    channels: Mapping[Channel, Hit]

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", MappingProxyType(dict(self.channels)))


@dataclass(frozen=True)
class PassageSpan:
    """A passage without its text. `pages` are the first and the last, from 1; None where there are none."""

    span: Span
    role: PassageRole
    pages: tuple[int, int] | None = None


@dataclass(frozen=True)
class Passage:
    """Verbatim: `text` is `canonical_text[span.start:span.end]` of the item's revision."""

    span: Span
    role: PassageRole
    text: str
    pages: tuple[int, int] | None = None


@dataclass(frozen=True)
class EvidenceItem:
    """One item of a packet.

    `record` is the best-ranked fragment that it stands for and names the revision; `rank` and the ranks in `channels`
    count from 1 over what is in the packet; `tokens` is the sum over its passages by the ledger's tokenizer.
    """

    evidence_id: str
    record: FragmentRecord
    passages: tuple[Passage, ...]
    section_path: tuple[str, ...]
    kind: EvidenceKind
    rank: int
    channels: Mapping[Channel, int]
    tokens: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", MappingProxyType(dict(self.channels)))

    @property
    def text(self) -> str:
        """Its passages' texts in their order, a line each."""
        return "\n".join(passage.text for passage in self.passages)


@dataclass(frozen=True)
class TokenLedger:
    """What the packet's passages cost: `used` is exact, `used <= limit`."""

    tokenizer: str
    limit: int
    used: int


@dataclass(frozen=True)
class Packet:
    """All that generation ever sees of the corpus. Items in order of rank; evidence ids are distinct."""

    items: tuple[EvidenceItem, ...]
    tokens: TokenLedger
    sufficiency: Verdict
    degradations: tuple[Degradation, ...] = ()
    by_id: Mapping[str, EvidenceItem] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id = {item.evidence_id: item for item in self.items}
        if len(by_id) != len(self.items):
            raise ValueError("two items of a packet have the same evidence id")
        if (self.sufficiency is Verdict.EMPTY) != (not self.items):
            raise ValueError("a packet is EMPTY when, and only when, it has no items")
        object.__setattr__(self, "by_id", MappingProxyType(by_id))
