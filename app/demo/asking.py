"""One person's view of the gateway, with an answer gathered into a value."""

import base64
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from muniment import AsyncClient
from muniment.v1 import evidence_pb2

from app.cli.place import Minter
from app.demo.cast import PEOPLE, PUBLISHERS, Person
from app.settings import Settings


@dataclass(frozen=True)
class Answered:
    """What one person was told; `abstention` is "" when there are claims."""

    packet: evidence_pb2.EvidencePacket
    claims: tuple[evidence_pb2.Claim, ...]
    abstention: str
    summary: evidence_pb2.AnswerSummary

    @property
    def text(self) -> str:
        """All claims, or the abstention."""
        return "\n".join(claim.text for claim in self.claims) or self.abstention

    @property
    def documents(self) -> set[str]:
        """`source/document` of all evidence."""
        return {f"{item.source_id}/{item.document_id}" for item in self.packet.evidence}

    def cell(self) -> str:
        """For a table: the first claim with its source, or the abstention."""
        if not self.claims:
            return f"— {self.abstention}"
        citation = self.claims[0].citations[0]
        return f"“{self.claims[0].text}”\n[{citation.source_id}/{citation.document_id}]"


def never_was(evidence_id: str) -> str:
    """An id of the same shape that names a revision that was never made."""
    prefix, body = evidence_id[:3], evidence_id[3:]
    raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    return prefix + base64.urlsafe_b64encode(uuid4().bytes + raw[16:]).rstrip(b"=").decode()


class Cast:
    """A client for each person, an async context manager. Tokens are real ones of the development issuer."""

    def __init__(self, settings: Settings, address: str) -> None:
        self._settings = settings
        self._address = address
        self._clients: Mapping[str, AsyncClient] = {}

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self._clients = {
            person.name: await self._stack.enter_async_context(self._client(person))
            for person in (*PEOPLE, *PUBLISHERS.values())
        }
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def __getitem__(self, name: str) -> AsyncClient:
        return self._clients[name]

    def _client(self, person: Person) -> AsyncClient:
        user = self._settings.development.users[person.name]
        return AsyncClient(self._address, Minter(self._settings.data_dir, person.name, user, 3_600))

    async def ask(self, name: str, question: str, **narrowing: Any) -> Answered:
        """The best claim, or the abstention."""
        packet, summary = evidence_pb2.EvidencePacket(), evidence_pb2.AnswerSummary()
        claims, abstention = [], ""
        async for event in self[name].answer(question, max_claims=1, **narrowing):
            match event.WhichOneof("event"):
                case "packet":
                    packet = event.packet
                case "claim":
                    claims.append(event.claim)
                case "abstention":
                    abstention = event.abstention.message
                case "summary":
                    summary = event.summary
        return Answered(packet, tuple(claims), abstention, summary)
