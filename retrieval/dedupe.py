"""What says the same twice is shown once.

Dropped is a fragment that
- overlaps a better-ranked kept one of the same revision,
- has exactly the text of a better-ranked kept one of the same document,
- has exactly the text of a better-ranked kept one of another document with the same title in the same source: a copy.

Equal text in documents of different sources or titles is kept: two records that agree are independent evidence, and
which of them somebody may cite, and for how long, can differ. Nearly equal text is always kept: the small difference
may be the answer (two revisions of a limit, two countries' rules).
"""

from collections.abc import Iterable

from core.document import Span
from retrieval.types import Ranked


def deduplicate(ranked: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """The kept ones in the order given, which is from best to worst. Only what is kept suppresses others."""
    kept: list[Ranked] = []
    spans: dict[int, list[Span]] = {}
    texts: set[tuple[object, ...]] = set()
    for item in ranked:
        fragment, revision = item.record.fragment, item.record.revision
        taken = spans.setdefault(revision.revision_key, [])
        keys = _same_text_keys(item)
        if any(fragment.span.overlaps(other) for other in taken) or any(key in texts for key in keys):
            continue
        kept.append(item)
        taken.append(fragment.span)
        texts.update(keys)
    return tuple(kept)


def _same_text_keys(item: Ranked) -> list[tuple[object, ...]]:
    """Two fragments that share a key are the same evidence; the tags keep the two kinds of key apart."""
    fragment, revision = item.record.fragment, item.record.revision
    keys: list[tuple[object, ...]] = [("document", revision.document_key, fragment.text_hash)]
    if revision.title:
        keys.append(("copy", revision.subject.source, revision.title, fragment.text_hash))
    return keys
