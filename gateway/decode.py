"""From messages to values of the rooms; InvalidValue names the field."""

from google.protobuf.timestamp_pb2 import Timestamp
from muniment.v1 import common_pb2, evidence_pb2

from core.access import Access
from core.errors import InvalidValue
from core.ids import TenantId
from corpus.pinning import Consistency
from gateway.opaque import OpaqueTokens
from retrieval.plan import Ask, Role, Turn

MAX_SECONDS = 253_402_300_799  # 9999-12-31T23:59:59Z, protobuf's own bound

_ROLES = {evidence_pb2.Turn.ROLE_USER: Role.USER, evidence_pb2.Turn.ROLE_ASSISTANT: Role.ASSISTANT}


def access_of(message: common_pb2.Access, field: str) -> Access:
    """The normalised access."""
    return Access.of(
        owner=message.owner or None,
        allowed_groups=message.allowed_groups,
        denied_groups=message.denied_groups,
        classification=message.classification or None,
        level=message.level if message.HasField("level") else None,
        labels=message.labels,
        public=message.public,
        field=field,
    )


def seconds_of(message: Timestamp, field: str) -> int:
    """Whole seconds since 1970; a part of a second is cut off."""
    if not 0 <= message.seconds <= MAX_SECONDS:
        raise InvalidValue(field, "must lie between 1970 and 9999")
    return int(message.seconds)


def micros_of(message: Timestamp, field: str) -> int:
    """Microseconds since 1970."""
    return seconds_of(message, field) * 1_000_000 + message.nanos // 1000


def interval_of(message: common_pb2.Interval, field: str) -> tuple[int | None, int | None]:
    """Open ends are None; InvalidValue when nothing lies between the ends."""
    start = seconds_of(getattr(message, "from"), f"{field}.from") if message.HasField("from") else None
    end = seconds_of(message.to, f"{field}.to") if message.HasField("to") else None
    if start is not None and end is not None and start >= end:
        raise InvalidValue(field, "must begin before it ends")
    return start, end


def ask_of(message: evidence_pb2.SearchRequest) -> Ask:
    """The search as the caller put it; `plan` checks it."""
    for at, turn in enumerate(message.conversation):
        if turn.role not in _ROLES:
            raise InvalidValue(f"conversation[{at}].role", "must be user or assistant")
    return Ask(
        query=message.query,
        conversation=tuple(Turn(_ROLES[turn.role], turn.text) for turn in message.conversation),
        source_ids=tuple(message.scope.source_ids),
        document_ids=tuple(message.scope.document_ids),
        languages=tuple(message.scope.languages),
        max_evidence=message.max_evidence,
        max_tokens=message.max_tokens,
        profile=message.profile,
    )


def consistency_of(message: evidence_pb2.Consistency, tenant_id: TenantId, tokens: OpaqueTokens) -> Consistency:
    """Which snapshot is asked for."""
    match message.WhichOneof("requirement"):
        case "at_least_snapshot":
            return Consistency(at_least=tokens.seq(tenant_id, message.at_least_snapshot))
        case "exact_snapshot":
            return Consistency(exact=tokens.seq(tenant_id, message.exact_snapshot))
        case "known_at":
            return Consistency(known_at_us=micros_of(message.known_at, "consistency.known_at"))
        case "max_staleness":
            seconds = message.max_staleness.seconds + message.max_staleness.nanos / 1e9
            if seconds < 0:
                raise InvalidValue("consistency.max_staleness", "must not be negative")
            return Consistency(max_staleness_s=seconds)
        case _:
            return Consistency()
