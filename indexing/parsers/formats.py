"""Which parser reads which format."""

import codecs
from pathlib import PurePosixPath

from core.document import ParsedDocument, ParseState
from indexing.parsers import docx, html, markdown, pdf, text
from indexing.parsers.encoding import BadEncoding, decode, decode_html
from indexing.parsers.outcome import ParseLimits, refused

MARKDOWN = "text/markdown"
HTML = "text/html"
PLAIN = "text/plain"
PDF = "application/pdf"
DOCX = docx.MEDIA_TYPE

CONVERTED = frozenset((PDF, DOCX))  # read by native code, so only in a worker process
_VERSIONS = {MARKDOWN: markdown.VERSION, HTML: html.VERSION, PLAIN: text.VERSION, PDF: pdf.VERSION, DOCX: docx.VERSION}
_EXTENSIONS = {
    "md": MARKDOWN,
    "markdown": MARKDOWN,
    "html": HTML,
    "htm": HTML,
    "xhtml": HTML,
    "txt": PLAIN,
    "text": PLAIN,
    "pdf": PDF,
    "docx": DOCX,
}
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNSUPPORTED_VERSION = "none/1"


def media_type_of(filename: str, head: bytes) -> str | None:
    """The media type by extension, as long as `head` (the first kilobyte or more) does not contradict it.

    None for what is not accepted: another extension, or binary content under a name that promises text.
    """
    media_type = _EXTENSIONS.get(PurePosixPath(filename.replace("\\", "/")).suffix.lower().lstrip("."))
    if media_type is None or not head:
        return media_type  # an empty file is EMPTY when it is parsed
    if media_type == PDF:
        return None if head.startswith((b"PK\x03\x04", docx.OLE_MAGIC)) else PDF
    if media_type == DOCX:
        return DOCX if head.startswith((b"PK", docx.OLE_MAGIC)) else None
    binary = head.startswith((b"%PDF-", b"PK\x03\x04", docx.OLE_MAGIC)) or b"\x00" in head
    return None if binary and not head.startswith(_WIDE_MARKS) else media_type


def parse(media_type: str, filename: str, data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Canonical text and nodes of `data`, in this process. `filename` is for people: it decides nothing.

    PDF and DOCX go through ParserPool instead, which calls this in a worker: their readers are native code. Never
    raises for what a document holds; `state` says how it ended.
    """
    version = _VERSIONS.get(media_type)
    if version is None:
        return refused(ParseState.UNSUPPORTED, UNSUPPORTED_VERSION)
    if len(data) > limits.max_bytes:
        return refused(ParseState.TOO_LARGE, version)
    if not data:
        return refused(ParseState.EMPTY, version)
    try:
        document = _read(media_type, data)
    except BadEncoding:
        return refused(ParseState.BAD_ENCODING, version)
    return refused(ParseState.TOO_LARGE, version) if len(document.text) > limits.max_code_points else document


def _read(media_type: str, data: bytes) -> ParsedDocument:
    if media_type == PDF:
        return pdf.parse_pdf(data)
    if media_type == DOCX:
        return docx.parse_docx(data)
    if media_type == HTML:
        return html.parse_html(decode_html(data)[0])
    read = markdown.parse_markdown if media_type == MARKDOWN else text.parse_text
    return read(decode(data)[0])
