"""The values of an answer, and the Protocol of those who propose its claims."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from core.budget import Budget
from core.document import Span
from core.ids import DocumentId, FragmentId, RevisionId, SourceId
from core.stages import StageReport
from retrieval.types import Packet


class ClaimKind(StrEnum):
    """How a claim relates to its source."""

    QUOTED = "quoted"  # the source's own words


class ClaimVerdict(StrEnum):
    """Only what is supported is ever made into a claim."""

    SUPPORTED = "supported"


class AbstentionReason(StrEnum):
    """Why there is no answer."""

    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    BUDGET_EXHAUSTED = "budget_exhausted"


@dataclass(frozen=True)
class ProposedCitation:
    """What a provider says it quotes: nothing in it is believed. `span` is in the revision's canonical text."""

    evidence_id: str
    quote: str
    span: Span


@dataclass(frozen=True)
class ProposedClaim:
    """A provider's proposal; `kind` may be text that we don't know."""

    text: str
    kind: str
    citations: tuple[ProposedCitation, ...]


@dataclass(frozen=True)
class Citation:
    """A verified quotation; every id is the packet's, none the provider's."""

    evidence_id: str
    source_id: SourceId
    document_id: DocumentId
    revision_id: RevisionId
    fragment_id: FragmentId
    quote: str
    span: Span
    canonical_uri: str


@dataclass(frozen=True)
class Claim:
    """One verified statement. `claim_id` is distinct within its answer."""

    claim_id: str
    text: str
    kind: ClaimKind
    citations: tuple[Citation, ...]
    verdict: ClaimVerdict = ClaimVerdict.SUPPORTED


@dataclass(frozen=True)
class Abstention:
    """A typed refusal to answer; after claims it says that the answer was cut short."""

    reason: AbstentionReason
    message: str


@dataclass(frozen=True)
class Summary:
    """The last event: claims released and dropped, and how long it took."""

    claims: int
    dropped: int
    abstained: bool
    provider: str
    stages: tuple[StageReport, ...]


AnswerEvent: TypeAlias = Claim | Abstention | Summary


class Generator(Protocol):
    """Proposes claims from a packet, which is all it may know of the corpus."""

    @property
    def name(self) -> str:
        """As the summary and caches state it, with its version."""
        ...

    def claims(
        self, query: str, packet: Packet, max_claims: int, budget: Budget
    ) -> AsyncGenerator[ProposedClaim, None]:
        """At most about `max_claims` proposals, best first; GenerationError when it can't. Closed when enough came."""
        ...
