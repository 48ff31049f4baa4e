"""When there is no answer, said in the same words whether nothing exists or nothing is permitted (I8)."""

from collections.abc import Mapping
from types import MappingProxyType

from generation.claims import Abstention, AbstentionReason
from retrieval.types import Packet, Verdict

MESSAGES: Mapping[AbstentionReason, str] = MappingProxyType(
    {
        AbstentionReason.INSUFFICIENT_EVIDENCE: "The evidence available to you does not answer this question.",
        AbstentionReason.BUDGET_EXHAUSTED: "There was not enough time to answer from the evidence.",
    }
)


def abstain(reason: AbstentionReason) -> Abstention:
    """The abstention with its fixed text: nothing of query or packet is in it."""
    return Abstention(reason, MESSAGES[reason])


def refusal_before(packet: Packet) -> Abstention | None:
    """The abstention for which no provider needs to be asked; None when the evidence may suffice.

    WEAK abstains as EMPTY does: which of the two it was would tell whether something like the asked exists.
    """
    if packet.sufficiency is Verdict.SUFFICIENT:
        return None
    return abstain(AbstentionReason.INSUFFICIENT_EVIDENCE)
