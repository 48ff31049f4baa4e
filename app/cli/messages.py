"""The contract's messages for people and programs."""

from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from muniment.v1 import common_pb2, operation_pb2


def as_dict(message: Message) -> dict[str, Any]:
    """With the contract's own field names; what is empty is there, too, so that programs need not guess."""
    made: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return made


def moment(stamp: Timestamp) -> str:
    """To the second, UTC; "" when it is not set."""
    if not stamp.ByteSize():
        return ""
    return datetime.fromtimestamp(stamp.seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def short(enum: Any, value: int, prefix: str) -> str:
    """`reviewed` for TRUST_TIER_REVIEWED."""
    name: str = enum.Name(value)
    return name.removeprefix(prefix).lower().replace("_", " ")


def trust(value: int) -> str:
    """`reviewed` and so on."""
    return short(common_pb2.TrustTier, value, "TRUST_TIER_")


def access_text(access: common_pb2.Access) -> str:
    """One line, in the words of the options that make it."""
    parts = ["public"] if access.public else []
    parts += [f"group {group}" for group in access.allowed_groups]
    parts += [f"not group {group}" for group in access.denied_groups]
    parts += [f"owner {access.owner}"] if access.owner else []
    parts += [access.classification] if access.classification else []
    parts += [f"level {access.level}"] if access.HasField("level") else []
    parts += list(access.labels)
    return ", ".join(parts)


def operation_text(operation: operation_pb2.Operation) -> str:
    """`put: succeeded` and so on, with how far and why not."""
    kind = short(operation_pb2.OperationKind, operation.kind, "OPERATION_KIND_")
    state = short(operation_pb2.OperationState, operation.state, "OPERATION_STATE_")
    text = f"{kind}: {state}"
    if operation.total > 1:
        text += f", {operation.done} of {operation.total} done"
    if operation.failed:
        text += f", {operation.failed} failed"
    if operation.HasField("error"):
        text += f" ({failure_text(operation.error)})"
    return text


def failure_text(error: operation_pb2.OperationError) -> str:
    """`encrypted: the document is encrypted`."""
    name = short(operation_pb2.OperationFailure, error.failure, "OPERATION_FAILURE_")
    return f"{name}: {error.message}" if error.message else name
