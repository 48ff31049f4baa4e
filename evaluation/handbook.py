"""A real company's handbook by `muniment ingest`: every file is accounted for, every passage is the file's own text.

The files are Markdown, whose canonical text is the file itself, so the client alone can check what it is given: text
against span, hash against file, and that the passages of a document together hold all of it.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muniment import AsyncClient
from muniment.v1 import evidence_pb2

from evaluation.datasets import folder
from evaluation.figures import Figure, Target
from evaluation.ingestion import ensure_source
from evaluation.patience import patiently
from evaluation.progress import bar, say
from evaluation.system import System, muniment

PREFIX = "handbook."
TENANT = "handbook"
SOURCE = "pages"
ROLES = ("reader", "writer", "publisher")
MARKDOWN = ".md"
MAX_EVIDENCE = 100
MAX_TOKENS = 100_000
CONCURRENT = 4

TARGETS = (
    Target("handbook.unaccounted", 0, at_least=False),
    Target("handbook.refused_unexpectedly", 0, at_least=False),
    Target("handbook.again_stored", 0, at_least=False),
    Target("handbook.again_snapshots", 0, at_least=False),
    Target("handbook.altered_passages", 0, at_least=False),
    Target("handbook.incomplete_documents", 0, at_least=False),
)


@dataclass
class _Checked:
    """What the documents' passages were found to be."""

    passages: int = 0
    whole: int = 0  # documents of which one packet shows all
    citations: int = 0
    altered: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)


async def measure(system: System) -> list[Figure]:
    """Ingest the folder, look at every document, ingest it again."""
    content = folder("handbook-sourcegraph") / "content"
    token = system.token("evaluation", TENANT, roles=ROLES)
    async with AsyncClient(system.address, token) as client:
        await ensure_source(client, SOURCE)
        first = await _ingest(system, token, content)
        stored = [each["document_id"] for each in first["documents"] if each["outcome"] != "refused"]
        checked = await _check(client, content, stored)
        before = await _snapshots(client)
        again = await _ingest(system, token, content)
        after = await _snapshots(client)
    return [*accounts(content, first), *_verbatim(checked, len(stored)), *_second(again, after - before)]


async def _ingest(system: System, token: str, content: Path) -> Mapping[str, Any]:
    say(f"muniment ingest {content.name}")
    arguments = ("ingest", str(content), "--source", SOURCE, "--address", system.address, "--token", token, "--json")
    report: Mapping[str, Any] = json.loads(await asyncio.to_thread(muniment, *arguments, allowed=(0, 1)))
    return report


def accounts(content: Path, report: Mapping[str, Any]) -> list[Figure]:
    """Files in = stored + refused, each refusal with a reason, and only what is not Markdown or is empty is refused."""
    files = {path.relative_to(content).as_posix(): path for path in content.rglob("*") if path.is_file()}
    told = {each["document_id"]: each for each in report["documents"]}
    refused = {name: each["reason"] for name, each in told.items() if each["outcome"] == "refused"}
    unaccounted = files.keys() ^ told.keys() | {name for name, reason in refused.items() if not reason}
    expected = {name for name, path in files.items() if path.suffix != MARKDOWN or not path.read_text().strip()}
    surprises = sorted(refused.keys() ^ expected)
    reasons = "; ".join(sorted(set(refused.values())))
    return [
        Figure("handbook.files", len(files), "files", len(files)),
        Figure("handbook.stored", len(told) - len(refused), "files", len(files)),
        Figure("handbook.refused", len(refused), "files", len(files), reasons),
        Figure("handbook.unaccounted", len(unaccounted), "files", len(files), _some(sorted(unaccounted))),
        Figure("handbook.refused_unexpectedly", len(surprises), "files", len(files), _some(surprises)),
    ]


async def _check(client: AsyncClient, content: Path, stored: list[str]) -> _Checked:
    checked = _Checked()
    waiting = iter(stored)
    done = 0
    with bar("Checking passages", len(stored)) as tell:

        async def worker() -> None:
            nonlocal done
            for document_id in waiting:
                await _check_document(client, content, document_id, checked)
                done += 1
                tell(done)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT):
                group.create_task(worker())
    return checked


async def _check_document(client: AsyncClient, content: Path, document_id: str, checked: _Checked) -> None:
    # Bytes decoded, one leading BOM dropped, line endings kept: what canonical text is.
    text = (content / document_id).read_bytes().decode().removeprefix("\ufeff")
    content_hash = hashlib.sha256(text.encode()).hexdigest()
    about = Path(document_id).stem.replace("_", " ")
    packet = await patiently(
        client.search, about, document_ids=[document_id], max_evidence=MAX_EVIDENCE, max_tokens=MAX_TOKENS
    )
    shown = bytearray(len(text))
    for item in packet.evidence:
        cited = (await patiently(client.resolve_citation, item.evidence_id)).evidence
        checked.citations += 1
        if list(cited.passages) != list(item.passages) and not _equal_texts(cited, item):
            checked.altered.append(document_id)
        for passage in item.passages:
            checked.passages += 1
            start, end = passage.span.start, passage.span.end
            shown[start:end] = b"\x01" * (end - start)
            if passage.text != text[start:end] or item.content_hash != content_hash:
                checked.altered.append(document_id)
    if len(packet.evidence) < MAX_EVIDENCE:  # else there is more than one packet holds
        checked.whole += 1
        told = "\n".join(passage.text for item in packet.evidence for passage in item.passages)
        if any(line not in told for line in not_shown(text, shown)):
            checked.incomplete.append(document_id)


def not_shown(text: str, shown: bytearray) -> list[str]:
    """Lines that were not shown where they stand. They may be told all the same: equal fragments come once."""
    marked = "".join("\n" if seen else character for character, seen in zip(text, shown, strict=True))
    return [line.strip() for line in marked.split("\n") if line.strip()]


def _equal_texts(one: evidence_pb2.Evidence, other: evidence_pb2.Evidence) -> bool:
    return [(p.text, p.span) for p in one.passages] == [(p.text, p.span) for p in other.passages]


def _verbatim(checked: _Checked, documents: int) -> list[Figure]:
    altered = sorted(set(checked.altered))
    note = f"of {documents} documents, each also by ResolveCitation ({checked.citations}); {_some(altered)}"
    return [
        Figure("handbook.altered_passages", len(checked.altered), "", checked.passages, note),
        Figure(
            "handbook.incomplete_documents",
            len(checked.incomplete),
            "",
            checked.whole,
            _some(sorted(checked.incomplete)),
        ),
    ]


def _second(report: Mapping[str, Any], snapshots: int) -> list[Figure]:
    return [
        Figure("handbook.again_stored", report["stored"], "files", report["files"], "the same folder once more"),
        Figure("handbook.again_snapshots", snapshots, "", 1, "the same folder once more"),
    ]


async def _snapshots(client: AsyncClient) -> int:
    return len([snapshot async for snapshot in client.list_snapshots()])


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
