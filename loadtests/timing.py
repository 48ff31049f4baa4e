"""Whether time tells a hidden thing from one that is not there: `isolation.timing_auc` (I8).

An outsider, who may read and write but has no group, asks for documents, revisions, citations and sources that are
there but not for them, and for ones that are not there, in a random order. Per kind of question the figure is the
chance that one can be told from the other by a single answer's time, as area under the curve, either way round.
"""

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from muniment import Access, AsyncClient, MunimentError

from core.document import Span
from core.ids import RevisionId, new_id
from evaluation.datasets import Text, beir
from evaluation.figures import Figure, Target
from evaluation.ingestion import PUBLIC, ensure_source, put_all
from evaluation.metrics import auc, median
from evaluation.progress import bar
from evaluation.system import System
from retrieval import evidence_ids
from retrieval.types import PassageRole

PREFIX = "isolation."
TENANT = "timing"
TENANTS = (TENANT,)
PAIRS = 1_000  # of each kind
DOCUMENTS = 150  # hidden ones; as many are public
OPEN, CLOSED, ABSENT = "open", "shut", "none"  # sources; names of one length
GROUP = "board"
HIDDEN = Access(allowed_groups=[GROUP])
QUESTION = "Which proteins regulate the immune response?"

TARGETS = (
    Target("isolation.timing_auc", 0.55, at_least=False),
    Target("isolation.outcomes_differ", 0, at_least=False),
)

Ask = Callable[[AsyncClient, str], Awaitable[object]]


@dataclass(frozen=True)
class Kind:
    """One question with what it may name: `hidden[i]` and `absent[i]` are asked for equally often."""

    name: str
    ask: Ask
    hidden: Sequence[str]
    absent: Sequence[str]


@dataclass
class Times:
    """Milliseconds and outcomes of one kind."""

    hidden: list[float] = field(default_factory=list)
    absent: list[float] = field(default_factory=list)
    outcomes: set[str] = field(default_factory=set)

    @property
    def told_apart(self) -> float:
        """0.5: not at all; 1.0: always."""
        area = auc(self.hidden, self.absent)
        return max(area, 1 - area)


async def measure(system: System) -> list[Figure]:
    """Put the documents, then ask all kinds in turns: what else the machine does meets all alike."""
    texts = beir("scifact", "test").corpus[: 2 * DOCUMENTS]
    insider = system.token("insider", TENANT, groups=[GROUP], roles=("reader", "writer", "publisher"))
    outsider = system.token("outsider", TENANT, roles=("reader", "writer"))
    async with AsyncClient(system.address, insider) as client:
        await _put(client, texts)
        citations = await _citations(client, [text.title for text in texts[:DOCUMENTS]])
    kinds = _kinds([text.document_id for text in texts[:DOCUMENTS]], citations)
    async with AsyncClient(system.address, outsider) as client:
        return _figures(await _asked(client, kinds))


async def _put(client: AsyncClient, texts: Sequence[Text]) -> None:
    """Hidden documents among public ones in one source, and a whole source that is hidden."""
    await ensure_source(client, OPEN)
    await ensure_source(client, CLOSED, template=HIDDEN)
    await put_all(client, OPEN, texts[:DOCUMENTS], HIDDEN)
    await put_all(client, OPEN, texts[DOCUMENTS:], PUBLIC)
    await put_all(client, CLOSED, texts[:DOCUMENTS])


async def _citations(client: AsyncClient, titles: Sequence[str]) -> list[str]:
    """Evidence ids of hidden passages, as an insider gets them."""
    found: dict[str, None] = {}
    for title in titles:
        packet = await client.search(title, source_ids=[CLOSED], basic=True, max_evidence=3)
        found.update(dict.fromkeys(item.evidence_id for item in packet.evidence))
    return list(found)[: len(titles)]


def _kinds(hidden: Sequence[str], citations: Sequence[str]) -> list[Kind]:
    absent = [str(90_000_000 + at) for at in range(len(hidden))]
    return [
        Kind("GetDocument", lambda client, it: client.get_document(OPEN, it), hidden, absent),
        Kind("ListRevisions", _revisions, hidden, absent),
        Kind("ResolveCitation", lambda client, it: client.resolve_citation(it), citations, _elsewhere(citations)),
        Kind("PutDocument", _put_into, [CLOSED], [ABSENT]),
        Kind("Search source", lambda c, it: c.search(QUESTION, source_ids=[it]), [CLOSED], [ABSENT]),
        Kind("Search document", lambda c, it: c.search(QUESTION, document_ids=[it]), hidden, absent),
    ]


def _elsewhere(citations: Sequence[str]) -> list[str]:
    """The same spans of revisions that never were."""
    made = []
    for citation in citations:
        passages = [_Passage(*passage) for passage in evidence_ids.decode(citation).passages]
        made.append(evidence_ids.encode(RevisionId(new_id()), passages))
    return made


@dataclass(frozen=True)
class _Passage:
    span: Span
    role: PassageRole


async def _revisions(client: AsyncClient, document_id: str) -> object:
    return [revision async for revision in client.list_revisions(OPEN, document_id)]


async def _put_into(client: AsyncClient, source_id: str) -> object:
    return await client.put_document(source_id, "note", b"Some words.", media_type="text/plain", wait=False)


async def _asked(client: AsyncClient, kinds: Sequence[Kind]) -> dict[str, Times]:
    chance = random.Random(0)
    times = {kind.name: Times() for kind in kinds}
    for kind in kinds:  # warm up
        for it in (*kind.hidden[:20], *kind.absent[:20]):
            await _timed(client, kind, it)
    with bar("Timing hidden and absent", PAIRS) as tell:
        for pair in range(PAIRS):
            turns = [(kind, is_hidden) for kind in kinds for is_hidden in (True, False)]
            chance.shuffle(turns)
            for kind, is_hidden in turns:
                named = kind.hidden if is_hidden else kind.absent
                elapsed_ms, outcome = await _timed(client, kind, named[pair % len(named)])
                (times[kind.name].hidden if is_hidden else times[kind.name].absent).append(elapsed_ms)
                times[kind.name].outcomes.add(outcome)
            tell(pair + 1)
    return times


async def _timed(client: AsyncClient, kind: Kind, it: str) -> tuple[float, str]:
    began = time.perf_counter()
    try:
        answer = await kind.ask(client, it)
    except MunimentError as exc:
        return (time.perf_counter() - began) * 1000, f"{type(exc).__name__} {exc.reason} {exc.message}"
    elapsed_ms = (time.perf_counter() - began) * 1000
    evidence = getattr(answer, "evidence", answer)
    return elapsed_ms, f"{len(evidence)} found"  # type: ignore[arg-type]


def _figures(times: dict[str, Times]) -> list[Figure]:
    told = ", ".join(
        f"{name} {each.told_apart:.3f} ({median(each.hidden):.2f} and {median(each.absent):.2f} ms)"
        for name, each in times.items()
    )
    differ = [name for name, each in times.items() if len(each.outcomes) != 1]
    return [
        Figure(
            "isolation.timing_auc", max(each.told_apart for each in times.values()), "", PAIRS,
            f"the worst kind, {PAIRS} pairs each: {told}",
        ),
        Figure("isolation.outcomes_differ", len(differ), "kinds", len(times), ", ".join(differ)),
    ]  # fmt: skip
