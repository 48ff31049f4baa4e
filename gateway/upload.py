"""Receiving a document: all of it, as announced, or a typed error and nothing kept."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from muniment.v1 import document_pb2

from core.errors import InvalidValue
from core.ids import clean_text
from core.media_types import ACCEPTED, is_decodable, media_type_of
from corpus.errors import ContentMismatch, ContentTooLarge, UnsupportedFormat

MAX_CHUNK = 1 << 20
_IN_A_THREAD = 256 * 1024  # bytes from which hashing and decoding leave the event loop
HEAD = 4_096  # bytes that a format is recognised by
MAX_SOURCE_VERSION = 2**63 - 1  # the catalog's integers
MAX_TEXT = 2_000  # code points of a title, a URI or a word of provenance

Messages = AsyncIterator[document_pb2.PutDocumentRequest]


@dataclass(frozen=True)
class Upload:
    """Content that has the announced size and hash, in an accepted format."""

    data: bytes
    media_type: str


async def first_of(messages: Messages) -> document_pb2.PutDocumentRequest:
    """The first message, which must bring the metadata; its texts are checked."""
    async for message in messages:
        if not message.HasField("metadata"):
            raise InvalidValue("metadata", "must come with the first message")
        _check(message.metadata)
        return message
    raise InvalidValue("metadata", "must come with the first message")


async def receive(first: document_pb2.PutDocumentRequest, rest: Messages, max_bytes: int) -> Upload:
    """Read to the end and compare with what was announced; nothing over `max_bytes` is ever held."""
    metadata = first.metadata
    if metadata.size_bytes > max_bytes:
        raise ContentTooLarge(f"{metadata.size_bytes} bytes, at most {max_bytes}")
    if metadata.size_bytes == 0:
        raise InvalidValue("metadata.size_bytes", "must not be 0: an empty file has nothing to serve")
    data = bytearray()
    _append(data, first.chunk, metadata.size_bytes)
    async for message in rest:
        if message.HasField("metadata"):
            raise InvalidValue("metadata", "must come with the first message only")
        _append(data, message.chunk, metadata.size_bytes)
    if len(data) < _IN_A_THREAD:
        return _checked(metadata, bytes(data))
    return await asyncio.to_thread(_checked, metadata, bytes(data))  # tenths of a second, which others need


def _checked(metadata: document_pb2.DocumentMetadata, content: bytes) -> Upload:
    if len(content) != metadata.size_bytes or hashlib.sha256(content).hexdigest() != metadata.sha256.lower():
        raise ContentMismatch("size or hash differ")
    media_type = metadata.media_type or media_type_of(metadata.filename, content[:HEAD])
    if media_type is None or media_type not in ACCEPTED:
        raise UnsupportedFormat(metadata.media_type or "not recognised")
    if not is_decodable(media_type, content):
        raise InvalidValue("chunk", "is not text in its encoding: send UTF-8, or UTF-16 with a byte order mark")
    return Upload(content, media_type)


def _append(data: bytearray, chunk: bytes, announced: int) -> None:
    if len(chunk) > MAX_CHUNK:
        raise InvalidValue("chunk", f"must not be over {MAX_CHUNK} bytes")
    if len(data) + len(chunk) > announced:
        raise ContentMismatch("more bytes than announced")
    data += chunk


def _check(metadata: document_pb2.DocumentMetadata) -> None:
    clean_text("metadata.source_id", metadata.source_id)
    clean_text("metadata.document_id", metadata.document_id)
    if metadata.source_version > MAX_SOURCE_VERSION:
        raise InvalidValue("metadata.source_version", f"must not be over {MAX_SOURCE_VERSION}")
    for name in ("filename", "title", "canonical_uri", "language"):
        value = getattr(metadata, name)
        if value:
            clean_text(f"metadata.{name}", value, limit=MAX_TEXT)
    for name in ("publisher", "author", "source_type", "collected_via"):
        value = getattr(metadata.provenance, name)
        if value:
            clean_text(f"metadata.provenance.{name}", value, limit=MAX_TEXT)
