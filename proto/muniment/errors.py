"""What the client raises.

MunimentError
├── InvalidArgument     INVALID_ARGUMENT; `violations` name fields
├── Unauthenticated     UNAUTHENTICATED
├── PermissionDenied    PERMISSION_DENIED
├── NotFound            NOT_FOUND: absent, or not visible to the token
├── AlreadyExists       ALREADY_EXISTS
├── FailedPrecondition  FAILED_PRECONDITION: the caller must change something
├── ResourceExhausted   RESOURCE_EXHAUSTED
├── Aborted             ABORTED: access changed while a stream ran
├── DeadlineExceeded    DEADLINE_EXCEEDED
├── Unavailable         UNAVAILABLE: heals without the caller
├── Cancelled           CANCELLED
└── OperationFailed     the call succeeded, the work that it began did not
"""

from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from muniment.v1 import operation_pb2

Trailers = tuple[tuple[str, str | bytes], ...]

_DETAILS_KEY = "grpc-status-details-bin"
_REQUEST_ID_KEY = "x-request-id"


@dataclass(frozen=True)
class Violation:
    """A field of the request, as a path, and the rule that it breaks."""

    field: str
    description: str


class MunimentError(Exception):
    """A call that did not succeed.

    `reason` is a name of `muniment.v1.ErrorReason` without its prefix, empty when the server gave none; `request_id`
    is what to quote to an operator; `retry_after` is in seconds, None where a retry does not help by itself.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        request_id: str = "",
        retry_after: float | None = None,
        violations: tuple[Violation, ...] = (),
    ) -> None:
        told = "".join(f" {violation.field}: {violation.description}." for violation in violations)
        super().__init__(f"{reason or code.name}: {message}{told}")
        self.code = code
        self.reason = reason
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after
        self.violations = violations


class InvalidArgument(MunimentError):
    """The request breaks a rule."""


class Unauthenticated(MunimentError):
    """No token, or one that does not verify."""


class PermissionDenied(MunimentError):
    """The token does not allow this."""


class NotFound(MunimentError):
    """Absent, or not visible: the two are never told apart."""


class AlreadyExists(MunimentError):
    """The id is taken."""


class FailedPrecondition(MunimentError):
    """The caller must change something first: `reason` says what."""


class ResourceExhausted(MunimentError):
    """Over a limit."""


class Aborted(MunimentError):
    """The stream was cut because access changed."""


class DeadlineExceeded(MunimentError):
    """The deadline passed."""


class Unavailable(MunimentError):
    """Heals without the caller: try again after `retry_after`."""


class Cancelled(MunimentError):
    """The call was cancelled."""


class OperationFailed(MunimentError):
    """A put, publish or other work ended as failed; `operation` tells the rest."""

    def __init__(self, operation: operation_pb2.Operation) -> None:
        failure = operation_pb2.OperationFailure.Name(operation.error.failure)
        reason = failure.removeprefix("OPERATION_FAILURE_")
        super().__init__(grpc.StatusCode.FAILED_PRECONDITION, reason, operation.error.message)
        self.operation = operation


_CLASSES: dict[grpc.StatusCode, type[MunimentError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.CANCELLED: Cancelled,
}


def from_rpc_error(error: grpc.RpcError) -> MunimentError:
    """The typed error of a grpc one, sync or async; details that can't be read are left out."""
    metadata: Any = error.trailing_metadata() or ()
    trailers: Trailers = tuple((name, value) for name, value in metadata)
    reason, request_id = "", _text_of(trailers, _REQUEST_ID_KEY)
    retry_after: float | None = None
    violations: tuple[Violation, ...] = ()
    for detail in _status_of(trailers).details:
        info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason
            request_id = info.metadata.get("request_id", request_id)
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        elif detail.Unpack(bad):
            violations = tuple(Violation(each.field, each.description) for each in bad.field_violations)
    code = error.code()
    cls = _CLASSES.get(code, MunimentError)
    return cls(code, reason, error.details() or "", request_id, retry_after, violations)


def _text_of(trailers: Trailers, key: str) -> str:
    return next((value for name, value in trailers if name == key and isinstance(value, str)), "")


def _status_of(trailers: Trailers) -> status_pb2.Status:
    raw = next((value for name, value in trailers if name == _DETAILS_KEY and isinstance(value, bytes)), b"")
    try:
        return status_pb2.Status.FromString(raw)
    except DecodeError:
        # A proxy's own details: code and text still tell what happened.
        return status_pb2.Status()
