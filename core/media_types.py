"""Which formats are accepted, and how a file says that it is one of them."""

import codecs
from pathlib import PurePosixPath

from core.encoding import BadEncoding, decode, decode_html

MARKDOWN = "text/markdown"
HTML = "text/html"
PLAIN = "text/plain"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

ACCEPTED = frozenset((MARKDOWN, HTML, PLAIN, PDF, DOCX))
TEXTS = frozenset((MARKDOWN, HTML, PLAIN))
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # an encrypted DOCX is wrapped in an OLE container
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


def media_type_of(filename: str, head: bytes) -> str | None:
    """The media type by extension, as long as `head` (the first kilobyte or more) does not contradict it.

    None for what is not accepted: another extension, or binary content under a name that promises text.
    """
    media_type = _EXTENSIONS.get(PurePosixPath(filename.replace("\\", "/")).suffix.lower().lstrip("."))
    if media_type is None or not head:
        return media_type
    if media_type == PDF:
        return None if head.startswith((b"PK\x03\x04", OLE_MAGIC)) else PDF
    if media_type == DOCX:
        return DOCX if head.startswith((b"PK", OLE_MAGIC)) else None
    binary = head.startswith((b"%PDF-", b"PK\x03\x04", OLE_MAGIC)) or b"\x00" in head
    return None if binary and not head.startswith(_WIDE_MARKS) else media_type


def is_decodable(media_type: str, data: bytes) -> bool:
    """Whether a text format's bytes are what they claim to be; formats with a container are judged by their parser."""
    if media_type not in TEXTS:
        return True
    try:
        decode_html(data) if media_type == HTML else decode(data)
    except BadEncoding:
        return False
    return True
