"""One answer: claims as they are proposed, each verified and cleared before it leaves; or an abstention; a summary."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from core.budget import Budget, BudgetExhausted
from core.stages import Stage, StageLog, StageReport, limit_ms
from generation.abstention import abstain, refusal_before
from generation.claims import (
    Abstention,
    AbstentionReason,
    AnswerEvent,
    Claim,
    Generator,
    ProposedCitation,
    ProposedClaim,
    Summary,
)
from generation.verification import collapsed, verify
from retrieval.types import Packet

Clear = Callable[[Claim], Awaitable[bool]]

DEFAULT_CLAIMS, MAX_CLAIMS = 5, 20
FIRST_CLAIM_MS = 2_000  # design §9, generate: first token
PROPOSALS_PER_CLAIM = 4  # a provider whose proposals mostly fail is not read for ever


async def answer(
    query: str,
    packet: Packet,
    provider: Generator,
    max_claims: int,
    budget: Budget,
    stages: StageLog,
    clear: Clear,
) -> AsyncGenerator[AnswerEvent, None]:
    """Claims, or an abstention, or claims and the abstention that cut them short; then always one Summary.

    `clear` is the release gate: asked for each verified claim just before it is yielded. False withholds that claim;
    what it raises (an item lost, the token over) ends the stream without a summary. The provider is not asked at all
    when the packet is not SUFFICIENT (A6). GenerationError when the provider fails.
    """
    run = _Run(packet, budget, 0)
    refusal = refusal_before(packet)
    if refusal is None:
        try:
            async with aclosing(provider.claims(query, packet, max_claims, budget)) as proposals:
                while run.claims < max_claims and run.proposals < max_claims * PROPOSALS_PER_CLAIM:
                    proposed = await run.next_of(proposals)
                    if proposed is None:
                        break
                    claim = run.verified(proposed)
                    if claim is None:
                        continue
                    if not await clear(claim):
                        run.dropped += 1
                        continue
                    run.claims += 1
                    yield claim
        except BudgetExhausted:
            refusal = abstain(AbstentionReason.BUDGET_EXHAUSTED)
        if refusal is None and run.claims == 0:
            refusal = abstain(AbstentionReason.INSUFFICIENT_EVIDENCE)
        run.report(stages)
    if refusal is not None:
        yield refusal
    yield Summary(run.claims, run.dropped, isinstance(refusal, Abstention), provider.name, tuple(stages.reports))


@dataclass
class _Run:
    """What one answer has used and released so far; seconds on the budget's clock."""

    packet: Packet
    budget: Budget
    claims: int
    dropped: int = 0
    proposals: int = 0
    generate_s: float = 0.0
    verify_s: float = 0.0
    seen: set[tuple[str, tuple[ProposedCitation, ...]]] = field(default_factory=set)

    async def next_of(self, proposals: AsyncGenerator[ProposedClaim, None]) -> ProposedClaim | None:
        """The next proposal, None at the end; BudgetExhausted when stage or request has no time left."""
        left_ms = limit_ms(Stage.GENERATE) - self.generate_s * 1000
        if left_ms <= 0:
            raise BudgetExhausted
        limit_s = self.budget.limit_s(min(left_ms, FIRST_CLAIM_MS) if self.proposals == 0 else left_ms)
        began = self.budget.clock()
        try:
            async with asyncio.timeout(limit_s) as limit:
                proposed = await anext(proposals, None)
        except TimeoutError:
            if limit.expired():
                raise BudgetExhausted from None
            raise
        finally:
            self.generate_s += self.budget.clock() - began
        self.proposals += proposed is not None
        return proposed

    def verified(self, proposed: ProposedClaim) -> Claim | None:
        """The claim, or None when it is unsupported, a repeat, or took longer to verify than a claim may."""
        key = (collapsed(proposed.text), proposed.citations)
        began = self.budget.clock()
        checked = verify(proposed, self.packet, f"c{self.claims + 1}")
        took_s = self.budget.clock() - began
        self.verify_s += took_s
        if key in self.seen or not isinstance(checked, Claim) or took_s * 1000 > limit_ms(Stage.VERIFY):
            self.dropped += 1
            return None
        self.seen.add(key)
        return checked

    def report(self, stages: StageLog) -> None:
        """One report for each of the two stages, over all claims."""
        stages.reports.append(StageReport(Stage.GENERATE, self.generate_s * 1000))
        stages.reports.append(StageReport(Stage.VERIFY, self.verify_s * 1000))
