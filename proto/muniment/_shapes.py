"""What a call can look like: values that both clients know how to run."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from muniment.v1 import document_pb2

T = TypeVar("T")

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Unary(Generic[T]):
    """One request, one answer, of which `pick` takes what the caller wants. `timeout` in seconds."""

    method: MethodDescriptor
    request: Message
    pick: Callable[[Any], T]
    timeout: float


@dataclass(frozen=True)
class Stream(Generic[T]):
    """One request, many answers."""

    method: MethodDescriptor
    request: Message
    pick: Callable[[Any], T]
    timeout: float


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list call, asked again with each page token; `timeout` is per page."""

    method: MethodDescriptor
    request: Any
    pick: Callable[[Any], Iterable[T]]
    timeout: float


@dataclass(frozen=True)
class Upload:
    """A document with its metadata; `wait` is how long to wait for its publication, None not at all. Seconds."""

    method: MethodDescriptor
    metadata: document_pb2.DocumentMetadata
    content: bytes
    timeout: float
    wait: float | None

    def messages(self) -> Iterator[document_pb2.PutDocumentRequest]:
        """Metadata with the first chunk, then the other chunks."""
        first = self.content[:CHUNK_BYTES]
        yield document_pb2.PutDocumentRequest(metadata=self.metadata, chunk=first)
        for start in range(CHUNK_BYTES, len(self.content), CHUNK_BYTES):
            yield document_pb2.PutDocumentRequest(chunk=self.content[start : start + CHUNK_BYTES])
