"""Evidence, claims and receipts for people."""

from collections.abc import Iterable

from muniment.v1 import evidence_pb2
from rich.text import Text

from app.cli.messages import short
from app.cli.show import harmless, indented, print_pairs, print_table, show


def print_packet(packet: evidence_pb2.EvidencePacket) -> None:
    """Each item with its passages, then what the packet rests on."""
    if not packet.evidence:
        show("No evidence: nothing that you may see is about this.")
    for item in packet.evidence:
        _print_item(item)
    _print_footer(packet)


def place_of(item: evidence_pb2.Evidence) -> str:
    """`handbook leave.md › Annual leave`."""
    return " › ".join((f"{item.source_id} {item.document_id}", *item.section_path))


def verdict_of(packet: evidence_pb2.EvidencePacket) -> str:
    """`sufficient`, `weak` or `empty`."""
    return short(evidence_pb2.SufficiencyVerdict, packet.sufficiency.verdict, "SUFFICIENCY_VERDICT_")


def _print_item(item: evidence_pb2.Evidence) -> None:
    found = ", ".join(f"{short(evidence_pb2.Channel, c.channel, 'CHANNEL_')} {c.rank}" for c in item.channels)
    head = Text.assemble((f"{item.rank}. ", "bold"), (harmless(item.title or item.document_id), "bold"))
    show(head, Text(harmless(place_of(item)), style="dim"))
    for passage in item.passages:
        style = "" if passage.role == evidence_pb2.PASSAGE_ROLE_BODY else "italic"
        show(indented(passage.text.strip("\n"), 3, style=style))
    spans = ", ".join(f"[{passage.span.start}, {passage.span.end})" for passage in item.passages)
    show(indented(f"{spans}  {found}  {item.evidence_id}", 3, after=1, style="dim"))


def _print_footer(packet: evidence_pb2.EvidencePacket) -> None:
    receipt, tokens = packet.receipt, packet.tokens
    pairs = [
        ("evidence", f"{verdict_of(packet)}, {tokens.used} of {tokens.limit} tokens ({tokens.tokenizer})"),
        ("snapshot", packet.snapshot),
        ("receipt", f"decision {receipt.decision_id}, policy {receipt.policy_revision}, rights {receipt.fingerprint}"),
        ("request", packet.request_id),
    ]
    pairs += [
        ("degraded", short(evidence_pb2.DegradationKind, kind, "DEGRADATION_KIND_")) for kind in packet.degradations
    ]
    print_pairs(pairs)
    if packet.diagnostics.stages:
        print_stages(packet.diagnostics.stages)


def print_stages(stages: Iterable[evidence_pb2.StageReport]) -> None:
    """Where the time went."""
    rows = [(s.stage, f"{s.elapsed_ms:.1f}", f"{s.budget_ms:.0f}") for s in stages]
    print_table(("stage", "ms", "budget"), rows)


class AnswerPrinter:
    """Prints an answer's events as they come; evidence is numbered in the order of its first citation."""

    def __init__(self) -> None:
        self._evidence: dict[str, evidence_pb2.Evidence] = {}
        self._numbers: dict[str, int] = {}

    def print(self, event: evidence_pb2.AnswerResponse) -> None:
        """One event."""
        kind = event.WhichOneof("event")
        if kind == "packet":
            self._evidence = {item.evidence_id: item for item in event.packet.evidence}
        elif kind == "claim":
            self._print_claim(event.claim)
        elif kind == "abstention":
            show(Text(harmless(event.abstention.message), style="yellow"))
        elif kind == "summary":
            self._print_summary(event.summary)

    def _print_claim(self, claim: evidence_pb2.Claim) -> None:
        marks = []
        for citation in claim.citations:
            number = self._numbers.setdefault(citation.evidence_id, len(self._numbers) + 1)
            marks.append(f"[{number}]")
        show(Text.assemble("• ", harmless(claim.text), (" " + "".join(marks), "cyan")))

    def _print_summary(self, summary: evidence_pb2.AnswerSummary) -> None:
        if summary.abstained:
            return
        show("")
        for evidence_id, number in self._numbers.items():
            item = self._evidence[evidence_id]
            line = f"{item.title or item.document_id}  {place_of(item)}"
            show(Text.assemble((f"[{number}] ", "cyan"), harmless(line)))
            show(indented(evidence_id, 4, style="dim"))
        dropped = f", {summary.dropped} dropped as unsupported" if summary.dropped else ""
        show(Text(f"{summary.claims} claims by {summary.provider}{dropped}", style="dim"))
