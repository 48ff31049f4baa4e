"""Muniment's client: evidence and checked answers from a Muniment gateway.

with Client("localhost:8443", token) as client:
    packet = client.search("How many days of leave?")
"""

from muniment.aio import AsyncClient
from muniment.client import Client
from muniment.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    MunimentError,
    NotFound,
    OperationFailed,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Violation,
)
from muniment.v1.common_pb2 import Access, Provenance

__all__ = [
    "Aborted",
    "Access",
    "AlreadyExists",
    "AsyncClient",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "FailedPrecondition",
    "InvalidArgument",
    "MunimentError",
    "NotFound",
    "OperationFailed",
    "PermissionDenied",
    "Provenance",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Violation",
]
