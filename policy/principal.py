"""Who asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from core.ids import TenantId
from core.keys import digest


class Role(StrEnum):
    """What a token may do beside reading what policy lets it see."""

    READER = "reader"
    WRITER = "writer"
    PUBLISHER = "publisher"
    POLICY_AUTHOR = "policy-author"
    AUDITOR = "auditor"
    EVALUATOR = "evaluator"


@dataclass(frozen=True)
class Principal:
    """From a verified token and nothing else (I1). `groups` is complete; `expires_at` is in seconds since 1970."""

    issuer: str
    subject: str
    tenant_id: TenantId
    groups: tuple[str, ...]  # sorted, without duplicates, NFC
    roles: frozenset[Role]
    token_id: str
    expires_at: int
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)  # clearance, region, ...

    @cached_property
    def digest(self) -> str:
        """Over all that policy may read of the principal: two tokens of one user with equal claims share it."""
        attributes = [
            part for name, value in sorted(self.attributes.items()) for part in (name, type(value).__name__, str(value))
        ]
        groups: list[str | int] = [len(self.groups), *self.groups]
        roles: list[str | int] = [len(self.roles), *sorted(self.roles)]
        return digest(self.issuer, self.subject, self.tenant_id, *groups, *roles, *attributes)

    def to_input(self) -> dict[str, object]:
        """`input.principal` for Rego."""
        return {
            "issuer": self.issuer,
            "subject": self.subject,
            "tenant": self.tenant_id,
            "groups": list(self.groups),
            "roles": sorted(self.roles),
            "attributes": dict(self.attributes),
        }
