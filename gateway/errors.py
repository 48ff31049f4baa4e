"""The one table from domain error to status, and the rich details that clients get.

GatewayError(MunimentFault)     what the edge itself refuses
├── Unauthenticated             no token, or one that does not verify
├── TenantMismatch              `x-tenant-id` names another tenant than the token
├── MalformedRequest            the bytes are not the request message
├── ReplyTooLarge               the answer is over the limit for one message
├── DeadlinePassed              the call's own deadline, or the server's, ended first
└── ShuttingDown                the server drains; another instance serves

Texts are fixed by class: nothing that a library, a caller or a document said leaves through a status. What is not in
the table is INTERNAL with a request id; the rest goes to the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from muniment.v1 import common_pb2

import corpus.encoder
import corpus.errors
import corpus.store
import generation.errors
import policy.errors
import retrieval.errors
from core.budget import BudgetExhausted
from core.errors import InvalidValue, MunimentFault

DOMAIN = "muniment"
DETAILS_KEY = "grpc-status-details-bin"
REQUEST_ID_KEY = "x-request-id"
MAX_VIOLATION_CHARS = 300
MAX_DETAILS_BYTES = 3_072  # well under the 8 KiB of metadata that a gRPC client accepts by default
REASON_PREFIX = "ERROR_REASON_"

Code = grpc.StatusCode
Reason = common_pb2.ErrorReason


class GatewayError(MunimentFault):
    """Root of what the edge refuses by itself."""


class Unauthenticated(GatewayError):
    """The text says why, for the log only: a caller is never told which check failed."""


class TenantMismatch(GatewayError):
    """Metadata names a tenant that the token does not."""


class MalformedRequest(GatewayError):
    """The request's bytes don't parse."""


class ReplyTooLarge(GatewayError):
    """An answer that the client's message limit would turn into a transport error."""


class DeadlinePassed(GatewayError):
    """The call ran as long as it may."""


class ShuttingDown(GatewayError):
    """The call was cut because the server stops."""


@dataclass(frozen=True)
class Row:
    """What a class of errors becomes. `retry_after_s`: a retry helps, after so many seconds. `log`: an operator's."""

    code: grpc.StatusCode
    reason: common_pb2.ErrorReason.ValueType
    text: str
    retry_after_s: float | None = None
    log: bool = False


def _policy(retry_after_s: float | None, *, log: bool) -> Row:
    text = "The policy can't be evaluated now."
    return Row(Code.UNAVAILABLE, Reason.ERROR_REASON_POLICY_UNAVAILABLE, text, retry_after_s, log)


def _store(retry_after_s: float | None, *, log: bool) -> Row:
    return Row(
        Code.UNAVAILABLE, Reason.ERROR_REASON_STORE_UNAVAILABLE, "The index can't be read now.", retry_after_s, log
    )


def _precondition(reason: common_pb2.ErrorReason.ValueType, text: str) -> Row:
    return Row(Code.FAILED_PRECONDITION, reason, text)


INTERNAL = Row(Code.INTERNAL, Reason.ERROR_REASON_INTERNAL, "Internal error.", log=True)
_LATE = Row(Code.DEADLINE_EXCEEDED, Reason.ERROR_REASON_DEADLINE_EXCEEDED, "The deadline passed.")
_BUSY = Row(
    Code.UNAVAILABLE, Reason.ERROR_REASON_OVERLOADED, "The server can't serve this kind of request now.", 1.0, log=True
)

TABLE: Mapping[type[Exception], Row] = {
    InvalidValue: Row(Code.INVALID_ARGUMENT, Reason.ERROR_REASON_INVALID_REQUEST, "The request is not valid."),
    BudgetExhausted: _LATE,
    # gateway
    Unauthenticated: Row(Code.UNAUTHENTICATED, Reason.ERROR_REASON_UNAUTHENTICATED, "A valid bearer token is needed."),
    TenantMismatch: Row(
        Code.PERMISSION_DENIED, Reason.ERROR_REASON_NOT_ALLOWED, "The token does not speak for that tenant."
    ),
    MalformedRequest: Row(Code.INVALID_ARGUMENT, Reason.ERROR_REASON_INVALID_REQUEST, "The request can't be decoded."),
    ReplyTooLarge: Row(
        Code.RESOURCE_EXHAUSTED, Reason.ERROR_REASON_TOO_LARGE, "The answer is over the message limit; ask for less."
    ),
    DeadlinePassed: _LATE,
    ShuttingDown: Row(Code.UNAVAILABLE, Reason.ERROR_REASON_SHUTTING_DOWN, "The server is stopping.", 1.0),
    # policy
    policy.errors.PolicyUnavailable: _policy(1.0, log=True),
    policy.errors.PolicyRevisionMoved: _policy(0.2, log=False),
    policy.errors.UntranslatableResidual: _policy(None, log=True),
    policy.errors.RevisionUnproved: _policy(1.0, log=True),
    policy.errors.MalformedDecision: _policy(None, log=True),
    policy.errors.FilterTooLarge: _policy(None, log=True),
    policy.errors.IllTypedFilter: _policy(None, log=True),
    policy.errors.PolicyRefused: _policy(None, log=True),
    policy.errors.AuditUnavailable: _BUSY,  # what can't be recorded is not released
    # corpus
    corpus.errors.NotFound: Row(Code.NOT_FOUND, Reason.ERROR_REASON_NOT_FOUND, "Not found."),
    corpus.errors.NotAllowed: Row(
        Code.PERMISSION_DENIED, Reason.ERROR_REASON_NOT_ALLOWED, "The token does not allow this."
    ),
    corpus.errors.AlreadyExists: Row(
        Code.ALREADY_EXISTS, Reason.ERROR_REASON_ALREADY_EXISTS, "The id is taken already."
    ),
    corpus.errors.EtagMismatch: _precondition(
        Reason.ERROR_REASON_ETAG_MISMATCH, "The object changed; read it again and decide again."
    ),
    corpus.errors.BuildNotOpen: _precondition(Reason.ERROR_REASON_BUILD_NOT_OPEN, "The build is not open."),
    corpus.errors.SnapshotUnavailable: _precondition(
        Reason.ERROR_REASON_SNAPSHOT_UNAVAILABLE, "No such snapshot can be read."
    ),
    corpus.errors.IdempotencyConflict: _precondition(
        Reason.ERROR_REASON_IDEMPOTENCY_CONFLICT, "The idempotency key was used with another request."
    ),
    corpus.errors.AccessMissing: _precondition(
        Reason.ERROR_REASON_ACCESS_MISSING, "The document has no access: name one, or give its source a template."
    ),
    corpus.errors.ContentMismatch: Row(
        Code.INVALID_ARGUMENT,
        Reason.ERROR_REASON_CONTENT_MISMATCH,
        "The content does not have the announced size and SHA-256.",
    ),
    corpus.errors.ContentTooLarge: Row(
        Code.INVALID_ARGUMENT, Reason.ERROR_REASON_TOO_LARGE, "The content is over the limit."
    ),
    corpus.errors.UnsupportedFormat: Row(
        Code.INVALID_ARGUMENT, Reason.ERROR_REASON_UNSUPPORTED_FORMAT, "The document's format is not accepted."
    ),
    corpus.errors.OlderSourceVersion: _precondition(
        Reason.ERROR_REASON_OLDER_SOURCE_VERSION, "A newer source_version of the document is stored."
    ),
    corpus.errors.CatalogUnavailable: Row(
        Code.UNAVAILABLE,
        Reason.ERROR_REASON_CATALOG_UNAVAILABLE,
        "The catalog can't be reached now.",
        1.0,
        log=True,
    ),
    corpus.errors.LeaseLost: _BUSY,
    corpus.errors.RecordDamaged: INTERNAL,
    corpus.store.StoreUnavailable: _store(1.0, log=True),
    corpus.store.StoreLate: _store(1.0, log=False),
    corpus.store.StoreRejected: INTERNAL,
    corpus.store.StoreMisconfigured: _store(None, log=True),
    corpus.encoder.EncoderUnavailable: _BUSY,
    corpus.encoder.EncoderFailed: INTERNAL,
    corpus.encoder.EncoderLate: _BUSY,
    # retrieval
    retrieval.errors.ChannelsUnavailable: _store(1.0, log=True),
    retrieval.errors.ReleaseUnavailable: _BUSY,
    retrieval.errors.AccessChanged: Row(
        Code.ABORTED, Reason.ERROR_REASON_ACCESS_CHANGED, "Access changed while the call ran; ask again."
    ),
    # generation
    generation.errors.ProviderUnavailable: _BUSY,
}


@dataclass(frozen=True)
class Refusal:
    """A status ready to be sent: `details` is a serialised google.rpc.Status under MAX_DETAILS_BYTES."""

    row: Row
    text: str
    details: bytes

    @property
    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        """Trailing metadata with the rich details."""
        return ((DETAILS_KEY, self.details),)

    @property
    def reason(self) -> str:
        """`ErrorInfo.reason`: the enum's name without its prefix."""
        return reason_name(self.row.reason)


def reason_name(reason: common_pb2.ErrorReason.ValueType) -> str:
    """NOT_FOUND for ERROR_REASON_NOT_FOUND."""
    return common_pb2.ErrorReason.Name(reason).removeprefix(REASON_PREFIX)


def row_of(fault: type[BaseException]) -> Row:
    """The row of the class or its nearest ancestor that has one; INTERNAL for all others."""
    for ancestor in fault.__mro__:
        row = TABLE.get(ancestor)
        if row is not None:
            return row
    return INTERNAL


def refuse(fault: BaseException, request_id: str) -> Refusal:
    """The status that `fault` becomes. Nothing of its own text leaves, except the field rules that we wrote."""
    row = row_of(type(fault))
    text = f"{row.text} Request {request_id}." if row is INTERNAL else row.text
    info = error_details_pb2.ErrorInfo(
        reason=reason_name(row.reason), domain=DOMAIN, metadata={"request_id": request_id}
    )
    details: list[Message] = [info]
    if row.retry_after_s is not None:
        whole, part = divmod(row.retry_after_s, 1)
        delay = duration_pb2.Duration(seconds=int(whole), nanos=round(part * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    if isinstance(fault, InvalidValue):
        details.append(_bad_request(fault))
    return Refusal(row, text, _packed(row, text, details))


def _bad_request(fault: InvalidValue) -> error_details_pb2.BadRequest:
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=fault.field[:MAX_VIOLATION_CHARS], description=fault.why[:MAX_VIOLATION_CHARS]
    )
    return error_details_pb2.BadRequest(field_violations=[violation])


def _packed(row: Row, text: str, details: list[Message]) -> bytes:
    """Serialised; the last details are left out where they would grow it over the bound."""
    number: int = row.code.value[0]
    while True:
        packed = []
        for detail in details:
            packed.append(any_pb2.Any())
            packed[-1].Pack(detail)
        raw: bytes = status_pb2.Status(code=number, message=text, details=packed).SerializeToString()
        if len(raw) <= MAX_DETAILS_BYTES or len(details) == 1:
            return raw
        details = details[:-1]
