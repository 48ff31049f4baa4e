"""What a handler gets beside its request, and how its answer becomes bytes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from google.protobuf.message import Message

from core.budget import Budget
from core.stages import StageLog
from gateway.errors import ReplyTooLarge
from policy.principal import Principal

Reply = bytes | Message  # bytes: already serialised, handed over as they are


@dataclass(frozen=True)
class Call:
    """Can't be made without a principal, so a handler can't run without one."""

    principal: Principal
    budget: Budget
    request_id: str
    stages: StageLog


@dataclass(frozen=True)
class StreamCall(Call):
    """The call of an RPC that streams its answer."""

    send: Callable[[bytes], Awaitable[None]]
    max_reply_bytes: int

    def write(self, reply: Reply) -> Awaitable[None]:
        """Await it at once: the bytes are gRPC's before the first suspension; it returns when flow control lets go."""
        return self.send(encoded(reply, self.max_reply_bytes))


def encoded(reply: Reply, limit: int) -> bytes:
    """The bytes of one message; ReplyTooLarge where the client would see a transport error instead (G4)."""
    raw: bytes = reply if isinstance(reply, bytes) else reply.SerializeToString()
    if len(raw) > limit:
        raise ReplyTooLarge(f"{len(raw)} bytes, at most {limit}")
    return raw
