"""Which parser reads which format."""

from core.document import ParsedDocument, ParseState
from core.encoding import BadEncoding, decode, decode_html
from core.media_types import DOCX, HTML, MARKDOWN, PDF, PLAIN
from indexing.parsers import docx, html, markdown, pdf, text
from indexing.parsers.outcome import ParseLimits, refused

CONVERTED = frozenset((PDF, DOCX))  # read by native code, so only in a worker process
_VERSIONS = {MARKDOWN: markdown.VERSION, HTML: html.VERSION, PLAIN: text.VERSION, PDF: pdf.VERSION, DOCX: docx.VERSION}
UNSUPPORTED_VERSION = "none/1"


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
