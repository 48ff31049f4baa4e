"""Drafts to a packet's items within exact token counts.

Two passes. First the fragments themselves, by rank: as much evidence as fits. Then, by rank again, bodies widen to
their sections with what is left, so that context for one item never displaces another item.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from core.document import Span
from corpus.errors import RecordDamaged
from corpus.record import RevisionRecord
from retrieval import evidence_ids
from retrieval.expand import Draft
from retrieval.tokens import Tokenizer
from retrieval.types import Channel, EvidenceItem, Passage, PassageRole, PassageSpan, TokenLedger

TextOf = Callable[[RevisionRecord], str]

WIDEST_TOKENS = 512  # of an item that is widened: a section beyond it is mostly not about the question


@dataclass(frozen=True)
class Packed:
    """The items by rank, with what they cost."""

    items: tuple[EvidenceItem, ...]
    tokens: TokenLedger


@dataclass(frozen=True)
class _Chosen:
    draft: Draft
    passages: tuple[Passage, ...]
    tokens: int


def pack(
    drafts: Iterable[Draft],
    text_of: TextOf,
    counter: Tokenizer,
    *,
    max_tokens: int,
    max_evidence: int,
    widest_tokens: int = WIDEST_TOKENS,
) -> Packed:
    """At most `max_evidence` items of together at most `max_tokens` tokens, from drafts in order of rank.

    Where the whole of a draft does not fit, its best fragment is taken alone, then without header, else it is skipped
    and the next one tried. `text_of` gives a revision's canonical text and is asked only for what is tried.
    RecordDamaged when a span lies outside that text: nothing of it may be shown.
    """
    chosen: list[_Chosen] = []
    left = max_tokens
    for draft in drafts:
        if len(chosen) == max_evidence or left <= 0:
            break
        item = _first_that_fits(draft, (draft.merged, draft.lead, draft.bare), chosen, text_of, counter, left)
        if item is not None:
            chosen.append(item)
            left -= item.tokens
    for at, item in enumerate(chosen):
        wider = _widen(item, chosen[:at] + chosen[at + 1 :], text_of, counter, min(widest_tokens, left + item.tokens))
        left -= wider.tokens - item.tokens
        chosen[at] = wider
    ledger = TokenLedger(counter.name, max_tokens, sum(item.tokens for item in chosen))
    return Packed(_items(chosen), ledger)


def _first_that_fits(
    draft: Draft,
    forms: Sequence[tuple[PassageSpan, ...]],
    others: Sequence[_Chosen],
    text_of: TextOf,
    counter: Tokenizer,
    limit: int,
) -> _Chosen | None:
    revision = draft.best.record.revision
    for form in dict.fromkeys(forms):
        if _body_is_shown(revision.revision_key, form, others):
            continue
        passages = _cut(form, text_of(revision))
        tokens = _count(passages, counter, limit)
        if tokens is not None:
            return _Chosen(draft, passages, tokens)
    return None


def _widen(item: _Chosen, others: Sequence[_Chosen], text_of: TextOf, counter: Tokenizer, limit: int) -> _Chosen:
    if item.draft.widened is None:
        return item
    return _first_that_fits(item.draft, (item.draft.widened,), others, text_of, counter, limit) or item


def _body_is_shown(revision_key: int, form: Sequence[PassageSpan], others: Sequence[_Chosen]) -> bool:
    """Whether another item shows part of this form's body: no text is paid for or ranked twice."""
    body = _body(form)
    return any(
        other.draft.best.record.revision.revision_key == revision_key and _body(other.passages).overlaps(body)
        for other in others
    )


def _body(passages: Sequence[PassageSpan] | Sequence[Passage]) -> Span:
    return next(passage.span for passage in passages if passage.role is PassageRole.BODY)


def _cut(form: Sequence[PassageSpan], text: str) -> tuple[Passage, ...]:
    for passage in form:
        if passage.span.end > len(text):
            raise RecordDamaged(f"a span ends at {passage.span.end}, the canonical text at {len(text)}")
    return tuple(Passage(p.span, p.role, p.span.cut(text), p.pages) for p in form)


def _count(passages: Sequence[Passage], counter: Tokenizer, limit: int) -> int | None:
    """The exact sum over the passages, None as soon as it passes `limit`."""
    total = 0
    for passage in passages:
        tokens = counter.count_till(passage.text, limit - total)
        if tokens is None:
            return None
        total += tokens
    return total


def _items(chosen: Sequence[_Chosen]) -> tuple[EvidenceItem, ...]:
    ranks = _channel_ranks(chosen)
    items = []
    for at, item in enumerate(chosen):
        record = item.draft.best.record
        items.append(
            EvidenceItem(
                evidence_id=evidence_ids.encode(record.revision.revision_id, item.passages),
                record=record,
                passages=item.passages,
                section_path=record.fragment.section_path,
                kind=item.draft.kind,
                rank=at + 1,
                channels=ranks[at],
                tokens=item.tokens,
            )
        )
    return tuple(items)


def _channel_ranks(chosen: Sequence[_Chosen]) -> list[dict[Channel, int]]:
    """Ranks from 1 over what is returned: raw ranks would count what was not (I8)."""
    ranks: list[dict[Channel, int]] = [{} for _ in chosen]
    for channel in Channel:
        found = [at for at, item in enumerate(chosen) if channel in item.draft.channels]
        found.sort(key=lambda at: (chosen[at].draft.channels[channel].rank, at))
        for rank, at in enumerate(found, start=1):
            ranks[at][channel] = rank
    return ranks


def without(packed: Packed, evidence_ids_lost: frozenset[str]) -> Packed:
    """The rest when the release gate withholds items: ranks close up, so that none is seen to be missing."""
    kept = [item for item in packed.items if item.evidence_id not in evidence_ids_lost]
    order = {
        channel: sorted(item.channels[channel] for item in kept if channel in item.channels) for channel in Channel
    }
    items = tuple(
        replace(
            item,
            rank=rank,
            channels={channel: order[channel].index(old) + 1 for channel, old in item.channels.items()},
        )
        for rank, item in enumerate(kept, start=1)
    )
    return Packed(items, replace(packed.tokens, used=sum(item.tokens for item in items)))
