"""Messages between pool and worker: a length (8 bytes, big endian) before each; JSON heads, raw bytes for files.

The worker reads hostile files, so nothing it sends is trusted beyond its type: no pickle, and a head that does not
read as what was asked for ends the worker.
"""

import json
from dataclasses import asdict
from typing import BinaryIO

from core.document import Node, NodeKind, ParsedDocument, ParseState, Span
from indexing.parsers.outcome import ParseLimits

LENGTH_BYTES = 8
MAX_MESSAGE = 1 << 31


class BrokenMessage(Exception):
    """The other side sent something that is not a message of this protocol, or went away in the middle of one."""


def framed(payload: bytes) -> bytes:
    """`payload` with its length before it."""
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


def length_of(prefix: bytes) -> int:
    """The length that a prefix announces, or BrokenMessage."""
    length = int.from_bytes(prefix, "big")
    if len(prefix) != LENGTH_BYTES or length > MAX_MESSAGE:
        raise BrokenMessage("length")
    return length


def read_message(stream: BinaryIO) -> bytes | None:
    """The next payload of a blocking stream; None at its end."""
    prefix = stream.read(LENGTH_BYTES)
    if not prefix:
        return None
    length = length_of(prefix)
    payload = stream.read(length)
    if len(payload) != length:
        raise BrokenMessage("truncated")
    return payload


def encode_request(media_type: str, filename: str, limits: ParseLimits, cpu_s: int) -> bytes:
    """The head of a request; the file follows as a message of its own."""
    head = {"media_type": media_type, "filename": filename, "limits": asdict(limits), "cpu_s": cpu_s}
    return json.dumps(head).encode()


def decode_request(payload: bytes) -> tuple[str, str, ParseLimits, int]:
    """(media type, file name, limits, processor seconds) of a request's head."""
    head = json.loads(payload)
    return head["media_type"], head["filename"], ParseLimits(**head["limits"]), head["cpu_s"]


def encode_document(document: ParsedDocument) -> bytes:
    """A document as JSON."""
    nodes = [[n.kind, n.span.start, n.span.end, n.level, n.parent, n.label] for n in document.nodes]
    body = {
        "state": document.state,
        "text": document.text,
        "nodes": nodes,
        "title": document.title,
        "language": document.language,
        "parser_version": document.parser_version,
        "warnings": document.warnings,
        "metadata": dict(document.metadata),
    }
    return json.dumps(body).encode()


def decode_document(payload: bytes) -> ParsedDocument:
    """The document of a worker's answer, every span within its text; else BrokenMessage."""
    try:
        body = json.loads(payload)
        document = ParsedDocument(
            state=ParseState(body["state"]),
            text=_text(body["text"]),
            nodes=tuple(
                Node(NodeKind(kind), Span(int(start), int(end)), int(level), parent, _text(label))
                for kind, start, end, level, parent, label in body["nodes"]
            ),
            title=None if body["title"] is None else _text(body["title"]),
            language=None if body["language"] is None else _text(body["language"]),
            parser_version=_text(body["parser_version"]),
            warnings=tuple(_text(warning) for warning in body["warnings"]),
            metadata={_text(name): _text(value) for name, value in body["metadata"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BrokenMessage("document") from exc
    if any(node.span.end > len(document.text) for node in document.nodes):
        raise BrokenMessage("span outside the text")
    return document


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()  # a lone surrogate could not be stored or hashed
    return value
